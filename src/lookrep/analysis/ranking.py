"""Which of many variants can be told apart: simultaneous intervals for all their differences, and what ranks follow.

Whoever makes a hundred comparisons at 95 % finds five that are none. Here all intervals of a family hold together, with
95 % (`CONFIDENCE`): each is difference ± c × its standard error, and c is the 95 % point of the largest
|resampled difference − difference| / standard error of the family (single-step max-|t| of the bootstrap).

References: Westfall & Young (1993), Resampling-Based Multiple Testing; Hothorn, Bretz & Westfall (2008), Simultaneous
Inference in General Parametric Models.
"""

import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from lookrep.analysis.aggregate import Floats, iqm, probability_of_improvement
from lookrep.analysis.bootstrap import CONFIDENCE, Estimate, Statistic, distribution

RESAMPLES = 10_000
CERTAIN = 1e-12  # standard errors below this are rounding: the runs do not differ


class Comparison(NamedTuple):
    """`ours` beside `theirs`; the interval holds together with all others of its family."""

    ours: str
    theirs: str
    difference: Estimate
    apart: bool  # whether the interval leaves out what equals would give


class Rank(NamedTuple):
    """Where a variant stands, and the best and the worst rank that the comparisons leave open."""

    variant: str
    value: float
    best: int
    worst: int
    level_with: tuple[str, ...]  # those it cannot be told from


def differences(
    scores: Mapping[str, Floats], statistic: Statistic = iqm, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Comparison, ...]:
    """All pairs of variants by the difference of a statistic of scores [runs, environments]."""
    value = {name: float(statistic(runs)) for name, runs in scores.items()}
    drawn = {
        name: distribution(statistic, runs, resamples=resamples, seed=(seed, place))
        for place, (name, runs) in enumerate(scores.items())
    }
    pairs = list(itertools.combinations(scores, 2))
    return _family(pairs, [value[a] - value[b] for a, b in pairs], [drawn[a] - drawn[b] for a, b in pairs], 0.0)


def improvements(
    scores: Mapping[str, Floats], baseline: str, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Comparison, ...]:
    """All variants beside the baseline by the probability that a run of theirs beats one of its.

    The baseline is drawn anew for each, as if it had other runs there: a little wide, never too narrow.
    """
    theirs = scores[baseline]
    pairs = [(name, baseline) for name in scores if name != baseline]
    values = [float(probability_of_improvement(scores[name], theirs)) for name, _ in pairs]
    drawn = [
        distribution(probability_of_improvement, scores[name], theirs, resamples=resamples, seed=(seed, place))
        for place, (name, _) in enumerate(pairs)
    ]
    return _family(pairs, values, drawn, 0.5)


def ranks(scores: Mapping[str, Floats], found: Iterable[Comparison], statistic: Statistic = iqm) -> tuple[Rank, ...]:
    """The variants, best first, with the ranks that `differences` of them leave open.

    >>> scores = {"a": np.full((2, 1), 1.0), "b": np.full((2, 1), 2.0)}
    >>> [(rank.variant, rank.best, rank.worst) for rank in ranks(scores, differences(scores))]
    [('b', 1, 1), ('a', 2, 2)]
    """
    better: dict[str, set[str]] = {name: set() for name in scores}  # those told apart, and above
    worse: dict[str, set[str]] = {name: set() for name in scores}
    for one in found:
        if one.apart:
            first, second = (one.ours, one.theirs) if one.difference.value > 0 else (one.theirs, one.ours)
            better[second].add(first)
            worse[first].add(second)
    order = sorted(scores, key=lambda name: -float(statistic(scores[name])))
    return tuple(
        Rank(
            name,
            float(statistic(scores[name])),
            1 + len(better[name]),
            len(scores) - len(worse[name]),
            tuple(other for other in order if other not in better[name] | worse[name] | {name}),
        )
        for name in order
    )


def _family(
    pairs: list[tuple[str, str]], values: list[float], drawn: list[Floats], equal: float
) -> tuple[Comparison, ...]:
    """Intervals that hold together."""
    errors = [float(np.std(each)) for each in drawn]
    largest = np.zeros(len(drawn[0]) if drawn else 1)
    for value, each, error in zip(values, drawn, errors, strict=True):
        if error > CERTAIN:
            largest = np.maximum(largest, abs(each - value) / error)
    width = float(np.quantile(largest, CONFIDENCE))
    found = []
    for (ours, theirs), value, error in zip(pairs, values, errors, strict=True):
        low, high = value - width * error, value + width * error
        found.append(Comparison(ours, theirs, Estimate(value, low, high), not low <= equal <= high))
    return tuple(found)
