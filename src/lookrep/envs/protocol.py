"""What an environment on the device looks like: two pure functions and its spaces.

Everything is unbatched (one environment) and branch-free; the trainer vmaps it over a population and resets it
when an episode ends. Nothing here knows about agents, replay or training.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax


class Timestep(NamedTuple):
    """What one step gives back. `observation` is the one the action led to, also at an episode's last step."""

    observation: jax.Array  # observation_shape, observation_dtype
    reward: jax.Array  # float32 scalar
    terminated: jax.Array  # bool scalar: the episode is over and its future is worth nothing
    truncated: jax.Array  # bool scalar: the episode was cut, its future still has a value (bootstrap from it)


@runtime_checkable
class Environment(Protocol):
    """A JAX environment.

    `can_truncate` is static: an environment that never truncates needs no final observations in the replay.
    """

    observation_shape: tuple[int, ...]
    observation_dtype: Any  # bool (stored as bits), uint8 or float32
    num_actions: int
    can_truncate: bool

    def init(self, key: jax.Array) -> tuple[Any, jax.Array]:
        """Start an episode: (state, first observation)."""
        ...

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, Timestep]:
        """Take one action: (next state, timestep). Never resets by itself."""
        ...
