"""Seaquest's rules: a submarine shoots fish and enemy subs (+1), picks up divers and must surface for oxygen.

Enemies swim along the rows 1 to 8, all those of one row in one direction (a newcomer against the traffic is turned
away), one cell every `move interval + 1` steps; subs also shoot along their row. Surfacing takes a diver, fills the
oxygen and makes the game harder; with six divers aboard it gives a reward for the oxygen left. Surfacing with none
aboard, running out of oxygen or meeting an enemy or its bullet ends the episode. As in the original, surfacing with
six leaves −1 aboard, which is not "none".

The original keeps lists of unbounded length. These bounds make a board and a few slots equivalent to them:

- Enemies: no two in one cell have the same timer, so a cell is six nibbles, one for each timer 0 to 5. For the move
  interval changes only while enemies come 15 or more steps apart, hence two or more cells, and never lets one catch
  up; from then on all move every third step, and no two come in the same step. So in one cell the older one always
  has the lower timer, and at most one enemy enters a cell in a step.
- Friendly bullets: two, since one leaves the gun every 5 steps and the board within 10. A bullet is faster than the
  sub that fired it, so no two share a cell, and none is ever in the sub's.
- Divers: two, since one comes every 30 steps and crosses the board in 59.
- Enemy bullets: nothing but the board's edge removes them, so two in the same place and direction are as good as one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep.envs.minatar import nibbles
from lookrep.envs.minatar.engine import SIZE, GameRules, chance, layer, rows_and_columns

LEFT, UP, RIGHT, DOWN, FIRE = 1, 2, 3, 4, 5
MAX_OXYGEN = 200
MAX_DIVERS = 6
DIVER_SPAWN_INTERVAL = 30
DIVER_MOVE_INTERVAL = 5
SHOT_COOL_DOWN = 5
LAST_RAMP = 19  # spawn interval 20 → 1; the move interval, 5 → 2 at every second ramp, is there by then

# What a nibble of `State.enemies` says: 0 nobody, 1 a fish, 2 + t a sub that shoots when its timer t reaches 0.
FISH = 1
SUB_SHOOTS = 2
SUB_RELOADED = 12  # enemy subs shoot every 11 steps
RIGHTWARD_BULLET, LEFTWARD_BULLET = 1, 2


class Bullet(NamedTuple):
    """A friendly bullet; row −1 for none."""

    x: jax.Array
    y: jax.Array
    rightward: jax.Array


class Diver(NamedTuple):
    """A diver in the water; row 0 for none."""

    x: jax.Array
    y: jax.Array
    rightward: jax.Array
    timer: jax.Array


class State(NamedTuple):
    sub_x: jax.Array  # int32, as all scalars that are not flags
    sub_y: jax.Array
    sub_rightward: jax.Array  # bool
    surfaced: jax.Array  # bool: at the surface, and already treated as such
    oxygen: jax.Array
    divers_aboard: jax.Array
    shot_timer: jax.Array
    enemy_timer: jax.Array
    diver_timer: jax.Array
    ramp_index: jax.Array  # how often surfacing made the game harder; sets both intervals
    bullets: tuple[Bullet, Bullet]  # newest first
    divers: tuple[Diver, Diver]  # newest first
    enemies: jax.Array  # uint32[SIZE, SIZE]: nibble t of a cell is the enemy there that moves when t reaches 0
    enemy_bullets: jax.Array  # uint8[SIZE, SIZE] bits
    lanes_rightward: jax.Array  # bit y: the enemies of row y swim to the right
    lanes_busy: jax.Array  # bit y: there are enemies in row y (known from `enemies`; kept to save a reduction)


class Draws(NamedTuple):
    enemy_rightward: jax.Array  # bool
    enemy_is_sub: jax.Array  # bool
    enemy_row: jax.Array  # 1 to 8
    diver_rightward: jax.Array  # bool
    diver_row: jax.Array  # 1 to 8


def spawn_interval(ramp_index: jax.Array) -> jax.Array:
    return jnp.maximum(20 - ramp_index, 1)


def move_interval(ramp_index: jax.Array) -> jax.Array:
    return jnp.maximum(5 - ramp_index // 2, 2)


def start(words: jax.Array) -> State:
    zero, no = jnp.int32(0), jnp.bool_(False)
    no_bullet, no_diver = Bullet(zero, jnp.int32(-1), no), Diver(zero, zero, no, zero)
    return State(
        sub_x=jnp.int32(5),
        sub_y=zero,
        sub_rightward=no,
        surfaced=jnp.bool_(True),
        oxygen=jnp.int32(MAX_OXYGEN),
        divers_aboard=zero,
        shot_timer=zero,
        enemy_timer=spawn_interval(zero),
        diver_timer=jnp.int32(DIVER_SPAWN_INTERVAL),
        ramp_index=zero,
        bullets=(no_bullet, no_bullet),
        divers=(no_diver, no_diver),
        enemies=jnp.zeros((SIZE, SIZE), jnp.uint32),
        enemy_bullets=jnp.zeros((SIZE, SIZE), jnp.uint8),
        lanes_rightward=zero,
        lanes_busy=zero,
    )


def draw(words: jax.Array) -> Draws:
    def row(word: jax.Array) -> jax.Array:
        return 1 + ((word >> 1) & 7).astype(jnp.int32)

    def rightward(word: jax.Array) -> jax.Array:
        return (word & 1) != 0

    enemy, diver = words[0], words[1]
    return Draws(rightward(enemy), chance(enemy, 1 / 3), row(enemy), rightward(diver), row(diver))


def choose(condition: jax.Array, new: tuple, old: tuple) -> tuple:
    """`new` where the condition holds, else `old`, field by field."""
    return type(new)(*(jnp.where(condition, a, b) for a, b in zip(new, old, strict=True)))


def shift(board: jax.Array, columns: int) -> jax.Array:
    """The board moved by `columns` to the right; what leaves it is gone."""
    return jax.lax.pad(board, jnp.zeros((), board.dtype), [(0, 0, 0), (columns, -columns, 0)])


def swim(board: jax.Array, lane_rightward: jax.Array) -> jax.Array:
    """Every row of the board moved one cell in its lane's direction."""
    return jnp.where(lane_rightward, shift(board, 1), shift(board, -1))


