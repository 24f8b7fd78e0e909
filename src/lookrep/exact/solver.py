"""Algorithm 1 (Lookahead-Replicate) on a finite problem, and its rivals in the same loop.

What lives here: the loop and its trace. Only the *error vectors* that the gradients pull back differ between the exact
and the sampled version, so `sampled.py` reuses `run_loop`. Rates, limits and audits are in `theory.py`.

Everything runs in float64 on the CPU, whatever the process is set to: the arrays are tiny and a GPU would only wait.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.errors import UserError
from lookrep.exact.problems import Params, Problem, same_class, stack
from lookrep.exact.settings import Method, Settings, StepSizes, step_sizes

LARGEST_TRACE = 2 * 10**8  # numbers, 1.6 GB


class Trace(NamedTuple):
    """One row per outer iteration; row 0 is the start, so there are T + 1 rows."""

    target: Params  # θ
    online: Params  # w
    value_target: Any  # v_θ [T + 1, states]
    value_online: Any  # v_w [T + 1, states]
    lookahead_loss: Any  # H(θ, w) = ‖v_w − T v_θ‖²_D
    replicate_loss: Any  # G(θ, w) = ‖v_θ − v_w‖²_D


class Errors(NamedTuple):
    """The D-weighted errors whose pull-back through a value function is half a gradient of H or G."""

    lookahead: Callable[[Problem, Any, Any, Any], Any]  # (problem, v_w, v_θ, key) → [states]
    replicate: Callable[[Problem, Any, Any, Any], Any]  # (problem, v_θ, v_w, key) → [states]


def _exact_lookahead(problem: Problem, value_online: Any, value_target: Any, key: Any) -> Any:
    return problem.weighting * (value_online - problem.process.backup(value_target))


def _exact_replicate(problem: Problem, value_target: Any, value_online: Any, key: Any) -> Any:
    return problem.weighting * (value_target - value_online)


EXACT = Errors(_exact_lookahead, _exact_replicate)


class _Run(NamedTuple):
    problem: Problem
    sizes: StepSizes
    settings: Settings
    errors: Errors


@contextlib.contextmanager
def double_precision() -> Iterator[None]:
    """Float64 on the CPU inside the block; the process-wide JAX settings stay as they were."""
    with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
        yield


def solve(problem: Problem, settings: Settings) -> Trace:
    """Run `settings.method` for T outer iterations and return the whole trace as NumPy arrays.

    >>> from lookrep.exact.builtin import two_state
    >>> trace = solve(two_state(), Settings(outer_iterations=800, lookahead_updates=400, replicate_updates=1))
    >>> trace.target[-1].round(4).tolist(), trace.online[-1].round(4).tolist()
    ([0.6636, 0.4455, 0.4455], [-0.2364, 0.7455, 0.7455])
    """
    sizes = step_sizes(problem, settings)
    check_method(problem, settings.method)
    check_trace_size(problem, settings)
    with double_precision():
        return _to_numpy(_jitted(problem, sizes, settings, EXACT, jax.random.key(0)))


def solve_many(problems: Sequence[Problem], settings: Settings) -> Trace:
    """`solve` for several problems of one shape at once; every array gains a leading problem axis."""
    sizes = [step_sizes(problem, settings) for problem in problems]
    for problem in problems:
        check_method(problem, settings.method)
    with double_precision():
        stacked_sizes = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *sizes)
        return _to_numpy(_jitted_many(stack(problems), stacked_sizes, settings, EXACT, jax.random.key(0)))


def check_method(problem: Problem, method: Method) -> None:
    """Every method but LR copies parameters, which is meaningless between different value functions."""
    if method != "lr" and not same_class(problem):
        raise UserError(
            f"method: '{method}' keeps target and online parameters equal, but this problem gives the two networks "
            "different value functions; only 'lr' can solve it"
        )


def check_trace_size(problem: Problem, settings: Settings) -> None:
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves((problem.online_init, problem.target_init)))
    numbers = settings.outer_iterations * (2 * problem.states + parameters)
    if numbers > LARGEST_TRACE:
        most = LARGEST_TRACE // (2 * problem.states + parameters)
        raise UserError(f"outer_iterations: the trace of this problem fits in memory for at most {most} iterations")


def run_loop(problem: Problem, sizes: StepSizes, settings: Settings, errors: Errors, key: Any) -> Trace:
    """The outer loop of Algorithm 1 under JAX; call it inside `double_precision()`."""
    start_target = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), problem.target_init)
    start_online = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), problem.online_init)
    if settings.method in ("td", "residual"):
        start_target = start_online  # these learn a single parameter: θ = w throughout
    iteration = partial(_ITERATIONS[settings.method], _Run(problem, sizes, settings, errors))

    def outer(pair: tuple[Params, Params], key: Any) -> tuple[tuple[Params, Params], Trace]:
        pair = iteration(*pair, key)
        return pair, _row(problem, *pair)

    keys = jax.random.split(key, settings.outer_iterations)
    first = _row(problem, start_target, start_online)
    _, rows = jax.lax.scan(outer, (start_target, start_online), keys)
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, rows)


_jitted = jax.jit(run_loop, static_argnums=(2, 3))
_jitted_many = jax.jit(
    lambda problems, sizes, settings, errors, key: jax.vmap(
        lambda problem, size: run_loop(problem, size, settings, errors, key)
    )(problems, sizes),
    static_argnums=(2, 3),
)


def _row(problem: Problem, target: Params, online: Params) -> Trace:
    value_target, value_online = problem.target(target), problem.online(online)
    bellman_error = value_online - problem.process.backup(value_target)
    gap = value_target - value_online
    return Trace(
        target,
        online,
        value_target,
        value_online,
        problem.weighting @ bellman_error**2,
        problem.weighting @ gap**2,
    )


def _descend(function: Callable[[Params], Any], params: Params, error: Any, step_size: Any) -> Params:
    """params − step · ∇‖·‖²_D: the gradient is 2 (∂v)ᵀ error, factor 2 included (paper, eq. GradLoss)."""
    _, pull_back = jax.vjp(function, params)
    (gradient,) = pull_back(2.0 * error)
    return jax.tree.map(lambda p, g: p - step_size * g, params, gradient)


def _lookahead(run: _Run, target: Params, online: Params, key: Any) -> Params:
    """Lookahead(θ, w, α, K_L)."""
    value_target = run.problem.target(target)

    def update(k: Any, online: Params) -> Params:
        error = run.errors.lookahead(run.problem, run.problem.online(online), value_target, jax.random.fold_in(key, k))
        return _descend(run.problem.online, online, error, run.sizes.lookahead)

    return jax.lax.fori_loop(0, run.settings.lookahead_updates, update, online)


def _replicate(run: _Run, online: Params, target: Params, key: Any) -> Params:
    """Replicate(w, θ, β, K_R). Its line 4 prints ∇F; ∇G of line 3 is meant."""
    value_online = run.problem.online(online)

    def update(k: Any, target: Params) -> Params:
        error = run.errors.replicate(run.problem, run.problem.target(target), value_online, jax.random.fold_in(key, k))
        return _descend(run.problem.target, target, error, run.sizes.replicate[k])

    return jax.lax.fori_loop(0, run.settings.replicate_updates, update, target)


Pair = tuple[Params, Params]  # (θ, w)


def _iterate_lr(run: _Run, target: Params, online: Params, key: Any) -> Pair:
    look_key, replicate_key = jax.random.split(key)
    online = _lookahead(run, target, online, look_key)  # Alg. 1, line 3
    target = _replicate(run, online, target, replicate_key)  # Alg. 1, line 4
    return target, online


def _iterate_hard(run: _Run, target: Params, online: Params, key: Any) -> Pair:
    online = _lookahead(run, target, online, key)
    return online, online


def _iterate_polyak(run: _Run, target: Params, online: Params, key: Any) -> Pair:
    def update(k: Any, pair: Pair) -> Pair:
        target, online = pair
        error = run.errors.lookahead(
            run.problem, run.problem.online(online), run.problem.target(target), jax.random.fold_in(key, k)
        )
        online = _descend(run.problem.online, online, error, run.sizes.lookahead)
        target = jax.tree.map(lambda t, o: (1.0 - run.settings.tau) * t + run.settings.tau * o, target, online)
        return target, online

    return jax.lax.fori_loop(0, run.settings.lookahead_updates, update, (target, online))


def _iterate_td(run: _Run, target: Params, online: Params, key: Any) -> Pair:
    def update(k: Any, online: Params) -> Params:
        values = run.problem.online(online)
        error = run.errors.lookahead(run.problem, values, values, jax.random.fold_in(key, k))
        return _descend(run.problem.online, online, error, run.sizes.lookahead)

    online = jax.lax.fori_loop(0, run.settings.lookahead_updates, update, online)
    return online, online


def _iterate_residual(run: _Run, target: Params, online: Params, key: Any) -> Pair:
    """Baird's residual gradient: the derivative goes through the bootstrap as well."""

    def bellman_error(online: Params) -> Any:
        values = run.problem.online(online)
        return values - run.problem.process.backup(values)

    def update(k: Any, online: Params) -> Params:
        return _descend(bellman_error, online, run.problem.weighting * bellman_error(online), run.sizes.lookahead)

    online = jax.lax.fori_loop(0, run.settings.lookahead_updates, update, online)
    return online, online


_ITERATIONS: dict[Method, Callable[..., Pair]] = {
    "lr": _iterate_lr,
    "td": _iterate_td,
    "td-hard": _iterate_hard,
    "td-polyak": _iterate_polyak,
    "residual": _iterate_residual,
}


def _to_numpy(trace: Trace) -> Trace:
    return jax.tree.map(np.asarray, trace)
