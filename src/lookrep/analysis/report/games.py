"""The table of games: every variant's final score with its interval, and how it stands to the baseline. Sortable."""

import math

from lookrep.analysis.bootstrap import Estimate
from lookrep.analysis.figures.comparisons import score_rows
from lookrep.analysis.report import words
from lookrep.analysis.report.markup import Html, data_uri, join, table_card, tag
from lookrep.analysis.statistics import FEW_SEEDS, EnvironmentScore, Headline
from lookrep.files import as_csv
from lookrep.studies.definition import Study

MOST_COMPARED = 3  # variants with a column of differences: a sweep over a dozen has figures for that
SIGNS = {"better": "▲", "worse": "▼", "open": ""}


def section(study: Study, headline: Headline, unit: str = "seed") -> Html:
    """`unit`: what the runs of a game are, a study's seeds or one run's agents."""
    found = {(each.env, each.variant): each for each in headline.by_environment}
    baseline = study.variant(headline.baseline)
    others = [variant for variant in study.variants if variant != baseline]
    compared = others if len(others) <= MOST_COMPARED else []
    heads = [_head("Game", "ascending"), *(_head(variant.label, "descending") for variant in study.variants)]
    heads += [_head(f"{variant.label} vs {baseline.label}", "descending") for variant in compared]
    rows = []
    for env in study.environments:
        cells = [_score(found.get((env, variant.name)), study, unit) for variant in study.variants]
        ours = found.get((env, baseline.name))
        fewest = ours.runs if ours else 0
        cells += [_change(found.get((env, variant.name)), fewest) for variant in compared]
        name = words.short_environment(env, study.environments)
        rows.append(tag("tr", tag("th", name, scope="row", data_value=name), *cells))
    table = table_card("Scores by game", _note(study, headline, bool(compared), unit), heads, rows, "sortable")
    numbers = as_csv(score_rows(headline.by_environment)).encode()
    link = tag("a", "Numbers as CSV", download="games.csv", href=data_uri("text/csv", numbers))
    return join([table, tag("p", link, class_="small under")])


def _head(label: str, first: str) -> Html:
    return tag("th", tag("button", label, type="button"), scope="col", aria_sort="none", data_first=first)


def _score(found: EnvironmentScore | None, study: Study, unit: str) -> Html:
    if found is None:
        return tag("td", tag("span", "no run", class_="soft"), data_value="")
    parts: list[object] = [words.number(found.score.value)]
    if found.score.has_interval:
        low, high = words.number(found.score.low), words.number(found.score.high)
        parts += [" ", tag("span", f"[{low}, {high}]", class_="range")]
    if found.runs < study.seeds:
        parts += [" ", tag("span", f"({words.count(found.runs, unit)})", class_="range")]
    return tag("td", *parts, data_value=_key(found.score))


def _change(found: EnvironmentScore | None, seeds: int) -> Html:
    if found is None or found.relative is None:
        return tag("td", tag("span", "–", class_="soft"), data_value="")
    verdict = words.verdict(found.relative, even=0.0, seeds=min(found.runs, seeds))
    sign = tag("span", SIGNS[verdict], class_=f"sign {verdict}", aria_hidden="true")
    said = tag("span", f"{verdict}: ", class_="unseen") if SIGNS[verdict] else ""
    value, _, bounds = words.change(found.relative).partition(" [")
    interval = tag("span", f"[{bounds}", class_="range") if bounds else ""
    return tag("td", sign, " ", said, value, " ", interval, data_value=_key(found.relative))


def _key(estimate: Estimate) -> str:
    """What a column is sorted by; empty for what has no number."""
    return f"{estimate.value:.10g}" if math.isfinite(estimate.value) else ""


def _note(study: Study, headline: Headline, compared: bool, unit: str) -> str:
    percent = words.percent(headline.confidence)
    baseline = study.variant(headline.baseline).label
    runs = words.count(study.seeds, unit)
    relative = "its own score" if headline.normalisation.kind == "baseline" else "its own score, or a human’s if higher"
    interval = f", with its {percent} interval over {runs}" if study.seeds > 1 else f" of {runs}"
    said = [f"Mean final score in the game’s own points{interval}."]
    if compared:
        columns = "next column is the difference" if len(study.variants) == 2 else "last columns are the differences"
        said.append(f"The {columns} from {baseline}, in percent of {relative}.")
        said.append(f"▲ better, ▼ worse: the interval does not contain 0, and there are at least {FEW_SEEDS} seeds.")
    return " ".join([*said, "Click a column’s head to sort by it."])
