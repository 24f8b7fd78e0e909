"""Where a population fits: on the device, or with its frames in the host's memory; if nowhere, the arithmetic."""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np

from lookrep import envs
from lookrep.agents import Agent
from lookrep.config import RunConfig
from lookrep.errors import UserError, out_of_memory

WORKING_FRACTION = 0.1  # of memory, for batches, activations and gradients


def available() -> tuple[int, str]:
    """Bytes on the device that a population may take, and what they are called."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "of device memory that JAX may use"
    return host_available(), "of free memory"


def host_available() -> int:
    """What is free, of the machine's memory or of what this process' group may have (a container's, a job's)."""
    return min(_machine_available(), _group_available())


def _machine_available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return 2**63


def _group_available(cgroups: Path = Path("/sys/fs/cgroup"), mine: Path = Path("/proc/self/cgroup")) -> int:
    """The least that any control group above this process leaves it (version 2). Files it has read do not count."""
    least = 2**63
    try:
        path = mine.read_text().rpartition("::")[2].strip().strip("/")
        for group in (cgroups / path, *(cgroups / path).parents):
            if cgroups not in (group, *group.parents) or not (group / "memory.max").is_file():
                continue
            limit = (group / "memory.max").read_text().strip()
            if limit != "max":
                used = int((group / "memory.current").read_text())
                statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                least = min(least, int(limit) - used + int(statistics["inactive_file"]))
    except (OSError, ValueError, KeyError):
        pass  # no control groups, or older ones: then the machine's memory is all that is known
    return max(0, least)


TRAINING = "fewer agents, a smaller batch or replay_capacity_steps need less; what was saved before is good"
PLAYING = "fewer agents, episodes or observations at once need less"


@contextlib.contextmanager
def enough(advice: str = TRAINING) -> Iterator[None]:
    """Running out of memory in this block all the same (another process may have taken it) becomes one line."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = out_of_memory(error)
        if said is None:
            raise
        raise UserError(f"{said}: {advice}") from error


def check(config: RunConfig, state: Any, agent: Agent) -> None:
    """Refuse, before anything is made, a population on the device that does not fit; says what would. `state` is its
    arrays or their shapes. (Populations on the host are asked by `place`.)"""
    if envs.on_host(config.env):
        return
    has, called = available()
    if apart():
        has *= config.devices
    if _bytes(state) > has * (1 - WORKING_FRACTION):
        raise UserError(_arithmetic(config, _bytes(state), _bytes(state.replay), has, called))
    batch = _Batch(config, agent, state.observation.dtype)
    if _bytes(state) + batch.bytes > has:
        raise UserError(batch.arithmetic(_bytes(state), has, called))


class _Batch:
    """The least that an update needs beside the population: a batch for every agent, and what the network makes of it
    three times over (on the way there, for the gradient, and the target's or the head's)."""

    def __init__(self, config: RunConfig, agent: Agent, dtype: Any) -> None:
        learning, target, method = config.settings.learning, config.settings.target, config.settings.method
        self.agents, self.size, self.name = config.agents, learning.batch_size, "batch_size"
        learns = target.target not in ("hard", "polyak", "frozen") or method.reset_period_updates is not None
        if learns and target.replicate_batch_size > self.size:
            self.size, self.name = target.replicate_batch_size, "replicate_batch_size"
        seen = math.prod(agent.observation_shape) * (1 if dtype == np.uint8 else 4)  # others as float32
        self.bytes = math.ceil(config.agents * self.size * (2 * seen + 3 * layers_bytes(agent, dtype)))

    def arithmetic(self, state: int, has: int, called: str) -> str:
        fitting = self.size * (has - state) // self.bytes
        fits = f"; {self.name} = {fitting:,} would fit" if fitting else ""
        return (
            f"{self.name} = {self.size:,}: a batch takes {_size(self.bytes)}, beside {_size(state)} for {self.agents} "
            f"agents, but there are {_size(has)} {called}{fits}"
        )


