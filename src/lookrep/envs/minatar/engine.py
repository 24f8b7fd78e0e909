"""What the five MinAtar games share: the environment around a game's rules, sticky actions, boards, random words.

A game's own file holds its rules as pure functions over one environment's state (`GameRules`). Everything is written
for few fused kernels: elementwise code on scalars and 10×10 boards, no loops, no scatter, no computed indices, and all
randomness of a step from one call.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.protocol import Timestep

SIZE = 10  # a board is SIZE × SIZE


class GameRules(NamedTuple):
    """A game as pure functions. `actions` is its minimal action set in the original's letters and order."""

    actions: str
    channels: tuple[str, ...]
    start_words: int  # random 32-bit words that `start` needs
    draw_words: int  # random 32-bit words that `draw` needs
    start: Callable[[jax.Array], Any]  # words -> state
    draw: Callable[[jax.Array], Any]  # words -> one step's random draws
    play: Callable[[Any, jax.Array, Any, bool], tuple[Any, jax.Array, jax.Array]]
    # (state, action, draws, difficulty_ramping) -> (state, reward, terminated)
    paint: Callable[[Any], jax.Array]  # state -> int32[SIZE, SIZE] with bit c set where channel c is on


class State(NamedTuple):
    """An episode: the action last executed (sticky actions repeat it) and the game."""

    last_action: jax.Array  # int32; the no-op at an episode's start
    game: Any


class Draws(NamedTuple):
    """The random draws of one step, sticky action first."""

    sticky: jax.Array  # bool: repeat the last action instead of taking the new one
    game: Any


class MinAtar:
    """One of the games behind the environment protocol. Stepping on after the end is undefined: reset."""

    observation_shape: tuple[int, ...]
    observation_dtype: Any
    num_actions: int
    can_truncate: bool

    def __init__(self, rules: GameRules, sticky_action_prob: float, difficulty_ramping: bool) -> None:
        self.rules = rules
        self.sticky_action_prob = sticky_action_prob
        self.difficulty_ramping = difficulty_ramping
        self.observation_shape = (SIZE, SIZE, len(rules.channels))
        self.observation_dtype = bool
        self.num_actions = len(rules.actions)
        self.can_truncate = False  # no time limit but Freeway's own, which is a terminal state of that game

    def init(self, key: jax.Array) -> tuple[State, jax.Array]:
        """Start an episode."""
        state = State(jnp.int32(0), self.rules.start(random_words(key, self.rules.start_words)))
        return state, self.observe(state)

    def step(self, key: jax.Array, state: State, action: jax.Array) -> tuple[State, Timestep]:
        """Take one action (an index into the minimal action set)."""
        return self.transition(state, action, self.draw(key))

    def draw(self, key: jax.Array) -> Draws:
        """All randomness of one step."""
        words = random_words(key, 1 + self.rules.draw_words)
        return Draws(chance(words[0], self.sticky_action_prob), self.rules.draw(words[1:]))

    def transition(self, state: State, action: jax.Array, draws: Draws) -> tuple[State, Timestep]:
        """The deterministic part of a step."""
        taken = jnp.where(draws.sticky, state.last_action, jnp.asarray(action, jnp.int32))
        game, reward, terminated = self.rules.play(state.game, taken, draws.game, self.difficulty_ramping)
        after = State(taken, game)
        never = jnp.zeros_like(terminated)
        return after, Timestep(self.observe(after), reward.astype(jnp.float32), terminated, never)

    def observe(self, state: State) -> jax.Array:
        """The board as the agent sees it: bool[SIZE, SIZE, channels]."""
        # Bits instead of a stack of channels: a shift and a test fuse, a concatenation of ten boards does not.
        channel = jnp.arange(len(self.rules.channels), dtype=jnp.int32)
        return ((self.rules.paint(state.game)[..., None] >> channel) & 1) != 0


def random_words(key: jax.Array, count: int) -> jax.Array:
    """`count` random 32-bit words; the empty array, and no kernel, for none."""
    return jax.random.bits(key, (count,), jnp.uint32) if count else jnp.zeros((0,), jnp.uint32)


def chance(words: jax.Array, probability: float) -> jax.Array:
    """True with `probability`, to 24 bits (the word's low 8 bits stay free for other use)."""
    return (words >> 8) < jnp.uint32(round(probability * 2**24))


def pick(words: jax.Array, count: int | jax.Array) -> jax.Array:
    """A number from 0 to count − 1 (count up to 256), uniform to 24 bits; the low 8 bits stay free as in `chance`."""
    return (((words >> 8) * jnp.asarray(count, jnp.uint32)) >> 24).astype(jnp.int32)


def rows_and_columns() -> tuple[jax.Array, jax.Array]:
    """Row index [SIZE, 1] and column index [1, SIZE] of a board's cells."""
    index = jnp.arange(SIZE, dtype=jnp.int32)
    return index[:, None], index[None, :]


def layer(channel: int, on: jax.Array) -> jax.Array:
    """The bit of `channel` where `on`."""
    return on.astype(jnp.int32) << channel
