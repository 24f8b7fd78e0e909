"""What one outer iteration does to (θ, w) in the linear case: an affine map, so its fate is decided by eigenvalues.

`certify` gives the exact asymptotic rate, whether the method converges, and the limit in closed form. `docs/theory.md`
has the argument. Nothing here runs the algorithm: agreement with `solver.py` is a test, not a tautology.
"""

from typing import NamedTuple

import numpy as np

from lookrep.exact.problems import Floats, Problem, linear_chain
from lookrep.exact.settings import Settings, StepSizes, step_sizes
from lookrep.exact.solver import check_method

UNDECIDED = 1e-10  # a rate this close to 1 is not told apart from 1
RANK = 1e-12  # singular values of √D Φ below this, relative to the largest, count as zero


class OuterMap(NamedTuple):
    """z ↦ matrix · z + offset for z = (θ, w), with orthonormal bases of what can move and what never does."""

    matrix: Floats
    offset: Floats
    moving: Floats  # [parameters, moving directions]
    fixed: Floats  # [parameters, fixed directions]


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
    moving, fixed = outer.moving, outer.fixed
    inner = moving.T @ outer.matrix @ moving
    rate = float(np.abs(np.linalg.eigvals(inner)).max()) if inner.size else 0.0
    if rate >= 1.0 - UNDECIDED:
        return Certificate(rate, False, None, None)
    start = np.concatenate([problem.target_init, problem.online_init])
    at_rest = fixed @ (fixed.T @ start)
    # The moving part solves y = Qᵀ(M (Q y + rest) + c).
    push = moving.T @ (outer.matrix @ at_rest + outer.offset)
    limit = at_rest + moving @ np.linalg.solve(np.eye(len(inner)) - inner, push)
    split = len(problem.target_init)
    return Certificate(rate, True, limit[:split], limit[split:])


def outer_map(problem: Problem, settings: Settings) -> OuterMap:
    """One outer iteration of `settings.method`, composed from its inner steps."""
    check_method(problem, settings.method)
    chain, online, target = linear_chain(problem)
    sizes = step_sizes(problem, settings)
    root = np.sqrt(problem.weighting)[:, None]
    residual = online - chain.discount * (chain.transition @ online)
    if settings.method == "lr":
        matrix = _lookahead_replicate(problem, settings, sizes)
        moving_target, moving_online = root * target, root * online
    else:
        matrix = _parameter_copying(problem, settings, sizes)
        # Copying drags all of θ along; w still moves only where its gradients live.
        moving_target = np.eye(target.shape[1])
        moving_online = root * (residual if settings.method == "residual" else online)
    size = target.shape[1] + online.shape[1]
    return OuterMap(matrix[:size, :size], matrix[:size, size], *_bases(moving_target, moving_online))


def _lookahead_replicate(problem: Problem, settings: Settings, sizes: StepSizes) -> Floats:
    chain, online, target = linear_chain(problem)
    lookahead = _online_step(problem, sizes, online, chain.discount * (chain.transition @ target))
    matrix = np.linalg.matrix_power(lookahead, settings.lookahead_updates)  # Alg. 1, line 3
    count_target, count_online = target.shape[1], online.shape[1]
    for beta, repeats in _runs(sizes.replicate):  # Alg. 1, line 4: θ ← θ − 2β Φ_θᵀ D (Φ_θ θ − Φ_w w)
        pull = 2.0 * beta * (problem.weighting[:, None] * target).T
        step = _homogeneous(
            target=(np.eye(count_target) - pull @ target, pull @ online, np.zeros(count_target)),
            online=(np.zeros((count_online, count_target)), np.eye(count_online), np.zeros(count_online)),
        )
        matrix = np.linalg.matrix_power(step, repeats) @ matrix
    return matrix


def _parameter_copying(problem: Problem, settings: Settings, sizes: StepSizes) -> Floats:
    """TD, TD with a hard or Polyak target, and the residual gradient."""
    chain, online, _ = linear_chain(problem)
    ahead = chain.discount * (chain.transition @ online)
    copy = _mix(online.shape[1], 1.0)
    power, updates = np.linalg.matrix_power, settings.lookahead_updates
    if settings.method == "td-hard":
        return copy @ power(_online_step(problem, sizes, online, ahead), updates)
    if settings.method == "td-polyak":
        return power(_mix(online.shape[1], settings.tau) @ _online_step(problem, sizes, online, ahead), updates)
    if settings.method == "td":
        step = _online_step(problem, sizes, online, ahead)
    else:
        step = _online_step(problem, sizes, online - ahead, np.zeros_like(online))
    # θ = w before and after every update; the last factor stands for the common start θ⁰ = w⁰ of these methods.
    return power(copy @ step, updates) @ copy


def _online_step(problem: Problem, sizes: StepSizes, features: Floats, bootstrap: Floats) -> Floats:
    """w ← w − 2α Φᵀ D (Φ w − r − bootstrap · θ)."""
    chain, _, _ = linear_chain(problem)
    count_target, count_online = bootstrap.shape[1], features.shape[1]
    pull = 2.0 * sizes.lookahead * (problem.weighting[:, None] * features).T
    return _homogeneous(
        target=(np.eye(count_target), np.zeros((count_target, count_online)), np.zeros(count_target)),
        online=(pull @ bootstrap, np.eye(count_online) - pull @ features, pull @ chain.reward),
    )


def _homogeneous(target: tuple[Floats, Floats, Floats], online: tuple[Floats, Floats, Floats]) -> Floats:
    """An affine map of (θ, w) as a matrix acting on (θ, w, 1), so that composing is multiplying."""
    top = np.hstack([target[0], target[1], target[2][:, None]])
    middle = np.hstack([online[0], online[1], online[2][:, None]])
    bottom = np.zeros((1, top.shape[1]))
    bottom[0, -1] = 1.0
    return np.vstack([top, middle, bottom])


def _mix(count: int, tau: float) -> Floats:
    """θ ← (1 − τ) θ + τ w; τ = 1 is a hard copy."""
    one, none, zero = np.eye(count), np.zeros((count, count)), np.zeros(count)
    return _homogeneous(target=((1.0 - tau) * one, tau * one, zero), online=(none, one, zero))


def _runs(values: Floats) -> list[tuple[float, int]]:
    """Consecutive equal values with their counts: a constant β needs one matrix power, not K_R products."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    lengths = np.diff(np.append(starts, len(values)))
    return [(float(values[start]), int(length)) for start, length in zip(starts, lengths, strict=True)]


def _bases(moving_target: Floats, moving_online: Floats) -> tuple[Floats, Floats]:
    """Bases of the row spaces (where gradients live) and of their complements, for θ and w side by side."""
    blocks = [_row_space(moving_target), _row_space(moving_online)]
    return _block_diagonal(blocks[0][0], blocks[1][0]), _block_diagonal(blocks[0][1], blocks[1][1])


def _row_space(matrix: Floats) -> tuple[Floats, Floats]:
    _, spread, right = np.linalg.svd(matrix)
    rank = int((spread > RANK * spread[0]).sum()) if spread[0] > 0 else 0
    return right[:rank].T, right[rank:].T


def _block_diagonal(first: Floats, second: Floats) -> Floats:
    block = np.zeros((first.shape[0] + second.shape[0], first.shape[1] + second.shape[1]))
    block[: first.shape[0], : first.shape[1]] = first
    block[first.shape[0] :, first.shape[1] :] = second
    return block
