"""Asterix's rules: enemies and gold cross the board, one to each of the rows 1 to 8; touch gold (+1), dodge enemies.

Every `spawn interval` something appears at the left or right edge of a free row, and every `move interval` all of them
move one cell. Both intervals shrink as the episode goes on. Rows live in the nibbles of 32-bit words: row y in nibble
y − 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.minatar import nibbles
from lookrep.envs.minatar.engine import GameRules, chance, layer, pick, rows_and_columns

LEFT, UP, RIGHT, DOWN = 1, 2, 3, 4
RAMP_INTERVAL = 100
LAST_RAMP = 9  # spawn interval 10 → 1; the move interval, 5 → 1 at every second ramp, is there by then


class State(NamedTuple):
    player_x: jax.Array  # int32, as all scalars here
    player_y: jax.Array
    columns: jax.Array  # uint32: per row, column + 1 of what is there; 0 for nothing
    rightward: jax.Array  # uint32 flags
    gold: jax.Array  # uint32 flags; an enemy where not
    spawn_timer: jax.Array
    move_timer: jax.Array
    ramp_timer: jax.Array
    ramp_index: jax.Array  # how often it became harder; sets both intervals


class Draws(NamedTuple):
    rightward: jax.Array  # bool
    gold: jax.Array  # bool
    row: jax.Array  # uint32 word that picks one of the free rows


def spawn_interval(ramp_index: jax.Array) -> jax.Array:
    return jnp.maximum(10 - ramp_index, 1)


def move_interval(ramp_index: jax.Array) -> jax.Array:
    return jnp.maximum(5 - ramp_index // 2, 1)


def start(words: jax.Array) -> State:
    empty, zero = nibbles.word(0), jnp.int32(0)
    timers = {"spawn_timer": spawn_interval(zero), "move_timer": move_interval(zero)}
    timers |= {"ramp_timer": jnp.int32(RAMP_INTERVAL), "ramp_index": zero}
    return State(jnp.int32(5), jnp.int32(5), empty, empty, empty, **timers)


def draw(words: jax.Array) -> Draws:
    return Draws(rightward=(words[0] & 1) != 0, gold=chance(words[0], 1 / 3), row=words[1])


def spawn(state: State, draws: Draws) -> State:
    """Put a newcomer at the edge of one of the free rows, if there is one and its time has come."""
    due = state.spawn_timer == 0
    free = nibbles.nonzero(state.columns) ^ nibbles.ONES
    chosen = pick(draws.row, jax.lax.population_count(free))
    place = jnp.where(due, nibbles.nth(free, chosen), nibbles.word(0))
    return state._replace(
        columns=state.columns | (place * jnp.where(draws.rightward, nibbles.word(1), nibbles.word(10))),
        rightward=state.rightward | jnp.where(draws.rightward, place, nibbles.word(0)),
        gold=state.gold | jnp.where(draws.gold, place, nibbles.word(0)),
        spawn_timer=jnp.where(due, spawn_interval(state.ramp_index), state.spawn_timer),
    )


def touch(state: State) -> tuple[State, jax.Array, jax.Array]:
    """The player meets what is in its cell: (state without gold it took, whether it took gold, whether it died)."""
    row = state.player_y - 1
    met = nibbles.get(state.columns, row) == state.player_x + 1
    is_gold = nibbles.get(state.gold, row) != 0
    taken = met & is_gold
    emptied = jnp.where(taken, nibbles.word(15) << nibbles.word(4 * row), nibbles.word(0))
    return state._replace(columns=state.columns & ~emptied), taken, met & ~is_gold


def march(state: State) -> State:
    """Everything moves one cell; who leaves the board is gone."""
    present = nibbles.nonzero(state.columns)
    columns = state.columns + (present & state.rightward) - (present & ~state.rightward)
    # Past the left edge the nibble is 0, which already reads "nothing"; past the right edge it is 11.
    return state._replace(columns=columns & ~nibbles.fill(nibbles.equal(columns, 11)))


def play(state: State, action: jax.Array, draws: Draws, difficulty_ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    state = spawn(state, draws)
    right = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    down = (action == DOWN).astype(jnp.int32) - (action == UP).astype(jnp.int32)
    state = state._replace(
        player_x=jnp.clip(state.player_x + right, 0, 9), player_y=jnp.clip(state.player_y + down, 1, 8)
    )
    state, taken_before, died_before = touch(state)

    moves = state.move_timer == 0
    moved, taken_after, died_after = touch(march(state))
    columns = jnp.where(moves, moved.columns, state.columns)
    present = nibbles.nonzero(columns)
    reward = taken_before.astype(jnp.int32) + (moves & taken_after).astype(jnp.int32)
    died = died_before | (moves & died_after)

    ramps = (state.ramp_index < LAST_RAMP) & difficulty_ramping
    harder = ramps & (state.ramp_timer < 0)
    after = state._replace(
        columns=columns,
        rightward=state.rightward & present,
        gold=state.gold & present,
        spawn_timer=state.spawn_timer - 1,
        move_timer=jnp.where(moves, move_interval(state.ramp_index), state.move_timer) - 1,
        ramp_timer=jnp.where(harder, RAMP_INTERVAL, state.ramp_timer - ramps.astype(jnp.int32)),
        ramp_index=state.ramp_index + harder.astype(jnp.int32),
    )
    return after, reward, died


def paint(state: State) -> jax.Array:
    rows, columns = rows_and_columns()
    in_play = (rows >= 1) & (rows <= 8)
    nibble = jnp.clip(rows - 1, 0, 7)
    place = jnp.where(in_play, nibbles.get(state.columns, nibble), 0)
    behind = jnp.where(nibbles.get(state.rightward, nibble) != 0, place - 1, place + 1)
    here = columns + 1 == place
    gold = nibbles.get(state.gold, nibble) != 0
    return (
        layer(0, (rows == state.player_y) & (columns == state.player_x))
        | layer(1, here & ~gold)
        | layer(2, (columns + 1 == behind) & (place > 0))
        | layer(3, here & gold)
    )


RULES = GameRules(
    actions="nlurd",
    channels=("player", "enemy", "trail", "gold"),
    start_words=0,
    draw_words=2,
    start=start,
    draw=draw,
    play=play,
    paint=paint,
)
