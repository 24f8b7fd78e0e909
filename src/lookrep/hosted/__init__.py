"""Environments that run on the host: Atari, anything with Gymnasium's interface, and the workers that step them.

Nothing in this package imports JAX: each worker process imports it, and should be small and quick to start.

    make(name)       an environment: `atari/Breakout`, `gym/CartPole-v1`, `my_module:make_env`
    check(name)      its spaces, or a UserError with one clear line
    Workers(…)       one environment per agent, stepped in processes of their own
"""

from lookrep.hosted.making import canonical, check, make, versions
from lookrep.hosted.protocol import HostEnvironment, Outcome, Spaces
from lookrep.hosted.workers import Seen, Workers, WorkersState

__all__ = [
    "HostEnvironment",
    "Outcome",
    "Seen",
    "Spaces",
    "Workers",
    "WorkersState",
    "canonical",
    "check",
    "make",
    "versions",
]
