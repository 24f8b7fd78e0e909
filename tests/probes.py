"""Probe environments with known values, and environments that lie: what the tests train on, by `--env probes:Name`.

`Museum` is a house of small rooms. Every episode starts at the door of one of them, at random, and what is seen is the
place one stands at, one-hot. One run through it shows everything a value-based agent must get right; what the values
must be is worked out in `tests/training/test_learning.py`.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs import Timestep

# Places. Where an arrow is drawn both actions go that way.
PAYS_ONE = 0  # → end, reward 1
TWO_STEPS, PAYS_TWO = 1, 2  # → (reward 0) → end, reward 2
CHOICE = 3  # action 0 → end, reward −1; action 1 → end, reward 1
BEFORE_CHOICE = 4  # → CHOICE, reward 0
CHAIN = (5, 6, 7, 8)  # four steps to the end, reward 1 with the last
LOTTERY = 9  # → end, reward 3 with probability ¼, otherwise −1
BEFORE_LOTTERY = 10  # → LOTTERY, reward 0
TREADMILL = 11  # → TREADMILL, reward 1, for ever; cut after two steps
PLACES = 12
END = TREADMILL  # the observation after a terminal step: whoever bootstraps from it is seen to be wrong

DOORS = (PAYS_ONE, TWO_STEPS, CHOICE, BEFORE_CHOICE, CHAIN[0], LOTTERY, BEFORE_LOTTERY, BEFORE_LOTTERY, TREADMILL)
NEXT = {TWO_STEPS: PAYS_TWO, BEFORE_CHOICE: CHOICE, BEFORE_LOTTERY: LOTTERY, TREADMILL: TREADMILL}
NEXT |= dict(itertools.pairwise(CHAIN))
REWARD = {PAYS_ONE: 1.0, PAYS_TWO: 2.0, CHAIN[-1]: 1.0, TREADMILL: 1.0}
EPISODE_LIMIT_STEPS = 2  # on the treadmill


class MuseumState(NamedTuple):
    place: jax.Array
    steps: jax.Array


class Museum:
    """All rooms, the treadmill with its truncation included."""

    observation_shape: tuple[int, ...] = (PLACES,)
    observation_dtype: Any = bool
    num_actions = 2
    can_truncate = True
    doors = DOORS

    def init(self, key: jax.Array) -> tuple[MuseumState, jax.Array]:
        door = jax.random.bits(key) % len(self.doors)
        state = MuseumState(jnp.array(self.doors, jnp.int32)[door], jnp.int32(0))
        return state, self.observe(state.place)

    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[MuseumState, Timestep]:
        following = jnp.array([NEXT.get(place, -1) for place in range(PLACES)], jnp.int32)[state.place]
        reward = jnp.array([REWARD.get(place, 0.0) for place in range(PLACES)], jnp.float32)[state.place]
        reward = jnp.where(state.place == CHOICE, jnp.where(action == 1, 1.0, -1.0), reward)
        prize = jnp.where(jax.random.bits(key) < 2**30, 3.0, -1.0)
        reward = jnp.where(state.place == LOTTERY, prize, reward)
        terminated = following < 0
        steps = state.steps + 1
        truncated = (state.place == TREADMILL) & (steps >= EPISODE_LIMIT_STEPS)
        place = jnp.where(terminated, END, following)
        return MuseumState(place, steps), Timestep(self.observe(place), reward, terminated, truncated)

    def observe(self, place: jax.Array) -> jax.Array:
        return jnp.arange(PLACES) == place


class ClosedMuseum(Museum):
    """Without the treadmill: nothing is ever truncated, so the replay stores no final observations."""

    can_truncate = False
    doors = tuple(door for door in DOORS if door != TREADMILL)


class RareNaN(Museum):
    """Now and then a reward is not a number: whoever learns from it turns NaN."""

    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[MuseumState, Timestep]:
        after, seen = super().step(key, state, action)
        unlucky = jax.random.bits(key) % 1024 == 0
        return after, seen._replace(reward=jnp.where(unlucky, jnp.nan, seen.reward))


class Endless:
    """One place, one action, reward 1, no end: all transitions are the same, whichever are sampled."""

    observation_shape: tuple[int, ...] = (2,)
    observation_dtype: Any = jnp.float32
    num_actions = 1
    can_truncate = False

    def init(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        del key
        return jnp.int32(0), jnp.array([1.0, -0.5])

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> tuple[jax.Array, Timestep]:
        del key, action
        return state, Timestep(jnp.array([1.0, -0.5]), jnp.float32(1.0), jnp.array(False), jnp.array(False))


class Picture:
    """One bandit step with a 5×5 picture of floats, so that networks of every kind fit."""

    observation_shape: tuple[int, ...] = (5, 5, 2)
    observation_dtype: Any = jnp.float32
    num_actions = 3
    can_truncate = False

    def init(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        picture = jax.random.uniform(key, self.observation_shape)
        return picture, picture

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> tuple[jax.Array, Timestep]:
        del key
        return state, Timestep(state, state.mean() * (action + 1.0), jnp.array(True), jnp.array(False))


# Environments that break the protocol, each in one way


class WrongObservation(Museum):
    observation_shape = (PLACES + 1,)


class WrongStepObservation(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[MuseumState, Timestep]:
        after, seen = super().step(key, state, action)
        return after, seen._replace(observation=seen.observation.astype(jnp.float32))


class WrongReward(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[MuseumState, Timestep]:
        after, seen = super().step(key, state, action)
        return after, seen._replace(reward=jnp.int32(1))


class ChangingState(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[Any, Timestep]:
        after, seen = super().step(key, state, action)
        return (after.place, after.steps.astype(jnp.float32)), seen


class NotATimestep(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> Any:
        after, seen = super().step(key, state, action)
        return after, tuple(seen)


class Raises(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> Any:
        raise RuntimeError("the floor\nis missing")


class BranchesOnValues(Museum):
    def step(self, key: jax.Array, state: MuseumState, action: jax.Array) -> tuple[MuseumState, Timestep]:
        return super().step(key, state, action if state.place == 0 else 1 - action)


class TooManyActions(Museum):
    num_actions = 257


class NoActions:
    observation_shape = (1,)


class NeedsAnArgument(Museum):
    def __init__(self, size: int) -> None:
        self.size = size


not_callable = 5
