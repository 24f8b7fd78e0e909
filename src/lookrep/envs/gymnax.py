"""gymnax's environments, and others with its interface, as ours: `gymnax/CartPole-v1`, or one from a user's module.

Observations become float32, and a numbered state a one-hot vector. An episode that ends by gymnax's time limit is
truncated. gymnax's own resets are left out: the trainer makes them.
"""

import difflib
from typing import Any

import jax
import jax.numpy as jnp

from lookrep.envs.protocol import Timestep
from lookrep.errors import UserError, missing
from lookrep.importing import in_short

METHODS = ("reset_env", "step_env", "is_truncated", "action_space", "observation_space")


class Adapted:
    """A gymnax environment with its parameters."""

    observation_dtype = jnp.float32
    can_truncate = True

    def __init__(self, name: str, env: Any, params: Any) -> None:
        actions, seen = env.action_space(params), env.observation_space(params)
        if type(actions).__name__ != "Discrete":
            raise UserError(f"environment '{name}': actions must be Discrete, not {type(actions).__name__}")
        if type(seen).__name__ not in ("Box", "Discrete"):
            raise UserError(f"environment '{name}': observations must be a Box or Discrete, not {type(seen).__name__}")
        self._env, self._params = env, params
        self._states = int(seen.n) if type(seen).__name__ == "Discrete" else None
        self.num_actions = int(actions.n)
        self.observation_shape = (self._states,) if self._states else tuple(seen.shape)

    def init(self, key: jax.Array) -> tuple[Any, jax.Array]:
        observation, state = self._env.reset_env(key, self._params)
        return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), state), self._observed(observation)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[Any, Timestep]:
        observation, after, reward, terminated, _ = self._env.step_env(key, state, action, self._params)
        terminated = jnp.asarray(terminated, bool)
        truncated = jnp.asarray(self._env.is_truncated(after, self._params), bool) & ~terminated
        after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), after, state)
        return after, Timestep(self._observed(observation), jnp.float32(reward), terminated, truncated)

    def _observed(self, observation: Any) -> jax.Array:
        if self._states:
            return jax.nn.one_hot(observation, self._states, dtype=jnp.float32)
        return jnp.asarray(observation, jnp.float32)


def registered(name: str) -> Adapted:
    """`CartPole-v1`, or whatever else gymnax knows by name."""
    try:
        import gymnax
    except ImportError as error:
        raise missing("a gymnax/ environment", error, "gymnax") from error
    full_name = f"gymnax/{name}"
    if name not in gymnax.registered_envs:
        near = difflib.get_close_matches(name, gymnax.registered_envs, n=1, cutoff=0.5)
        hint = f"did you mean gymnax/{near[0]}?" if near else "try gymnax/CartPole-v1"
        raise UserError(f"environment '{full_name}' is unknown to gymnax: {hint}")
    try:
        env, params = gymnax.make(name)
    except Exception as error:  # some download what they need
        raise UserError(f"environment '{full_name}' cannot be made ({in_short(error)})") from error
    return adapted(full_name, env, params)


def has_interface(thing: Any) -> bool:
    """Whether a user's function gave an environment of gymnax's kind, alone or with its parameters."""
    return hasattr(thing[0] if isinstance(thing, tuple) and thing else thing, "step_env")


def adapted(name: str, env: Any, params: Any = None) -> Adapted:
    for method in METHODS:
        if not hasattr(env, method):
            raise UserError(f"environment '{name}' lacks gymnax's '{method}': version 1.0 or newer is needed")
    return Adapted(name, env, env.default_params if params is None else params)
