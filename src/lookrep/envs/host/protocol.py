"""What an environment on the host looks like: its specification, its steps, and what a worker expects of it."""

from typing import NamedTuple, Protocol

import numpy as np


class EnvSpec(NamedTuple):
    """What a trainer must know about an environment before there is one."""

    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype  # uint8 or float32
    num_actions: int  # at most 256: actions travel and are logged as bytes
    frame_stack: int  # observations that an agent sees at a time, the newest last; 1: just this one
    can_truncate: bool
    start_bytes: int = 0  # what `start` gives, where an episode's beginning depends on more than its seed

    @property
    def keeps_final(self) -> bool:
        """Whether the last observation of an episode is kept: a cut episode needs it, stacked frames do without."""
        return self.can_truncate and self.frame_stack == 1


class StepResult(NamedTuple):
    """What one step gives back. `observation` is the one the action led to, also at an episode's last step."""

    observation: np.ndarray
    reward: float
    terminated: bool  # the episode is over and its future is worth nothing
    truncated: bool  # the episode was cut, its future still has a value
    goes_on: bool = False  # terminated for learning alone: a life was lost, and the same episode goes on

    @property
    def over(self) -> bool:
        """Whether only `reset` may follow."""
        return (self.terminated or self.truncated) and not self.goes_on


class HostEnvironment(Protocol):
    """One environment, stepped in some worker. Equal starts, seeds and actions give equal episodes: a resume replays
    them.

    Observations that `reset` and `step` give may be overwritten by the next call: who keeps one copies it.
    """

    spec: EnvSpec

    def reset(self, seed: int, start: bytes = b"") -> np.ndarray:
        """Begin an episode; everything in it follows from `seed`, the actions and, with `spec.start_bytes`, from what
        came before, unless `start` says otherwise."""
        ...

    def start(self) -> bytes:
        """What the running episode began from, for another `reset`: `spec.start_bytes` bytes."""
        ...

    def step(self, action: int) -> StepResult:
        """Take one of `spec.num_actions` actions. After an end only `reset` may follow."""
        ...

    def play_ahead(self) -> None:
        """Do whatever of the next step does not depend on its action; `screen` may then show it already."""
        ...

    def screen(self) -> np.ndarray | None:
        """What a person would see, uint8 [height, width, 3]; None where there are no pictures."""
        ...

    def action_names(self) -> list[str]: ...

    def close(self) -> None: ...
