"""Rank a study's variants after as many agent steps, gradient steps, and seconds, and say which cannot be told apart.

Prints Markdown for docs/results. Intervals of a table hold together (`lookrep.analysis.ranking`): they are corrected
for the number of comparisons in it. Scores are relative to the baseline's mean on the same game with the same budget.

    python benchmarks/minatar_ranking.py studies/minatar-methods --times times.jsonl

`times.jsonl` has a line {"method": NAME, "times_hard": T} for each variant: how long an agent step takes beside the
baseline's, with the study's numbers, measured with nothing else on the device:

    lookrep bench methods --study minatar-methods --json 2> times.jsonl

Without it, there is no table by seconds: variants that share a program have no times of their own.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from minatar_numbers import complete, measured

from lookrep.analysis import aggregate, ranking, results
from lookrep.analysis.aggregate import Floats, environment_means
from lookrep.analysis.bootstrap import Estimate, estimate
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, curves
from lookrep.errors import UserError

LEVELS = (0.5, 0.75, 1.0, 1.25)  # of the performance profile


def budgets(study: Results, env: str, axis: Axis, times: Mapping[str, float] | None) -> dict[str, float]:
    """Up to where each variant's curve is read, so that all have spent as much."""
    names = [variant.name for variant in study.study.variants]
    ends = {name: float(curves(study, name, "return_mean", [env], axis).x[-1]) for name in names}
    if times is None:
        return dict.fromkeys(names, min(ends.values()))
    seconds = min(ends[name] * times[name] for name in names)
    return {name: seconds / times[name] for name in names}


def scores(study: Results, axis: Axis, times: Mapping[str, float] | None = None) -> dict[str, Floats]:
    """Every variant's [seeds, games], relative to the baseline's mean."""
    games = complete(study)
    if not games:
        raise UserError(f"study {study.study.name}: no game on which every variant has finished")
    found: dict[str, list[Floats]] = {variant.name: [] for variant in study.study.variants}
    for env in games:
        to = budgets(study, env, axis, times)
        raw = {name: measured(study, name, env, "return_mean", to[name], axis) for name in found}
        one = float(environment_means(raw[study.study.baseline])[0])
        if not one > 0:
            raise UserError(f"{env}: {study.study.baseline} scores {one:.3g}, and only a positive score can be 1")
        for name, values in raw.items():
            found[name].append(values / one)
    return {name: np.hstack(columns) for name, columns in found.items()}


def table(study: Results, title: str, found: Mapping[str, Floats], resamples: int) -> list[str]:
    labels = {variant.name: variant.label for variant in study.study.variants}
    pairs = ranking.differences(found, resamples=resamples)
    better = {one.ours: one for one in ranking.improvements(found, study.study.baseline, resamples=resamples)}
    head = ["rank", "variant", "IQM", f"probability of beating {labels[study.study.baseline]}", "optimality gap"]
    head += [*(f"runs above {level:g}" for level in LEVELS), "not told from"]
    lines = [f"### {title}", "", f"| {' | '.join(head)} |", "|" + len(head) * "---|"]
    for rank in ranking.ranks(found, pairs):
        runs = found[rank.variant]
        one = better.get(rank.variant)
        cells = [
            f"{rank.best}" if rank.best == rank.worst else f"{rank.best}–{rank.worst}",
            labels[rank.variant],
            _cell(estimate(aggregate.iqm, runs, resamples=resamples)),
            "" if one is None else f"{_cell(one.difference)}{' *' * one.apart}",
            _cell(estimate(aggregate.optimality_gap, runs, resamples=resamples)),
            *(f"{share:.2f}" for share in aggregate.performance_profile(runs, LEVELS)),
            ", ".join(labels[name] for name in rank.level_with) or "–",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    apart = sum(one.apart for one in pairs)
    small = f"{apart} of {len(pairs)} pairs are told apart by their IQM. IQM and gap: intervals of each number alone; "
    small += "ranks, pairs and probabilities: 95 % for all of this table together; * leaves out 0.5."
    return [*lines, "", small, ""]


def main(folder: Path, times: Path | None, resamples: int) -> None:
    study = results.load(folder)
    print("\n".join(table(study, "After as many agent steps", scores(study, "agent-steps"), resamples)))
    title = "After as many gradient steps of both networks"
    print("\n".join(table(study, title, scores(study, "gradient-steps"), resamples)))
    if times is not None:
        of = _times(times, study)
        print("\n".join(table(study, "After as many seconds", scores(study, "agent-steps", of), resamples)))


def _times(file: Path, study: Results) -> dict[str, float]:
    rows = [json.loads(line) for line in file.read_text().splitlines() if line.startswith("{")]
    others = {row["study"] for row in rows if row.get("study", study.study.name) != study.study.name}
    if others:
        raise UserError(f"{file}: has times of study {others.pop()}, not {study.study.name}")
    found = {row["method"]: float(row["times_hard"]) for row in rows if "times_hard" in row}
    missing = [variant.name for variant in study.study.variants if variant.name not in found]
    if missing:
        raise UserError(f"{file}: has no time of {', '.join(missing)}")
    return found


def _cell(number: Estimate) -> str:
    return f"{number.value:.2f} [{number.low:.2f}, {number.high:.2f}]" if number.has_interval else f"{number.value:.2f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path, help="folder of the study")
    parser.add_argument("--times", type=Path, help="JSON lines: how long each variant's agent step takes")
    parser.add_argument("--resamples", type=int, default=ranking.RESAMPLES)
    arguments = parser.parse_args()
    try:
        main(arguments.study, arguments.times, arguments.resamples)
    except UserError as error:
        sys.exit(str(error))
