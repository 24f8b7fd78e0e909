"""Judge readings of the paper by the paper's own statements: which of them a reading contradicts, at the steps run.

    python benchmarks/readings_judged.py studies/paper-readings
    python benchmarks/readings_judged.py studies/paper-readings --steps 750_000

With `--steps`, as if the study ended there: for runs that were cut off later than that. Each reading (variant) stands
beside its own baseline: `fork-lr` beside `fork-rainbow`, the others beside `rainbow`. The statements:

- scores (Fig. 2): "the two LR variants are outperforming their Rainbow counterparts on all but one game", of six games.
- norms (Fig. 5): "LR reduced both the online and target network's norm", averaged over the six games.
- inverted U (Fig. 4): "LR with an intermediate value of K_R performs best", by the area under the curve of the median
  of human-normalised scores over the six games. To be tested, a reading needs three values of K_R.

The paper has five seeds and 50 million agent steps, and does not name its games. So what is excluded here is excluded
in our games, after as many steps as were run.

A game counts as told apart where seeds agree: every run of the one is above every run of the other. Equal agents are
told apart by chance, too, with two seeds in one game of six in either direction. So a statement is excluded where more
games say so than chance would leave in one case of twenty. The statement about scores leaves out one game, and so does
this rule.
"""

import argparse
import dataclasses
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from minatar_numbers import measured

from lookrep.analysis import results
from lookrep.analysis.aggregate import Floats, nanmean
from lookrep.analysis.results import Results
from lookrep.analysis.scores import curves, final_scores, normalisation, target_settings
from lookrep.analysis.statistics import curve_area
from lookrep.errors import UserError
from lookrep.studies import definition

BASELINE, FORK = "rainbow", "fork-"  # a study's own baseline is the variant that was run first
GAMES, EXCEPTIONS = 6, 1  # of the paper's ablation; in one of them LR is not better
CHANCE = 0.05
NORMS = {"norm_online": "‖w‖", "norm_target": "‖θ‖"}
ARROWS = {1: "↑", -1: "↓", 0: "~"}


class Pair(NamedTuple):
    """Runs of two variants in one game."""

    ours: Floats
    theirs: Floats

    @property
    def difference(self) -> float:
        return float(self.ours.mean() - self.theirs.mean())

    @property
    def sign(self) -> int:
        """1 or −1 where all seeds agree, otherwise 0."""
        return int(self.ours.min() > self.theirs.max()) - int(self.ours.max() < self.theirs.min())

    @property
    def by_chance(self) -> float:
        """How often equal agents have this sign."""
        return 1 / math.comb(len(self.ours) + len(self.theirs), len(self.ours))


Pairs = Mapping[str, Pair]  # by game


class Finding(NamedTuple):
    """Whether a statement holds, None where one cannot tell, and what says so."""

    holds: bool | None
    why: str


def baseline(variant: str) -> str:
    return FORK + BASELINE if variant.startswith(FORK) else BASELINE


def readings(found: Results) -> list[str]:
    """The variants that have their baseline beside them."""
    every = [variant.name for variant in found.study.variants]
    kept = [name for name in every if name != baseline(name) and baseline(name) in every]
    if not kept:
        raise UserError(f"study {found.study.name}: has no reading beside {BASELINE} or {FORK}{BASELINE}")
    return kept


def told(pairs: Pairs, sign: int) -> int:
    return sum(pair.sign == sign for pair in pairs.values())


def beyond_chance(pairs: Pairs, sign: int, exceptions: int = 0) -> bool:
    """Whether more games have this sign than equal agents would have, besides so many that may have it.

    >>> apart = Pair(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> [beyond_chance(dict.fromkeys("abcdef"[:games], apart), -1, 1) for games in (1, 2, 3)]
    [False, False, True]
    """
    count, games = told(pairs, sign) - exceptions, len(pairs) - exceptions
    if count <= 0:
        return False
    each = max(pair.by_chance for pair in pairs.values())
    tail = (math.comb(games, k) * each**k * (1 - each) ** (games - k) for k in range(count, games + 1))
    return sum(tail) <= CHANCE


