"""Small scripted players of the original games, good enough to reach their late states. They look at the original's
objects and answer with an action letter."""

from typing import Any

import numpy as np

MOVES = {"n": (0, 0), "l": (-1, 0), "r": (1, 0), "u": (0, -1), "d": (0, 1)}


def uniform(letters: str) -> Any:
    def policy(env: Any, rng: np.random.RandomState) -> str:
        return letters[rng.randint(len(letters))]

    return policy


def breakout(env: Any, rng: np.random.RandomState) -> str:
    """Stay under the ball; now and then hit it with the paddle's corner, so that its path changes."""
    falling = env.ball_dir in (2, 3)
    target = env.ball_x
    if env.ball_y == 8 and falling and rng.rand() < 0.5:
        target += 1 if env.ball_dir == 2 else -1
    return "l" if target < env.pos else "r" if target > env.pos else "n"


def freeway(env: Any, rng: np.random.RandomState) -> str:
    """Go up unless a car is about to be there."""
    row = env.pos - 1
    if 1 <= row <= 8:
        x, _, timer, speed = env.cars[row - 1]
        if x == 4 or (timer == 0 and x + np.sign(speed) == 4):
            return "n" if rng.rand() < 0.95 else "d"
    return "u"


def danger_asterix(env: Any, x: int, y: int) -> int:
    """How soon an enemy of row y is at x: the larger, the worse."""
    entity = env.entities[y - 1]
    if entity is None or entity[3]:
        return 0
    ahead = (x - entity[0]) * (1 if entity[2] else -1)
    if ahead < 0:
        return 0
    return 100 if ahead == 0 else (50 if ahead == 1 and env.move_timer <= 1 else max(0, 4 - ahead))


def asterix(env: Any, rng: np.random.RandomState) -> str:
    """Stay out of enemies' ways, off the edges where they appear, and prefer rows with gold."""

    def cost(letter: str) -> float:
        dx, dy = MOVES[letter]
        x, y = min(max(env.player_x + dx, 0), 9), min(max(env.player_y + dy, 1), 8)
        golds = [abs(e[0] - x) + 2 * abs(e[1] - y) for e in env.entities if e is not None and e[3]]
        edge = 30 if x in (0, 9) else 5 if x in (1, 8) else 0
        return danger_asterix(env, x, y) + edge + 0.1 * min(golds, default=0) + 0.01 * rng.rand()

    return min("nlurd", key=cost)


def space_invaders(env: Any, rng: np.random.RandomState) -> str:
    """Dodge bullets, stand under the nearest alien and fire."""
    below = {x for y, x in np.argwhere(env.e_bullet_map) if y >= 6}
    low = {x for y, x in np.argwhere(env.alien_map) if y >= 8}
    if env.pos in below | low:
        ways = [w for w, x in (("l", env.pos - 1), ("r", env.pos + 1)) if 0 <= x <= 9 and x not in below | low]
        return ways[rng.randint(len(ways))] if ways else "n"
    columns = np.flatnonzero(env.alien_map.any(axis=0))
    lowest = [np.flatnonzero(env.alien_map[:, x]).max() for x in columns]
    aim = columns + env.alien_dir * (np.array(lowest) < 5)
    target = min(aim, key=lambda x: abs(x - env.pos))
    if abs(target - env.pos) <= 1 and env.shot_timer == 0:
        return "f"
    step = env.pos + int(np.sign(target - env.pos))
    return "n" if step == env.pos or step in below | low else "l" if step < env.pos else "r"


def danger_seaquest(env: Any, x: int, y: int) -> float:
    """How close enemies and their bullets are to running into (x, y)."""
    worst = 0.0
    for enemy in env.e_fish + env.e_subs:
        ahead = (x - enemy[0]) * (1 if enemy[2] else -1)
        if enemy[1] == y and 0 <= ahead <= 2:
            worst = max(worst, (100, 60 if enemy[3] <= 1 else 10, 5)[ahead])
    for bullet in env.e_bullets + [s for s in env.e_subs if s[4] <= 1]:
        ahead = (x - bullet[0]) * (1 if bullet[2] else -1)
        if bullet[1] == y and 0 <= ahead <= 3:
            worst = max(worst, (100, 100, 60, 20)[ahead])
    return worst


def seaquest(env: Any, rng: np.random.RandomState, bob: bool = False) -> str:
    """Collect six divers, shooting and dodging, and surface with them or when oxygen runs low. With `bob`, once the
    count has gone below none, surface at every chance: the quick way to the highest difficulty. Then wait at the
    surface, where nothing can happen, until the sea is full."""
    if bob and env.e_spawn_speed == 1 and env.sub_y == 0 and len(env.e_fish + env.e_subs) < 22 and rng.rand() < 0.97:
        return "n"
    if bob and env.diver_count < 0 and env.e_spawn_speed > 1:
        goal = (env.sub_x, 0 if env.sub_y > 0 else 1)
    elif env.diver_count == 6 or (env.oxygen < 40 + 3 * env.sub_y and env.diver_count != 0):
        goal = (env.sub_x, 0)
    elif env.divers:
        diver = min(env.divers, key=lambda d: abs(d[0] - env.sub_x) + abs(d[1] - env.sub_y))
        goal = (min(max(diver[0] + (1 if diver[2] else -1), 0), 9), diver[1])
    else:
        goal = (env.sub_x, max(env.sub_y, 1) if env.surface else 4)
    floor = 0 if env.surface or env.diver_count != 0 else 1  # no way up without divers

    def cost(letter: str) -> float:
        dx, dy = MOVES.get(letter, (0, 0))
        x, y = min(max(env.sub_x + dx, 0), 9), min(max(env.sub_y + dy, 0), 8)
        if y < floor or (y == 0 and env.sub_y > 0 and goal[1] > 0):
            return 1000
        targets = [e for e in env.e_fish + env.e_subs if e[1] == y and (e[0] > x) == env.sub_or and e[0] != x]
        shoots = letter == "f" and env.shot_timer == 0 and targets
        way = abs(goal[0] - x) + abs(goal[1] - y)
        edge = 3 if x in (0, 9) else 0
        return danger_seaquest(env, x, y) + edge + way - (3 if shoots else 0) + 0.5 * rng.rand()

    return min("nlurdf", key=cost)


def bobbing_seaquest(env: Any, rng: np.random.RandomState) -> str:
    return seaquest(env, rng, bob=True)
