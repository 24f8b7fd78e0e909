"""Whether a population fits into memory, with the arithmetic in one line where it does not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from lookrep.config import RunConfig
from lookrep.errors import UserError

WORKING_FRACTION = 0.1  # of memory, for batches, activations and gradients


def available() -> tuple[int, str]:
    """Bytes that a population may take, and what they are called."""
    stats = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]), "of device memory that JAX may use"
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), "of free memory"
    except (OSError, StopIteration):  # not Linux
        return 2**63, ""


def check(config: RunConfig, groups: Sequence[Any], has: int, called: str) -> None:
    """Refuse, before anything is made, a population that does not fit; say what would."""
    state, replay = (sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(part)) for part in
                     (groups, [group.replay for group in groups]))  # fmt: skip
    room = has * (1 - WORKING_FRACTION)
    if state <= room:
        return
    capacity, cycle = config.settings.replay.replay_capacity_steps, config.settings.learning.steps_per_update
    fitting_agents = int(room / (state / config.agents))
    fitting_steps = int((room - (state - replay)) / (replay / capacity)) // (1000 * cycle) * 1000 * cycle
    fits = [f"{fitting_agents} agents"] if fitting_agents else []
    fits += [f"--replay-capacity-steps {fitting_steps}"] if fitting_steps > 0 else []
    raise UserError(
        f"agents = {config.agents} × {state / config.agents / 1e9:.2f} GB (replay_capacity_steps = {capacity:,}: "
        f"{replay / config.agents / 1e9:.2f} GB, networks: the rest) = {state / 1e9:.1f} GB, but there are "
        f"{has / 1e9:.1f} GB {called}, a tenth of it for computing; {' or '.join(fits) or 'nothing'} would fit"
    )