def score_pairs(found: Results, ours: str, theirs: str) -> dict[str, Pair]:
    """Final scores, in the games in which both have some."""
    pairs = {env: Pair(*(_there(final_scores(found, name, [env])) for name in (ours, theirs))) for env in _games(found)}
    return {env: pair for env, pair in pairs.items() if len(pair.ours) and len(pair.theirs)}


def norm_pairs(found: Results, ours: str, theirs: str, column: str, envs: Sequence[str]) -> dict[str, Pair]:
    """Norms at the end, in these games; a network that diverged has an endless one."""

    def norms(variant: str, env: str) -> Floats:
        counted = ~np.isnan(final_scores(found, variant, [env]))
        norm = measured(found, variant, env, column)[counted]
        return np.where(np.isnan(norm), np.inf, norm)

    return {env: Pair(norms(ours, env), norms(theirs, env)) for env in envs}


def area_pairs(found: Results, ours: str, theirs: str) -> dict[str, Pair]:
    """Mean scores over training, in games that both have finished."""

    def areas(variant: str, env: str) -> Floats:
        return _there(nanmean(curves(found, variant, "return_mean", [env], "agent-steps").y, axis=0))

    return {env: Pair(areas(ours, env), areas(theirs, env)) for env in score_pairs(found, ours, theirs)}


def ratio(pairs: Pairs) -> float:
    """Of means over games; NaN without any."""
    means = [sum(float(side.mean()) for side in sides) for sides in zip(*pairs.values(), strict=True)]
    return means[0] / means[1] if means else math.nan


def judged_by_scores(pairs: Pairs, games: int) -> Finding:
    """Better in all games but one, of those that the study has."""
    higher, lower, of = told(pairs, 1), told(pairs, -1), f"of {len(pairs)} games"
    if beyond_chance(pairs, -1, EXCEPTIONS):
        return Finding(False, f"lower in {lower} {of}")
    if higher >= max(games, GAMES) - EXCEPTIONS and beyond_chance(pairs, 1):
        return Finding(True, f"higher in {higher} {of}")
    return Finding(None, f"higher in {higher} and lower in {lower} {of}, seeds disagree in {told(pairs, 0)}")


def judged_by_norms(networks: Mapping[str, Pairs], games: int) -> Finding:
    """Both smaller on average over all games."""
    finished = min(map(len, networks.values()))
    if finished < max(games, GAMES):
        return Finding(None, f"{finished} of {max(games, GAMES)} games")
    larger = [name for name, pairs in networks.items() if ratio(pairs) > 1 and beyond_chance(pairs, 1)]
    if larger:
        return Finding(False, ", ".join(f"{name} × {ratio(networks[name]):.2f}" for name in larger))
    if all(ratio(pairs) < 1 and beyond_chance(pairs, -1) for pairs in networks.values()):
        return Finding(True, "both smaller")
    unsure = [name for name, pairs in networks.items() if not (ratio(pairs) < 1 and beyond_chance(pairs, -1))]
    return Finding(None, f"seeds disagree about {', '.join(unsure)}")


def swept(found: Results, names: Sequence[str]) -> list[dict[int, str]]:
    """Readings with three values of K_R or more, which differ in nothing else: K_R → variant, in order."""
    kin: dict[str, dict[int, str]] = {}
    for name in names:
        settings = target_settings(found, name)
        if settings["target"] == "replicate":
            changes = {"agent": found.study.agent, **found.study.overrides, **found.study.variant(name).changes}
            changes.pop("replicate_updates", None)
            kin.setdefault(repr(sorted(changes.items())), {})[settings["replicate_updates"]] = name
    return [dict(sorted(values.items())) for values in kin.values() if len(values) > 2]


def judged_by_shape(found: Results, values: Mapping[int, str]) -> Finding:
    """An intermediate K_R better than the smallest and the largest."""
    study = definition.narrow(found.study, variants=list(values.values()))
    group = dataclasses.replace(found, study=study)
    rule = normalisation(group)
    if len(rule.environments) < max(len(study.environments), GAMES):
        return Finding(None, f"{len(rule.environments)} of {max(len(study.environments), GAMES)} games")
    area = {name: curve_area(group, name, rule).value for name in values.values()}

    def better(ours: str, theirs: str) -> bool:
        return area[ours] > area[theirs] and beyond_chance(area_pairs(group, ours, theirs), 1)

    least, *between, most = values.values()
    said = ", ".join(f"K_R {k_r}: {area[name]:.2f}" for k_r, name in values.items())
    if any(all(better(name, end) for end in (least, most)) for name in between):
        return Finding(True, said)
    if any(all(better(end, name) for name in between) for end in (least, most)):
        return Finding(False, said)
    return Finding(None, said)


