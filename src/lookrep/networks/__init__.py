"""Networks for value-based agents: those that come with lookrep (`builtin`), users' own (`own`), several (`stacks`)."""

from lookrep.networks.builtin import NATURE_LAYERS, HeadShape, Network, Outputs, Torso, build
from lookrep.networks.stacks import check_last, mean_of, with_trunk

__all__ = [
    "NATURE_LAYERS",
    "HeadShape",
    "Network",
    "Outputs",
    "Torso",
    "build",
    "check_last",
    "mean_of",
    "with_trunk",
]
