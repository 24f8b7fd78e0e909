"""The small print under a figure: how many seeds, what the band is, and which runs are not what they should be."""

from collections.abc import Sequence

import numpy as np

from lookrep.analysis.results import Results, StudyMember
from lookrep.analysis.scores import Normalisation, counts, run_name
from lookrep.analysis.statistics import FEW_SEEDS

NAMED = 3  # runs or environments called by name; the report names them all


def seeds(results: Results, members: Sequence[StudyMember] | None = None) -> str:
    """What a line and its band are made of."""
    members = results.members if members is None else members
    pairs: dict[tuple[str, str], int] = {}
    for member in members:
        if counts(member):
            pairs[member.env, member.variant] = pairs.get((member.env, member.variant), 0) + 1
    if not pairs:
        return "No run is finished yet."
    fewest, most = min(pairs.values()), max(pairs.values())
    unit = results.unit
    if most == 1:
        return f"One {unit}: no interval."
    number = f"{most} {unit}s" if fewest == most else f"{fewest} to {most} {unit}s"
    single = " (no interval where there is one)" if fewest == 1 else ""
    few = f", too narrow with fewer than {FEW_SEEDS}" if fewest < FEW_SEEDS else ""
    return f"{number}{single}; intervals: 95 %, stratified bootstrap over {unit}s{few}."


def exceptions(results: Results, drawn_unfinished: Sequence[StudyMember] = ()) -> list[str]:
    """One line each for runs that diverged, are drawn before they are finished, or are not counted."""
    diverged = [member for member in results.members if member.status == "diverged"]
    shown = set(map(run_name, drawn_unfinished))
    absent = [member for member in results.members if not counts(member) and run_name(member) not in shown]
    lines = [
        ("Diverged, and counted as such", diverged),
        ("Not finished, drawn as far as they got", list(drawn_unfinished)),
        ("Not counted, because unfinished or missing", absent),
    ]
    return [f"{what}: {some([run_name(member) for member in members])}." for what, members in lines if members]


def scores(results: Results, rule: Normalisation) -> list[str]:
    """What stands under every figure of normalised scores: the rule, the seeds, and what is left out of it."""
    kept = [member for member in results.members if member.env in rule.environments]
    left_out = some([f"{env} ({reason})" for env, reason in rule.left_out], "; ")
    return [
        f"{rule.rule[0].upper()}{rule.rule[1:]}.",
        seeds(results, kept),
        f"Left out: {left_out}." if left_out else "",
        *exceptions(results),
    ]


def some(names: Sequence[str], between: str = ", ") -> str:
    """The first of them by name, and how many more there are."""
    more = len(names) - NAMED
    return between.join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def interval(name: str, found: Sequence[float] | None, prefix: str = "") -> dict[str, float | str]:
    """A value, its low and its high end as columns of a CSV; empty where there are none."""
    names = (name, f"{prefix}low", f"{prefix}high")
    return dict(zip(names, map(number, found or (np.nan,) * 3), strict=True))


def number(value: float) -> float | str:
    """For CSV: empty where there is nothing, and no more digits than mean anything."""
    return "" if np.isnan(value) else float(f"{value:.8g}")
