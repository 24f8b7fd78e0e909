"""Rules in parameter space: the target's parameters come from the online network's, leaf by leaf."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lookrep.errors import UserError
from lookrep.targets import trees
from lookrep.targets.base import Batches, Params, TargetState, start, update
from lookrep.targets.schedule import Schedule, as_schedule


def hard(every_updates: int | Schedule) -> "ParameterRule":
    """Copy the online parameters every `every_updates` online updates (the paper's frequency-based update, DQN).

    >>> import jax.numpy as jnp
    >>> state = hard(2).init({"w": jnp.zeros(2)})
    >>> hard(2).update(state, {"w": jnp.ones(2)}, online_updates=1).params["w"].tolist()
    [0.0, 0.0]
    >>> hard(2).update(state, {"w": jnp.ones(2)}, online_updates=2).params["w"].tolist()
    [1.0, 1.0]
    """
    as_schedule(every_updates)
    return ParameterRule("hard", every_updates)


def polyak(tau: Any, every_updates: int | Schedule = 1) -> "ParameterRule":
    """Move the target a fraction `tau` of the way to the online parameters: θ ← (1 − τ)θ + τw (the paper's Polyak).

    `tau` may be traced: agents of a population may have their own.

    >>> import jax.numpy as jnp
    >>> state = polyak(0.25).init({"w": jnp.zeros(2)})
    >>> polyak(0.25).update(state, {"w": jnp.ones(2)}, online_updates=1).params["w"].tolist()
    [0.25, 0.25]
    """
    as_schedule(every_updates)
    if not trees.is_numeric(tau) or (trees.is_concrete(tau) and not np.all((tau > 0.0) & (tau <= 1.0))):
        raise UserError(f"tau = {tau!r}: must be in (0, 1], the fraction taken from the online network")
    return ParameterRule("polyak", every_updates, tau)


def frozen() -> "ParameterRule":
    """Never change the target: fitted-value iteration's inner loop, and a control in experiments.

    >>> import jax.numpy as jnp
    >>> frozen().update(frozen().init(jnp.zeros(2)), jnp.ones(2), online_updates=1).params.tolist()
    [0.0, 0.0]
    """
    return ParameterRule("frozen", None)


@dataclass(frozen=True)
class ParameterRule:
    """`hard`, `polyak` and `frozen`. What is no floating-point number has no mean, and is copied.

    >>> polyak(0.005)
    ParameterRule(name='polyak', every_updates=1, tau=0.005)
    """

    name: str
    every_updates: int | Schedule | None
    tau: Any = None  # None: all of the way

    update = update

    def init(self, online: Params, target: Params | None = None) -> TargetState:
        state = start(online, target)
        if self.every_updates is not None:
            trees.check_same_shapes(self.name, state.params, online)
        return state

    def turn(self, state: TargetState, online: Params, batches: Batches | None = None) -> TargetState:
        del batches
        if self.every_updates is None:
            return state
        trees.check_same_shapes(self.name, state.params, online)
        params = trees.leafwise(self._follow, state.params, trees.detached(online))
        return state._replace(params=params, updates=state.updates + 1)

    def _follow(self, target: jax.Array, online: jax.Array) -> jax.Array:
        if self.tau is None or not trees.is_learned(online):
            return trees.copied(target, online)
        return ((1.0 - self.tau) * target + self.tau * online).astype(target.dtype)
