"""Any environment with Gymnasium's interface: `gym/CartPole-v1`, or a function of yours that makes one.

Observations are one array (floats become float32, bytes stay bytes) and actions are numbered. Terminated and truncated
are what the environment says. It is taken at its word that equal seeds and actions give equal episodes.
"""

import difflib
import warnings
from types import ModuleType
from typing import Any

import numpy as np

from lookrep.envs.host.protocol import EnvSpec, StepResult
from lookrep.errors import UserError, missing
from lookrep.importing import in_short, made

MAX_ACTIONS = 256  # actions travel and are logged as bytes


class Gym:
    """One Gymnasium environment."""

    def __init__(self, name: str, env: Any) -> None:
        self._name, self._env = name, env
        self.spec = _spec(name, env)
        self._first_action = int(env.action_space.start)

    def reset(self, seed: int, start: bytes = b"") -> np.ndarray:
        """Begin an episode with its own seed."""
        del start
        observation, _ = self._env.reset(seed=seed)
        return self._checked(observation)

    def start(self) -> bytes:
        return b""

    def step(self, action: int) -> StepResult:
        observation, reward, terminated, truncated, _ = self._env.step(self._first_action + action)
        return StepResult(self._checked(observation), float(reward), bool(terminated), bool(truncated))

    def play_ahead(self) -> None:
        pass

    def screen(self) -> np.ndarray | None:
        """RGB where the environment was made with `render_mode="rgb_array"` and can draw; None otherwise."""
        try:
            with warnings.catch_warnings(action="ignore"):
                picture = self._env.render()
        except Exception:  # drawing needs packages and displays that playing does not
            return None
        fine = isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.dtype == np.uint8
        return picture if fine else None

    def action_names(self) -> list[str]:
        return [str(self._first_action + k) for k in range(self.spec.num_actions)]

    def close(self) -> None:
        self._env.close()

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation, self.spec.observation_dtype)
        if array.shape != self.spec.observation_shape:
            declared = self.spec.observation_shape
            raise UserError(f"environment '{self._name}' gives observations of {array.shape}, but declares {declared}")
        return array


def registered(name: str) -> Gym:
    """`CartPole-v1`, or whatever else Gymnasium knows by name."""
    gymnasium = library()
    full_name = f"gym/{name}"
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        near = difflib.get_close_matches(name, gymnasium.registry, n=1, cutoff=0.6)
        hint = f"did you mean gym/{near[0]}?" if near else f"try gym/CartPole-v1 ({in_short(error)})"
        raise UserError(f"environment '{full_name}' is unknown to Gymnasium: {hint}") from error
    try:
        env = gymnasium.make(spec, render_mode=_render_mode(spec), disable_env_checker=True)
    except Exception as error:  # a missing package, mostly, and its message says which
        raise UserError(f"environment '{full_name}' cannot be made ({in_short(error)})") from error
    return Gym(full_name, env)


def imported(name: str) -> Gym:
    """`my_module:make_env`, a function (or class) without arguments that gives a gymnasium.Env."""
    gymnasium = library()
    env = made(name)
    if not isinstance(env, gymnasium.Env):
        raise UserError(f"environment '{name}': it must give a gymnasium.Env, not {type(env).__name__}")
    return Gym(name, env)


def library() -> ModuleType:
    """Gymnasium, imported when an environment is asked for, not before."""
    try:
        import gymnasium
    except ImportError as error:
        raise missing("a gym/ environment", error, "gym") from error
    return gymnasium


def _spec(name: str, env: Any) -> EnvSpec:
    kinds = library().spaces
    seen, done = env.observation_space, env.action_space
    if not isinstance(seen, kinds.Box) or seen.shape == ():
        raise UserError(f"environment '{name}': observations must be a Box with at least one axis, not {seen}")
    if seen.dtype != np.uint8 and not np.issubdtype(seen.dtype, np.floating):
        raise UserError(f"environment '{name}': observations must be floats or uint8, not {seen.dtype}")
    if not isinstance(done, kinds.Discrete):
        raise UserError(f"environment '{name}': actions must be Discrete, not {done}")
    if done.n > MAX_ACTIONS:
        raise UserError(f"environment '{name}': at most {MAX_ACTIONS} actions, not {done.n}")
    dtype = np.dtype(np.uint8 if seen.dtype == np.uint8 else np.float32)
    # Any environment may truncate, with or without Gymnasium's TimeLimit around it, unless it says that it never does.
    return EnvSpec(seen.shape, dtype, int(done.n), 1, bool(getattr(env.unwrapped, "can_truncate", True)))


def _render_mode(spec: Any) -> str | None:
    """`rgb_array` where the environment's class says that it can."""
    entry = spec.entry_point
    try:
        made_by = entry if callable(entry) else library().envs.registration.load_env_creator(entry)
    except Exception:  # `make` meets it again, and says so
        return None
    return "rgb_array" if "rgb_array" in getattr(made_by, "metadata", {}).get("render_modes", []) else None
