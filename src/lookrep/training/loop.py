"""A training run: rows of metrics, checkpoints, resume. One loop for every engine, which says nothing by itself.

An engine advances a state between two rows; this file decides when, writes down what came of it, and can stop and
resume at any row so that the metrics are the same as if nothing had happened. Nothing here knows how an engine works.
What a command prints and which signals it minds is in `lookrep.training.session`.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from lookrep import config as configs
from lookrep import envs
from lookrep.config import RunConfig
from lookrep.runs import checkpoint, folder, metrics, names, versions
from lookrep.runs.metrics import MetricsWriter
from lookrep.training import memory
from lookrep.training.engines import Engine, make_engine
from lookrep.training.interrupt import Stop
from lookrep.training.opening import OpenRun, make_folder

PAUSE_SECONDS = 2.0  # between two looks at whether to stop, where an engine can
FIRST_PAUSE_CYCLES = 8


@dataclass
class Watch:
    """What a loop tells while it runs; by default, nobody listens."""

    note: Callable[[str], None] = lambda text: None
    moved: Callable[[int], None] = lambda agent_steps: None
    row: Callable[[dict[str, Any]], None] = lambda columns: None  # of all agents of the program
    rows: Callable[[list[dict[str, Any]]], None] = lambda rows: None  # as they are written, run by run


@dataclass
class Program:
    """Runs at the same step in one engine, ready to train."""

    runs: list[OpenRun]
    engine: Engine
    state: Any

    @property
    def config(self) -> RunConfig:
        return self.runs[0].config

    @property
    def agents(self) -> int:
        return sum(run.config.agents for run in self.runs)


def programs(runs: Sequence[OpenRun]) -> list[list[OpenRun]]:
    """Those that can share a program: at the same step, on the device. What was saved at different steps, by a kill
    while saving, goes on one after the other; so do environments on the host."""
    found: dict[Any, list[OpenRun]] = {}
    for run in sorted(runs, key=lambda run: run.at_steps):
        found.setdefault(run.out if envs.on_host(run.config.env) else run.at_steps, []).append(run)
    # Targets that follow by the same code beside each other: they have their turns in one piece.
    codes = list(dict.fromkeys(configs.target_code(run.config) for run in runs))
    return [sorted(group, key=lambda run: codes.index(configs.target_code(run.config))) for group in found.values()]


@memory.enough()
def prepare(runs: list[OpenRun]) -> Program:
    """An engine for all of them, which are at the same step, with its state; folders for those that are new."""
    first, *others = runs
    beside = [run.config for run in others]
    engine = make_engine(first.config, first.parts, beside) if others else first.engine
    engine = engine or make_engine(first.config, first.parts)
    if others:
        whole = configs.replace(first.config, agents=sum(run.config.agents for run in runs))
        memory.check(whole, engine.shapes(), engine.agent)
    for run in runs:
        if not run.resumed:
            make_folder(run)
    if any(run.state is None for run in runs):  # then all are at step 0
        state = engine.init() if first.out is None else engine.place(None, {}, first.out)
    else:
        state = engine.joined([run.state for run in runs]) if others else first.state
    for run in runs:
        run.engine = run.state = None  # their memory
    return Program(runs, engine, state)


@memory.enough()
def train(program: Program, stop: Stop, watch: Watch) -> int:
    """To the end, or until someone asks to stop; the step it came to. What goes wrong after a whole interval leaves a
    checkpoint behind; what goes wrong before the first one, a mark that there is none."""
    runs, engine, config, state = program.runs, program.engine, program.config, program.state
    program.state = None  # its memory goes as the state moves on
    at_steps = runs[0].at_steps
    ends = np.cumsum([run.config.agents for run in runs]).tolist()
    spans = [slice(end - run.config.agents, end) for run, end in zip(runs, ends, strict=True)]
    whole = True  # whether `state` is one that could be saved
    engine.moved = watch.moved
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: engine.close(state))
        writers = [stack.enter_context(_writer(run, at_steps, watch)) for run in runs]
        for note in (note for run in runs for note in run.notes):
            watch.note(note)

        def save(stopping: bool) -> None:
            due = [run.out.name for run in runs if run.out and run.saves(at_steps, stopping)]
            for i, (run, writer) in enumerate(zip(runs, writers, strict=True)):
                if run.out and run.saves(at_steps, stopping):
                    tree, meta = engine.saved(engine.part(state, i), run.out)
                    mark = writer.synced()._asdict()  # and looks whether the folder is still there
                    meta |= {"agent_steps": at_steps, "metrics": mark, "settings": versions.settings(run.config)}
                    meta["length"] = versions.length(run.config)
                    meta |= {"beside": due} if len(due) > 1 else {}
                    checkpoint.save(run.out / names.CHECKPOINTS, at_steps, tree, meta)
                    run.saved_at = at_steps

        clock = time.perf_counter()
        stopping = stop.requested
        try:
            while at_steps < config.steps and not stopping:
                before = at_steps
                until = min((before // config.log_interval_steps + 1) * config.log_interval_steps, config.steps)
                whole = False
                state, at_steps = _advanced(engine, config, state, at_steps, until, stop, watch)
                if at_steps == until:
                    state, columns = engine.measure(state)
                    whole = True
                    now = time.perf_counter()
                    speed, clock = (until - before) / (now - clock), now
                    heard: list[dict[str, Any]] = []
                    for run, writer, span in zip(runs, writers, spans, strict=True):
                        row = run.row(columns, span, speed * run.config.agents)
                        writer.write(row)
                        heard.append(row)
                        for agent in run.newly_diverged(row):
                            watch.note(
                                f"agent {agent} turned NaN by step {until:,}: marked in the metrics, the others go on"
                            )
                    everyone = {"agent": np.arange(program.agents), "steps_per_second": speed * program.agents}
                    watch.row(columns | everyone)
                    for row in heard:
                        watch.rows(metrics.rows(row))
                whole = True
                stopping = stop.requested  # once: all of them save, or none
                save(stopping)
        except BaseException:
            if whole and any(run.saved_at < at_steps for run in runs):
                with contextlib.suppress(Exception):  # what went wrong first is what is told
                    save(stopping=True)
            for run in runs:
                with contextlib.suppress(Exception):
                    if run.out and not run.saved_at and folder.last_steps(run.out):
                        (run.out / names.UNSAVED).touch()
            raise
        for i, run in enumerate(runs):
            if run.out is None:
                run.agents = jax.device_get(engine.agents(engine.part(state, i)))
    return at_steps


@dataclass
class _Kept:
    """A writer for a run that leaves nothing on disk."""

    rows: list[dict[str, Any]]

    def write(self, columns: dict[str, Any]) -> None:
        self.rows += metrics.rows(columns)


def _writer(run: OpenRun, at_steps: int, watch: Watch) -> Any:
    if run.out is None:
        return contextlib.nullcontext(_Kept(run.rows))
    return MetricsWriter(run.out, at_steps if run.resumed else None, run.mark, note=watch.note)


def _advanced(
    engine: Engine, config: RunConfig, state: Any, at_steps: int, until: int, stop: Stop, watch: Watch
) -> tuple[Any, int]:
    """The state at `until`; or, if someone asks to stop, as soon as the engine can."""
    if not engine.can_pause:
        return engine.advance(state, until), until
    cycle = config.settings.learning.steps_per_update
    steps = FIRST_PAUSE_CYCLES * cycle
    while at_steps < until and not stop.requested:
        began, pause = time.perf_counter(), min(at_steps + steps, until)
        state = engine.advance(state, pause)
        each = (time.perf_counter() - began) / (pause - at_steps)
        steps = max(1, min(2 * steps, int(PAUSE_SECONDS / each)) // cycle) * cycle
        at_steps = pause
        watch.moved(at_steps)
    return state, at_steps
