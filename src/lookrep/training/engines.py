"""What an engine is, and which one a configuration needs."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import jax

from lookrep import envs
from lookrep.agents import Agent, AgentState, Parts
from lookrep.config import RunConfig
from lookrep.training.fused import FusedEngine


class Engine(Protocol):
    """What trains: a state, advanced in steps of all its agents."""

    agent: Agent
    can_pause: bool  # whether it may stop anywhere between two rows of metrics, at a multiple of `steps_per_update`
    moved: Callable[[int], None]  # if not, it calls this with the agent step, now and then in `advance`

    def init(self) -> Any:
        """The state at step 0 of a run that leaves nothing on disk."""
        ...

    def shapes(self) -> Any:
        """The arrays of a checkpoint, as shapes. Raises if the configuration cannot be trained."""
        ...

    def place(self, tree: Any | None, meta: dict[str, Any], folder: Path) -> Any:
        """The state that `saved` gave, ready to go on; the one at step 0 if there is none. `folder` is the run's, for
        what is too large to be written anew with every checkpoint. Raises `checkpoint.Damaged` if that is."""
        ...

    def joined(self, states: Sequence[Any]) -> Any:
        """The states of several runs, at the same step, as one."""
        ...

    def part(self, state: Any, i: int) -> Any:
        """Of the state of several runs, that of run i."""
        ...

    def agents(self, state: Any) -> AgentState:
        """All agents' networks and optimisers, with an axis of agents."""
        ...

    def saved(self, state: Any, folder: Path) -> tuple[Any, dict[str, Any]]:
        """What a checkpoint must hold: arrays, and what else can be written as JSON."""
        ...

    def advance(self, state: Any, until_steps: int) -> Any:
        """Train until every agent has taken so many steps. The state passed in is consumed."""
        ...

    def measure(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state to go on with."""
        ...

    def close(self, state: Any) -> None:
        """Let go of what the state holds outside this process."""
        ...


def make_engine(config: RunConfig, parts: Parts | None = None, beside: Sequence[RunConfig] = ()) -> Engine:
    """The engine for this environment; on the device, one for several runs if there are any `beside`."""
    if envs.on_host(config.env):
        from lookrep.training.host.engine import HostEngine

        return HostEngine(config, parts)
    return FusedEngine(config, envs.make(config.env), beside, parts)


def keep_what_is_compiled() -> None:
    """On a GPU most of a minute of compiling is timing variants of kernels: later starts of a program reuse it. Changes
    JAX's configuration, so commands ask for it and the library does not."""
    if jax.default_backend() == "gpu" and not jax.config.values["jax_compilation_cache_dir"]:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(caches) / "lookrep" / "jax"))
