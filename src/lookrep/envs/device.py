"""Environments that run on the device, and the small protocol by which users bring their own."""

from typing import Any

import jax
import jax.numpy as jnp

from lookrep.envs import gymnax, minatar, names, spelling
from lookrep.envs.protocol import Environment, Timestep
from lookrep.errors import UserError
from lookrep.importing import in_short, made


def make(name: str) -> Environment:
    """`minatar/GAME`, `gymnax/NAME`, or `my_module:MyEnv` for a class (or a function) of yours that gives an
    Environment, or one of gymnax's kind, with its parameters or alone."""
    if name in names.MINATAR:
        return minatar.make(name.removeprefix("minatar/"))
    if name.startswith("gymnax/"):
        return _checked(name, gymnax.registered(name.removeprefix("gymnax/")))
    if ":" in name:
        env = made(name)
        if gymnax.has_interface(env):
            env = gymnax.adapted(name, *(env if isinstance(env, tuple) else (env,)))
        return _checked(name, env)
    raise spelling.unknown(name)


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