def verdict(findings: Mapping[str, Finding]) -> str:
    """Which statements exclude the reading; what has not been found out only where none does."""
    excluded = [f"**{name}**: {finding.why}" for name, finding in findings.items() if finding.holds is False]
    unsure = [f"{name}: {finding.why}" for name, finding in findings.items() if finding.holds is None]
    return "; ".join(excluded) or (f"cannot tell ({'; '.join(unsure)})" if unsure else "none")


def report(found: Results) -> list[str]:
    study, names = found.study, readings(found)
    sweeps = [(values, judged_by_shape(found, values)) for values in swept(found, names)]
    shape = {name: finding for values, finding in sweeps for name in values.values()}
    games = [env.rpartition("/")[2] for env in _games(found)]
    head = ["reading", "beside", "higher in", *games, *NORMS.values(), "excluded by"]
    lines = [f"### Readings after {study.steps:,} agent steps", "", f"| {' | '.join(head)} |", "|" + len(head) * "---|"]
    for name in names:
        scores = score_pairs(found, name, baseline(name))
        norms = {label: norm_pairs(found, name, baseline(name), column, [*scores]) for column, label in NORMS.items()}
        findings = {
            "scores": judged_by_scores(scores, len(games)),
            "norms": judged_by_norms(norms, len(games)),
            **({"inverted U": shape[name]} if name in shape else {}),
        }
        cells = [
            study.variant(name).label,
            study.variant(baseline(name)).label,
            f"{sum(pair.difference > 0 for pair in scores.values())} of {len(scores)}",
            *(_score(scores[env]) if env in scores else "–" for env in _games(found)),
            *(_norm(pairs) for pairs in norms.values()),
            verdict(findings),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    words = {True: "holds", False: "excluded", None: "cannot tell"}
    shapes = [f"{', '.join(values.values())}: {words[one.holds]} ({one.why})" for values, one in sweeps]
    alone = [name for name in (variant.name for variant in study.variants) if name not in {*names, baseline(name)}]
    return [
        *lines,
        "",
        "Games: difference of mean final scores, and seeds of both; ↑ ↓ where every seed agrees, ~ where they do not. "
        "Norms: ratio of means over games, and in how many games every seed is larger or smaller. They grow with "
        "learning: a reading that has learned less has smaller ones. Excluded: beyond what chance leaves in 1 of 20 "
        "cases, of each statement alone. None: every statement that was tested holds.",
        "",
        f"Inverted U in K_R: {'; '.join(shapes) or 'not tested, no reading has three values of K_R'}.",
        *(["", f"Left out, without its baseline in the study: {', '.join(alone)}."] if alone else []),
    ]


def main(folder: Path, steps: int | None) -> None:
    print("\n".join(report(results.load(folder, steps))))


def _games(found: Results) -> tuple[str, ...]:
    return found.study.environments


def _there(values: Floats) -> Floats:
    return np.asarray(values[~np.isnan(values)])


def _score(pair: Pair) -> str:
    ours, theirs = len(pair.ours), len(pair.theirs)
    digits = ",.0f" if abs(pair.difference) >= 100 else ".3g"
    number = f"{pair.difference:+{digits}}".replace("-", "−")
    return f"{number} {ARROWS[pair.sign]} ({ours if ours == theirs else f'{ours}, {theirs}'})"


def _norm(pairs: Pairs) -> str:
    return f"× {ratio(pairs):.2f} (↑ {told(pairs, 1)} ↓ {told(pairs, -1)} of {len(pairs)})" if pairs else "–"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path, help="folder of the study")
    parser.add_argument("--steps", type=int, help="as if the study ended at this agent step")
    arguments = parser.parse_args()
    try:
        main(arguments.study, arguments.steps)
    except UserError as error:
        sys.exit(str(error))
