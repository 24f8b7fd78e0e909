"""Freeway's rules: a chicken crosses eight lanes of traffic (+1), and starts again from below when a car hits it.

The chicken can move every third step. Cars go round their lane, each one cell every `speed + 1` steps; all speeds and
directions are redrawn when the chicken arrives. The episode ends after 2500 steps, by the game's own rules.
Lanes live in the nibbles of 32-bit words: row y in nibble y − 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.minatar import nibbles
from lookrep.envs.minatar.engine import GameRules, layer, pick, rows_and_columns

UP, DOWN = 1, 2
LANES = 8
CHICKEN_X = 4
MOVE_INTERVAL = 3
TIME_LIMIT = 2500


class Traffic(NamedTuple):
    """Speeds (1 to 5 waiting steps between moves) and directions of the eight cars: what is drawn at random."""

    speeds: jax.Array  # uint32
    rightward: jax.Array  # uint32 flags


class State(NamedTuple):
    chicken_y: jax.Array  # int32, as all scalars here
    move_timer: jax.Array
    time_left: jax.Array
    columns: jax.Array  # uint32: per lane, the car's column + 1
    timers: jax.Array  # uint32: per lane, steps until the car moves
    traffic: Traffic


def draw(words: jax.Array) -> Traffic:
    speeds = (1 + pick(words, 5)).astype(jnp.uint32)
    rightward = words & 1
    return Traffic(pack(speeds), pack(rightward))


def pack(values: jax.Array) -> jax.Array:
    """Eight values into a word; unrolled, since a sum over an axis would end a kernel."""
    packed = values[0]
    for lane in range(1, LANES):
        packed = packed | (values[lane] << (4 * lane))
    return packed


def start(words: jax.Array) -> State:
    traffic = draw(words)
    timers = {"move_timer": jnp.int32(MOVE_INTERVAL), "time_left": jnp.int32(TIME_LIMIT)}
    at_left_edge = nibbles.word(nibbles.ONES)
    return State(jnp.int32(9), columns=at_left_edge, timers=traffic.speeds, traffic=traffic, **timers)


def drive(columns: jax.Array, moving: jax.Array, rightward: jax.Array) -> jax.Array:
    """Cars that are `moving` (flags) go one cell on, round the edge where the lane ends."""
    columns = columns + (moving & rightward) - (moving & ~rightward)
    past_left, past_right = nibbles.equal(columns, 0), nibbles.equal(columns, 11)
    return columns + (past_left - past_right) * nibbles.word(10)


def play(
    state: State, action: jax.Array, draws: Traffic, difficulty_ramping: bool
) -> tuple[State, jax.Array, jax.Array]:
    ready = state.move_timer == 0
    up, down = ready & (action == UP), ready & (action == DOWN)
    move_timer = jnp.where(up | down, MOVE_INTERVAL, state.move_timer)
    y = jnp.clip(state.chicken_y + down.astype(jnp.int32) - up.astype(jnp.int32), 0, 9)

    arrived = y == 0
    y = jnp.where(arrived, 9, y)
    speeds = jnp.where(arrived, draws.speeds, state.traffic.speeds)
    rightward = jnp.where(arrived, draws.rightward, state.traffic.rightward)
    timers = jnp.where(arrived, draws.speeds, state.timers)

    # Only the chicken's own lane matters, and once hit it is back in row 9, where no car drives.
    moving = nibbles.equal(timers, 0)
    columns = drive(state.columns, moving, rightward)
    lane = jnp.minimum(y, LANES) - 1
    before, after = nibbles.get(state.columns, lane), nibbles.get(columns, lane)
    hit = (y <= LANES) & ((before == CHICKEN_X + 1) | (after == CHICKEN_X + 1))

    time_left = state.time_left - 1
    state = State(
        chicken_y=jnp.where(hit, 9, y),
        move_timer=jnp.maximum(move_timer - 1, 0),
        time_left=time_left,
        columns=columns,
        timers=timers - (moving ^ nibbles.ONES) + (nibbles.fill(moving) & speeds),
        traffic=Traffic(speeds, rightward),
    )
    return state, arrived.astype(jnp.int32), time_left < 0


def paint(state: State) -> jax.Array:
    rows, columns = rows_and_columns()
    is_lane = (rows >= 1) & (rows <= LANES)
    lane = jnp.clip(rows - 1, 0, LANES - 1)
    place = nibbles.get(state.columns, lane) - 1
    behind = place + jnp.where(nibbles.get(state.traffic.rightward, lane) != 0, -1, 1)
    behind = jnp.where(behind < 0, 9, jnp.where(behind > 9, 0, behind))
    speed = nibbles.get(state.traffic.speeds, lane)
    chicken = (rows == state.chicken_y) & (columns == CHICKEN_X)
    trail = (is_lane & (columns == behind)).astype(jnp.int32) << (1 + speed)  # channels 2 to 6: speed 1 to 5
    return layer(0, chicken) | layer(1, is_lane & (columns == place)) | trail


RULES = GameRules(
    actions="nud",
    channels=("chicken", "car", "speed1", "speed2", "speed3", "speed4", "speed5"),
    start_words=LANES,
    draw_words=LANES,
    start=start,
    draw=draw,
    play=play,
    paint=paint,
)
