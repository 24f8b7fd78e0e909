"""Atari 2600 games under Dopamine's protocol: one emulator, one player, single 84×84 frames.

What lives here: frame skip, sticky actions, the time limit, and how an episode starts. The picture (maximum of the last
two screens, area-resized) is in `picture.py`, names and ROMs in `atari_roms.py`; stacking frames and clipping rewards
for learning are the trainer's.

ALE's own sticky actions draw from a generator inside the emulator that can be neither set nor saved. Here they are
drawn outside, by the same rule (each emulator frame keeps the previous action with probability 0.25), so an episode is
a function of its start, its seed and its actions.

How it starts is ALE's business too: `reset_game` presses the console's switch and does not clear its memory, so in some
games something of the last episode stays behind, the state of a random number generator for one. In the others a
saved state does the same in a hundredth of the time.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lookrep.envs.host import atari_roms
from lookrep.envs.host.picture import SIDE, Picture
from lookrep.envs.host.protocol import EnvSpec, StepResult
from lookrep.errors import UserError

FRAME_SKIP = 4
MAX_STEPS = 27_000  # of an episode: 108 000 emulator frames, half an hour of play
FRAME_STACK = 4
TRIAL_FRAMES = 60
START_BYTES = 16_384  # for a state of the emulator (under 8 KB) and a picture


class AtariRules(NamedTuple):
    """By what rules all games are played: Dopamine's, unless said otherwise."""

    sticky_actions: float = 0.25  # chance that an emulator frame keeps the action before
    life_loss_terminal: bool = False  # for learning alone: the game goes on


RULES = AtariRules()


def spec(game: str) -> EnvSpec:
    """What an agent sees and does in a game, without playing it."""
    atari_roms.rom_path(game)
    actions = len(atari_roms.minimal_actions(game))
    return EnvSpec((SIDE, SIDE), np.dtype(np.uint8), actions, FRAME_STACK, True, START_BYTES)


