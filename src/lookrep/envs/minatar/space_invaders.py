"""Space Invaders' rules: a cannon shoots (+1) at aliens that march sideways, come down and shoot back.

The 24 aliens of a wave only ever move together, so the formation is a place and 24 bits. The fewer are left, the
faster they march. A cleared wave is followed by a quicker one. The episode ends when a bullet or an alien meets the
cannon, or when the formation would march off the bottom.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.minatar.engine import SIZE, GameRules, layer, rows_and_columns

LEFT, RIGHT, FIRE = 1, 2, 3
SHOT_COOL_DOWN = 5
ALIEN_SHOT_INTERVAL = 10
LAST_RAMP = 6  # the march interval goes from 12 to 6
WAVE_ROWS, WAVE_COLUMNS = 4, 6
WAVE = (1 << (WAVE_ROWS * WAVE_COLUMNS)) - 1  # bit 6·row + column within the formation


class Aliens(NamedTuple):
    """The formation: the board cell of its upper left corner (also where that alien is dead) and who is alive."""

    top: jax.Array
    left: jax.Array
    alive: jax.Array  # int32 bits, as WAVE


class Shot(NamedTuple):
    """A bullet; row −1 (the player's) or SIZE (the aliens') for none."""

    x: jax.Array
    y: jax.Array


class State(NamedTuple):
    cannon_x: jax.Array  # int32, as all scalars here
    shot_timer: jax.Array
    shots: tuple[Shot, Shot]  # newest first. Two suffice: one every 5 steps, each gone 9 steps after it was fired
    alien_shot: Shot  # one suffices: one every 10 steps, each gone when the next one is fired
    aliens: Aliens
    march: jax.Array  # −1 to the left, +1 to the right
    march_timer: jax.Array
    alien_shot_timer: jax.Array
    ramp_index: jax.Array  # waves that made the march quicker


def march_interval(ramp_index: jax.Array) -> jax.Array:
    return 12 - ramp_index


def start(words: jax.Array) -> State:
    zero = jnp.int32(0)
    no_shot = Shot(zero, jnp.int32(-1))
    return State(
        cannon_x=jnp.int32(5),
        shot_timer=zero,
        shots=(no_shot, no_shot),
        alien_shot=Shot(zero, jnp.int32(SIZE)),
        aliens=Aliens(zero, jnp.int32(2), jnp.int32(WAVE)),
        march=jnp.int32(-1),
        march_timer=march_interval(zero),
        alien_shot_timer=jnp.int32(ALIEN_SHOT_INTERVAL),
        ramp_index=zero,
    )


def alien_bit(aliens: Aliens, y: jax.Array, x: jax.Array) -> jax.Array:
    """The formation's bit at board cell (y, x); 0 outside of it. Rows wrap, as they do in a lost game's last step."""
    row = jnp.where(y >= aliens.top, y - aliens.top, y - aliens.top + SIZE)
    column = x - aliens.left
    inside = (row < WAVE_ROWS) & (column >= 0) & (column < WAVE_COLUMNS)
    return jnp.where(inside, 1 << jnp.where(inside, WAVE_COLUMNS * row + column, 0), 0)


def alien_at(aliens: Aliens, y: jax.Array | int, x: jax.Array | int) -> jax.Array:
    return (aliens.alive & alien_bit(aliens, jnp.int32(y), jnp.asarray(x, jnp.int32))) != 0


def columns_alive(aliens: Aliens) -> jax.Array:
    """Bits of the formation's columns in which somebody is alive."""
    rows = [aliens.alive >> (WAVE_COLUMNS * row) for row in range(WAVE_ROWS)]
    return (rows[0] | rows[1] | rows[2] | rows[3]) & ((1 << WAVE_COLUMNS) - 1)


def column_alive(aliens: Aliens, x: int) -> jax.Array:
    """Whether anybody is alive in the board's column x."""
    column = x - aliens.left
    inside = (column >= 0) & (column < WAVE_COLUMNS)
    return inside & (((columns_alive(aliens) >> jnp.where(inside, column, 0)) & 1) != 0)


def march_on(aliens: Aliens, march: jax.Array) -> tuple[Aliens, jax.Array, jax.Array]:
    """One move of the formation: (aliens, march direction, whether they marched off the bottom)."""
    at_edge = jnp.where(march < 0, column_alive(aliens, 0), column_alive(aliens, SIZE - 1))
    row = SIZE - 1 - aliens.top  # the formation's row at the bottom of the board
    at_bottom = (row < WAVE_ROWS) & ((aliens.alive >> (WAVE_COLUMNS * jnp.minimum(row, WAVE_ROWS - 1)) & 63) != 0)
    below = jnp.where(aliens.top == SIZE - 1, 0, aliens.top + 1)
    moved = Aliens(
        top=jnp.where(at_edge, below, aliens.top),
        left=jnp.where(at_edge, aliens.left, aliens.left + march),
        alive=aliens.alive,
    )
    return moved, jnp.where(at_edge, -march, march), at_edge & at_bottom


