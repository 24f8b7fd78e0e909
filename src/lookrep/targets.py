"""Target updates: how the target network follows the online network.

In the paper's letters the online network is `w` and the target network is `θ`; in code they are `online` and
`target`. Each update is an `init`/`update` pair in optax's manner: pure, jittable, usable inside `scan`. Nothing
here knows about agents or replay: `replicate` is handed a function-space distance and a source of batches.

The schedule counts online updates and is handed in (`online_updates`), not kept in the state. Under
`vmap(update, in_axes=(0, 0, None))` it therefore stays unbatched, the `lax.cond` stays a branch, and a
population never executes the K_R gradient steps outside its turn.

References: Asadi et al., Learning the Target Network in Function Space, ICML 2024, Alg. 1 and Replicate.
"""

import operator
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lookrep.errors import UserError
from lookrep.losses import Distance

Params = Any
Batches = Callable[[jax.Array], Any]


class TargetState(NamedTuple):
    """What a target update carries along. `params` is what the bootstrap uses."""

    params: Params
    optimizer: Any  # the target's own optimiser state; () where there is none
    updates: jax.Array  # int32: how often the target has been changed (gradient steps under `replicate`)


class TargetUpdate(NamedTuple):
    """A pair of pure functions.

    `init(online, target=None)` gives the state; without `target` it starts as a copy of `online`.

    `update(state, online, online_updates, batches=None, new_updates=1)` gives the next state. Call it after every
    online update with the number made so far (1, 2, …), or after every few with `new_updates` saying how many: the
    target has its turn when a multiple of its period is reached or crossed. `batches(k)` is batch number `k` of this
    turn; only `replicate` calls it.

    `turn(state, online, batches=None)` is what `update` does every `every_updates` online updates, for callers who
    keep the schedule themselves.
    """

    init: Callable[..., TargetState]
    update: Callable[..., TargetState]
    turn: Callable[..., TargetState]
    every_updates: int | None  # None: never


def hard(every_updates: int) -> TargetUpdate:
    """Copy the online parameters every `every_updates` online updates (DQN).

    >>> state = hard(2).init({"w": jnp.zeros(2)})
    >>> hard(2).update(state, {"w": jnp.ones(2)}, online_updates=1).params["w"].tolist()
    [0.0, 0.0]
    >>> hard(2).update(state, {"w": jnp.ones(2)}, online_updates=2).params["w"].tolist()
    [1.0, 1.0]
    """
    every = _positive_integer("every_updates", every_updates)
    return _parameter_space("hard", every, lambda target, online: online)


def polyak(tau: float, every_updates: int = 1) -> TargetUpdate:
    """Move the target a fraction `tau` of the way to the online parameters: θ ← (1−τ)θ + τw.

    >>> state = polyak(0.25).init({"w": jnp.zeros(2)})
    >>> polyak(0.25).update(state, {"w": jnp.ones(2)}, online_updates=1).params["w"].tolist()
    [0.25, 0.25]
    """
    every = _positive_integer("every_updates", every_updates)
    if not isinstance(tau, jax.core.Tracer) and not 0.0 < float(tau) <= 1.0:
        raise UserError(f"tau = {float(tau)}: must be in (0, 1], the fraction taken from the online network")

    def mix(target: jax.Array, online: jax.Array) -> jax.Array:
        if not jnp.issubdtype(online.dtype, jnp.inexact):
            return online  # a counter or a mask has no mean
        return ((1.0 - tau) * target + tau * online).astype(target.dtype)

    return _parameter_space("polyak", every, mix)


def frozen() -> TargetUpdate:
    """Never change the target: fitted-value iteration's inner loop, and a control in experiments."""

    def unchanged(state: TargetState, *_: Any, **__: Any) -> TargetState:
        return state

    return TargetUpdate(_start, unchanged, unchanged, None)


