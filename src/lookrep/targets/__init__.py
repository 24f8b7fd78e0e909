"""Target rules: how the target network follows the online network.

In the paper's letters the online network is `w` and the target network is `θ`; in code they are `online` and `target`.
Rules are pure and know nothing about agents or replay. Schedules count online updates.

References: Asadi et al., Learning the Target Network in Function Space, ICML 2024, Alg. 1 and Replicate.
"""

from lookrep.targets.base import Batches, Params, TargetRule, TargetState, update
from lookrep.targets.parameter import ParameterRule, frozen, hard, polyak
from lookrep.targets.replicate import Replicate, Until, replicate, stacked, until
from lookrep.targets.schedule import Schedule, as_schedule, growing
from lookrep.targets.snapshots import Averaged, Distilled, averaged, distilled

__all__ = [
    "Averaged",
    "Batches",
    "Distilled",
    "ParameterRule",
    "Params",
    "Replicate",
    "Schedule",
    "TargetRule",
    "TargetState",
    "Until",
    "as_schedule",
    "averaged",
    "distilled",
    "frozen",
    "growing",
    "hard",
    "polyak",
    "replicate",
    "stacked",
    "until",
    "update",
]