def on_board(x: jax.Array) -> jax.Array:
    return (x >= 0) & (x < SIZE)


def update_diver(diver: Diver, state: State, aboard: jax.Array) -> tuple[Diver, jax.Array]:
    """A diver is picked up, or swims on (and may then be picked up): (diver, divers aboard)."""
    room = aboard < MAX_DIVERS
    in_row = (diver.y > 0) & (diver.y == state.sub_y) & room
    moves = diver.timer == 0
    x = jnp.where(moves, diver.x + jnp.where(diver.rightward, 1, -1), diver.x)
    met = in_row & ((diver.x == state.sub_x) | (x == state.sub_x))
    stays = (diver.y > 0) & ~met & on_board(x)
    nobody = Diver(*map(jnp.zeros_like, diver))
    swum = diver._replace(x=x, timer=jnp.where(moves, DIVER_MOVE_INTERVAL, diver.timer - 1))
    return Diver(*choose(stays, swum, nobody)), aboard + met.astype(jnp.int32)


def act(state: State, action: jax.Array) -> State:
    """The player moves or fires."""
    fires = (action == FIRE) & (state.shot_timer == 0)
    right = (action == RIGHT).astype(jnp.int32) - (action == LEFT).astype(jnp.int32)
    down = (action == DOWN).astype(jnp.int32) - (action == UP).astype(jnp.int32)
    fired = Bullet(state.sub_x, state.sub_y, state.sub_rightward)
    newest, oldest = state.bullets
    return state._replace(
        sub_x=jnp.clip(state.sub_x + right, 0, SIZE - 1),
        sub_y=jnp.clip(state.sub_y + down, 0, SIZE - 2),
        sub_rightward=jnp.where(right == 0, state.sub_rightward, right > 0),
        shot_timer=jnp.where(fires, SHOT_COOL_DOWN, state.shot_timer),
        bullets=(Bullet(*choose(fires, fired, newest)), Bullet(*choose(fires, newest, oldest))),
    )


