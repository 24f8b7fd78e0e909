"""Algorithm 1 (Lookahead-Replicate) on a finite problem, and every other method in the same loop.

What lives here: the loop and its trace. A method is a row of parts (`methods.py`); each part is run in one place. Only
the *error vectors* that the gradients pull back differ between the exact and the sampled version, so `sampled.py`
reuses `run_loop`. Rates and limits are in `certificate.py`.

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
from lookrep.exact.checks import Floats
from lookrep.exact.methods import METHODS, Parts
from lookrep.exact.problems import Params, Problem, stack
from lookrep.exact.settings import Settings, periods
from lookrep.exact.sizes import StepSizes, check_method, step_sizes

LARGEST_TRACE = 2 * 10**8  # numbers, 1.6 GB


class Trace(NamedTuple):
    """One row per outer iteration; row 0 is the start, so there are T + 1 rows."""

    target: Params  # θ
    online: Params  # w
    value_target: Any  # v_θ [T + 1, states]
    value_online: Any  # v_w [T + 1, states]
    lookahead_loss: Any  # H(θ, w) = ‖v_w − T v_θ‖²_D
    replicate_loss: Any  # G(θ, w) = ‖v_θ − v_w‖²_D


def flat(params: Params) -> Floats:
    """Parameters of a trace as one vector per iteration, whatever tree they came in."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(params)]
    return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


class Errors(NamedTuple):
    """The D-weighted errors whose pull-back through a value function is half a gradient of H or G."""

    lookahead: Callable[[Problem, Any, Any, Any], Any]  # (problem, v_w, v_θ, key) → [states]
    replicate: Callable[[Problem, Any, Any, Any], Any]  # (problem, v_θ, v_w, key) → [states]


def _exact_lookahead(problem: Problem, value_online: Any, value_target: Any, key: Any) -> Any:
    return problem.weighting * (value_online - problem.process.backup(value_target))


def _exact_replicate(problem: Problem, value_target: Any, value_online: Any, key: Any) -> Any:
    return problem.weighting * (value_target - value_online)


EXACT = Errors(_exact_lookahead, _exact_replicate)


class Networks(NamedTuple):
    target: Params
    online: Params
    last: Params  # the online networks of the last turns with an axis in front, the newest first; or None
    before: Params = None  # the online network one update ago, where it is needed


class _Run(NamedTuple):
    problem: Problem
    sizes: StepSizes
    settings: Settings
    errors: Errors

    @property
    def parts(self) -> Parts:
        return METHODS[self.settings.method]


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
    if settings.batch_size is not None:
        raise UserError("batch_size: solve takes expectations; use solve_sampled")
    check_method(problem, settings.method)
    check_trace_size(problem, settings)
    with double_precision():
        trace: Trace = jax.tree.map(np.asarray, _jitted(problem, sizes, settings, EXACT, jax.random.key(0)))
    return trace


def solve_many(problems: Sequence[Problem], settings: Settings, sizes: Sequence[StepSizes] | None = None) -> Trace:
    """`solve` for several problems of one shape at once; every array gains a leading problem axis.

    Each problem may have step sizes of its own, in place of those that the settings give it.
    """
    sizes = sizes or [step_sizes(problem, settings) for problem in problems]
    for problem in problems:
        check_method(problem, settings.method)
    with double_precision():
        stacked_sizes = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *sizes)
        trace: Trace = _jitted_many(stack(problems), stacked_sizes, settings, EXACT, jax.random.key(0))
        return jax.tree.map(np.asarray, trace)


def check_trace_size(problem: Problem, settings: Settings) -> None:
    parameters = sum(np.size(leaf) for leaf in jax.tree.leaves((problem.online_init, problem.target_init)))
    numbers = settings.outer_iterations * (2 * problem.states + parameters)
    if numbers > LARGEST_TRACE:
        most = LARGEST_TRACE // (2 * problem.states + parameters)
        raise UserError(f"outer_iterations: the trace of this problem fits in memory for at most {most} iterations")


def run_loop(problem: Problem, sizes: StepSizes, settings: Settings, errors: Errors, key: Any) -> Trace:
    """The outer loop under JAX; call it inside `double_precision()`."""
    run = _Run(problem, sizes, settings, errors)
    start = _start(run)

    def outer(networks: Networks, now: tuple[Any, Any]) -> tuple[Networks, Trace]:
        key, updates = now
        update_key, turn_key = jax.random.split(key)
        update = partial(_update, run, update_key)
        networks = jax.lax.fori_loop(0, updates, update, networks)
        networks = _turn(run, turn_key, networks)
        return networks, _row(run, networks)

    keys = jax.random.split(key, settings.outer_iterations)
    _, rows = jax.lax.scan(outer, start, (keys, jnp.asarray(periods(settings), jnp.int32)))
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), _row(run, start), rows)


_jitted = jax.jit(run_loop, static_argnums=(2, 3))
_jitted_many = jax.jit(
    lambda problems, sizes, settings, errors, key: jax.vmap(
        lambda problem, size: run_loop(problem, size, settings, errors, key)
    )(problems, sizes),
    static_argnums=(2, 3),
)


