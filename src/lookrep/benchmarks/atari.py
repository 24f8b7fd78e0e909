"""How fast Rainbow trains on Atari: the one source of our speed figures for the host engine.

Every figure stands beside what the emulators alone reach, as many free-running ones as there are cores, in the seconds
between: the two take turns.
"""

import contextlib
import dataclasses
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.config import Precision, ReplayMemory, RunConfig, TargetName, preset
from lookrep.envs.host import check, make, worker_process
from lookrep.training.host.engine import HostEngine

REPEATS = 5
SECONDS_A_REPEAT = 2.0
SECONDS_ALONE = 1.0  # for the emulators, before each
PERIODS = 2  # of a target that is not copied
WARMUP_STEPS = 400
FIRST_TURN_UPDATES = 5
FIRST_STEPS = WARMUP_STEPS + 40  # with the target's first turn, and everything compiled
WORKER = worker_process.__name__  # in a worker's command line
PATIENCE_SECONDS = 600.0  # for emulators that are still starting

_emulator: Any = None  # in one of `Emulators`


class Case(NamedTuple):
    """One thing to time."""

    agents: int
    game: str = "Breakout"
    target: TargetName = "hard"
    precision: Precision = "f32"
    groups: int | None = None
    workers: int | None = None
    capacity_steps: int = 1_000_000
    replay_memory: ReplayMemory = "auto"


class Emulators:
    """Free-running emulators, one in each of some processes, which play when asked to."""

    def __init__(self, game: str, processes: int) -> None:
        check(f"atari/{game}")  # or a pool would start processes that fail for ever
        context = multiprocessing.get_context("spawn")
        self.processes = processes
        self._pool = context.Pool(processes, _bring_an_emulator, (game, context.Barrier(processes)))
        self.speed(0.1)  # once they are all there

    def __enter__(self) -> "Emulators":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.terminate()

    def speed(self, seconds: float = SECONDS_ALONE) -> float:
        """Agent steps per second of all of them, frames and resets included, nobody waiting."""
        return sum(self._pool.map(_play, [(seed, seconds) for seed in range(self.processes)], chunksize=1))


def _bring_an_emulator(game: str, barrier: Any) -> None:
    global _emulator
    _emulator = make(f"atari/{game}")
    barrier.wait(PATIENCE_SECONDS)


def _play(job: tuple[int, float]) -> float:
    seed, seconds = job
    env, chance = _emulator, np.random.default_rng(seed)
    env.reset(seed)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for action in chance.integers(env.spec.num_actions, size=50):
            outcome = env.step(int(action))
            if outcome.over:
                env.reset(steps)
        steps += 50
    return steps / (time.perf_counter() - began)


class Trainer:
    """A learning population and its environments, advanced on request: `with Trainer(case) as trainer`."""

    def __init__(self, case: Case) -> None:
        settings = preset("dopamine-rainbow")
        settings = dataclasses.replace(
            settings,
            replay=dataclasses.replace(
                settings.replay,
                warmup_steps=WARMUP_STEPS,
                replay_capacity_steps=case.capacity_steps,
                replay_memory=case.replay_memory,
            ),
            target=dataclasses.replace(settings.target, target=case.target),
            network=dataclasses.replace(settings.network, precision=case.precision),
        )
        config = RunConfig(
            f"atari/{case.game}",
            "dopamine-rainbow",
            case.agents,
            steps=10**9,
            settings=settings,
            groups=case.groups,
            workers=case.workers,
        )
        period_updates = settings.target.target_period_updates
        self.period_steps = period_updates * settings.learning.steps_per_update
        self._engine = HostEngine(config)
        self._state = self._engine.init()
        for group in self._state.groups:  # the target's first turn comes soon, so that its program is compiled by then
            group.load(group.snapshot()._replace(online_updates=jnp.int32(period_updates - FIRST_TURN_UPDATES)))
        self._steps = self._spent_until = 0

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close(self._state)

    @property
    def groups(self) -> int:
        return len(self._state.groups)

    def spent(self) -> dict[str, int]:
        """Microseconds of a group's step since this was last asked."""
        steps = (self._steps - self._spent_until) * self.groups
        found = {what: round(seconds / max(1, steps) * 1e6) for what, seconds in self._engine.watch.seconds.items()}
        self._spent_until = self._steps
        self._engine.watch.seconds.clear()
        return found

    def advance(self, steps: int) -> float:
        """Every agent takes this many steps more, updates included; how many seconds that took."""
        began = time.perf_counter()
        self._steps += steps
        self._state = self._engine.advance(self._state, self._steps)
        jax.block_until_ready([group.snapshot().online_updates for group in self._state.groups])
        return time.perf_counter() - began


def measure(case: Case, emulators: Emulators) -> dict[str, Any]:
    """Steps per second of a learning population, in all, and of emulators alone, in turns: machines are faster in one
    minute than in the next."""
    with Trainer(case) as trainer:
        compile_seconds = trainer.advance(FIRST_STEPS)
        speed = 400 / trainer.advance(400)
        trainer.spent()
        whole = case.target != "hard"  # periods, a turn of the target in each
        each = trainer.period_steps if whole else max(4, int(SECONDS_A_REPEAT * speed) // 4 * 4)
        alone, seconds, busy = [], [], np.zeros(2)
        for _ in range(PERIODS if whole else REPEATS):
            alone.append(emulators.speed())
            before = _processor_seconds()
            seconds.append(trainer.advance(each))
            busy += _processor_seconds() - before
        groups, spent = trainer.groups, trainer.spent()
    return {
        **case._asdict(),
        "groups": groups,
        **_speeds([case.agents * each / one for one in seconds], alone),
        "cores_busy": dict(zip(("trainer", "workers"), (busy / sum(seconds)).round(2).tolist(), strict=True)),
        "microseconds_a_step": spent,
        "first_steps_seconds": round(compile_seconds, 1),
        **_memory(case.agents),
    }


def _speeds(found: list[float], alone: list[float]) -> dict[str, Any]:
    ratios = [a / b for a, b in zip(found, alone, strict=True)]
    return {
        "agent_steps_per_second": round(statistics.median(found)),
        "spread": [round(min(found)), round(max(found))],
        "emulators_alone": round(statistics.median(alone)),
        "emulators_spread": [round(min(alone)), round(max(alone))],
        "ratio_to_emulators": round(statistics.median(ratios), 3),
    }


def _processor_seconds() -> np.ndarray:
    """What this process has used so far, and what its workers have (none where there is no /proc)."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it is gone
            of_its = (process / "stat").read_text().rpartition(")")[2].split()
            if int(of_its[1]) == os.getpid() and WORKER in (process / "cmdline").read_text():
                ticks += int(of_its[11]) + int(of_its[12])
    return np.array([time.process_time(), ticks / os.sysconf("SC_CLK_TCK")])


def _memory(agents: int) -> dict[str, Any]:
    """The most that this process has used so far, of the host's memory and of the device's."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found: dict[str, Any] = {"host_gigabytes_per_agent": round(used / agents / 1e9, 2)}
    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        found["device_gigabytes_per_agent"] = round(stats["peak_bytes_in_use"] / agents / 1e9, 2)
    return found


def run(cases: list[Case]) -> Iterator[dict[str, Any]]:
    """One row for each case. All are of one game."""
    with Emulators(cases[0].game, os.cpu_count() or 1) as emulators:
        for case in cases:
            yield measure(case, emulators)