def spawn(state: State, draws: Draws) -> State:
    """New enemies and divers appear at an edge when their time has come."""
    rows, columns = rows_and_columns()
    due = state.enemy_timer == 0
    lane = 1 << draws.enemy_row
    busy = (state.lanes_busy & lane) != 0
    same_direction = ((state.lanes_rightward & lane) != 0) == draws.enemy_rightward
    appears = due & (~busy | same_direction)
    edge = jnp.where(draws.enemy_rightward, 0, SIZE - 1)
    kind = nibbles.word(jnp.where(draws.enemy_is_sub, SUB_RELOADED, FISH))
    newcomer = kind << nibbles.word(4 * move_interval(state.ramp_index))
    place = appears & (rows == draws.enemy_row) & (columns == edge)
    turned = jnp.where(draws.enemy_rightward, state.lanes_rightward | lane, state.lanes_rightward & ~lane)

    diver_due = state.diver_timer == 0
    diver_edge = jnp.where(draws.diver_rightward, 0, SIZE - 1)
    diver = Diver(diver_edge, draws.diver_row, draws.diver_rightward, jnp.int32(DIVER_MOVE_INTERVAL))
    newest, oldest = state.divers
    return state._replace(
        enemies=jnp.where(place, state.enemies | newcomer, state.enemies),
        lanes_rightward=jnp.where(appears, turned, state.lanes_rightward),
        enemy_timer=jnp.where(due, spawn_interval(state.ramp_index), state.enemy_timer),
        divers=(Diver(*choose(diver_due, diver, newest)), Diver(*choose(diver_due, newest, oldest))),
        diver_timer=jnp.where(diver_due, DIVER_SPAWN_INTERVAL, state.diver_timer),
    )


def fight(state: State) -> tuple[State, jax.Array, jax.Array]:
    """Bullets, enemies and their bullets move and meet: (state, enemies shot, whether the player was hit)."""
    rows, columns = rows_and_columns()
    lane_rightward = ((state.lanes_rightward >> rows) & 1) != 0
    player = (rows == state.sub_y) & (columns == state.sub_x)
    bullets = [b._replace(x=b.x + jnp.where(b.rightward, 1, -1)) for b in state.bullets]
    newest, oldest = ((rows == b.y) & (columns == b.x) for b in bullets)
    bullet = newest | oldest

    # A bullet takes one enemy of the cell it flies into: the oldest fish, or else the oldest sub.
    enemies = state.enemies
    fish = nibbles.equal(enemies, FISH)
    victim = nibbles.lowest(jnp.where(fish != 0, fish, nibbles.nonzero(enemies)))
    spent = bullet & (enemies != 0)
    enemies = jnp.where(bullet, enemies & ~nibbles.fill(victim), enemies)

    # Enemies whose timer is up swim one cell, perhaps into a bullet that is still there. Subs that are due shoot from
    # the cell they are in by then, also those that just swam into a bullet.
    subs = ((enemies >> 1) | (enemies >> 2) | (enemies >> 3)) & nibbles.ONES
    shooting = nibbles.equal(enemies, SUB_SHOOTS)
    enemies = enemies - subs + shooting * nibbles.word(SUB_RELOADED - SUB_SHOOTS + 1)
    arrived = swim(enemies & nibbles.word(15), lane_rightward)
    after = (enemies >> 4) | (arrived << nibbles.word(4 * move_interval(state.ramp_index)))
    spent_on_arrival = bullet & ~spent & (arrived != 0)
    shot = nibbles.equal(after, SUB_RELOADED) != 0
    fresh = jnp.where(lane_rightward, jnp.uint8(RIGHTWARD_BULLET), jnp.uint8(LEFTWARD_BULLET))
    enemy_bullets = state.enemy_bullets | jnp.where(shot, fresh, jnp.uint8(0))
    flown = shift(enemy_bullets & RIGHTWARD_BULLET, 1) | shift(enemy_bullets & LEFTWARD_BULLET, -1)
    hit = player & ((enemies != 0) | (arrived != 0) | (enemy_bullets != 0) | (flown != 0))
    after = jnp.where(spent_on_arrival, nibbles.word(0), after)

    # One reduction for all that scalars need to know of the board: bits 0 to 9 the busy rows, then three flags.
    spent = spent | spent_on_arrival
    lane = jnp.where(after != 0, 1 << rows, 0)
    report = lane | layer(10, hit) | layer(11, spent & newest) | layer(12, spent & oldest)
    report = jax.lax.reduce(report, jnp.int32(0), jax.lax.bitwise_or, (0, 1))
    lanes_busy = report & ((1 << SIZE) - 1)
    hits = [(report & (1 << (11 + index))) != 0 for index in range(2)]
    bullets = [b._replace(y=jnp.where(h | ~on_board(b.x), -1, b.y)) for b, h in zip(bullets, hits, strict=True)]
    state = state._replace(
        bullets=(bullets[0], bullets[1]),
        enemies=after,
        enemy_bullets=flown,
        lanes_busy=lanes_busy,
        lanes_rightward=state.lanes_rightward & lanes_busy,
    )
    return state, hits[0].astype(jnp.int32) + hits[1].astype(jnp.int32), (report & (1 << 10)) != 0