def replicate(
    every_updates: int,
    updates: int | None = None,
    optimizer: optax.GradientTransformation | None = None,
    distance: Distance | Callable[[Params, Params, Any], jax.Array] | None = None,
    *,
    step_scale: optax.Schedule | None = None,
    reset_optimizer: bool = False,
    start: Literal["target", "online"] = "target",
    until_gap: float | None = None,
    max_updates: int | None = None,
    population: bool = False,
) -> TargetUpdate:
    """Take gradient steps on the target that pull its function to the online network's (Replicate).

    Args:
      every_updates: K_L, the online updates between two turns.
      updates: K_R, the gradient steps of a turn.
      optimizer: the target's own optimiser.
      distance: what a step descends, from `lookrep.losses` or any `f(target_params, online_params, batch) → scalar`.
        Its gradient is taken in the target alone.
      step_scale: factor on step k of a turn, k = 0, 1, … (the paper's β_k, relative to the optimiser's step).
      reset_optimizer: start every turn with a fresh optimiser state instead of keeping it.
      start: begin a turn from the target as it is, or from a copy of the online network.
      until_gap: instead of `updates`: stop as soon as the function gap on the batch is at most this …
      max_updates: … or after this many steps. `state.updates` counts the steps really taken.
      population: in `update`, state, parameters and batches carry a leading agent axis (make the state by
        `vmap(init)`). The same as `vmap(update)`, for callers whose `batches` draws for all agents at once.

    Online and target may have different trees; then `init` needs the target's parameters.
    """
    every = _positive_integer("every_updates", every_updates)
    if optimizer is None or distance is None:
        raise UserError("replicate needs an optimizer and a distance")
    if (updates is None) == (until_gap is None):
        raise UserError("replicate takes either updates (K_R) or until_gap with max_updates, not both")
    if updates is not None:
        limit, tolerance = _positive_integer("updates", updates), None
        if max_updates is not None:
            raise UserError("max_updates goes with until_gap; a fixed number of steps is updates")
    else:
        if max_updates is None:
            raise UserError("until_gap needs max_updates, so that a turn always ends")
        limit, tolerance = _positive_integer("max_updates", max_updates), until_gap
        if tolerance is None or not tolerance >= 0:
            raise UserError(f"until_gap = {tolerance}: must be at least 0")
    if start not in ("target", "online"):
        raise UserError(f"start = '{start}': must be 'target' or 'online'")
    measure = distance if isinstance(distance, Distance) else Distance(loss=distance, gap=distance)

    def init(online: Params, target: Params | None = None) -> TargetState:
        state = _start(online, target)
        if start == "online":
            _same_tree("replicate with start='online'", state.params, online)
        return state._replace(optimizer=optimizer.init(state.params))

    def step(k: jax.Array, state: TargetState, online: Params, batch: Any) -> tuple[TargetState, jax.Array]:
        """One gradient step for one agent, and whether the gap was small enough already before it."""
        gradient = jax.grad(measure.loss)(state.params, online, batch)
        change, optimizer_state = optimizer.update(gradient, state.optimizer, state.params)
        if step_scale is not None:
            change = jax.tree.map(lambda leaf: step_scale(k) * leaf, change)
        params = optax.apply_updates(state.params, change)
        after = TargetState(params, optimizer_state, state.updates + 1)
        done = jnp.array(False) if tolerance is None else measure.gap(state.params, online, batch) <= tolerance
        return after, done

    steps = jax.vmap(step, in_axes=(None, 0, 0, 0)) if population else step

    def turn(state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        if batches is None:
            raise UserError("replicate learns from data: pass batches, a function from k to batch number k of a turn")
        online = lax.stop_gradient(online)
        if start == "online":
            state = state._replace(params=online)
        if reset_optimizer:
            fresh = jax.vmap(optimizer.init) if population else optimizer.init
            state = state._replace(optimizer=fresh(state.params))
        if tolerance is None:
            return lax.fori_loop(0, limit, lambda k, s: steps(k, s, online, batches(k))[0], state)

        def body(carry: tuple[jax.Array, TargetState, jax.Array]) -> tuple[jax.Array, TargetState, jax.Array]:
            k, before, finished = carry
            after, done = steps(k, before, online, batches(k))
            finished = finished | done  # once the gap was met, a later batch does not start it again
            keep = jax.vmap(_where) if population else _where
            return k + 1, keep(finished, before, after), finished

        unfinished = jnp.zeros_like(state.updates, bool)
        carry = (jnp.int32(0), state, unfinished)
        return lax.while_loop(lambda c: (c[0] < limit) & ~c[2].all(), body, carry)[1]

    return _scheduled(init, turn, every)


def _parameter_space(name: str, every: int, rule: Callable[[jax.Array, jax.Array], jax.Array]) -> TargetUpdate:
    """A target update that maps pairs of parameters, leaf by leaf."""

    def init(online: Params, target: Params | None = None) -> TargetState:
        state = _start(online, target)
        _same_tree(name, state.params, online)
        return state

    def turn(state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        del batches
        _same_tree(name, state.params, online)
        params = jax.tree.map(rule, state.params, lax.stop_gradient(online))
        return state._replace(params=params, updates=state.updates + 1)

    return _scheduled(init, turn, every)


def _scheduled(init: Callable[..., TargetState], turn: Callable[..., TargetState], every: int) -> TargetUpdate:
    """Run `turn` whenever a multiple of `every` was reached or crossed by the last `new_updates` online updates."""

    def update(
        state: TargetState,
        online: Params,
        online_updates: Any,
        batches: Batches | None = None,
        new_updates: int = 1,
    ) -> TargetState:
        before = jnp.maximum(online_updates - new_updates, 0)  # before the first online update there is no turn
        crossed = online_updates // every > before // every
        return lax.stop_gradient(lax.cond(crossed, lambda s: turn(s, online, batches), lambda s: s, state))

    return TargetUpdate(init, update, turn, every)


def _start(online: Params, target: Params | None = None) -> TargetState:
    params = jax.tree.map(jnp.array, online if target is None else target)  # a copy: the caller may donate `online`
    return TargetState(params=params, optimizer=(), updates=jnp.int32(0))


def _where(take_old: jax.Array, old: Any, new: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(take_old, a, b), old, new)


def _positive_integer(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1:
        raise UserError(f"{name} = {value!r}: must be a whole number of updates, at least 1")
    return number


def _same_tree(name: str, target: Params, online: Params) -> None:
    def shapes(tree: Params) -> dict[str, tuple[int, ...]]:
        return {jax.tree_util.keystr(path): jnp.shape(x) for path, x in jax.tree_util.tree_leaves_with_path(tree)}

    theirs, ours = shapes(online), shapes(target)
    if theirs != ours:
        where = next(k for k in [*theirs, *ours] if theirs.get(k) != ours.get(k))
        raise UserError(
            f"{name} needs online and target networks of the same shape; {where or 'they'} differ: online "
            f"{theirs.get(where, 'has none')}, target {ours.get(where, 'has none')}. Only replicate can follow across "
            "networks"
        )
