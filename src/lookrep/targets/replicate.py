"""Replicate: gradient steps on the target that pull its function to the online network's.

References: Asadi et al., Learning the Target Network in Function Space, ICML 2024, Alg. Replicate.
"""

import dataclasses
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from lookrep.distances import Distance
from lookrep.errors import UserError
from lookrep.targets import trees
from lookrep.targets.base import Batches, Params, TargetState, start, update
from lookrep.targets.schedule import Schedule, as_schedule, positive_integer

DistanceLike = Distance | Callable[[Params, Params, Any], jax.Array]


@dataclass(frozen=True)
class Until:
    """See `until`."""

    gap: Any
    most_updates: Any


def until(*, gap: float, most_updates: int) -> Until:
    """In place of a number of `updates`: stop once the function gap on the batch is at most `gap`, or after so many.

    `TargetState.updates` counts the steps really taken.

    >>> until(gap=0.01, most_updates=1_000)
    Until(gap=0.01, most_updates=1000)
    """
    if not trees.is_numeric(gap) or (trees.is_concrete(gap) and not np.all(np.asarray(gap) >= 0)):
        raise UserError(f"gap = {gap!r}: must be a number of at least 0")
    return Until(gap, _steps("most_updates", most_updates))


def replicate(
    every_updates: int | Schedule,
    updates: int | jax.Array | Until,
    optimizer: optax.GradientTransformation,
    distance: DistanceLike | None = None,
    *,
    step_scale: optax.Schedule | None = None,
    reset_optimizer: bool = False,
    start: Literal["target", "online"] = "target",
    axis_name: str | None = None,
) -> "Replicate":
    """Take gradient steps on the target that pull its function to the online network's (the paper's Replicate).

    Args:
      every_updates: K_L, the online updates between two turns, or a `Schedule` of them.
      updates: K_R, the gradient steps of a turn; or `until(gap=…, most_updates=…)`. An array may be traced: agents of
        a population may have their own.
      optimizer: the target's own optimiser.
      distance: what a step descends, from `lookrep.distances` or any `f(target_params, online_params, batch) → scalar`.
        Its gradient is taken in the target alone. `lookrep.train` supplies the one that goes with the agent's head.
      step_scale: factor on step k of a turn, k = 0, 1, … (the paper's β_k, relative to the optimiser's step).
      reset_optimizer: start every turn with a fresh optimiser state instead of keeping it.
      start: begin a turn from the target as it is, or from a copy of the online network.
      axis_name: batches are spread over this axis of `jax.shard_map` or `jax.pmap`; gradients and gaps are averaged.

    Online and target may have different trees; then `init` needs the target's parameters. Outside of `jit`, a turn is a
    Python loop around one compiled step, and `batches(k)` may be any Python function.

    >>> from lookrep import distances
    >>> rule = replicate(100, 50, optax.sgd(0.5), distances.squared(lambda w, x: x @ w))
    >>> state = rule.init(jnp.ones(2), target=jnp.zeros(2))
    >>> state = rule.update(state, jnp.ones(2), online_updates=100, batches=lambda k: jnp.eye(2))
    >>> state.params.round(3).tolist(), int(state.updates)
    ([1.0, 1.0], 50)
    """
    as_schedule(every_updates)
    if not isinstance(updates, Until):
        updates = _steps("updates", updates)
    if not all(callable(getattr(optimizer, name, None)) for name in ("init", "update")):
        raise UserError(f"optimizer = {_shown(optimizer)}: must be an optax transformation, such as optax.adam(1e-3)")
    if start not in ("target", "online"):
        raise UserError(f"start = {start!r}: must be 'target' or 'online'")
    if step_scale is not None and not callable(step_scale):
        raise UserError(f"step_scale = {step_scale!r}: must be a function of k, such as an optax schedule")
    distance = None if distance is None else _distance(distance)
    return Replicate(every_updates, updates, optimizer, distance, step_scale, reset_optimizer, start, axis_name)


