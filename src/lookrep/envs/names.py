"""Names of environments, and where each of them runs. No JAX here: plans, `--help` and worker processes read this."""

import difflib
import functools
import inspect

from lookrep.errors import UserError
from lookrep.importing import found, made

MINATAR_CHANNELS = {"breakout": 4, "asterix": 4, "freeway": 7, "seaquest": 10, "space_invaders": 6}
MINATAR = tuple(f"minatar/{game}" for game in MINATAR_CHANNELS)


@functools.cache  # a function must be called to be told apart
def on_host(name: str) -> bool:
    """Whether an environment runs on the host (`lookrep.envs.host`) and not on the device: Atari, Gymnasium."""
    if name.startswith(("atari/", "gym/")):
        return True
    if ":" not in name:
        return False
    thing = found(name)
    env = thing if inspect.isclass(thing) else made(name)
    return hasattr(env, "reset") and not (
        hasattr(env, "init") or hasattr(env, "step_env")
    )  # step_env: as gymnax has it


def unknown(name: str) -> UserError:
    """What to say of a name that stands for nothing."""
    near = difflib.get_close_matches(name, MINATAR, n=1, cutoff=0.5)
    return UserError(
        f"environment '{name}' is unknown: "
        + (
            f"did you mean {near[0]}?"
            if near
            else f"choose from {', '.join(MINATAR)}, atari/GAME, gym/NAME, gymnax/NAME, or write my_module:MyEnv"
        )
    )
