"""Are the games of ale-py those that published curves were made with? Its ROMs and emulator beside atari-py's.

pip download --no-deps --only-binary=:all: --python-version 3.7 --platform manylinux1_x86_64 atari-py==0.2.6
unzip -d atari-py atari_py-0.2.6-*.whl
python benchmarks/beside_atari_py.py atari-py [--reference dopamine_rainbow_curves.csv.gz]

One JSON object for each game of atari-py. `rom`: whether the two have the same. Where not, what differs when both are
played in ale-py's emulator with the same actions, and the height of both screens. `emulator`: what differs when
atari-py's emulator and ale-py's play atari-py's ROM; some games begin with random memory, so that they go apart in one
emulator, too. Each with the first frame that it is seen in. With a reference of two variants, `apart` is how far their
first five iterations are from each other: the mean over them of |difference of means| / its standard error.
"""

import argparse
import ctypes
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import ale_py
import numpy as np

from lookrep.analysis import parity
from lookrep.envs.host import atari_roms

FRAMES, FRAME_SKIP, ITERATIONS = 4000, 4, 5
SECONDS = 120
TEXT, INT, FLOAT, HANDLE = ctypes.c_char_p, ctypes.c_int, ctypes.c_float, ctypes.c_void_p


class Frame(NamedTuple):
    reward: int
    over: bool
    memory: np.ndarray
    picture: np.ndarray


class New:
    """ale-py's emulator."""

    def __init__(self, rom: Path) -> None:
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", 0)
        self.ale.setFloat("repeat_action_probability", 0.0)
        self.ale.loadROM(rom)
        self.reset()

    def reset(self) -> None:
        self.ale.reset_game()

    def frame(self, action: int) -> Frame:
        reward = self.ale.act(ale_py.Action(action))
        over = self.ale.game_over(with_truncation=False)
        return Frame(reward, over, self.ale.getRAM(), self.ale.getScreenGrayscale())


class Old:
    """atari-py's, which is a C library."""

    def __init__(self, rom: Path, library: Path) -> None:
        self.call = ctypes.CDLL(str(library))
        self.call.setLoggerMode(2)
        self.call.ALE_new.restype = HANDLE
        self.call.game_over.restype = ctypes.c_bool
        self.ale = HANDLE(self.call.ALE_new())
        self.call.setInt(self.ale, TEXT(b"random_seed"), INT(0))
        self.call.setFloat(self.ale, TEXT(b"repeat_action_probability"), FLOAT(0.0))
        self.call.loadROM(self.ale, TEXT(str(rom).encode()))
        self.memory = np.zeros(self.call.getRAMSize(self.ale), np.uint8)
        size = self.call.getScreenHeight(self.ale), self.call.getScreenWidth(self.ale)
        self.picture = np.zeros(size, np.uint8)
        self.reset()

    def reset(self) -> None:
        self.call.reset_game(self.ale)

    def frame(self, action: int) -> Frame:
        reward = self.call.act(self.ale, INT(action))
        self.call.getRAM(self.ale, HANDLE(self.memory.ctypes.data))
        self.call.getScreenGrayscale(self.ale, HANDLE(self.picture.ctypes.data))
        return Frame(reward, self.call.game_over(self.ale), self.memory, self.picture)


def differences(one: New, other: New | Old, actions: list[int]) -> dict[str, int]:
    """The first frame in which each thing differs, under the same random actions."""
    draw, first, action = np.random.default_rng(0), dict[str, int](), 0
    for frame in range(FRAMES):
        if frame % FRAME_SKIP == 0:
            action = actions[draw.integers(len(actions))]
        a, b = one.frame(action), other.frame(action)
        there = b._asdict()
        for what, value in a._asdict().items():
            if not np.array_equal(value, there[what]):
                first.setdefault(what, frame)
        if a.over != b.over:
            break
        if a.over:
            one.reset()
            other.reset()
    return first


def look(atari_py: Path, game: str) -> dict[str, Any]:
    old, new = atari_py / "atari_roms" / f"{game}.bin", atari_roms.rom_path(game)
    actions = [action.value for action in atari_roms.minimal_actions(game)]
    same = old.read_bytes() == new.read_bytes()
    found: dict[str, Any] = {"game": game, "rom": "same" if same else "other"}
    if not same:
        one, other = New(new), New(old)
        found |= {"heights": [e.ale.getScreen().shape[0] for e in (one, other)]}
        found |= {"differs": differences(one, other, actions)}
    (library,) = atari_py.rglob("libale_c.so")
    return found | {"emulator": differences(New(old), Old(old, library), actions)}


def apart(reference: Path) -> dict[str, float]:
    """How far two variants are from each other, by (squeezed) game."""
    one, other = parity.reference(reference).values()

    def of(game: str, i: int) -> float:
        a, b = np.array(one[game, i]), np.array(other[game, i])
        error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
        return float(abs(a.mean() - b.mean()) / error)

    games = dict.fromkeys(game for game, _ in one if (game, 0) in other)
    return {game: round(float(np.mean([of(game, i) for i in range(ITERATIONS)])), 1) for game in games}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="atari-py's wheel, unpacked")
    parser.add_argument("--reference", type=Path, help="scores of two variants, as lookrep parity takes them")
    parser.add_argument("--game", help="this one only, and in this process: emulators may end theirs")
    arguments = parser.parse_args()
    folder = arguments.folder / "atari_py"
    if arguments.game:
        print(json.dumps(look(folder, arguments.game)))
        return
    known = apart(arguments.reference) if arguments.reference else {}

    def asked(game: str) -> dict[str, Any]:
        command = [sys.executable, __file__, str(arguments.folder), "--game", game]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:  # Defender hangs in atari-py's emulator
            return {"game": game, "failed": f"no answer in {SECONDS} s"}
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
        score = known.get(parity.squeezed(game))
        return (found or {"game": game, "failed": done.stderr[-200:]}) | ({} if score is None else {"apart": score})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(asked, sorted(path.stem for path in (folder / "atari_roms").glob("*.bin"))):
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