def _start(run: _Run) -> Networks:
    target, online = jax.tree.map(
        lambda leaf: jnp.asarray(leaf, jnp.float64), (run.problem.target_init, run.problem.online_init)
    )
    if run.parts.single:
        target = online
    before = online if run.parts.proximal == "churn" else None
    if not run.parts.remembers:
        return Networks(target, online, None, before)
    # Before there are k online networks, the target stands for those of its own class.
    first = target if run.parts.turn == "average" else online
    return Networks(target, online, jax.tree.map(lambda leaf: jnp.stack([leaf] * run.settings.networks), first))


def _row(run: _Run, networks: Networks) -> Trace:
    value_target, value_online = _read_target(run, networks), run.problem.online(networks.online)
    bellman_error = value_online - run.problem.process.backup(value_target)
    gap = value_target - value_online
    weights = run.problem.weighting
    return Trace(
        networks.target, networks.online, value_target, value_online, weights @ bellman_error**2, weights @ gap**2
    )


def _read_target(run: _Run, networks: Networks) -> Any:
    """v_θ; of an averaged target the mean of the last networks' values, which no θ need have."""
    return _mean_value(run, networks) if run.parts.turn == "average" else run.problem.target(networks.target)


def _mean_value(run: _Run, networks: Networks) -> Any:
    return jax.vmap(run.problem.online)(networks.last).mean(axis=0)


def _update(run: _Run, key: Any, k: Any, networks: Networks) -> Networks:
    """One online update, and what the target does with it."""
    problem, parts, sizes = run.problem, run.parts, run.sizes
    key, target_key = jax.random.split(jax.random.fold_in(key, k))
    target, online = networks.target, networks.online
    value_target, value_online = _read_target(run, networks), problem.online(online)
    if parts.bootstrap == "through":
        new = _descend(partial(_bellman_error, problem), online, _through(problem, online), sizes.lookahead)
    else:
        bootstrap = {
            "target": value_target,
            "online": value_online,
            "smaller": jnp.minimum(value_target, value_online),
        }[parts.bootstrap]
        near = value_target if networks.before is None else problem.online(networks.before)
        error = _towards(run, value_online, bootstrap, near, key)
        new = _descend(problem.online, online, error, sizes.lookahead)
    if parts.proximal == "parameters":
        pull = 2.0 * sizes.lookahead * run.settings.kappa
        new = jax.tree.map(lambda after, w, t: after - pull * (w - t), new, online, target)
    if parts.update == "mix":
        tau = run.settings.tau
        target = jax.tree.map(lambda t, w: (1.0 - tau) * t + tau * w, target, new)
    elif parts.update in ("track", "mirror"):
        if parts.update == "track":
            error = run.errors.replicate(problem, value_target, value_online, target_key)
        else:
            error = _towards(run, value_target, value_online, value_online, target_key)
        target = _descend(problem.target, target, error, sizes.replicate[0])
    return Networks(target, new, networks.last, None if networks.before is None else online)


def _towards(run: _Run, value: Any, bootstrap: Any, other: Any, key: Any) -> Any:
    """The error of a network that learns from T of `bootstrap` and is kept near the `other` one's values. When sampled,
    the second of them is on states of its own."""
    key, near_key = jax.random.split(key)
    error = run.errors.lookahead(run.problem, value, bootstrap, key)
    if run.parts.proximal in ("values", "churn"):
        error = error + run.settings.kappa * run.errors.replicate(run.problem, value, other, near_key)
    return error


def _bellman_error(problem: Problem, online: Params) -> Any:
    values = problem.online(online)
    return values - problem.process.backup(values)


def _through(problem: Problem, online: Params) -> Any:
    return problem.weighting * _bellman_error(problem, online)


def _turn(run: _Run, key: Any, networks: Networks) -> Networks:
    target, online, last, before = networks
    if last is not None:
        last = jax.tree.map(lambda now, kept: jnp.concatenate([now[None], kept[:-1]]), online, last)
        networks = networks._replace(last=last)
    if run.parts.turn == "copy":
        target = online
    elif run.parts.turn == "average":
        target = jax.tree.map(lambda kept: kept.mean(axis=0), last)
    elif run.parts.turn == "distil":
        target = _replicate(run, _mean_value(run, networks), target, key)
    elif run.parts.turn == "replicate":
        target = _replicate(run, run.problem.online(online), target, key)
    return Networks(target, online, last, before)


def _replicate(run: _Run, goal: Any, target: Params, key: Any) -> Params:
    """Replicate(w, θ, β, K_R). Its line 4 prints ∇F; ∇G of line 3 is meant."""

    def update(k: Any, target: Params) -> Params:
        error = run.errors.replicate(run.problem, run.problem.target(target), goal, jax.random.fold_in(key, k))
        return _descend(run.problem.target, target, error, run.sizes.replicate[k])

    return jax.lax.fori_loop(0, run.settings.replicate_updates, update, target)


def _descend(function: Callable[[Params], Any], params: Params, error: Any, step_size: Any) -> Params:
    """params − step · ∇‖·‖²_D: the gradient is 2 (∂v)ᵀ error, factor 2 included (paper, eq. GradLoss)."""
    _, pull_back = jax.vjp(function, params)
    (gradient,) = pull_back(2.0 * error)
    return jax.tree.map(lambda p, g: p - step_size * g, params, gradient)
