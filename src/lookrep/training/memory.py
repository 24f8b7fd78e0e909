"""Where a population fits: on the device, or with its frames in the host's memory; if nowhere, the arithmetic."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import jax

from lookrep.config import RunConfig
from lookrep.errors import UserError

WORKING_FRACTION = 0.1  # of memory, for batches, activations and gradients


def available() -> tuple[int, str]:
    """Bytes on the device that a population may take, and what they are called."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "of device memory that JAX may use"
    return host_available(), "of free memory"


def host_available() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return 2**63


def place(config: RunConfig, groups: Sequence[Any], *, frames: bool) -> Literal["device", "host"]:
    """Where a population's frames go. Refuses, before anything is made, one that does not fit; says what would."""
    asked = config.settings.replay.replay_memory
    if asked == "host" and not frames:
        raise UserError("replay_memory = 'host' is for stacked frames, such as Atari's: choose auto or device")
    state, replay, pictures = map(
        _bytes, (groups, [group.replay for group in groups], [group.replay.observation for group in groups])
    )
    has, called = available()
    room = has * (1 - WORKING_FRACTION)
    if asked != "host" and state <= room:
        return "device"
    # On a CPU both are the same memory.
    host_room = (
        host_available() * (1 - WORKING_FRACTION) if jax.default_backend() != "cpu" else room - (state - pictures)
    )
    if frames and asked != "device" and state - pictures <= room and pictures <= host_room:
        return "host"
    capacity, cycle = config.settings.replay.replay_capacity_steps, config.settings.learning.steps_per_update
    fitting_agents = int(room / (state / config.agents))
    fitting_steps = int((room - (state - replay)) / (replay / capacity)) // (1000 * cycle) * 1000 * cycle
    fits = [f"{fitting_agents} agents"] if fitting_agents else []
    fits += [f"--replay-capacity-steps {fitting_steps}"] if fitting_steps > 0 else []
    host = f" (and {host_room / 1e9:.1f} GB of the host's for frames)" if jax.default_backend() != "cpu" else ""
    raise UserError(
        f"agents = {config.agents} × {state / config.agents / 1e9:.2f} GB (replay_capacity_steps = {capacity:,}: "
        f"{replay / config.agents / 1e9:.2f} GB, networks: the rest) = {state / 1e9:.1f} GB, but there are "
        f"{has / 1e9:.1f} GB {called}, a tenth of it for computing{host}; {' or '.join(fits) or 'nothing'} would fit"
    )


def _bytes(tree: Any) -> int:
    return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(tree))
