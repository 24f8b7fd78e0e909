"""What a target rule is, and the one way in which its turns come round.

A rule is anything with `every_updates`, `init` and `turn`. It is of one agent; for a population, `vmap` it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import lax

from lookrep.errors import UserError
from lookrep.targets import trees
from lookrep.targets.schedule import Schedule, as_schedule

Params = Any
Batches = Callable[[Any], Any]  # from k to batch number k of a turn


class TargetState(NamedTuple):
    """What a rule carries along. `params` is what the bootstrap uses.

    >>> from lookrep import targets
    >>> targets.hard(100).init(jnp.zeros(2))._fields
    ('params', 'optimizer', 'updates')
    """

    params: Params
    optimizer: Any  # the target's own optimiser state; () where there is none
    updates: jax.Array  # int32: how often the target has been changed (gradient steps under `replicate`)


class TargetRule(Protocol):
    """What a rule of one's own must have.

    >>> class Half:  # half of the way, every 10 updates
    ...     every_updates = 10
    ...     def init(self, online, target=None):
    ...         return TargetState(online if target is None else target, (), jnp.int32(0))
    ...     def turn(self, state, online, batches=None):
    ...         middle = jax.tree.map(lambda t, w: (t + w) / 2, state.params, online)
    ...         return TargetState(middle, (), state.updates + 1)
    >>> state = update(Half(), Half().init(jnp.zeros(2)), jnp.ones(2), online_updates=10)
    >>> state.params.tolist()
    [0.5, 0.5]
    """

    @property
    def every_updates(self) -> Schedule | int | None:
        """When its turns come, in online updates; None: never."""

    def init(self, online: Params, target: Params | None = None) -> TargetState:
        """The state at the start; without `target`, the target is a copy of `online`."""

    def turn(self, state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        """What happens on a turn. `batches(k)` is batch number `k`, for rules that learn from data."""


def update(
    rule: TargetRule,
    state: TargetState,
    online: Params,
    online_updates: Any,
    batches: Batches | None = None,
    new_updates: Any = 1,
) -> TargetState:
    """Let the target have its turn if it has come. The rules of lookrep have this as a method as well.

    Call it after every online update with the number made so far (1, 2, …), or after every few, with `new_updates`
    saying how many: a turn that was reached or crossed since the last call counts.

    Under `jit` the turn is a branch. Under `vmap(…, in_axes=(0, 0, None))` the count stays unbatched and the branch a
    branch, so that a population never pays for a turn outside of it. Where the count is a plain number, Python decides.

    >>> from lookrep import targets
    >>> rule = targets.hard(10)
    >>> state = rule.init(jnp.zeros(2))
    >>> [int(update(rule, state, jnp.ones(2), n, new_updates=4).updates) for n in (4, 8, 12, 16, 20, 24)]
    [0, 0, 1, 0, 1, 0]
    """
    schedule = as_schedule(rule.every_updates)
    if not hasattr(state, "params"):
        raise UserError(f"state is a {type(state).__name__}: must be what init gave: update(state, online, n)")
    if trees.is_concrete((online_updates, new_updates)):
        now, new = int(online_updates), int(new_updates)
        return trees.detached(rule.turn(state, online, batches) if schedule.crossed(now - new, now) else state)
    if schedule.never:
        return trees.detached(state)
    # Functions and the like cannot go into a branch.
    arrays, others = trees.split(state)

    def turn(arrays: TargetState) -> TargetState:
        return trees.split(rule.turn(trees.join(arrays, others), online, batches))[0]

    crossed = schedule.crossed(online_updates - new_updates, online_updates)
    return trees.join(trees.detached(lax.cond(crossed, turn, lambda arrays: arrays, arrays)), others)


def start(online: Params, target: Params | None = None) -> TargetState:
    """A first state around a copy, for the caller may donate what it passes in."""
    given = online if target is None else target
    if not any(map(trees.is_learned, jax.tree.leaves(given))):
        raise UserError("the network has no arrays of floating-point numbers, so a target has nothing to follow with")
    params = jax.tree.map(lambda leaf: jnp.array(leaf) if trees.is_array(leaf) else leaf, given)
    return TargetState(params=params, optimizer=(), updates=jnp.int32(0))