def breathe(state: State, difficulty_ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    """Oxygen and surfacing: (state, reward, whether the episode ends)."""
    submerged = state.sub_y > 0
    surfacing = ~submerged & ~state.surfaced
    full = state.divers_aboard == MAX_DIVERS
    refilled = surfacing & (state.divers_aboard != 0)
    ended = (state.oxygen <= 0) | (surfacing & (state.divers_aboard == 0))
    reward = jnp.where(refilled & full, state.oxygen * 10 // MAX_OXYGEN, 0)
    harder = refilled & (state.ramp_index < LAST_RAMP) & difficulty_ramping
    oxygen_left = jnp.where(submerged, state.oxygen - 1, state.oxygen)
    left_aboard = jnp.where(full, 0, state.divers_aboard) - 1
    after = state._replace(
        surfaced=~submerged & (state.surfaced | refilled),
        oxygen=jnp.where(refilled, MAX_OXYGEN, oxygen_left),
        divers_aboard=jnp.where(refilled, left_aboard, state.divers_aboard),
        ramp_index=state.ramp_index + harder.astype(jnp.int32),
    )
    return after, reward, ended


def play(state: State, action: jax.Array, draws: Draws, difficulty_ramping: bool) -> tuple[State, jax.Array, jax.Array]:
    state = act(spawn(state, draws), action)
    newest, aboard = update_diver(state.divers[0], state, state.divers_aboard)
    oldest, aboard = update_diver(state.divers[1], state, aboard)
    state, shot, hit = fight(state)
    state = state._replace(
        divers=(newest, oldest),
        divers_aboard=aboard,
        enemy_timer=jnp.maximum(state.enemy_timer - 1, 0),
        diver_timer=jnp.maximum(state.diver_timer - 1, 0),
        shot_timer=jnp.maximum(state.shot_timer - 1, 0),
    )
    state, reward, ended = breathe(state, difficulty_ramping)
    return state, shot + reward, hit | ended


def paint(state: State) -> jax.Array:
    rows, columns = rows_and_columns()

    def at(y: jax.Array, x: jax.Array) -> jax.Array:
        return (rows == y) & (columns == x)

    def behind(x: jax.Array, rightward: jax.Array) -> jax.Array:
        return jnp.where(rightward, x - 1, x + 1)

    lane_rightward = ((state.lanes_rightward >> rows) & 1) != 0
    fish = nibbles.equal(state.enemies, FISH)
    subs = nibbles.nonzero(state.enemies) ^ fish
    trail = swim((state.enemies != 0).astype(jnp.int32), ~lane_rightward) != 0
    diver = jnp.zeros_like(trail)
    for d in state.divers:
        diver |= at(d.y, d.x) & (d.y > 0)
        trail |= at(d.y, behind(d.x, d.rightward)) & (d.y > 0)
    newest, oldest = (at(bullet.y, bullet.x) for bullet in state.bullets)
    gauge = rows == SIZE - 1
    return (
        layer(0, at(state.sub_y, state.sub_x))
        | layer(1, at(state.sub_y, behind(state.sub_x, state.sub_rightward)))
        | layer(2, newest | oldest)
        | layer(3, trail)
        | layer(4, state.enemy_bullets != 0)
        | layer(5, fish != 0)
        | layer(6, subs != 0)
        | layer(7, gauge & (columns < jnp.maximum(state.oxygen, 0) * 10 // MAX_OXYGEN))
        | layer(8, gauge & (columns >= 9 - state.divers_aboard) & (columns < 9))
        | layer(9, diver)
    )


RULES = GameRules(
    actions="nlurdf",
    channels=(
        "sub_front",
        "sub_back",
        "friendly_bullet",
        "trail",
        "enemy_bullet",
        "enemy_fish",
        "enemy_sub",
        "oxygen_gauge",
        "diver_gauge",
        "diver",
    ),
    start_words=0,
    draw_words=2,
    start=start,
    draw=draw,
    play=play,
    paint=paint,
)
