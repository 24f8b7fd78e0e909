"""What a method costs: learning cycles of a population with it, relative to those of hard copy, in turns.

A cycle is `steps_per_update` steps of every agent and one update of each, with the target's turns spread over it. So a
ratio is what a user pays, acting and environments included. On MinAtar, in the fused engine.
"""

import contextlib
import math
import os
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from lookrep import methods
from lookrep.benchmarks import minatar
from lookrep.benchmarks.apart import TrialApart, started
from lookrep.benchmarks.minatar import Case, Trial

BASELINE = "hard"
# Resets are rare and long. A tenth of both numbers costs the same, and comes round within a timing.
SCALED = {"renewed": methods.renewed(every_updates=1_000, updates=100)}


def default_names() -> tuple[str, ...]:
    """All of them, the baseline included: beside itself it says how exact a ratio is."""
    return tuple(name for name in methods.names() if name != "plain")


def run(cases: Sequence[Case], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each method, for one population after the other. On a GPU the programs of some are compiled side by
    side, each in a process of its own; none runs while another one is timed."""
    some = max(1, (os.cpu_count() or 1) // 2) if jax.default_backend() == "gpu" else 1
    for case in cases:
        with _trials(case, (BASELINE,)) as (hard,):
            for first in range(0, len(names), some):
                together = names[first : first + some]
                with _trials(case, together) as trials:
                    for trial in (hard, *trials):
                        trial.ready()
                    for name, trial in zip(together, trials, strict=True):
                        yield {**_described(case), "method": name, **compared(trial, hard)}


@contextlib.contextmanager
def _trials(case: Case, names: Sequence[str]) -> Iterator[Sequence[Trial | TrialApart]]:
    configs = [minatar.config_of(case, SCALED.get(name, name)) for name in names]
    if jax.default_backend() != "gpu":
        yield [Trial(config) for config in configs]
        return
    with started(configs) as trials:
        yield trials


def compared(trial: Trial | TrialApart, hard: Trial | TrialApart) -> dict[str, Any]:
    """Both populations take turns; the ratio is that of neighbours in time."""
    unit = math.lcm(trial.period_updates, hard.period_updates)
    one_period = trial.seconds(trial.period_updates)
    updates = max(1, round(minatar.SECONDS_A_REPEAT / hard.seconds(unit))) * unit
    trial.seconds(updates)  # so many cycles may be another program
    pairs = [(trial.seconds(updates), hard.seconds(updates)) for _ in range(minatar.REPEATS)]
    ratios = [mine / its for mine, its in pairs]
    return {
        "cycle_microseconds": round(statistics.median(mine for mine, _ in pairs) / updates * 1e6, 1),
        "times_hard": round(statistics.median(ratios), 2),
        "times_hard_spread": [round(min(ratios), 2), round(max(ratios), 2)],
        "memory_times_hard": round(trial.kept_bytes / hard.kept_bytes, 2),
        "compile_seconds": round(trial.first_seconds - one_period, 1),
    }


def _described(case: Case) -> dict[str, Any]:
    """The case; `target` is the method's business."""
    return {name: value for name, value in case._asdict().items() if name != "target"}
