"""What a method does to the online optimiser: to its state after a turn of the target, and to its steps."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from lookrep.errors import UserError


def after_turn(how: str, optimizer: optax.GradientTransformation, state: Any, params: Any, turned: jax.Array) -> Any:
    """The optimiser's state, where the target has `turned` since the last update: begun anew (`reset`: Asadi et al.
    2023), or with Adam's count of steps at 0 and its moments as they are (`relative`: Adam-Rel, Ellis et al. 2024).

    >>> adam = optax.adam(1.0)
    >>> _, state = adam.update(jnp.ones(1), adam.init(jnp.zeros(1)))
    >>> after = [after_turn("relative", adam, state, jnp.zeros(1), jnp.array(turned))[0] for turned in (False, True)]
    >>> [(int(adams.count), round(float(adams.mu[0]), 3)) for adams in after]
    [(1, 0.1), (0, 0.1)]
    """
    fresh = optimizer.init(params) if how == "reset" else with_clock_at_0(state)
    return jax.tree.map(lambda new, old: jnp.where(turned, new, old), fresh, state)


def with_clock_at_0(state: Any) -> Any:
    """With the steps that Adam has counted forgotten."""

    def at_0(part: Any) -> Any:
        return part._replace(count=jnp.zeros_like(part.count)) if _is_adam(part) else part

    return jax.tree.map(at_0, state, is_leaf=_is_adam)


def check_clock(state: Any) -> None:
    """Refuse an optimiser that counts no steps."""
    if not any(map(_is_adam, jax.tree.leaves(state, is_leaf=_is_adam))):
        raise UserError("optimizer_at_turn = 'relative' sets back Adam's clock: bring an optimiser that has one")


def drawn(params: Any, before: Any, target: Any, share: Any) -> Any:
    """New parameters, drawn by this share of the way from the old ones to the target's: the proximal term of DQN Pro,
    w ← (1 − α/c̃)w + (α/c̃)θ + the step (Asadi et al. 2022, arXiv 2112.05848).

    >>> drawn(jnp.array([1.5]), jnp.array([1.0]), jnp.array([3.0]), 0.25).tolist()
    [2.0]
    """
    return jax.tree.map(lambda new, w, theta: new - share * (w - theta), params, before, target)


def _is_adam(part: Any) -> bool:
    return isinstance(part, optax.ScaleByAdamState)
