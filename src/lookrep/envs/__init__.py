"""Environments that run on the device, and the small protocol by which users bring their own."""

import difflib
from typing import Any

import jax
import jax.numpy as jnp

from lookrep.envs import minatar
from lookrep.envs.protocol import Environment, Timestep
from lookrep.errors import UserError
from lookrep.importing import in_short, made

__all__ = ["Environment", "Timestep", "make", "names", "on_host"]


def names() -> list[str]:
    """The environments that come with lookrep."""
    return [f"minatar/{game}" for game in minatar.GAMES]


def on_host(name: str) -> bool:
    """Whether an environment runs on the host (lookrep.hosted) and not on the device: Atari, Gymnasium."""
    if name.startswith(("atari/", "gym/")):
        return True
    if ":" not in name:
        return False
    env = made(name)
    return hasattr(env, "action_space") and hasattr(env, "reset") and not hasattr(env, "init")


def make(name: str) -> Environment:
    """`minatar/GAME`, or `my_module:MyEnv` for a class (or a function) of yours that gives an Environment."""
    if name in names():
        return minatar.make(name.removeprefix("minatar/"))
    if ":" in name:
        return _checked(name, made(name))
    near = difflib.get_close_matches(name, names(), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(names())}, or write my_module:MyEnv"
    raise UserError(f"environment '{name}' is unknown: {hint}")


def _checked(name: str, env: Any) -> Environment:
    """Compare what an environment says with what it does, without running it."""
    for field in ("observation_shape", "observation_dtype", "num_actions", "can_truncate", "init", "step"):
        if not hasattr(env, field):
            raise UserError(f"environment '{name}' lacks '{field}' (lookrep.envs.Environment says what it is)")
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    try:
        state, observation = jax.eval_shape(env.init, key)
    except Exception as error:
        raise UserError(f"environment '{name}': init fails ({in_short(error)})") from error
    try:
        after, seen = jax.eval_shape(env.step, key, state, jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as error:
        raise UserError(f"environment '{name}': step fails ({in_short(error)})") from error
    if not isinstance(seen, Timestep):
        raise UserError(
            f"environment '{name}': step must give (state, lookrep.envs.Timestep), not {type(seen).__name__}"
        )
    expected = (tuple(env.observation_shape), jnp.dtype(env.observation_dtype))
    for where, found in (("init", observation), ("step", seen.observation)):
        if (found.shape, found.dtype) != expected:
            raise UserError(
                f"environment '{name}': {where} gives observations of shape {found.shape} and type {found.dtype}, "
                f"but it declares {expected[0]} and {expected[1]}"
            )
    if jax.tree.map(lambda x: (x.shape, x.dtype), after) != jax.tree.map(lambda x: (x.shape, x.dtype), state):
        raise UserError(f"environment '{name}': step changes the structure, shapes or types of the state")
    for field, dtype in (("reward", jnp.float32), ("terminated", jnp.bool_), ("truncated", jnp.bool_)):
        value = getattr(seen, field)
        if value.shape != () or value.dtype != dtype:
            found = f"{value.dtype}{list(value.shape)}"
            raise UserError(f"environment '{name}': {field} must be a {jnp.dtype(dtype)} scalar, not {found}")
    if not 1 <= env.num_actions <= 256:
        raise UserError(f"environment '{name}': num_actions = {env.num_actions} must be from 1 to 256")
    checked: Environment = env
    return checked