def nearest_alien(aliens: Aliens, x: jax.Array) -> Shot:
    """Where the lowest alien of the column nearest to x is (the left one of two equally near columns)."""
    alive = columns_alive(aliens)
    nearest = jnp.int32(2 * 2 * SIZE)
    for column in range(WAVE_COLUMNS):
        distance = aliens.left + column - x
        rank = 2 * jnp.abs(distance) + (distance > 0)
        nearest = jnp.where((alive >> column) & 1 != 0, jnp.minimum(nearest, rank), nearest)
    shooter_x = x + jnp.where(nearest & 1 != 0, nearest >> 1, -(nearest >> 1))
    lowest = jnp.int32(0)
    for row in range(WAVE_ROWS):
        y = aliens.top + row
        y = jnp.where(y >= SIZE, y - SIZE, y)
        lowest = jnp.where(alien_at(aliens, y, shooter_x), jnp.maximum(lowest, y), lowest)
    return Shot(shooter_x, lowest)


def play(state: State, action: jax.Array, draws: None, difficulty_ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    fires = (action == FIRE) & (state.shot_timer == 0)
    step = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    cannon_x = jnp.clip(state.cannon_x + step, 0, 9)
    shot_timer = jnp.where(fires, SHOT_COOL_DOWN, state.shot_timer)
    newest, oldest = state.shots
    oldest = Shot(jnp.where(fires, newest.x, oldest.x), jnp.where(fires, newest.y, oldest.y))
    newest = Shot(jnp.where(fires, cannon_x, newest.x), jnp.where(fires, SIZE - 1, newest.y))
    shots = [Shot(shot.x, jnp.maximum(shot.y - 1, -1)) for shot in (newest, oldest)]

    alien_shot = Shot(state.alien_shot.x, jnp.minimum(state.alien_shot.y + 1, SIZE))
    lost = (alien_shot.y == SIZE - 1) & (alien_shot.x == cannon_x)

    marches = state.march_timer == 0
    lost |= alien_at(state.aliens, SIZE - 1, cannon_x)
    moved, turned, landed = march_on(state.aliens, state.march)
    aliens = Aliens(*(jnp.where(marches, new, old) for new, old in zip(moved, state.aliens, strict=True)))
    march = jnp.where(marches, turned, state.march)
    lost |= (marches & landed) | alien_at(aliens, SIZE - 1, cannon_x)
    quickest = jnp.minimum(jax.lax.population_count(aliens.alive), march_interval(state.ramp_index))
    march_timer = jnp.where(marches, quickest, state.march_timer) - 1

    shoots = state.alien_shot_timer == 0
    shooter = nearest_alien(aliens, cannon_x)
    alien_shot = Shot(*(jnp.where(shoots, new, old) for new, old in zip(shooter, alien_shot, strict=True)))

    alive, reward = aliens.alive, jnp.int32(0)
    for index, shot in enumerate(shots):  # never two in one cell: each row is one shot's
        target = jnp.where(shot.y >= 0, alien_bit(aliens, shot.y, shot.x), 0)
        hit = (alive & target) != 0
        alive = alive & ~target
        reward = reward + hit.astype(jnp.int32)
        shots[index] = Shot(shot.x, jnp.where(hit, -1, shot.y))

    cleared = alive == 0
    ramps = cleared & (state.ramp_index < LAST_RAMP) & difficulty_ramping
    after = State(
        cannon_x=cannon_x,
        shot_timer=jnp.maximum(shot_timer - 1, 0),
        shots=(shots[0], shots[1]),
        alien_shot=alien_shot,
        aliens=Aliens(
            top=jnp.where(cleared, 0, aliens.top),
            left=jnp.where(cleared, 2, aliens.left),
            alive=jnp.where(cleared, WAVE, alive),
        ),
        march=march,
        march_timer=march_timer,
        alien_shot_timer=jnp.where(shoots, ALIEN_SHOT_INTERVAL, state.alien_shot_timer) - 1,
        ramp_index=state.ramp_index + ramps.astype(jnp.int32),
    )
    return after, reward, lost


def paint(state: State) -> jax.Array:
    rows, columns = rows_and_columns()
    alien = (state.aliens.alive & alien_bit(state.aliens, rows, columns)) != 0
    newest, oldest = ((rows == shot.y) & (columns == shot.x) for shot in state.shots)
    return (
        layer(0, (rows == SIZE - 1) & (columns == state.cannon_x))
        | layer(1, alien)
        | layer(2, alien & (state.march < 0))
        | layer(3, alien & (state.march > 0))
        | layer(4, newest | oldest)
        | layer(5, (rows == state.alien_shot.y) & (columns == state.alien_shot.x))
    )


RULES = GameRules(
    actions="nlrf",
    channels=("cannon", "alien", "alien_left", "alien_right", "friendly_bullet", "enemy_bullet"),
    start_words=0,
    draw_words=0,
    start=start,
    draw=lambda words: None,
    play=play,
    paint=paint,
)
