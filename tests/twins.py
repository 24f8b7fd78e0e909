"""A corridor of four cells, twice: for the device in JAX, and with Gymnasium's interface. Both do the same to the bit.

An episode starts in cell 1. Action 1 goes right, action 0 left. Cell 3 is the goal: reward 1 and the end; cell 0 is a
pit: reward −1 and the end. After six steps an episode is cut. There is no chance in it, so which random numbers an
engine hands to an environment makes no difference.
"""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.spaces import Box, Discrete

from lookrep.envs import Timestep

CELLS, START, GOAL, PIT, LIMIT_STEPS = 4, 1, 3, 0, 6


class Corridor(gymnasium.Env):
    observation_space = Box(0, 1, (CELLS,), np.float32)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.cell, self.steps = START, 0
        return self.observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.cell, self.steps = self.cell + (1 if action else -1), self.steps + 1
        reward = float(self.cell == GOAL) - float(self.cell == PIT)
        over = self.cell in (GOAL, PIT)
        return self.observation(), reward, over, not over and self.steps >= LIMIT_STEPS, {}

    def observation(self) -> np.ndarray:
        return np.eye(CELLS, dtype=np.float32)[self.cell]


class CorridorState(NamedTuple):
    cell: jax.Array
    steps: jax.Array


class DeviceCorridor:
    observation_shape: tuple[int, ...] = (CELLS,)
    observation_dtype: Any = jnp.float32
    num_actions = 2
    can_truncate = True

    def init(self, key: jax.Array) -> tuple[CorridorState, jax.Array]:
        del key
        return CorridorState(jnp.int32(START), jnp.int32(0)), self.observation(jnp.int32(START))

    def step(self, key: jax.Array, state: CorridorState, action: jax.Array) -> tuple[CorridorState, Timestep]:
        del key
        cell, steps = state.cell + jnp.where(action == 1, 1, -1), state.steps + 1
        reward = (cell == GOAL).astype(jnp.float32) - (cell == PIT)
        over = (cell == GOAL) | (cell == PIT)
        truncated = ~over & (steps >= LIMIT_STEPS)
        return CorridorState(cell, steps), Timestep(self.observation(cell), reward, over, truncated)

    def observation(self, cell: jax.Array) -> jax.Array:
        return (jnp.arange(CELLS) == cell).astype(jnp.float32)