def layers_bytes(agent: Agent, dtype: Any, batch_size: int = 32) -> float:
    """What all layers of the online network give for one observation."""
    params = jax.eval_shape(lambda key: agent.compute(agent.online.init(key)), jax.random.key(0))
    observations = jax.ShapeDtypeStruct((batch_size, *agent.observation_shape), dtype)
    apply = jax.make_jaxpr(lambda params, seen: agent.online.apply(params, seen, None))
    return _products(apply(params, observations).jaxpr) / batch_size


def _products(jaxpr: Any) -> int:
    """Bytes of what matrix products and convolutions give, also inside other functions."""
    found = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "conv_general_dilated"):
            found += sum(math.prod(out.aval.shape) * out.aval.dtype.itemsize for out in equation.outvars)
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "jaxpr"))
        found += sum(
            _products(getattr(one, "jaxpr", one)) for one in inner if hasattr(getattr(one, "jaxpr", one), "eqns")
        )
    return found


def apart() -> bool:
    """Whether the device has memory of its own. On a CPU both are the same."""
    return jax.default_backend() != "cpu"


def place(config: RunConfig, state: Any, agent: Agent, *, frames: np.dtype | None) -> Literal["device", "host"]:
    """Where a population's frames go, which are of this type, if it has any. Refuses, before anything is made, one that
    does not fit; says what would."""
    asked = config.settings.replay.replay_memory
    if asked == "host" and frames is None:
        raise UserError("replay_memory = 'host' is for stacked frames, such as Atari's: choose auto or device")
    whole, replay, pictures = map(_bytes, (state, state.replay, state.replay.observation))
    has, called = available()
    room = has * (1 - WORKING_FRACTION)
    batch = _Batch(config, agent, np.dtype(np.float32) if frames is None else frames)
    if asked != "host" and whole <= room and whole + batch.bytes <= has:
        return "device"
    rest = whole - pictures
    host_room = host_available() * (1 - WORKING_FRACTION) if apart() else room - rest
    if frames is not None and asked != "device" and rest <= room and pictures <= host_room:
        if rest + batch.bytes <= has:
            return "host"
        raise UserError(batch.arithmetic(rest, has, called))
    if whole <= room:
        raise UserError(batch.arithmetic(whole, has, called))
    host = f" (and {host_room / 1e9:.1f} GB of the host's for frames)" if apart() else ""
    raise UserError(_arithmetic(config, whole, replay, has, called, host))


def _arithmetic(config: RunConfig, state: int, replay: int, has: int, called: str, more: str = "") -> str:
    capacity, cycle = config.settings.replay.replay_capacity_steps, config.settings.learning.steps_per_update
    room = has * (1 - WORKING_FRACTION)
    fitting_agents = int(room / (state / config.agents))
    fitting_steps = int((room - (state - replay)) / (replay / capacity)) // (1000 * cycle) * 1000 * cycle
    fits = [f"{fitting_agents} agents"] if fitting_agents else []
    fits += [f"--replay-capacity-steps {fitting_steps}"] if fitting_steps > 0 else []
    return (
        f"agents = {config.agents} × {_size(state / config.agents)} (replay_capacity_steps = {capacity:,}: "
        f"{_size(replay / config.agents)}, networks: the rest) = {state / 1e9:,.1f} GB, but there are "
        f"{has / 1e9:.1f} GB {called}, a tenth of it for computing{more}; {' or '.join(fits) or 'nothing'} would fit"
    )


def _size(count: float) -> str:
    """
    >>> _size(7.131e9), _size(8_446_211)
    ('7.13 GB', '8.45 MB')
    """
    return f"{count / 1e9:,.2f} GB" if count >= 1e9 else f"{count / 1e6:.2f} MB"


def _bytes(tree: Any) -> int:
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in jax.tree.leaves(tree))
