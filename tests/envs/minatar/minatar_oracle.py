"""The original MinAtar as an oracle: plays it with recorded random draws and writes down every transition in the terms
of our games. Conversions from the original's objects to our states live here; policies and tests do not."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from minatar import Environment

from lookrep.envs.minatar import asterix, breakout, engine, freeway, seaquest, space_invaders

ACTIONS = "nlurdf"  # the original's action letters, in order
RULES = {
    "breakout": breakout.RULES,
    "asterix": asterix.RULES,
    "freeway": freeway.RULES,
    "seaquest": seaquest.RULES,
    "space_invaders": space_invaders.RULES,
}


class Recorder:
    """A random source that remembers what it gave out: the original's `random`."""

    def __init__(self, seed: int) -> None:
        self.source = np.random.RandomState(seed)
        self.log: list[tuple[str, Any, Any]] = []

    def rand(self, *shape: int) -> Any:
        value = self.source.rand(*shape)
        self.log.append(("rand", shape, value))
        return value

    def randint(self, *args: Any, **kwargs: Any) -> Any:
        value = self.source.randint(*args, **kwargs)
        self.log.append(("randint", args, np.copy(value)))  # Freeway multiplies its draws in place
        return value


class Transition(NamedTuple):
    """One step of the original, in our terms; a batch of them once stacked."""

    first: np.ndarray  # bool: `before` is an episode's start
    before: engine.State
    action: np.ndarray
    draws: engine.Draws
    after: engine.State
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray


def pack(values: Any) -> np.uint32:
    return np.uint32(sum(int(value) << (4 * nibble) for nibble, value in enumerate(values)))


def encode_breakout(env: Any) -> breakout.State:
    outside = np.delete(env.brick_map, [1, 2, 3], axis=0)
    assert not outside.any()
    bricks = sum(1 << bit for bit, brick in enumerate(env.brick_map[1:4].ravel()) if brick)
    return breakout.State(
        ball_x=env.ball_x,
        ball_y=env.ball_y,
        last_x=env.last_x,
        last_y=env.last_y,
        rightward=env.ball_dir in (1, 2),
        downward=env.ball_dir in (2, 3),
        paddle_x=env.pos,
        struck=env.strike,
        bricks=bricks,
    )


