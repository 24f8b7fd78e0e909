"""Names of environments, and where each of them runs. No JAX here: plans, `--help` and worker processes read this."""

import functools
import inspect

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
