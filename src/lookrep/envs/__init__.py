"""Environments: on the device (`minatar/`, one's own in JAX) and on the host (`host/`: Atari, Gymnasium).

Names are free of JAX; what needs it is imported when it is asked for, because worker processes of the host import this
package and should stay small.
"""

import importlib
from typing import TYPE_CHECKING, Any

from lookrep.envs import names
from lookrep.envs.names import on_host

if TYPE_CHECKING:
    from lookrep.envs.device import make
    from lookrep.envs.protocol import Environment, Timestep

__all__ = ["Environment", "Timestep", "make", "names", "on_host"]

_FROM = {"make": "lookrep.envs.device", "Environment": "lookrep.envs.protocol", "Timestep": "lookrep.envs.protocol"}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        return getattr(importlib.import_module(_FROM[name]), name)
    raise AttributeError(f"module 'lookrep.envs' has no attribute '{name}'")
