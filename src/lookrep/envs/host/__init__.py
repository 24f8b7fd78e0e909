"""Environments that run on the host: Atari, anything with Gymnasium's interface, and the workers that step them.

Nothing in this package imports JAX: each worker process imports it, and should be small and quick to start.

    make(name)          an environment: `atari/Breakout`, `gym/CartPole-v1`, `my_module:make_env`
    check(name)         its specification, or a UserError with one clear line
    common_spec(names)  … that of several, whose agents share arrays
    EnvPool(…)          one environment per agent, stepped in processes of their own
"""

from lookrep.envs.host.by_name import canonical, check, common_spec, make, versions
from lookrep.envs.host.pool import EnvPool, EnvPoolState, VectorStep
from lookrep.envs.host.protocol import EnvSpec, HostEnvironment, StepResult

__all__ = [
    "EnvPool",
    "EnvPoolState",
    "EnvSpec",
    "HostEnvironment",
    "StepResult",
    "VectorStep",
    "canonical",
    "check",
    "common_spec",
    "make",
    "versions",
]
