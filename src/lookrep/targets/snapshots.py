"""Targets from the online networks of several turns: their mean, or one network that has learned their mean.

A stack of networks is a tree of arrays with one more axis in front, oldest first. `lookrep.networks.mean_of` gives the
function of such a stack.

References: Anschel, Baram & Shimkin, Averaged-DQN, ICML 2017, Algorithm 2.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from lookrep.distances import Distance
from lookrep.errors import UserError
from lookrep.targets import trees
from lookrep.targets.base import Batches, Params, TargetState, start, update
from lookrep.targets.replicate import Replicate
from lookrep.targets.schedule import Schedule, as_schedule, positive_integer


def averaged(every_updates: int | Schedule, networks: int) -> "Averaged":
    """Averaged-DQN: the target is the mean of the online networks of the last so many turns, Q^A = 1/K Σ Q(·; θ_{i−k}).

    `params` is the stack of them, which the target's `apply` must average. At first all are the network at the start.

    >>> rule = averaged(10, networks=2)
    >>> state = rule.init(jnp.zeros(1))
    >>> rule.update(state, jnp.ones(1), online_updates=10).params.tolist()
    [[0.0], [1.0]]
    """
    as_schedule(every_updates)
    return Averaged(every_updates, positive_integer("networks", networks, "networks"))


def distilled(rule: Replicate, networks: int) -> "Distilled":
    """One network that learns, by `rule`, the mean function of the online networks of the last so many turns.

    The distance of `rule` compares the target with a stack. The online network at the turn is the last of the stack.

    >>> import optax
    >>> from lookrep.targets import replicate
    >>> steps = replicate(1, 5, optax.sgd(0.5), lambda target, stack, batch: (target - stack.mean()) ** 2)
    >>> rule = distilled(steps, networks=2)
    >>> state = rule.turn(rule.init(jnp.zeros(())), jnp.ones(()), batches=lambda k: None)
    >>> float(state.params)
    0.5
    """
    if not isinstance(rule, Replicate) or rule.start == "online":
        raise UserError("distilled needs a rule from targets.replicate that starts at the target, not at a copy")
    return Distilled(rule, positive_integer("networks", networks, "networks"))


def stack(params: Params, networks: int) -> Params:
    """So many copies of one network."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (networks, *jnp.shape(x))), params)


def pushed(stack: Params, newest: Params) -> Params:
    """Without the oldest, and with one more."""
    return jax.tree.map(
        lambda old, new: jnp.concatenate([old[1:], trees.copied(old, jnp.asarray(new))[None]]), stack, newest
    )


@dataclass(frozen=True)
class Averaged:
    """See `averaged`."""

    every_updates: int | Schedule
    networks: int

    update = update

    def init(self, online: Params, target: Params | None = None) -> TargetState:
        """`target`: a stack."""
        params = stack(online, self.networks) if target is None else target
        state = start(params)
        trees.check_same_shapes("averaged", state.params, stack(online, self.networks))
        return state

    def turn(self, state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        del batches
        return state._replace(params=pushed(state.params, trees.detached(online)), updates=state.updates + 1)


@dataclass(frozen=True, eq=False)
class Distilled:
    """See `distilled`. `TargetState.optimizer` holds the rule's own state, and the networks of earlier turns."""

    rule: Replicate
    networks: int

    update = update

    @property
    def every_updates(self) -> int | Schedule:
        return self.rule.every_updates

    @property
    def distance(self) -> Distance | None:
        return self.rule.distance

    def with_distance(self, distance: Any) -> "Distilled":
        """The same rule with another distance."""
        return dataclasses.replace(self, rule=self.rule.with_distance(distance))

    def init(self, online: Params, target: Params | None = None) -> TargetState:
        before = jax.tree.map(jnp.array, stack(online, self.networks))
        state = self.rule.init(before, online if target is None else target)
        return state._replace(optimizer=(state.optimizer, before))

    def turn(self, state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        optimizer, before = state.optimizer
        now = pushed(before, trees.detached(online))
        turned = self.rule.turn(state._replace(optimizer=optimizer), now, batches)
        return turned._replace(optimizer=(turned.optimizer, now))