def encode_asterix(env: Any) -> asterix.State:
    entities = [entity or [-1, 0, False, False] for entity in env.entities]
    assert env.spawn_speed == max(10 - env.ramp_index, 1)
    assert env.move_speed == max(5 - env.ramp_index // 2, 1)
    return asterix.State(
        player_x=env.player_x,
        player_y=env.player_y,
        columns=pack(entity[0] + 1 for entity in entities),
        rightward=pack(entity[2] for entity in entities),
        gold=pack(entity[3] for entity in entities),
        spawn_timer=env.spawn_timer,
        move_timer=env.move_timer,
        ramp_timer=env.ramp_timer,
        ramp_index=env.ramp_index,
    )


def encode_freeway(env: Any) -> freeway.State:
    return freeway.State(
        chicken_y=env.pos,
        move_timer=env.move_timer,
        time_left=env.terminate_timer,
        columns=pack(car[0] + 1 for car in env.cars),
        timers=pack(car[2] for car in env.cars),
        traffic=freeway.Traffic(pack(abs(car[3]) for car in env.cars), pack(car[3] > 0 for car in env.cars)),
    )


def encode_seaquest(env: Any) -> seaquest.State:
    enemies = np.zeros((10, 10), np.uint32)
    lanes: dict[int, bool] = {}
    for enemy in env.e_fish + env.e_subs:
        x, y, rightward, timer = enemy[:4]
        assert lanes.setdefault(y, rightward) == rightward, "two directions in one row"
        assert (enemies[y, x] >> (4 * timer)) & 15 == 0, "two enemies with one timer in one cell"
        enemies[y, x] |= (1 if len(enemy) == 4 else 2 + enemy[4]) << (4 * timer)
    enemy_bullets = np.zeros((10, 10), np.uint8)
    for x, y, rightward in env.e_bullets:
        enemy_bullets[y, x] |= 1 if rightward else 2
    bullets = [seaquest.Bullet(*bullet) for bullet in reversed(env.f_bullets)]
    divers = [seaquest.Diver(*diver) for diver in reversed(env.divers)]
    assert len(bullets) <= 2
    assert len(divers) <= 2
    assert env.e_spawn_speed == max(20 - env.ramp_index, 1)
    assert env.move_speed == max(5 - env.ramp_index // 2, 2)
    return seaquest.State(
        sub_x=env.sub_x,
        sub_y=env.sub_y,
        sub_rightward=env.sub_or,
        surfaced=env.surface,
        oxygen=env.oxygen,
        divers_aboard=env.diver_count,
        shot_timer=env.shot_timer,
        enemy_timer=env.e_spawn_timer,
        diver_timer=env.d_spawn_timer,
        ramp_index=env.ramp_index,
        bullets=tuple((bullets + 2 * [seaquest.Bullet(0, -1, False)])[:2]),
        divers=tuple((divers + 2 * [seaquest.Diver(0, 0, False, 0)])[:2]),
        enemies=enemies,
        enemy_bullets=enemy_bullets,
        lanes_rightward=sum(1 << y for y, rightward in lanes.items() if rightward),
        lanes_busy=sum(1 << y for y in lanes),
    )


def encode_space_invaders(env: Any, aliens: space_invaders.Aliens) -> space_invaders.State:
    shots = [space_invaders.Shot(x, y) for y, x in np.argwhere(env.f_bullet_map)[::-1]]  # the newest is the lowest
    alien_shots = [space_invaders.Shot(x, y) for y, x in np.argwhere(env.e_bullet_map)]
    assert len(shots) <= 2
    assert len(alien_shots) <= 1
    assert env.enemy_move_interval == 12 - env.ramp_index
    return space_invaders.State(
        cannon_x=env.pos,
        shot_timer=env.shot_timer,
        shots=tuple((shots + 2 * [space_invaders.Shot(0, -1)])[:2]),
        alien_shot=alien_shots[0] if alien_shots else space_invaders.Shot(0, 10),
        aliens=aliens,
        march=env.alien_dir,
        march_timer=env.alien_move_timer,
        alien_shot_timer=env.alien_shot_timer,
        ramp_index=env.ramp_index,
    )


def find_formation(env: Any, top: int, left: int) -> space_invaders.Aliens:
    """The formation at (top, left) that makes the original's alien map."""
    cells = [((y - top) % 10, x - left) for y, x in np.argwhere(env.alien_map)]
    assert all(row < 4 and 0 <= column < 6 for row, column in cells)
    return space_invaders.Aliens(top, left, sum(1 << (6 * row + column) for row, column in cells))


def draws_of_asterix(log: list, free: int) -> asterix.Draws:
    rightward, gold = (log[0][2] < 1 / 2, log[1][2] < 1 / 3) if log else (False, False)
    chosen = (log[2][2] + 0.5) / free if len(log) == 3 else 0  # the middle of what falls on that free row
    return asterix.Draws(rightward, gold, np.uint32(chosen * 2**32))


def draws_of_freeway(log: list) -> freeway.Traffic:
    speeds, directions = (log[0][2], log[1][2] > 1 / 2) if log else (np.ones(8, int), np.ones(8, bool))
    return freeway.Traffic(pack(speeds), pack(directions))


def draws_of_seaquest(log: list) -> seaquest.Draws:
    enemy, diver = (False, False, 1), (False, 1)
    if [kind for kind, _, _ in log[:2]] == ["rand", "rand"]:
        (_, _, direction), (_, _, is_sub), (_, _, row) = log[:3]
        enemy, log = (direction < 1 / 2, is_sub < 1 / 3, row), log[3:]
    if log:
        (_, _, direction), (_, _, row) = log
        diver = (direction < 1 / 2, row)
    return seaquest.Draws(*enemy, *diver)


class Player:
    """The original at play, one recorded transition after another; resets itself after an episode's end."""

    def __init__(self, game: str, seed: int, sticky_action_prob: float = 0.1, ramping: bool = True) -> None:
        self.game = game
        self.wrapper = Environment(game, sticky_action_prob, ramping)
        self.env = self.wrapper.env
        self.recorder = Recorder(seed)
        self.wrapper.random = self.env.random = self.recorder
        self.reset()

    def reset(self) -> None:
        self.wrapper.last_action = 0  # the one difference: our episodes start from the no-op
        self.wrapper.reset()
        self.first = True
        if self.game == "space_invaders":
            self.aliens = find_formation(self.env, 0, 2)

    def encode(self) -> engine.State:
        encoders: dict[str, Callable[[Any], Any]] = {
            "breakout": encode_breakout,
            "asterix": encode_asterix,
            "freeway": encode_freeway,
            "seaquest": encode_seaquest,
            "space_invaders": lambda env: encode_space_invaders(env, self.aliens),
        }
        action = RULES[self.game].actions.index(ACTIONS[self.wrapper.last_action])
        return engine.State(action, encoders[self.game](self.env))

    def step(self, action: int) -> Transition:
        """Play `action` (an index into the original's six)."""
        first, before, was = self.first, self.encode(), copy.copy(self.env)
        self.recorder.log = []
        reward, terminated = self.wrapper.act(action)
        if self.game == "space_invaders":
            self._follow_formation(was)
        transition = Transition(
            first=first,
            before=before,
            action=RULES[self.game].actions.index(ACTIONS[action]),
            draws=self._draws(before),
            after=self.encode(),
            observation=self.wrapper.state().astype(bool),
            reward=reward,
            terminated=terminated,
        )
        self.first = False
        if terminated:
            self.reset()
        return transition

    def _follow_formation(self, was: Any) -> None:
        """Where the formation is: the original's map does not say, once its outer aliens are dead."""
        top, left, alive = self.aliens
        new_wave = np.count_nonzero(self.env.alien_map) > alive.bit_count()
        if new_wave:
            top, left = 0, 2
        elif self.env.alien_dir != was.alien_dir:
            top = (top + 1) % 10
        elif was.alien_move_timer == 0:
            left += was.alien_dir
        self.aliens = find_formation(self.env, top, left)

    def _draws(self, before: engine.State) -> engine.Draws:
        log = list(self.recorder.log)
        sticky = log.pop(0)[2] < self.wrapper.sticky_action_prob
        if self.game == "asterix":
            free = sum((int(before.game.columns) >> (4 * row)) & 15 == 0 for row in range(8))
            return engine.Draws(sticky, draws_of_asterix(log, free))
        if self.game == "freeway":
            return engine.Draws(sticky, draws_of_freeway(log))
        if self.game == "seaquest":
            return engine.Draws(sticky, draws_of_seaquest(log))
        assert not log
        return engine.Draws(sticky, None)


def record(player: Player, policy: Callable[[Any, np.random.RandomState], str], steps: int, seed: int) -> Transition:
    """`steps` consecutive transitions of `player` under `policy`, stacked."""
    rng = np.random.RandomState(seed)
    transitions = [player.step(ACTIONS.index(policy(player.env, rng))) for _ in range(steps)]
    return stack(player.game, transitions)


def stack(game: str, transitions: list[Transition]) -> Transition:
    """One transition with a leading axis, in the types of our states."""
    start = jax.eval_shape(RULES[game].start, jax.ShapeDtypeStruct((8,), np.uint32))
    types = engine.State(np.int32, jax.tree.map(lambda leaf: leaf.dtype, start))

    def batch(states: list[engine.State]) -> engine.State:
        return jax.tree.map(lambda dtype, *leaves: np.stack(leaves).astype(dtype), types, *states)

    columns = Transition(*zip(*transitions, strict=True))
    return Transition(
        first=np.array(columns.first),
        before=batch(columns.before),
        action=np.array(columns.action, np.int32),
        draws=jax.tree.map(lambda *leaves: np.stack(leaves), *columns.draws),
        after=batch(columns.after),
        observation=np.stack(columns.observation),
        reward=np.array(columns.reward, np.float32),
        terminated=np.array(columns.terminated),
    )


def canonical(state: engine.State) -> engine.State:
    """A batch of states in which equal ones look equal: slots are sorted, and an empty slot is all the same."""
    game = state.game
    if isinstance(game, seaquest.State):
        game = game._replace(bullets=sort_slots(game.bullets, -1), divers=sort_slots(game.divers, 0))
    if isinstance(game, space_invaders.State):
        (alien_shot,) = sort_slots((game.alien_shot,), 10)
        game = game._replace(shots=sort_slots(game.shots, -1), alien_shot=alien_shot)
    return engine.State(state.last_action, game)


def sort_slots(slots: tuple, empty_row: int) -> tuple:
    """Slots as numbers, one for each slot's fields (x, y, direction, timer), in order; 0 for an empty one."""
    numbers = [
        np.where(slot.y == empty_row, 0, 1 + sum(np.asarray(v, int) * 20**i for i, v in enumerate(slot)))
        for slot in slots
    ]
    return tuple(np.sort(numbers, axis=0))
