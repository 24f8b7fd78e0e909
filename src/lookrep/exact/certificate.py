"""What becomes of a method in the linear case: one outer iteration is an affine map, so eigenvalues decide its fate.

`certify` gives the exact asymptotic rate, whether the method converges, and the limit in closed form. `docs/theory.md`
has the argument, `maps.py` the maps.
"""

from typing import NamedTuple

import numpy as np

from lookrep.exact.checks import Floats
from lookrep.exact.maps import OuterMap, outer_map
from lookrep.exact.problems import Problem
from lookrep.exact.settings import Settings

UNDECIDED = 1e-10  # a rate this close to 1 is not told apart from 1
CONSERVED = 1e-13  # a direction that the map changes by less, relative to what it changes most, is one it keeps


class Certificate(NamedTuple):
    rate: float  # spectral radius on the subspace that moves; infinite when the map itself overflows
    converges: bool
    limit_target: Floats | None  # None when it does not converge
    limit_online: Floats | None


def certify(problem: Problem, settings: Settings) -> Certificate:
    """Rate, verdict and limit from every start except those on a set of measure zero.

    >>> from lookrep.exact.builtin import tsitsiklis_van_roy
    >>> found = certify(tsitsiklis_van_roy(), Settings(lookahead_updates=100, replicate_updates=100))
    >>> round(found.rate, 6), found.converges  # 6 γ / 5 with γ = 0.99
    (1.188, False)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        outer = outer_map(problem, settings)
    if not (np.isfinite(outer.matrix).all() and np.isfinite(outer.offset).all()):
        return Certificate(np.inf, False, None, None)
    rate = _radius(outer)
    if abs(rate - 1.0) < UNDECIDED:
        outer = _without_conserved(outer)
        rate = _radius(outer)
    if rate >= 1.0 - UNDECIDED:
        return Certificate(rate, False, None, None)
    at_rest = outer.fixed @ (outer.fixed.T @ outer.start)
    # The moving part solves y = Qᵀ(M (Q y + rest) + c).
    inner = outer.moving.T @ outer.matrix @ outer.moving
    push = outer.moving.T @ (outer.matrix @ at_rest + outer.offset)
    limit = at_rest + outer.moving @ np.linalg.solve(np.eye(len(inner)) - inner, push)
    split = len(problem.target_init)
    return Certificate(rate, True, limit[:split], limit[split : split + len(problem.online_init)])


def _radius(outer: OuterMap) -> float:
    inner = outer.moving.T @ outer.matrix @ outer.moving
    return float(np.abs(np.linalg.eigvals(inner)).max()) if inner.size else 0.0


def _without_conserved(outer: OuterMap) -> OuterMap:
    """The same map, with what each outer iteration as a whole leaves alone counted as fixed.

    DQN Pro's term pulls w along all directions, and at a turn θ becomes w: where no gradient comes, the two end each
    iteration as they began it, so that a combination of θ and w never changes.
    """
    change = outer.moving.T @ np.column_stack([outer.matrix @ outer.moving - outer.moving, _drift(outer)])
    left, spread, _ = np.linalg.svd(change)
    rank = int((spread > CONSERVED * spread[0]).sum()) if spread[0] > 0 else 0
    basis = outer.moving @ left
    return outer._replace(moving=basis[:, :rank], fixed=np.hstack([outer.fixed, basis[:, rank:]]))


def _drift(outer: OuterMap) -> Floats:
    """Where one iteration takes the part of the start that never moves."""
    at_rest = outer.fixed @ (outer.fixed.T @ outer.start)
    return np.asarray(outer.matrix @ at_rest + outer.offset - at_rest)
