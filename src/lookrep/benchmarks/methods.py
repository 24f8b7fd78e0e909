"""What a method costs: learning cycles of a population with it, relative to those of hard copy, in turns. Or what a
study's variants cost, relative to its baseline.

A cycle is `steps_per_update` steps of every agent and one update of each, with the target's turns spread over it. So a
ratio is what a user pays, acting and environments included. On MinAtar, in the fused engine.
"""

import contextlib
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from lookrep import methods
from lookrep.benchmarks import minatar
from lookrep.benchmarks.apart import TrialApart, started
from lookrep.benchmarks.minatar import Case, Trial
from lookrep.config import RunConfig
from lookrep.envs import names as environments
from lookrep.errors import UserError
from lookrep.studies import plan
from lookrep.studies.definition import Study
from lookrep.studies.plan import PlannedPopulation

BASELINE = "hard"


class Comparison(NamedTuple):
    """Runs by the names that their rows have as methods, what they are timed relative to, and where they are from."""

    runs: Mapping[str, RunConfig]
    baseline: RunConfig
    source: Mapping[str, str]


def default_names() -> tuple[str, ...]:
    """All of them, the baseline included: beside itself it says how exact a ratio is."""
    return tuple(name for name in methods.names() if name != "plain")


def of_case(case: Case, names: Sequence[str]) -> Comparison:
    """Methods with their own numbers, beside hard copy."""
    return Comparison({name: minatar.config_of(case, name) for name in names}, minatar.config_of(case, BASELINE), {})


def of_study(study: Study, variants: Sequence[str], game: str, agents: int) -> Comparison:
    """A study's variants with the study's numbers, beside its baseline: what its populations run, but for the size."""
    for env in study.environments:
        if env not in environments.MINATAR:
            raise UserError(f"study {study.name}: has {env}, and only studies of MinAtar are timed")

    def run(variant: str) -> RunConfig:
        population = PlannedPopulation((f"minatar/{game}",), variant, 0, agents)
        return minatar.to_time(plan.run_config(study, population))

    source = {"study": study.name, "size": study.size}
    return Comparison({name: run(name) for name in variants}, run(study.baseline), source)


def run(comparisons: Sequence[Comparison]) -> Iterator[dict[str, Any]]:
    """A row for each run, one comparison after the other. On a GPU the programs of some are compiled side by side, each
    in a process of its own; none runs while another one is timed."""
    some = max(1, (os.cpu_count() or 1) // 2) if jax.default_backend() == "gpu" else 1
    for comparison in comparisons:
        names = tuple(comparison.runs)
        with _trials((comparison.baseline,)) as (baseline,):
            for first in range(0, len(names), some):
                together = {name: comparison.runs[name] for name in names[first : first + some]}
                with _trials(tuple(together.values())) as trials:
                    for trial in (baseline, *trials):
                        trial.ready()
                    for (name, config), trial in zip(together.items(), trials, strict=True):
                        ratios = compared(trial, config, baseline, comparison.baseline)
                        yield {**comparison.source, **_described(config), "method": name, **ratios}


@contextlib.contextmanager
def _trials(configs: Sequence[RunConfig]) -> Iterator[Sequence[Trial | TrialApart]]:
    if jax.default_backend() != "gpu":
        yield [Trial(config) for config in configs]
        return
    with started(configs) as trials:
        yield trials


def compared(
    trial: Trial | TrialApart, config: RunConfig, baseline: Trial | TrialApart, its_config: RunConfig
) -> dict[str, Any]:
    """Both populations take turns; the ratio is that of neighbours in time, for as many agent steps."""
    unit = math.lcm(trial.period_updates, baseline.period_updates)
    one_period = trial.seconds(trial.period_updates)
    updates = max(1, round(minatar.SECONDS_A_REPEAT / baseline.seconds(unit))) * unit
    trial.seconds(updates)  # so many cycles may be another program
    pairs = [(trial.seconds(updates), baseline.seconds(updates)) for _ in range(minatar.REPEATS)]
    mine, its = config.settings.learning, its_config.settings.learning
    cycles, its_cycles = updates // mine.updates_in_a_row, updates // its.updates_in_a_row
    steps = (its_cycles * its.steps_per_update) / (cycles * mine.steps_per_update)
    ratios = [a / b * steps for a, b in pairs]
    return {
        "cycle_microseconds": round(statistics.median(a for a, _ in pairs) / cycles * 1e6, 1),
        "times_hard": round(statistics.median(ratios), 2),
        "times_hard_spread": [round(min(ratios), 2), round(max(ratios), 2)],
        "memory_times_hard": round(trial.kept_bytes / baseline.kept_bytes, 2),
        "compile_seconds": round(trial.first_seconds - one_period, 1),
    }


def _described(config: RunConfig) -> dict[str, Any]:
    """What a case says, but for the target, which is the method's business."""
    return {
        "agents": config.agents,
        "agent": config.agent,
        "precision": config.settings.network.precision,
        "game": config.env.removeprefix("minatar/"),
    }
