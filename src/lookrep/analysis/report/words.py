"""What the numbers say, in words: short numbers, verdicts, and the sentence that answers a study's question.

A verdict never says more than the runs can carry: an interval that contains 0.5 cannot tell, and fewer than five seeds
get no verdict at all. Plain text only; HTML is made elsewhere.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from lookrep.analysis.bootstrap import Estimate
from lookrep.analysis.results import StudyMember
from lookrep.analysis.statistics import FEW_SEEDS, Headline, VariantScore

LITTLE = (0.25, 0.75)  # a probability of improvement inside is a small effect (Bouthillier et al. 2021)

Verdict = Literal["better", "worse", "open"]


class Answer(NamedTuple):
    """One variant against the baseline."""

    variant: str
    label: str
    verdict: Verdict
    few: bool  # seeds: no verdict
    badge: str
    said: str  # goes on where the label ends
    notes: tuple[str, ...]


def number(value: float) -> str:
    """A score with about three digits.

    >>> [number(x) for x in (0.123, -4.56, 12.34, 123.4, 12345.6, float("nan"))]
    ['0.12', '−4.56', '12.3', '123', '12,346', '–']
    """
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    written = f"{size:,.0f}" if size >= 99.95 else f"{size:.1f}" if size >= 9.995 else f"{size:.2f}"
    return f"−{written}" if value < 0 and float(written.replace(",", "")) else written


def interval(estimate: Estimate, around: float | None = None) -> str:
    """A number with its interval; a third digit where two would blur on which side of `around` a bound lies.

    >>> interval(Estimate(0.714, 0.66, 0.75)), interval(Estimate(2.0, float("nan"), float("nan")))
    ('0.71 [0.66, 0.75]', '2.00')
    >>> interval(Estimate(0.6, 0.503, 0.7), around=0.5)
    '0.600 [0.503, 0.700]'
    """
    if not estimate.has_interval:
        return number(estimate.value)
    if around is not None and any(0 < abs(bound - around) < 0.005 for bound in (estimate.low, estimate.high)):
        return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"


def count(amount: int, thing: str) -> str:
    """
    >>> count(1, "seed"), count(1200, "game")
    ('1 seed', '1,200 games')
    """
    return f"{amount:,} {thing}" + ("" if amount == 1 else "s")


def large(amount: int) -> str:
    """
    >>> large(950), large(40_000), large(1_500_000), large(50_000_000)
    ('950', '40,000', '1.5 million', '50 million')
    """
    return f"{amount / 1e6:,.4g} million" if amount >= 1_000_000 else f"{amount:,}"


def percent(share: float) -> str:
    """With a space that does not break."""
    return f"{100 * share:g}\N{NO-BREAK SPACE}%"


def change(estimate: Estimate) -> str:
    """A relative difference in percent, with its interval; a digit more where it is small.

    >>> change(Estimate(-0.304, -0.38, -0.21)), change(Estimate(0.01, 0.002, 0.0184))
    ('−30\xa0% [−38, −21]', '+1.0\xa0% [+0.2, +1.8]')
    """
    digits = 1 if abs(estimate.value) < 0.0995 else 0

    def signed(share: float) -> str:
        points = round(100 * share, digits)
        return f"{points:+,.{digits}f}".replace("-", "−") if points else "0"

    if not math.isfinite(estimate.value):
        return "–"
    bounds = f" [{signed(estimate.low)}, {signed(estimate.high)}]" if estimate.has_interval else ""
    return f"{signed(estimate.value)}\N{NO-BREAK SPACE}%{bounds}"


def short_environment(env: str, environments: Sequence[str]) -> str:
    """As in the figures, without the suite where all have the same.

    >>> short_environment("minatar/space_invaders", ["minatar/space_invaders", "minatar/freeway"])
    'space invaders'
    """
    suites = {each.rpartition("/")[0] for each in environments}
    return env.rpartition("/")[2].replace("_", " ") if len(suites) == 1 else env


def verdict(estimate: Estimate, even: float = 0.5, seeds: int = FEW_SEEDS) -> Verdict:
    """Whether something beats the baseline: only an interval wholly on one side of `even` decides, from enough seeds.

    >>> verdict(Estimate(0.2, 0.1, 0.3)), verdict(Estimate(0.6, 0.5, 0.7)), verdict(Estimate(1.0, 1.0, 1.0))
    ('worse', 'open', 'better')
    >>> verdict(Estimate(1.0, float("nan"), float("nan"))), verdict(Estimate(0.0, 0.0, 0.0), seeds=4)
    ('open', 'open')
    """
    if seeds < FEW_SEEDS:
        return "open"
    if estimate.low > even:
        return "better"
    return "worse" if estimate.high < even else "open"


def answers(headline: Headline) -> tuple[Answer, ...]:
    """One for each variant that is compared with the baseline, in the study's order."""
    baseline = next((each for each in headline.variants if each.variant == headline.baseline), None)
    if baseline is None:
        return ()
    return tuple(_answer(each, baseline, headline) for each in headline.variants if each.improvement is not None)


