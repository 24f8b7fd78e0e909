"""Arbitrary positions of the original games, within what play can lead to: corners that even long play seldom meets.

A scramble overwrites the original's fields in place. The other two games need none: play alone covers them."""

from collections.abc import Callable

import numpy as np
from minatar_oracle import Player, find_formation


def breakout(player: Player, rng: np.random.RandomState) -> None:
    """Any wall with gaps, and the ball anywhere above the paddle's row."""
    env = player.env
    env.brick_map[1:4] = rng.rand(3, 10) < rng.choice([0.0, 0.1, 0.5, 0.9])
    env.ball_x, env.ball_y, env.pos = rng.randint(10), rng.randint(9), rng.randint(10)
    env.ball_dir, env.strike = rng.randint(4), bool(rng.randint(2))


def space_invaders(player: Player, rng: np.random.RandomState) -> None:
    """Any part of a formation, anywhere on the board, with bullets among it."""
    env = player.env
    alive = rng.rand(4, 6) < rng.choice([0.0, 0.3, 0.9])
    alive[rng.randint(4), rng.randint(6)] = True
    rows, columns = np.nonzero(alive)
    top = rng.randint(-rows.min(), 10 - rows.max())
    left = rng.randint(-columns.min(), 10 - columns.max())
    env.alien_map[:] = 0
    env.alien_map[top + rows, left + columns] = 1
    player.aliens = find_formation(env, top % 10, left)
    env.alien_dir = rng.choice([-1, 1])
    env.pos, env.alien_move_timer, env.alien_shot_timer = rng.randint(10), rng.randint(3), rng.randint(3)
    env.ramp_index = rng.randint(7)
    env.enemy_move_interval = 12 - env.ramp_index
    env.shot_timer = rng.randint(5)
    env.f_bullet_map[rng.randint(9), rng.randint(10)] = 1
    target_y, target_x = top + rows[0] + 1, left + columns[0]
    if rng.randint(2) and target_y < 9:  # a bullet that hits if the aliens stay
        env.f_bullet_map[:] = 0
        env.f_bullet_map[target_y, target_x] = 1
    env.e_bullet_map[rng.randint(9), rng.randint(10)] = env.alien_shot_timer > 0


def seaquest(player: Player, rng: np.random.RandomState) -> None:
    """A sea as crowded as it gets at the highest difficulty, with bullets among the enemies."""
    env = player.env
    env.ramp_index, env.e_spawn_speed, env.move_speed = 19, 1, 2
    env.e_spawn_timer, env.d_spawn_timer = 0, rng.randint(1, 30)
    crowd = rng.choice([0.02, 0.1, 0.4])
    for y in range(1, 9):
        rightward = bool(rng.randint(2))
        for age in range(28, -1, -1):  # oldest first, as they came; they move at the ages 2, 5, 8, …
            if rng.rand() < crowd:
                cells, timer = (age + 1) // 3, (1 - age) % 3
                enemy = [cells if rightward else 9 - cells, y, rightward, timer]
                if rng.randint(2):
                    env.e_subs.append([*enemy, rng.randint(11)])  # ramps shift shots against moves
                else:
                    env.e_fish.append(enemy)
        if rng.rand() < 0.3:
            env.e_bullets.append([rng.randint(10), y, bool(rng.randint(2))])
    env.sub_x, env.sub_y = rng.randint(10), rng.randint(9)
    env.sub_or = bool(rng.randint(2)) if 0 < env.sub_x < 9 else env.sub_x == 9
    env.surface = env.sub_y == 0 and bool(rng.randint(2))
    env.oxygen, env.diver_count = rng.randint(0, 201), rng.randint(-2, 7)
    env.shot_timer = rng.randint(5)
    for y in rng.permutation(9)[:2]:  # a bullet is always ahead of the sub that fired it
        x = rng.randint(10)
        if x != env.sub_x:
            env.f_bullets.append([x, int(y), x > env.sub_x])
    env.f_bullets = env.f_bullets[: 2 if env.shot_timer else 1]
    for timer in (2, 5):  # two divers, often where the sub is
        at_sub = rng.rand() < 0.3 and env.sub_y > 0
        x, y = (env.sub_x, env.sub_y) if at_sub else (rng.randint(10), rng.randint(1, 9))
        env.divers.append([x, y, bool(rng.randint(2)), rng.choice([0, timer])])


SCRAMBLES: dict[str, Callable[[Player, np.random.RandomState], None]] = {
    "breakout": breakout,
    "space_invaders": space_invaders,
    "seaquest": seaquest,
}