def stacked(batches: Batches, updates: int) -> Batches:
    """Batches 0 to `updates` − 1 drawn now, by a sampler outside JAX, as a function that `jit` takes as an argument.

    >>> replay = np.arange(100.0)
    >>> turn_batches = stacked(lambda k: replay[k : k + 2], updates=50)
    >>> jax.jit(lambda batches, k: batches(k))(turn_batches, 7).tolist()
    [7.0, 8.0]
    """
    drawn = [batches(k) for k in range(positive_integer("updates", updates))]
    return jax.tree_util.Partial(_number, jax.tree.map(lambda *each: jnp.asarray(np.stack(each)), *drawn))


def _number(drawn: Any, k: Any) -> Any:
    return jax.tree.map(lambda array: array[k], drawn)


@dataclass(frozen=True, eq=False)  # compared and hashed as what it is: each has compiled steps of its own
class Replicate:
    """What `replicate` gives.

    >>> rule = replicate(250, 250, optax.adam(1e-3))
    >>> rule.every_updates, rule.updates, rule.distance
    (250, 250, None)
    """

    every_updates: int | Schedule
    updates: Any
    optimizer: optax.GradientTransformation
    distance: Distance | None
    step_scale: optax.Schedule | None
    reset_optimizer: bool
    start: Literal["target", "online"]
    axis_name: str | None

    update = update

    def with_distance(self, distance: DistanceLike) -> "Replicate":
        """The same rule with another distance.

        >>> rule = replicate(1, 10, optax.sgd(0.5)).with_distance(lambda target, online, x: (target - online) ** 2)
        >>> float(rule.turn(rule.init(jnp.zeros(())), jnp.ones(()), batches=lambda k: None).params)
        1.0
        """
        return dataclasses.replace(self, distance=_distance(distance))

    def init(self, online: Params, target: Params | None = None) -> TargetState:
        if self._measure.two_networks and target is None:
            raise UserError(
                "the distance compares two different networks; pass the target's parameters: init(online, target=…)"
            )
        state = start(online, target)
        if self.start == "online":
            trees.check_same_shapes("replicate with start='online'", state.params, online)
        return state._replace(optimizer=self._fresh(state.params))

    def turn(self, state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        if not callable(batches):
            raise UserError("replicate learns from data: pass batches, a function from k to batch number k of a turn")
        online = trees.detached(online)
        if self.start == "online":
            state = state._replace(params=trees.leafwise(trees.copied, state.params, online))
        if self.reset_optimizer:
            # Chosen between and not replaced, so that under `vmap` each agent still counts its own steps.
            fresh = jax.tree.map(partial(jnp.where, True), self._fresh(state.params), state.optimizer)
            state = state._replace(optimizer=fresh)
        limit, tolerance = self._limits
        if trees.is_concrete((state, online, limit, tolerance)):
            return self._turn_in_python(state, online, batches)
        state, others = trees.split(state)

        def step(k: jax.Array, state: TargetState) -> tuple[TargetState, jax.Array]:
            after, met = self._step(k, trees.join(state, others), online, batches(k))
            return trees.split(after)[0], met

        if tolerance is None:
            state = lax.fori_loop(0, limit, lambda k, state: step(k, state)[0], state)
        else:

            def body(carry: tuple[jax.Array, TargetState, jax.Array]) -> tuple[jax.Array, TargetState, jax.Array]:
                k, before, _ = carry
                after, met = step(k, before)
                return k + 1, _where(met, before, after), met

            carry = (jnp.int32(0), state, jnp.array(False))
            state = lax.while_loop(lambda carry: (carry[0] < limit) & ~carry[2], body, carry)[1]
        return trees.join(state, others)

    def _step(self, k: Any, state: TargetState, online: Params, batch: Any) -> tuple[TargetState, jax.Array]:
        """One gradient step, and whether the gap was small enough already before it."""
        learned, others = trees.split(state.params, trees.is_learned)
        # Each device's own gradient, which differs between them as long as it is not averaged.
        local = learned if self.axis_name is None else lax.pcast(learned, self.axis_name, to="varying")

        def loss(learned: Params) -> jax.Array:
            return self._told(self._measure.loss, trees.join(learned, others), online, batch)

        gradient = self._mean(jax.grad(loss)(local))
        change, optimizer_state = self.optimizer.update(gradient, state.optimizer, learned)
        if self.step_scale is not None:
            scale = self.step_scale(k)
            change = jax.tree.map(lambda leaf: scale * leaf, change)
        params = trees.join(optax.apply_updates(learned, change), others)
        after = TargetState(params, optimizer_state, state.updates + 1)
        tolerance = self._limits[1]
        if tolerance is None:
            return after, jnp.array(False)
        return after, self._mean(self._told(self._measure.gap, state.params, online, batch)) <= tolerance

    def _turn_in_python(self, state: TargetState, online: Params, batches: Batches) -> TargetState:
        """Outside of JAX: draw, step, draw, step."""
        limit, tolerance = self._limits
        state, others = trees.split(state)
        online, online_others = trees.split(online)
        static = trees.Static.of((others, online_others))
        for k in range(int(limit)):
            after, met = self._compiled_step(static, k, state, online, batches(k))
            if tolerance is not None and met:
                break
            state = after
        return trees.join(state, others)

    @cached_property
    def _compiled_step(self) -> Callable[..., tuple[TargetState, jax.Array]]:
        def step(static: trees.Static, k: Any, state: TargetState, online: Params, batch: Any) -> Any:
            others, online_others = static.tree
            after, met = self._step(k, trees.join(state, others), trees.join(online, online_others), batch)
            return trees.split(after)[0], met

        return jax.jit(step, static_argnums=0)

    def _fresh(self, params: Params) -> Any:
        return self.optimizer.init(trees.split(params, trees.is_learned)[0])

    def _mean(self, tree: Any) -> Any:
        return tree if self.axis_name is None else lax.pmean(tree, self.axis_name)

    @property
    def _limits(self) -> tuple[Any, Any]:
        """How many steps at most, and the gap to stop at, None if at none."""
        if isinstance(self.updates, Until):
            return self.updates.most_updates, self.updates.gap
        return self.updates, None

    @property
    def _measure(self) -> Distance:
        if self.distance is None:
            raise UserError("replicate has no distance; pass one, such as distance=lookrep.distances.squared(apply)")
        return self.distance

    def _told(self, function: Callable[..., jax.Array], target: Params, online: Params, batch: Any) -> jax.Array:
        """A number from the distance; what goes wrong in it is told in one line."""
        try:
            number = function(target, online, batch)
        except UserError:
            raise
        except Exception as error:
            why = (str(error).strip().splitlines() or [""])[0]
            raise UserError(
                f"the distance failed on (target_params, online_params, batch): {type(error).__name__}: {why}. "
                "A target of another architecture needs its own parameters: init(online, target=…)"
            ) from error
        if jnp.shape(number) != ():
            raise UserError(f"the distance gave shape {jnp.shape(number)}: it must be one number")
        return number


def _steps(name: str, value: Any) -> Any:
    """A number of steps; as an array, it may be traced."""
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.integer):
        if trees.is_concrete(value) and not (value >= 1).all():
            raise UserError(f"{name} = {value}: must be at least 1")
        return value
    return positive_integer(name, value)


def _distance(distance: DistanceLike) -> Distance:
    if isinstance(distance, Distance):
        return distance
    wanted = "must be a function f(target_params, online_params, batch), such as lookrep.distances.squared(apply)"
    if not callable(distance):
        raise UserError(f"distance = {_shown(distance)}: {wanted}")
    try:
        inspect.signature(distance).bind(None, None, None)
    except TypeError as error:
        raise UserError(f"distance = {_shown(distance)}: {wanted}") from error
    except ValueError:  # a built-in function that has no signature
        pass
    return Distance(loss=distance, gap=distance)


def _shown(value: Any) -> str:
    return getattr(value, "__name__", None) or repr(value)


def _where(take_old: jax.Array, old: Any, new: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(take_old, a, b), old, new)
