"""Environments on the host by name: `atari/Breakout`, `gym/CartPole-v1`, `my_module:make_env`."""

import difflib
from collections.abc import Iterable

from lookrep.errors import UserError
from lookrep.hosted import atari, atari_roms, gym
from lookrep.hosted.protocol import HostEnvironment, Spaces

FORMS = "write atari/GAME, gym/NAME, or my_module:make_env"


def make(name: str) -> HostEnvironment:
    """The environment of that name."""
    family, _, rest = _parted(name)
    if family == "atari":
        return atari.Atari(rest)
    return gym.registered(rest) if family == "gym" else gym.imported(name)


def check(name: str) -> Spaces:
    """What an agent sees and does there; a UserError where there is no such environment, or it is not of our kind.

    >>> check("atari/Freeway").num_actions
    3
    """
    family, _, rest = _parted(name)
    if family == "atari":
        return atari.spaces(rest)
    env = make(name)
    env.close()
    return env.spaces


def canonical(name: str) -> str:
    """One spelling for each environment, for folders and tables.

    >>> canonical("atari/road_runner"), canonical("gym/CartPole-v1")
    ('atari/RoadRunner', 'gym/CartPole-v1')
    """
    family, _, rest = _parted(name)
    return f"atari/{atari_roms.title(atari_roms.rom_name(rest))}" if family == "atari" else name


def versions(names: Iterable[str]) -> dict[str, str]:
    """What else than our own code decides about environments: for a run's record. `roms` are those that are not
    ale-py's own, which a run must not go on without.

    >>> versions(["gym/CartPole-v1"])
    {}
    """
    games = [rest for family, _, rest in map(_parted, names) if family == "atari"]
    found = {"ale-py": atari_roms.libraries().ale_py.__version__} if games else {}
    roms = {atari_roms.rom_name(game): atari_roms.other_version(game) for game in games}
    other = ", ".join(f"{rom} {md5}" for rom, md5 in sorted(roms.items()) if md5)
    return found | ({"roms": other} if other else {})


def _parted(name: str) -> tuple[str, str, str]:
    """Family (`atari`, `gym`, or nothing for a user's own), a slash, and the rest."""
    family, slash, rest = name.partition("/")
    if slash and rest and family in ("atari", "gym"):
        return family, slash, rest
    if ":" in name:
        return "", "", name
    near = difflib.get_close_matches(family, ["atari", "gym"], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}/{rest}?" if near and rest and near[0] != family else FORMS
    raise UserError(f"environment '{name}' is unknown: {hint}")
