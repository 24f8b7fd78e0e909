"""Whose outputs at s′ the online network learns from."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

Values = Callable[[jax.Array], jax.Array]  # [batch, actions, K] → [batch, actions]
Mix = Callable[[Values, jax.Array, jax.Array], jax.Array]  # (values, θ's outputs, w's) → outputs, [batch, actions, K]


def smaller(values: Values, target: jax.Array, online: jax.Array) -> jax.Array:
    """For each action the outputs of the network that thinks less of it.

    >>> low, high = jnp.array([[[1.0], [5.0]]]), jnp.array([[[2.0], [4.0]]])
    >>> smaller(lambda out: out[..., 0], low, high).ravel().tolist()
    [1.0, 4.0]
    """
    return jnp.where((values(online) < values(target))[..., None], online, target)