def summary(found: Sequence[Answer], baseline: str) -> str:
    """The answers counted, for studies with several.

    >>> one = Answer("a", "A", "worse", False, "", "", ())
    >>> summary([one, one._replace(verdict="open")], "Hard copy")
    'Of 2 variants compared with Hard copy, none is better, 1 is worse, and for 1 these runs cannot tell.'
    >>> summary([one._replace(verdict="open", few=True)] * 2, "Hard copy")
    'Too few seeds to tell which of 2 variants are better or worse than Hard copy.'
    """
    if all(answer.few for answer in found):
        return f"Too few seeds to tell which of {count(len(found), 'variant')} are better or worse than {baseline}."
    better, worse, still_open = (sum(a.verdict == kind for a in found) for kind in ("better", "worse", "open"))

    def are(amount: int, kind: str) -> str:
        return f"{amount or 'none'} {'is' if amount < 2 else 'are'} {kind}"

    said = [are(better, "better"), are(worse, "worse")]
    said += [f"and for {still_open} these runs cannot tell"] if still_open else []
    joined = ", ".join(said) if still_open else " and ".join(said)
    return f"Of {count(len(found), 'variant')} compared with {baseline}, {joined}."


def _answer(ours: VariantScore, baseline: VariantScore, headline: Headline) -> Answer:
    assert ours.improvement is not None
    pair = (ours.variant, baseline.variant)
    runs = [e.runs for e in headline.by_environment if e.variant in pair and e.env in headline.environments]
    fewest, most = min(runs), max(runs)
    seeds = count(fewest, "seed") if fewest == most else f"{fewest} to {most} seeds"
    games = len(headline.environments)
    over = f"interquartile mean over {count(games, 'game')}, {seeds} each" if games > 1 else f"1 game, {seeds}"
    if headline.normalisation.kind == "baseline":
        reached = f"reached {interval(ours.iqm, 1.0)} of {baseline.label}’s score ({over})."
    else:
        reached = (
            f"reached a human-normalised score of {interval(ours.iqm)}, "
            f"{baseline.label} {interval(baseline.iqm)} ({over})."
        )
    if fewest < FEW_SEEDS:
        reason = f"Too few seeds to tell which is better: that takes {FEW_SEEDS} per game."
        narrow = ("Intervals from so few runs are too narrow.",) if ours.improvement.has_interval else ()
        return Answer(ours.variant, ours.label, "open", True, "too few seeds to tell", f"{reached} {reason}", narrow)
    found = verdict(ours.improvement)
    little = "a little " if LITTLE[0] <= ours.improvement.low and ours.improvement.high <= LITTLE[1] else ""
    conclusion = "these runs cannot tell which is better" if found == "open" else f"it is {little}{found}"
    chance = f"Probability of improvement {interval(ours.improvement, 0.5)}: {conclusion}."
    badge = "cannot tell" if found == "open" else f"{little}{found}"
    notes = []
    difference = ours.iqm.value - baseline.iqm.value
    if (found == "better" and difference < 0) or (found == "worse" and difference > 0):
        notes.append(
            "The two measures point in opposite directions: one counts how often a run wins, the other by how much."
        )
    return Answer(ours.variant, ours.label, found, False, badge, f"{reached} {chance}", tuple(notes))


def members(
    found: Sequence[StudyMember], environments: Sequence[str], labels: dict[str, str], unit: str = "seed"
) -> list[str]:
    """Runs by name, alike ones together: 'breakout · Hard copy, seeds 0–3, 7: unfinished, at 5,000 steps'."""
    alike: dict[tuple[str, str, str], list[int]] = {}
    for member in found:
        steps: Any = member.columns.get("agent_steps", ())
        reached = f", at {int(steps[-1]):,} steps" if member.status == "unfinished" and len(steps) else ""
        alike.setdefault((member.env, member.variant, member.status + reached), []).append(member.seed)
    return [
        f"{short_environment(env, environments)} · {labels.get(variant, variant)}, "
        f"{unit if len(seeds) == 1 else unit + 's'} {ranges(seeds)}: {state}"
        for (env, variant, state), seeds in alike.items()
    ]


def ranges(values: Sequence[int]) -> str:
    """
    >>> ranges([0, 1, 2, 3, 7, 9, 10])
    '0–3, 7, 9, 10'
    """
    runs: list[list[int]] = []
    for value in sorted(values):
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def moment(when: str) -> str:
    """A time as people write it; what is none stays as it is.

    >>> moment("2026-03-01T10:20:30+00:00"), moment("yesterday")
    ('2026-03-01 10:20', 'yesterday')
    """
    try:
        return datetime.fromisoformat(when).strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return when
