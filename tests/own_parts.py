"""Parts that a user may name on the command line, as `own_parts:thing`."""

from typing import Any

import flax.linen as nn
import jax
import optax

from lookrep import heads, targets


class Torso(nn.Module):
    """A class: it is made without arguments."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.relu(nn.Dense(16)(x.reshape(len(x), -1)))


optimizer = optax.sgd(1e-3)


def head() -> heads.Head:
    return heads.categorical_head(5, 0.0, 10.0)


def rule(agent: Any) -> Any:
    """A function from the agent: its distance comes with it."""
    return targets.replicate(targets.growing(10, 2.0, 40), 3, optax.adam(1e-3), agent.distance)
