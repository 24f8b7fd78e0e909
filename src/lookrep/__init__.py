"""lookrep: target networks that follow the online network as a function, not as a vector of parameters.

    lookrep.targets, lookrep.distances, lookrep.losses    for agents of your own
    lookrep.train, lookrep.load                           for ours, with your parts
    lookrep.exact                                         finite problems, solved exactly
    lookrep.methods                                       ways to stabilise bootstrapping, as compositions of parts

Everything is imported when it is first used, so `import lookrep` and `lookrep --help` wait for nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookrep import distances, exact, heads, losses, methods, targets
    from lookrep.api import Run, load, train
    from lookrep.errors import UserError

__version__ = "0.1.0"
__all__ = [
    "Run", "UserError", "__version__", "distances", "exact", "heads", "load", "losses", "methods", "targets", "train",
]  # fmt: skip

_FROM = {"Run": "lookrep.api", "load": "lookrep.api", "train": "lookrep.api", "UserError": "lookrep.errors"}


def __getattr__(name: str) -> Any:
    if name in _FROM:
        try:
            return getattr(importlib.import_module(_FROM[name]), name)
        except ModuleNotFoundError as error:
            from lookrep.errors import missing

            raise missing(f"lookrep.{name}", error) from error
    if name in __all__:
        return importlib.import_module(f"lookrep.{name}")
    raise AttributeError(f"module 'lookrep' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
