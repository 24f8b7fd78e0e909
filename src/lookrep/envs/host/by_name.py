"""Environments on the host by name: `atari/Breakout`, `gym/CartPole-v1`, `my_module:make_env`."""

import difflib
import functools
from collections.abc import Iterable

from lookrep.envs.host import atari, atari_roms, gym
from lookrep.envs.host.protocol import EnvSpec, HostEnvironment
from lookrep.errors import UserError

FORMS = "write atari/GAME, gym/NAME, or my_module:make_env"


def make(name: str, rules: atari.AtariRules = atari.RULES) -> HostEnvironment:
    """The environment of that name; `rules` are those of Atari's games."""
    family, rest = _parted(name)
    if family == "atari":
        return atari.Atari(rest, rules)
    return gym.registered(rest) if family == "gym" else gym.imported(name)


def check(name: str) -> EnvSpec:
    """What an agent sees and does there; a UserError where there is no such environment, or it is not of our kind.

    >>> check("atari/Freeway").num_actions
    3
    """
    family, rest = _parted(name)
    return atari.spec(rest) if family == "atari" else _spec_of_made(name)


@functools.cache  # making a user's environment may take long, and be noticed
def _spec_of_made(name: str) -> EnvSpec:
    env = make(name)
    env.close()
    return env.spec


def common_spec(names: Iterable[str]) -> EnvSpec:
    """One specification for environments whose agents share arrays: the same observations, the most actions."""
    specs = {name: check(name) for name in dict.fromkeys(names)}
    first, spec = next(iter(specs.items()))
    for name, other in specs.items():
        if other._replace(num_actions=spec.num_actions) != spec:
            raise UserError(
                f"{first} and {name} cannot share a population: their observations are "
                f"{spec.observation_dtype}{list(spec.observation_shape)} and "
                f"{other.observation_dtype}{list(other.observation_shape)}"
            )
    return spec._replace(num_actions=max(spec.num_actions for spec in specs.values()))


def canonical(name: str) -> str:
    """One spelling for each environment, for folders and tables.

    >>> canonical("atari/road_runner"), canonical("gym/CartPole-v1")
    ('atari/RoadRunner', 'gym/CartPole-v1')
    """
    family, rest = _parted(name)
    return f"atari/{atari_roms.title(atari_roms.rom_name(rest))}" if family == "atari" else name


def versions(names: Iterable[str]) -> dict[str, str]:
    """What else than our own code decides about environments: for a run's record. `roms` are those that are not
    ale-py's own, which a run must not go on without.

    >>> versions(["gym/CartPole-v1"])
    {}
    """
    games = [rest for family, rest in map(_parted, names) if family == "atari"]
    found = {"ale-py": atari_roms.libraries().ale_py.__version__} if games else {}
    roms = {atari_roms.rom_name(game): atari_roms.other_version(game) for game in games}
    other = ", ".join(f"{rom} {md5}" for rom, md5 in sorted(roms.items()) if md5)
    return found | ({"roms": other} if other else {})


def _parted(name: str) -> tuple[str, str]:
    """Family (`atari`, `gym`, or nothing for a user's own), and the rest."""
    family, slash, rest = name.partition("/")
    if slash and rest and family in ("atari", "gym"):
        return family, rest
    if ":" in name:
        return "", name
    near = difflib.get_close_matches(family, ["atari", "gym"], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}/{rest}?" if near and rest and near[0] != family else FORMS
    raise UserError(f"environment '{name}' is unknown: {hint}")
