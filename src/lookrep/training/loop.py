"""A training run: rows of metrics, checkpoints, resume. One loop for every engine, which says nothing by itself.

An engine advances a state between two rows; this file decides when, writes down what came of it, and can stop and
resume at any row so that the metrics are the same as if nothing had happened. Nothing here knows how an engine works.
What a command prints and which signals it minds is in `lookrep.training.session`.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lookrep import config as configs
from lookrep import envs
from lookrep.agents import AgentState, Parts
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.files import write_new, write_whole
from lookrep.runs import checkpoint, folder, metrics, names, trust, versions
from lookrep.runs.frame_log import FramesDamaged
from lookrep.runs.metrics import Mark, MetricsWriter
from lookrep.training import memory
from lookrep.training.engines import Engine, make_engine
from lookrep.training.interrupt import Stop

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
class Run:
    """A run and its books, while it is trained."""

    config: RunConfig
    out: Path | None  # None: nothing is written, rows are kept in `rows`
    parts: Parts = field(default_factory=Parts)
    resumed: bool = False
    at_steps: int = 0
    mark: Mark | None = None  # of its metrics, at that step
    engine: Engine | None = None  # its own, where it has one already, and the state it restored
    state: Any = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    agents: AgentState | None = None  # at the end, of a run that leaves nothing on disk
    notes: list[str] = field(default_factory=list)
    diverged: set[int] = field(default_factory=set)
    saved_at: int = 0
    refilled_at: int = 0  # the step at which it went on without its replay, whose frames were damaged

    def row(self, columns: dict[str, Any], span: slice, steps_per_second: float) -> dict[str, Any]:
        """Its agents' part of the measures, with whose they are."""
        config = self.config
        games = {"env": np.repeat(config.games, config.agents // len(config.games))} if len(config.games) > 1 else {}
        mine = {name: values[span] for name, values in columns.items()}
        mine |= {"refilled_at_steps": self.refilled_at} if self.refilled_at else {}
        return {
            **games,
            "agent": np.array(config.numbers),
            "seed": config.seed,
            **mine,
            "steps_per_second": round(steps_per_second, 1),
        }

    def newly_diverged(self, columns: dict[str, Any]) -> list[int]:
        found = [int(n) for n in columns["agent"][np.asarray(columns["diverged"])] if n not in self.diverged]
        self.diverged.update(found)
        return found

    def saves(self, at_steps: int, stopping: bool) -> bool:
        every = self.config.checkpoint_interval_steps if self.out else 0
        return bool(every) and (at_steps - self.saved_at >= every or stopping or at_steps == self.config.steps)


@dataclass
class Program:
    """Runs at the same step in one engine, ready to train."""

    runs: list[Run]
    engine: Engine
    state: Any

    @property
    def config(self) -> RunConfig:
        return self.runs[0].config

    @property
    def agents(self) -> int:
        return sum(run.config.agents for run in self.runs)


@contextlib.contextmanager
def started(config: RunConfig, out: Path | None, parts: Parts | None = None) -> Iterator[Run]:
    """A new run, and the hold on its folder. What can be wrong with its configuration shows before that is made."""
    with memory.enough():
        engine = make_engine(config, parts)
        memory.check(config, engine.shapes(), engine.agent)
    run = Run(config, out, parts or Parts(), engine=engine)
    if out is None:
        yield run
        return
    _refuse_another(out)
    with folder.claim(out) as note:
        run.notes += [note] if note else []
        yield run


class Ways(NamedTuple):
    """What whoever asks can do with a run that does not go on by itself, in their words."""

    steps: str
    restart: str
    refill: str


IN_PYTHON = Ways("steps=", "resume(restart=True)", "resume(refill=True)")


def _by_command(out: Path, config: RunConfig) -> Ways:
    resume = f"lookrep train --resume {out}{trust.flag(config)}"
    return Ways("--steps ", f"{resume} --restart", f"{resume} --refill-replay")


@contextlib.contextmanager
def resumed(
    out: Path, steps: int | None = None, parts: Parts | None = None, *, restart: bool = False, refill: bool = False,
    ways: Ways | None = None,
) -> Iterator[Run]:  # fmt: skip
    """A run on disk, where it is, and the hold on its folder; with `restart` at its beginning. With `refill`, damaged
    frames are given up: the replay is filled again."""
    configs.load(out)  # a folder without a run is left as it is
    with folder.claim(out) as note:
        aside = folder.set_aside(out) if restart else None
        run = begun(out, steps, parts, refill=refill, ways=ways)
        run.notes += [note] if note else []
        run.notes += [f"starting again; what there was is in {aside}"] if aside else []
        yield run


@memory.enough()
def begun(
    out: Path, steps: int | None = None, parts: Parts | None = None, *, refill: bool = False, ways: Ways | None = None
) -> Run:
    """A run on disk, where it is; `steps` sets a new end. Whoever asks holds its folder."""
    stored = configs.load(out)
    ways = ways or _by_command(out, stored)
    if steps is None and (moved := folder.moved_end(out, ways.steps)):
        raise UserError(moved)
    config = stored if steps is None else configs.replace(stored, steps=steps)
    for meta in checkpoint.metas(out / names.CHECKPOINTS)[-1:]:  # before anything is made by settings that are damaged
        versions.check_settings(config, meta, out / names.CONFIG)
    versions.check_roms(config, out / names.CONFIG)
    engine = make_engine(config, parts)
    shapes = engine.shapes()
    memory.check(config, shapes, engine.agent)
    run = Run(config, out, parts or Parts(), resumed=True, engine=engine)
    again = f"{ways.restart} begins anew, and keeps what is there beside it"

    def ready(path: Path, refilling: bool = False) -> None:
        meta = checkpoint.meta(path)
        versions.check_settings(config, meta, out / names.CONFIG)
        mark = Mark(**meta["metrics"]) if "metrics" in meta else None
        if mark is not None and not metrics.holds(out, mark):
            raise checkpoint.Damaged(f"{out / names.METRICS} lacks rows from before checkpoint {path}")
        finished, dropped = meta["agent_steps"] >= config.steps, meta.get("replay") == "dropped"
        if dropped and not finished:
            raise UserError(f"{out} was finished and its replay dropped, so it cannot go on: choose a new --out")
        tree, meta = (None, meta) if dropped else checkpoint.restore(path, shapes)
        if finished:
            larger = f"{ways.steps.strip()} with a larger number goes on"
            raise UserError(f"{out} is finished ({meta['agent_steps']:,} steps): {larger}")
        meta |= {"frames": [], "refilled_at": meta["agent_steps"]} if refilling else {}
        run.state, run.at_steps, run.mark = engine.place(tree, meta, out), int(meta["agent_steps"]), mark
        run.refilled_at = meta.get("refilled_at", 0)
        run.notes += versions.other_interval(config, meta, out / names.CONFIG)

    if checkpoint.any_in(out / names.CHECKPOINTS):
        try:
            _, _, warning = checkpoint.first_intact(out / names.CHECKPOINTS, ready)
        except checkpoint.NoneIntact as error:
            only_frames = any(isinstance(damage, FramesDamaged) for damage in error.damage)
            if not (refill and only_frames):
                without = f"{ways.refill} goes on and fills the replay again, " if only_frames else ""
                raise UserError(f"{error}: {without}{again}") from None
            _, _, warning = checkpoint.first_intact(out / names.CHECKPOINTS, partial(ready, refilling=True))
            run.notes.append(f"{error.damage[0]}; the replay is filled again from step {run.at_steps:,} on")
        run.saved_at = run.at_steps
        run.notes += [warning] if warning else []
    elif folder.last_steps(out):
        raise UserError(f"{out} has rows of metrics, but no checkpoint to go on from: {again}")
    elif (out / names.METRICS).exists():
        run.notes.append(f"{out} has no checkpoint and no rows of metrics: it begins at step 0")
    if config != stored or run.refilled_at:
        try:
            _write_config(config, out, refilled_at=run.refilled_at)
        except OSError as error:
            raise UserError(f"cannot write to {out}: {error.strerror or error}") from error
    return run


def programs(runs: Sequence[Run]) -> list[list[Run]]:
    """Those that can share a program: at the same step, on the device. What was saved at different steps, by a kill
    while saving, goes on one after the other; so do environments on the host."""
    found: dict[Any, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.at_steps):
        found.setdefault(run.out if envs.on_host(run.config.env) else run.at_steps, []).append(run)
    # Targets that follow by the same code beside each other: they have their turns in one piece.
    codes = list(dict.fromkeys(configs.target_code(run.config) for run in runs))
    return [sorted(group, key=lambda run: codes.index(configs.target_code(run.config))) for group in found.values()]


@memory.enough()
def prepare(runs: list[Run]) -> Program:
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
            _make_folder(run)
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
    checkpoint behind."""
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


def _writer(run: Run, at_steps: int, watch: Watch) -> Any:
    if run.out is None:
        return contextlib.nullcontext(_Kept(run.rows))
    return MetricsWriter(run.out, at_steps if run.resumed else None, run.mark, note=watch.note)


def _make_folder(run: Run) -> None:
    out = run.out
    if out is None:
        return
    _refuse_another(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _write_config(run.config, out, new=True)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from error


def _refuse_another(out: Path) -> None:
    try:
        if (out / names.CONFIG).exists() or (out / names.METRICS).exists():
            raise UserError(f"{out} already holds a run: lookrep train --resume {out}, or choose another --out")
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from error


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


def _write_config(config: RunConfig, out: Path, *, new: bool = False, refilled_at: int = 0) -> None:
    made_with = versions.here(config) | ({} if new else folder.end_at(config.steps))
    if refilled_at:
        made_with["replay"] = f"filled again from step {refilled_at:,} on: its frames were damaged"
    data = configs.to_json(config) | {"versions": made_with}
    (write_new if new else write_whole)(out / names.CONFIG, json.dumps(data, indent=2) + "\n")