class Atari:
    """One emulator. `reset` and `step` give single frames, uint8 [84, 84], in buffers that later calls overwrite."""

    def __init__(self, game: str, rules: AtariRules = RULES, max_steps: int = MAX_STEPS) -> None:
        if not 0 <= rules.sticky_actions < 1:
            raise UserError(f"sticky_actions = {rules.sticky_actions}: must be at least 0 and below 1")
        if max_steps < 1:
            raise UserError(f"max_steps = {max_steps} must be at least 1")
        self.spec = spec(game)
        self._rules, self._max_steps = rules, max_steps
        self._actions = atari_roms.minimal_actions(game)
        self._ale = atari_roms.emulator(game)
        self._ale.reset_game()
        self._picture = Picture(self._ale.getScreenGrayscale())
        self._see_start()
        self._leaves_traces = atari_roms.leaves_traces(game)
        if not self._leaves_traces:
            self._restart = exact_restart(
                self._ale, self._actions, lambda: self._ale.loadROM(atari_roms.rom_path(game))
            )
        self._start = bytes(START_BYTES)
        self._screens = np.zeros((2, *self._first_screen.shape), np.uint8)
        self._earlier, self._later = self._screens
        self.reset(0)

    def reset(self, seed: int, start: bytes = b"") -> np.ndarray:
        """Begin an episode; what happens in it follows from `seed` and the actions, and from what the one before left
        behind, in games where something is."""
        if self._leaves_traces:
            self._begin(start)
        else:
            self._restart()
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._sticking = self._actions[0]  # the no-op
        self._keeps: list[bool] = []
        self._steps, self._lives = 0, self._ale.lives()
        self._screens[:] = self._first_screen
        return self._first_picture

    def start(self) -> bytes:
        return self._start

    def _begin(self, start: bytes) -> None:
        self._ale.reset_game()  # some states lack something that only this sets
        size = int.from_bytes(start[:4], "little")
        if size:
            self._ale.restoreState(atari_roms.libraries().ale_py.ALEState(start[4 : 4 + size]))
            picture = np.frombuffer(start, np.uint8, SIDE * SIDE, 4 + size)
            self._first_picture, self._start = picture.reshape(SIDE, SIDE), start
            return
        self._see_start()
        state = self._ale.cloneState().serialize()
        self._start = (len(state).to_bytes(4, "little") + state + self._first_picture.tobytes()).ljust(
            START_BYTES, b"\0"
        )

    def _see_start(self) -> None:
        """Keep what an episode starts with: after a restored state the emulator still shows the screen of before."""
        self._first_screen = self._ale.getScreenGrayscale()
        self._first_screen_rgb = self._ale.getScreenRGB()
        self._first_picture = self._picture.whole(self._first_screen)

    def step(self, action: int) -> StepResult:
        """Four emulator frames with one action, some of which may stick to the one before; fewer where an end comes."""
        chosen = self._actions[action]
        self.play_ahead()
        while self._frame < FRAME_SKIP and not self._ended:
            if not self._keeps[self._frame]:
                self._sticking = chosen
            self._play()
        self._keeps = []
        self._steps += 1
        picture = self._picture.of(self._earlier, self._later)
        cut = not self._over and self._steps >= self._max_steps
        return StepResult(picture, float(self._reward), self._ended, cut, self._ended and not (self._over or cut))

    def play_ahead(self) -> None:
        """The next step's first frames, as far as they stick to the action before, whatever the next one is: a third of
        a frame on average, for which there is time while somebody thinks."""
        if not self._keeps:
            self._keeps = (self._random.random(FRAME_SKIP) < self._rules.sticky_actions).tolist()
            self._frame, self._reward, self._over, self._ended = 0, 0, False, False
        while self._frame < FRAME_SKIP and self._keeps[self._frame] and not self._ended:
            self._play()

    def _play(self) -> None:
        """One emulator frame. If it ends the game, or a life that counts, the picture may be made of old screens, as in
        Dopamine's: nothing is learned about what follows."""
        frame, self._frame = self._frame, self._frame + 1
        self._reward += self._ale.act(self._sticking)
        self._over = self._ended = self._ale.game_over(with_truncation=False)
        if self._rules.life_loss_terminal:
            lives, self._lives = self._lives, self._ale.lives()
            self._ended = self._over or self._lives < lives
        if frame >= FRAME_SKIP - 2 and not self._ended:
            self._ale.getScreenGrayscale(self._earlier if frame == FRAME_SKIP - 2 else self._later)

    def screen(self) -> np.ndarray:
        """What a person would see: RGB [210, 160, 3]."""
        return np.array(self._ale.getScreenRGB() if self._steps else self._first_screen_rgb)

    def action_names(self) -> list[str]:
        """ALE's names: NOOP, FIRE, UPRIGHT, …"""
        return [action.name for action in self._actions]

    def close(self) -> None:
        pass


def exact_restart(ale: Any, actions: tuple[Any, ...], reload: Callable[[], None]) -> Callable[[], None]:
    """The quickest way back to an emulator's present state, just after its first reset, that is found to be exact.

    `restoreState` of what followed the first reset takes 50 µs, but in five games (Amidar and Q*bert are two) the state
    lacks something, unless a reset came before it (8 ms). Loading the ROM anew always works (0.1 s).
    """
    start = ale.cloneState()

    def restore() -> None:
        ale.restoreState(start)

    def reset_and_restore() -> None:
        ale.reset_game()
        ale.restoreState(start)

    def reload_and_reset() -> None:
        reload()
        ale.reset_game()

    expected = _trace(ale, actions)
    for way in (restore, reset_and_restore):
        way()
        if _trace(ale, actions) == expected:
            return way
    return reload_and_reset


def _trace(ale: Any, actions: tuple[Any, ...]) -> list[tuple[int, bytes, bytes]]:
    """What happens when every action is tried in turn: rewards, memory, screens."""
    seen = []
    for frame in range(TRIAL_FRAMES):
        reward = ale.act(actions[frame % len(actions)])
        seen.append((reward, ale.getRAM().tobytes(), ale.getScreen().tobytes()))
    return seen
