"""The answer of a study without sampling noise: where both networks end on each problem, read from its files."""

import math
from pathlib import Path
from typing import Any

from lookrep.analysis.report.markup import Html, join, table_card, tag
from lookrep.analysis.report.words import Verdict
from lookrep.analysis.results import Results
from lookrep.errors import UserError
from lookrep.files import json_object
from lookrep.studies.folder import EXACT, plain

REACHED = 1e-6  # largest error of a value, relative to the largest true value or 1, that counts as none
NOTE = (
    "Where both networks end. Largest error: of any state’s value under either network. Parameters apart: ‖θ − w‖, "
    "where both have the same parameters. Rate: what is left of an error after one outer iteration, from theory."
)


def section(results: Results) -> Html:
    rows = []
    for env, variant in ((env, variant) for env in results.study.environments for variant in results.study.variants):
        path = results.folder / EXACT / f"{plain(Path(env).stem)}--{variant.name}.json"
        try:
            solved = json_object(path)
        except FileNotFoundError:  # it has not been solved yet
            continue
        try:
            rows.append(_row(env, variant.label, solved))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(f"{path}: not what a study of kind 'exact' writes ({error!r})") from None
    if not rows:
        return tag("p", "Nothing has been solved yet.")
    names = ("Problem", "Method", "What happens", "Largest error", "Parameters apart", "Rate")
    return table_card("Solved problems", NOTE, [tag("th", name, scope="col") for name in names], rows, "words")


def outcome(solved: dict[str, Any]) -> tuple[Verdict, str, float]:
    """What became of it, in words, with the largest error of a value under either network."""
    truth = solved["value_true"]
    found = [*solved["value_target"], *solved["value_online"]]
    scale = max(1.0, *(abs(value) for value in truth))
    certificate = solved["certificate"]
    converges = certificate["converges"]
    if converges is None:  # this method or problem has no certificate
        converges = (certificate["measured_rate"] or 0.0) < 1.0
    if not converges or None in found:
        return "worse", "diverges", math.inf
    error = max(abs(value - true) for value, true in zip(found, truth * 2, strict=True))
    if error <= REACHED * scale:
        return "better", "reaches the true values", error
    return "open", "converges elsewhere", error


def _row(problem: str, label: str, solved: dict[str, Any]) -> Html:
    verdict, said, error = outcome(solved)
    target, online = solved["target"], solved["online"]
    apart = "other parameters"
    if len(target) == len(online):
        apart = "–" if None in (*target, *online) or math.isinf(error) else f"{math.dist(target, online):.3g}"
    rate = solved["certificate"]["rate"]
    cells = [
        label,
        tag("span", said, class_=f"verdict {verdict}"),
        "–" if math.isinf(error) else f"{error:.2g}",
        apart,
        "–" if rate is None else f"{rate:.4f}",
    ]
    return tag("tr", tag("th", problem, scope="row"), join(tag("td", cell) for cell in cells))
