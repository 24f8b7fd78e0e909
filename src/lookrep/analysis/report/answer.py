"""The headline: the question's answer for each variant in words, as intervals, and what the answer does not count.

The intervals are drawn with CSS boxes, not as an image: they follow the theme and fit a phone.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from lookrep.analysis.bootstrap import Estimate
from lookrep.analysis.report import words
from lookrep.analysis.report.markup import Html, join, tag
from lookrep.analysis.results import Results
from lookrep.analysis.statistics import Headline
from lookrep.studies.definition import Study

FEW_ANSWERS = 4


class Row(NamedTuple):
    label: str
    colour: str
    estimate: Estimate


def section(study: Study, headline: Headline, colours: dict[str, str]) -> Html:
    """`colours`: variant → the colour it has in the figures."""
    answers = words.answers(headline)
    if not headline.variants:
        return tag("p", "Nothing can be compared yet: no game has a finished run of every variant.")
    baseline = study.variant(headline.baseline).label
    parts: list[Html] = []
    if len(answers) > 1:
        parts.append(tag("p", words.summary(answers, baseline)))
    told = {each.variant for each in answers if not each.few}
    picture = tag("div", *_plots(headline, colours, told), class_="plots")
    if len(answers) > FEW_ANSWERS:  # of a sweep, the picture is read first
        parts += [picture, tag("ul", *(_card(answer) for answer in answers), class_="answers many")]
    elif answers:
        parts += [tag("ul", *(_card(answer) for answer in answers), class_="answers"), picture]
    else:
        parts += [tag("p", f"{baseline} is the only variant: there is nothing to compare it with."), picture]
    parts.append(tag("p", _rules(headline), class_="soft small"))
    return join(parts)


def missing(results: Results, headline: Headline) -> Html:
    """What is not in the numbers, by name; one line if everything is."""
    study = results.study
    labels = {variant.name: variant.label for variant in study.variants}
    runs = len(study.environments) * len(study.variants) * study.seeds
    thing = "agent" if results.source == "run" else "run"
    boxes = []
    if study.steps < results.whole.steps:
        title = f"Steps {study.steps:,} to {results.whole.steps:,}"
        kind = "run" if results.source == "run" else "study"
        note = f"This page looks at the {kind} as if it ended there. Nothing before depends on how long a run will be."
        boxes.append(_box(title, [], note))
    for what, every, seen in (
        ("variant", {variant.name: variant.label for variant in results.whole.variants}, labels),
        ("game", {env: env for env in results.whole.environments}, study.environments),
    ):
        if unseen := [label for name, label in every.items() if name not in seen]:
            title = f"{words.count(len(unseen), what)} of {len(every)} not looked at"
            boxes.append(_box(title, unseen, "This page was made to be about the others alone."))
    if headline.excluded:
        title = f"{words.count(len(headline.excluded), thing)} of {runs:,} not counted"
        lines = words.members(headline.excluded, study.environments, labels, results.unit)
        boxes.append(_box(title, lines, "They have no final score. Curves show them only where a game has no others."))
    if headline.diverged:
        title = f"{words.count(len(headline.diverged), thing)} of {runs:,} diverged (turned NaN), and counted"
        lines = words.members(headline.diverged, study.environments, labels, results.unit)
        boxes.append(_box(title, lines, f"A diverged {thing} counts with what it scored after it broke."))
    if headline.left_out:
        lines = [f"{words.short_environment(e.env, study.environments)}: {e.reason}" for e in headline.left_out]
        boxes.append(_box(f"{words.count(len(lines), 'game')} left out of all comparisons", lines, ""))
    if not boxes:
        finished = f"{'all ' if runs > 1 else ''}{words.count(runs, thing)} finished"
        return tag("p", f"Nothing: {finished}, and none diverged.", class_="fine")
    return tag("div", *boxes, class_="stack")


def _card(answer: words.Answer) -> Html:
    notes = (tag("p", note, class_="note") for note in answer.notes)
    badge = tag("span", answer.badge, class_="verdict")
    return tag(
        "li", badge, tag("p", tag("b", answer.label), f" {answer.said}"), *notes, class_=f"card {answer.verdict}"
    )


def _box(title: str, lines: Sequence[str], note: str) -> Html:
    # Many runs are folded away, but never dropped.
    entries = tag("ul", *(tag("li", line) for line in lines)) if lines else ""
    if len(lines) > 8:
        entries = tag("details", tag("summary", f"{len(lines)} lines"), entries)
    return tag("div", tag("h3", title), entries, tag("p", note, class_="small") if note else "", class_="warning")


def _plots(headline: Headline, colours: dict[str, str], told: set[str]) -> list[Html]:
    """Scores of all; chances of those variants that have seeds enough to tell."""
    percent = words.percent(headline.confidence)
    baseline = next(each.label for each in headline.variants if each.variant == headline.baseline)
    one = "a human" if headline.normalisation.kind == "human" else f"{baseline}’s average run"
    scores = [Row(each.label, colours.get(each.variant, ""), each.iqm) for each in headline.variants]
    chances = [
        Row(each.label, colours.get(each.variant, ""), each.improvement)
        for each in headline.variants
        if each.improvement is not None and each.variant in told
    ]
    low, high = _range([row.estimate for row in scores], 1.0)
    near = low <= 1.0 <= high
    said = f"Interquartile mean, {headline.normalisation.name}, with {percent} intervals. Further right is better."
    plots = [_plot("Final score", f"{said} Dashed: 1 is {one}." if near else said, scores, low, high, 1.0)]
    if chances:
        said = f"Chance that a run beats one of {baseline} on the same game. Dashed: at 0.5 neither is better."
        plots.append(_plot("Probability of improvement", said, chances, 0.0, 1.0, 0.5))
    return plots


def _range(estimates: Sequence[Estimate], mark: float) -> tuple[float, float]:
    """All intervals, with some room on both sides, and the mark if it is near. Not from 0: no lengths are compared."""
    ends = [end for estimate in estimates for end in estimate if math.isfinite(end)] or [mark]
    span = max(ends) - min(ends)
    if min(ends) - span <= mark <= max(ends) + span:
        ends.append(mark)
    room = 0.15 * (max(ends) - min(ends)) or 0.5
    return min(ends) - room, max(ends) + room


def _plot(title: str, subtitle: str, rows: Sequence[Row], low: float, high: float, mark: float) -> Html:
    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    marked = low <= mark <= high
    drawn = []
    for row in rows:
        value, lower, upper = row.estimate
        pieces = [tag("span", class_="mark", style=f"left:{place(mark)}%")] if marked else []
        if row.estimate.has_interval:
            left, right = place(lower), place(upper)
            pieces.append(tag("span", class_="bar", style=f"left:{left}%;width:{round(right - left, 2)}%"))
        if math.isfinite(value):
            pieces.append(tag("span", class_="dot", style=f"left:{place(value)}%"))
        drawn.append(
            tag(
                "div",
                tag("span", row.label, class_="name"),
                tag("span", words.interval(row.estimate), class_="value"),
                tag("div", *pieces, class_="track", aria_hidden="true"),
                class_="interval",
                style=f"--hue:{row.colour or 'var(--accent)'}",
            )
        )
    scale = [
        tag("span", words.number(low), class_="first", style="left:0"),
        tag("span", words.number(high), class_="last", style="left:100%"),
    ]
    caption = tag("figcaption", tag("b", title), tag("span", subtitle))
    return tag("figure", caption, *drawn, tag("div", *scale, class_="scale", aria_hidden="true"), class_="card plot")


def _rules(headline: Headline) -> str:
    percent = words.percent(headline.confidence)
    fixed = (
        " While resampling that mean stays as it is, so intervals of scores are a little too narrow."
        if headline.normalisation.kind == "baseline"
        else ""
    )
    return (
        f"How it was computed: {headline.normalisation.rule}. A run’s final score is its mean training return over the "
        f"last 10 % of steps. Brackets are {percent} intervals from {headline.resamples:,} bootstrap resamples of the "
        f"runs within each game: they are about other seeds on these games, not about other games.{fixed}"
    )
