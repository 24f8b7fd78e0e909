"""What a study will run on: kind of device, how many, and how much memory. JAX is asked in a process of its own.

The process that manages a study must not hold a device: XLA would reserve most of a GPU's memory for it.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

GIGABYTE = 10**9

_PROBE = """
import json, jax
device = jax.devices()[0]
stats = device.memory_stats() or {}
print(json.dumps([device.platform, device.device_kind, jax.local_device_count(), stats.get("bytes_limit", 0)]))
"""


@dataclass(frozen=True)
class Hardware:
    kind: Literal["gpu", "cpu"]
    device: str
    count: int
    cores: int
    memory_bytes: int  # of one device; of the machine for a CPU

    @property
    def usable_bytes(self) -> int:
        """What a population's state may take: the rest is for what is computed on the way, and for others."""
        return int(self.memory_bytes * (0.8 if self.kind == "gpu" else 0.5))

    def __str__(self) -> str:
        return f"{self.count} × {self.device}" if self.kind == "gpu" else f"{self.cores} CPU cores"


H200 = Hardware("gpu", "NVIDIA H200", 1, 16, 139 * GIGABYTE)  # what speeds.toml is about


def detect() -> Hardware:
    """This machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    here = Hardware("cpu", "cpu", 1, cores, _machine_bytes())
    if not _may_have_accelerator():
        return here
    settings = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.95"}
    found = subprocess.run([sys.executable, "-c", _PROBE], env=os.environ | settings, capture_output=True, text=True)
    try:
        platform, device, count, memory_bytes = json.loads(found.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return here  # JAX cannot use it, and will say so when it trains on the CPU
    if platform == "cpu":
        return here
    return Hardware("gpu", device, count, cores, memory_bytes or here.memory_bytes)


def as_json(hardware: Hardware) -> dict[str, Any]:
    """For the record of a sitting."""
    return {"device": f"{hardware.count} × {hardware.device}", "cores": hardware.cores}


def _may_have_accelerator() -> bool:
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    return any(any(Path("/dev").glob(pattern)) for pattern in ("nvidia[0-9]*", "kfd", "accel*"))


def _machine_bytes() -> int:
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        allowed = Path("/sys/fs/cgroup/memory.max").read_text().strip()  # a container's share
    except OSError:
        return installed
    return min(installed, int(allowed)) if allowed.isdecimal() else installed
