"""What a method costs: learning cycles of a population with it, relative to those of hard copy, in turns.

A cycle is `steps_per_update` steps of every agent and one update of each, with the target's turns spread over it. So a
ratio is what a user pays, acting and environments included. On MinAtar, in the fused engine.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from lookrep import methods
from lookrep.benchmarks import minatar
from lookrep.benchmarks.minatar import Case, Trial

BASELINE = "hard"
# Resets are rare and long. A tenth of both numbers costs the same, and comes round within a timing.
SCALED = {"renewed": methods.renewed(every_updates=1_000, updates=100)}


def default_names() -> tuple[str, ...]:
    """All of them, the baseline included: beside itself it says how exact a ratio is."""
    return tuple(name for name in methods.names() if name != "plain")


def run(cases: Sequence[Case], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each method, for one population after the other. Where there are cores for it, some compile side by
    side before they are timed."""
    some = minatar.compilers()
    for case in cases:
        hard = Trial(minatar.config_of(case, BASELINE))
        for first in range(0, len(names), some):
            together = names[first : first + some]
            with ThreadPoolExecutor(some) as pool:
                trials = list(pool.map(lambda name, case=case: _trial(case, name), together))
            for name in together:
                yield {**_described(case), "method": name, **compared(trials.pop(0), hard)}


def _trial(case: Case, name: str) -> Trial:
    return Trial(minatar.config_of(case, SCALED.get(name, name)))


def compared(trial: Trial, hard: Trial) -> dict[str, Any]:
    """Both populations take turns; the ratio is that of neighbours in time."""
    unit = math.lcm(trial.period_updates, hard.period_updates)
    one_period = trial.seconds(trial.period_updates)
    updates = max(1, round(minatar.SECONDS_A_REPEAT / hard.seconds(unit))) * unit
    pairs = [(trial.seconds(updates), hard.seconds(updates)) for _ in range(minatar.REPEATS)]
    ratios = [mine / its for mine, its in pairs]
    return {
        "cycle_microseconds": round(statistics.median(mine for mine, _ in pairs) / updates * 1e6, 1),
        "times_hard": round(statistics.median(ratios), 2),
        "times_hard_spread": [round(min(ratios), 2), round(max(ratios), 2)],
        "memory_times_hard": round(_kept_bytes(trial) / _kept_bytes(hard), 2),
        "compile_seconds": round(trial.first_seconds - one_period, 1),
    }


def _described(case: Case) -> dict[str, Any]:
    """The case; `target` is the method's business."""
    return {name: value for name, value in case._asdict().items() if name != "target"}


def _kept_bytes(trial: Trial) -> int:
    """What agents keep beside the online network and its optimiser."""
    kept = trial.state.agents._replace(online=None, optimizer=None)
    return sum(leaf.nbytes for leaf in jax.tree.leaves(kept))
