"""Breakout's rules: a paddle, a ball that flies diagonally, three rows of bricks. Difficulty never ramps.

The ball bounces off side walls and ceiling; a brick it meets is broken (+1) and sends it back, unless the ball broke
one in the step before. The paddle (row 9) sends it back up; a ball that gets past it ends the episode. New bricks
appear when the ball reaches the bottom and none are left.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.minatar.engine import GameRules, layer, rows_and_columns

LEFT, RIGHT = 1, 2
WALL = (1 << 30) - 1  # the 30 bricks of rows 1 to 3: bit 10·(row − 1) + column


class State(NamedTuple):
    ball_x: jax.Array  # int32, as all positions
    ball_y: jax.Array
    last_x: jax.Array  # where the ball came from: the trail
    last_y: jax.Array
    rightward: jax.Array  # bool: the ball flies to the right
    downward: jax.Array  # bool: the ball flies down
    paddle_x: jax.Array
    struck: jax.Array  # bool: the ball broke a brick, and has been among bricks ever since
    bricks: jax.Array  # int32 bits, as WALL


def start(words: jax.Array) -> State:
    rightward = words[0] >> 31 == 0
    ball_x, ball_y = jnp.where(rightward, 0, 9), jnp.int32(3)
    flags = {"rightward": rightward, "downward": jnp.bool_(True), "struck": jnp.bool_(False)}
    return State(ball_x, ball_y, ball_x, ball_y, paddle_x=jnp.int32(4), bricks=jnp.int32(WALL), **flags)


def brick_bit(row: jax.Array, column: jax.Array) -> jax.Array:
    """The bit of a cell's brick, 0 where no brick can be."""
    return jnp.where((row >= 1) & (row <= 3), 1 << jnp.clip(10 * (row - 1) + column, 0, 29), 0)


def play(state: State, action: jax.Array, draws: None, difficulty_ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    step = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    paddle_x = jnp.clip(state.paddle_x + step, 0, 9)

    x = state.ball_x + jnp.where(state.rightward, 1, -1)
    y = state.ball_y + jnp.where(state.downward, 1, -1)
    rightward = state.rightward ^ ((x < 0) | (x > 9))
    x = jnp.clip(x, 0, 9)

    # Exactly one of these happens, in this order of precedence; a brick and the floor are never on the same row.
    ceiling = y < 0
    brick = brick_bit(y, x)
    among_bricks = (state.bricks & brick) != 0
    broken = among_bricks & ~state.struck
    floor = y == 9
    bricks = jnp.where(broken, state.bricks & ~brick, state.bricks)
    bricks = jnp.where(floor & (bricks == 0), WALL, bricks)
    straight = floor & (state.ball_x == paddle_x)
    corner = floor & ~straight & (x == paddle_x)
    lost = floor & ~straight & ~corner

    bounced = broken | straight | corner
    after = State(
        ball_x=x,
        ball_y=jnp.where(bounced, state.ball_y, jnp.maximum(y, 0)),
        last_x=state.ball_x,
        last_y=state.ball_y,
        rightward=rightward ^ corner,
        downward=state.downward ^ (ceiling | bounced),
        paddle_x=paddle_x,
        struck=among_bricks,
        bricks=bricks,
    )
    return after, broken.astype(jnp.int32), lost


def paint(state: State) -> jax.Array:
    rows, columns = rows_and_columns()
    return (
        layer(0, (rows == 9) & (columns == state.paddle_x))
        | layer(1, (rows == state.ball_y) & (columns == state.ball_x))
        | layer(2, (rows == state.last_y) & (columns == state.last_x))
        | layer(3, (state.bricks & brick_bit(rows, columns)) != 0)
    )


RULES = GameRules(
    actions="nlr",
    channels=("paddle", "ball", "trail", "brick"),
    start_words=1,
    draw_words=0,
    start=start,
    draw=lambda words: None,
    play=play,
    paint=paint,
)
