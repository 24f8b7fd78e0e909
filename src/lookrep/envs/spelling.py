"""Which environment a name means that other software writes, or a hurried hand: `ALE/Pong-v5`, `CartPole-v1`, `pong`.

No JAX here. Atari's games are known where ale-py is installed.
"""

import difflib
import re

from lookrep.envs import names
from lookrep.errors import UserError

COMMON = ("gym/CartPole-v1", "gym/Acrobot-v1", "gym/MountainCar-v0", "gym/LunarLander-v3")
VERSION = re.compile(r"-v\d+$")
ATARIS_ENDING = re.compile(r"(NoFrameskip|Deterministic)$")  # of Gym's older names


def meant(name: str) -> str:
    """The name by which an environment is known here; a UserError with the names near it where that is unclear.

    >>> meant("minatar/Breakout"), meant("MinAtar/SpaceInvaders-v1"), meant("CartPole-v1")
    ('minatar/breakout', 'minatar/space_invaders', 'gym/CartPole-v1')
    >>> meant("ALE/Pong-v5"), meant("atari/pong,road_runner"), meant("BreakoutNoFrameskip-v4"), meant("pong")
    ('atari/Pong', 'atari/Pong,RoadRunner', 'atari/Breakout', 'atari/Pong')
    """
    suite, slash, rest = name.partition("/")
    if ":" in name or (slash and suite in ("gym", "gymnax")):
        return name
    if slash and suite.lower() in ("atari", "ale"):
        return _atari(rest)
    found = _found(suite.lower(), rest) if slash else _found("", name)
    if len(found) == 1:
        return found[0]
    raise unknown(name)


def unknown(name: str) -> UserError:
    """What to say of a name that stands for nothing, or for two things."""
    suite, slash, rest = name.partition("/")
    if "," in rest:
        first = f"{suite}/{rest.split(',')[0]}"
        return UserError(f"environment '{name}': only Atari trains several games in one program; take one, as {first}")
    if "," in suite and all(titles := [_title(game) for game in name.split(",")]):
        return UserError(f"environment '{name}' is unknown: did you mean atari/{','.join(map(str, titles))}?")
    near = _found(suite.lower(), rest) if slash else _found("", name)
    if len(near) > 1:
        return UserError(f"environment '{name}' may mean two: write {' or '.join(near)}")
    if not near:
        whole = {_squeezed(known): known for known in (*names.MINATAR, *COMMON)}
        bare = {_squeezed(known.partition("/")[2]): known for known in whole.values()}
        choice = whole if slash else bare
        near = [choice[one] for one in difflib.get_close_matches(_squeezed(name), choice, n=1, cutoff=0.6)]
    if near:
        return UserError(f"environment '{name}' is unknown: did you mean {near[0]}?")
    forms = "atari/GAME, gym/NAME, gymnax/NAME, or write my_module:MyEnv"
    return UserError(f"environment '{name}' is unknown: choose from {', '.join(names.MINATAR)}, {forms}")


def _found(suite: str, rest: str) -> list[str]:
    """The environments that a name may mean, by whose names they are and by how they end."""
    bare = VERSION.sub("", rest)
    game = ATARIS_ENDING.sub("", bare)
    small = {_squeezed(known): known for known in names.MINATAR}.get(f"minatar/{_squeezed(game)}")
    if suite in ("atari", "ale"):
        return [f"atari/{game}"]
    if suite == "minatar":
        return [small] if small else []
    if suite in ("gymnasium", "gym"):
        return [f"gym/{rest}"]
    if suite:
        return []
    big = f"atari/{title}" if (title := _title(game)) else None
    if bare == rest:
        return [known for known in (small, big) if known]
    return [big or (f"atari/{game}" if game != bare else f"gym/{rest}")]  # with a version: Gymnasium's or Gym's


def _atari(games: str) -> str:
    from lookrep.envs.host import canonical

    bare = [ATARIS_ENDING.sub("", VERSION.sub("", game)) for game in games.split(",")]
    return "atari/" + ",".join(canonical(f"atari/{game}").removeprefix("atari/") for game in bare)


def _title(game: str) -> str | None:
    """An Atari game's name in papers; None where there is no such game, or no ale-py to ask."""
    from lookrep.envs.host import canonical

    try:
        return canonical(f"atari/{game}").removeprefix("atari/")
    except UserError:
        return None


def _squeezed(name: str) -> str:
    return re.sub(r"[_\- ]|-v\d+$", "", name.lower())
