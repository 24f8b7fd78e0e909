"""Small Gymnasium environments for the tests of workers, by `toys:Name`: a walk, and walks that misbehave."""

import os
import random
import signal
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary

LIMIT_STEPS = 12
EDGE = 3


class Walk(gymnasium.Env):
    """Steps of −1, 0 or 1, with noise from the episode's seed. Over the edge ends it; `LIMIT_STEPS` steps cut it."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Discrete(3, start=-1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.steps = float(self.np_random.uniform(-1, 1)), 0
        return self.observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in (-1, 0, 1)
        self.place += action + 0.5 * self.np_random.normal()
        self.steps += 1
        over = abs(self.place) > EDGE
        return self.observation(), self.place, over, not over and self.steps >= LIMIT_STEPS, {}

    def observation(self) -> np.ndarray:
        return np.array([self.place, self.steps, self.np_random.uniform()])


class Unhurried(Walk):
    """Takes its time, as chance has it."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep(random.SystemRandom().choice([0, 0, 0.0005, 0.002]))
        return super().step(action)


class Counted(Walk):
    """Whoever wants to know how often one is made replaces this."""

    def __init__(self) -> None:
        pass


class Sleeper(Walk):
    """Takes no time, a tenth of a second, or two seconds, as its action says."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        time.sleep([0, 0.1, 2][action + 1])
        return super().step(action)


class Faulty(Walk):
    """Fails at the first step to the right."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action == 1:
            raise ZeroDivisionError("the right side\nis not built yet")
        return super().step(action)


class Doomed(Walk):
    """Its process dies at the first step to the right."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Forgetful(Walk):
    """Does not care for its seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        return super().reset(seed=random.SystemRandom().randrange(2**31))


class Stillborn(Walk):
    """Works for whoever checks it, and not in a worker."""

    def __init__(self) -> None:
        if "lookrep.envs.host.worker_process" in sys.modules and "pytest" not in sys.modules:
            raise OSError("no such display")


class Witness(Walk):
    """Shows what kind of process it lives in: its number, whether JAX is there, whether SIGINT gets through."""

    def observation(self) -> np.ndarray:
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return np.array([os.getpid(), "jax" in sys.modules, signal.SIGINT in blocked])


class Pixels(Walk):
    observation_space = Box(0, 255, (2, 2), np.uint8)
    can_truncate = False

    def observation(self) -> np.ndarray:
        return np.full((2, 2), self.steps, np.uint8)


class Liar(Walk):
    observation_space = Box(0, 1, (5,))


class Whole(Walk):
    observation_space = Box(0, 9, (3,), np.int64)


class Switches(Walk):
    action_space = MultiBinary(3)


class Keyboard(Walk):
    action_space = Discrete(257)


def not_an_environment() -> str:
    return "hello"
