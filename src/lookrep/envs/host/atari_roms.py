"""Atari games by name: ale-py and OpenCV or a clear line without them, the ROMs, and what each game calls its actions.

`RoadRunner`, `road_runner` and `roadrunner` are one game. How it is played is in `atari.py`.
"""

import difflib
import functools
import hashlib
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from lookrep.errors import UserError, missing

# Where the console's memory after `reset_game` was not the same after each of five portions of random play; of ale-py
# 0.12.1 all games for one player were tried. Boxing showed it in 2 of 30 whole episodes; Breakout, CrazyClimber,
# Gopher, RoadRunner and UpNDown in none of 30.
LEAVE_TRACES = frozenset({
    "assault", "backgammon", "beam_rider", "berzerk", "boxing", "chopper_command", "crossbow", "demon_attack",
    "fishing_derby",
    "freeway", "frostbite", "hangman", "haunted_house", "hero", "ice_hockey", "kaboom", "krull",
    "kung_fu_master", "miniature_golf", "pitfall2", "pooyan", "private_eye", "seaquest", "sir_lancelot", "solaris",
    "space_war", "surround", "tennis", "time_pilot", "yars_revenge",
})  # fmt: skip


class Libraries(NamedTuple):
    ale_py: ModuleType
    cv2: ModuleType


@functools.cache
def libraries() -> Libraries:
    """ale-py and OpenCV, quiet and single-threaded. They are imported when a game is asked for, not before."""
    try:
        import ale_py
        import ale_py.roms
        import cv2
    except ImportError as error:
        raise missing("an atari/ environment", error, "atari") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    cv2.setNumThreads(1)  # a worker has one core, and a picture is small
    return Libraries(ale_py, cv2)


def rom_name(game: str) -> str:
    """ale-py's name of a game.

    >>> rom_name("RoadRunner"), rom_name("road_runner"), rom_name("UpNDown")
    ('road_runner', 'road_runner', 'up_n_down')
    """
    roms = {_squeezed(rom): rom for rom in libraries().ale_py.roms.get_all_rom_ids()}
    if _squeezed(game) in roms:
        return roms[_squeezed(game)]
    near = difflib.get_close_matches(_squeezed(game), roms, n=3, cutoff=0.6)
    hint = f"did you mean {', '.join('atari/' + title(roms[name]) for name in near)}?" if near else "try atari/Breakout"
    raise UserError(f"Atari game '{game}' is unknown: {hint}")


def title(rom: str) -> str:
    """What papers call a game.

    >>> title("road_runner")
    'RoadRunner'
    """
    return "".join(part.capitalize() for part in rom.split("_"))


def rom_path(game: str) -> Path:
    """Where a game's ROM is: ale-py brings them; a folder named in `ALE_ROMS_DIR` may hold other versions of them."""
    rom = rom_name(game)
    own = Path(libraries().ale_py.roms.__file__).parent / f"{rom}.bin"
    folder = os.environ.get("ALE_ROMS_DIR")
    path = Path(folder) / own.name if folder else own
    try:
        path, bytes_here, bytes_there = path.resolve(), path.stat().st_size, own.stat().st_size
        right = bytes_here == bytes_there if folder else _md5(path) == _ale_pys(rom)
    except OSError as error:
        raise UserError(
            f"atari/{title(rom)}: no ROM at {path} ({error.strerror}); reinstall ale-py, or see ALE_ROMS_DIR"
        ) from error
    if not right:  # loading it could end the process, or never end
        what = f"it has {bytes_here:,} bytes instead of {bytes_there:,}" if folder else "its content is not ale-py's"
        raise UserError(f"atari/{title(rom)}: the ROM at {path} is damaged ({what}); reinstall it, or see ALE_ROMS_DIR")
    if not libraries().ale_py.ALEInterface.isSupportedROM(own):  # loading it would end the process
        raise UserError(f"atari/{title(rom)} is a game for two players only: choose another")
    return path


def other_version(game: str) -> str | None:
    """The MD5 sum of a game's ROM where it is not the one that comes with ale-py: then it may be another game to an
    agent. Runs write it down."""
    found = _md5(rom_path(game))
    return None if found == _ale_pys(rom_name(game)) else found


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def _ale_pys(rom: str) -> str:
    sums: dict[str, str] = json.loads((Path(libraries().ale_py.roms.__file__).parent / "md5.json").read_text())
    return sums[f"{rom}.bin"]


def leaves_traces(game: str) -> bool:
    """Whether an episode may start with something that the one before left in the console's memory.

    >>> leaves_traces("Assault"), leaves_traces("Breakout")
    (True, False)
    """
    return rom_name(game) in LEAVE_TRACES


def emulator(game: str) -> Any:
    """An emulator with a game in it, without ALE's own sticky actions; it must be reset before anything else."""
    ale = libraries().ale_py.ALEInterface()
    ale.setInt("random_seed", 0)  # of the console itself; without a seed two emulators may differ
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(rom_path(game))
    return ale


@functools.cache
def minimal_actions(game: str) -> tuple[Any, ...]:
    """The actions that do something in a game, in ALE's order; the first is the no-op."""
    return tuple(emulator(game).getMinimalActionSet())


def _squeezed(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
