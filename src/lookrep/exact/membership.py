"""The paper's solution sets (section 3): is a pair (θ, w) in F_single, F_pair, F_value, up to a tolerance?

`solution_sets` lists the sets over a finite grid of parameters, small enough to count and so to check Claims 1 to 3.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from lookrep.exact.checks import Floats
from lookrep.exact.problems import Linear, Params, Problem, ValueFunction, same_class
from lookrep.exact.settings import TOLERANCE
from lookrep.exact.solver import double_precision


class Membership(NamedTuple):
    single: bool  # v_θ = T v_θ: the target alone solves the Bellman equation
    pair: bool  # v_w = T v_θ and θ = w
    value: bool  # v_w = T v_θ and v_θ = v_w


def membership_of(problem: Problem, target: Params, online: Params, tolerance: float = TOLERANCE) -> Membership:
    """Equality means: the largest absolute difference is at most `tolerance`.

    >>> from lookrep.exact.builtin import two_state
    >>> membership_of(two_state(), [2/3, 4/9, 4/9], [-4/3, 10/9, 10/9])
    Membership(single=True, pair=False, value=True)
    """
    with double_precision():
        value_target = _values(problem.target, target)
        value_online = _values(problem.online, online)
        backup_target = np.asarray(problem.process.backup(value_target))
    solves_lookahead = _close(value_online, backup_target, tolerance)
    return Membership(
        single=_close(value_target, backup_target, tolerance),
        pair=solves_lookahead and same_class(problem) and _same_params(target, online, tolerance),
        value=solves_lookahead and _close(value_target, value_online, tolerance),
    )


class SolutionSets(NamedTuple):
    single: frozenset[tuple[float, ...]]
    pair: frozenset[tuple[tuple[float, ...], tuple[float, ...]]]
    value: frozenset[tuple[tuple[float, ...], tuple[float, ...]]]


def solution_sets(problem: Problem, grid: Sequence[ArrayLike], tolerance: float = TOLERANCE) -> SolutionSets:
    """The three sets when Θ is the given finite list of parameter vectors (for both networks)."""
    points = [tuple(np.asarray(point, np.float64).tolist()) for point in grid]
    single, pair, value = set(), set(), set()
    for target, online in itertools.product(points, points):
        found = membership_of(problem, np.array(target), np.array(online), tolerance)
        if found.single:
            single.add(target)
        if found.pair:
            pair.add((target, online))
        if found.value:
            value.add((target, online))
    return SolutionSets(frozenset(single), frozenset(pair), frozenset(value))


def _values(function: ValueFunction, params: Params) -> Floats:
    return np.asarray(function(np.asarray(params, np.float64) if isinstance(function, Linear) else params))


def _close(a: Floats, b: Floats, tolerance: float) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(np.abs(a - b).max() <= tolerance)  # NaN and infinity are never close


def _same_params(target: Params, online: Params, tolerance: float) -> bool:
    leaves_target, leaves_online = jax.tree.leaves(target), jax.tree.leaves(online)
    return len(leaves_target) == len(leaves_online) and all(
        np.shape(a) == np.shape(b) and _close(np.asarray(a, float), np.asarray(b, float), tolerance)
        for a, b in zip(leaves_target, leaves_online, strict=True)
    )
