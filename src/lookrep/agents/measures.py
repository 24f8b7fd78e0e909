"""How much of the online network's function a target has."""

import jax
import jax.numpy as jnp


def agreement(q_online: jax.Array, q_target: jax.Array, legal: jax.Array | None = None) -> dict[str, jax.Array]:
    """What of the online network's function [batch, actions] the target has: the best action, the states' level, and
    the differences between actions, which a mean gap cannot tell from the level. R² is 1 where the target has all of
    it, 0 where it knows no more than a constant (no differences at all), and below 0 where it is worse than that.

    >>> online = jnp.array([[1.0, 3.0], [5.0, 9.0]])
    >>> level_alone = jnp.array([[2.0, 2.0], [7.0, 7.0]])
    >>> {name: float(value) for name, value in agreement(online, level_alone).items()}
    {'argmax_agreement': 0.0, 'r2_state_values': 1.0, 'r2_advantages': 0.0}
    """
    exists = jnp.ones(q_online.shape[1], bool) if legal is None else jnp.arange(q_online.shape[1]) < legal

    def parts(q: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        level = jnp.where(exists, q, 0.0).sum(axis=1) / exists.sum()
        return jnp.where(exists, q, -jnp.inf).argmax(axis=1), level, jnp.where(exists, q - level[:, None], 0.0)

    def r2(x: jax.Array, y: jax.Array) -> jax.Array:
        return 1.0 - ((x - y) ** 2).sum() / (x**2).sum()

    (best, level, advantages), (best_t, level_t, advantages_t) = parts(q_online), parts(q_target)
    return {
        "argmax_agreement": (best == best_t).mean(),
        "r2_state_values": r2(level - level.mean(), level_t - level.mean()),
        "r2_advantages": r2(advantages, advantages_t),
    }
