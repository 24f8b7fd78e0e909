"""A training run on disk: config, rows of metrics, checkpoints, progress. One loop for every engine.

An engine advances a state between two rows; this file decides when, writes down what came of it, and can stop and
resume at any row so that the metrics are the same as if nothing had happened. Nothing here knows how an engine works.
"""

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from lookrep import config as configs
from lookrep import envs
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.files import write_whole
from lookrep.training import checkpoint, metrics, progress, versions
from lookrep.training.fused import FusedEngine
from lookrep.training.interrupt import Stop, graceful
from lookrep.training.metrics import FILE as METRICS_FILE
from lookrep.training.metrics import MetricsWriter

CONFIG_FILE = "config.json"
CHECKPOINTS = checkpoint.FOLDER
PAUSE_SECONDS = 2.0  # between two looks at whether to stop, where an engine can
FIRST_PAUSE_CYCLES = 8


class Engine(Protocol):
    """What trains: a state, advanced in steps of all its agents."""

    can_pause: bool  # whether it may stop anywhere between two rows of metrics, at a multiple of `steps_per_update`

    def shapes(self) -> Any:
        """The arrays of a checkpoint, as shapes. Raises if the configuration cannot be trained."""
        ...

    def place(self, tree: Any | None, meta: dict[str, Any], folder: Path) -> Any:
        """The state that `saved` gave, ready to go on; the one at step 0 if there is none. `folder` is the run's, for
        what is too large to be written anew with every checkpoint. Raises `checkpoint.Damaged` if that is."""
        ...

    def part(self, state: Any, i: int) -> Any:
        """Of the state of several runs, that of run i."""
        ...

    def saved(self, state: Any, folder: Path) -> tuple[Any, dict[str, Any]]:
        """What a checkpoint must hold: arrays, and what else can be written as JSON."""
        ...

    def advance(self, state: Any, until_steps: int) -> Any:
        """Train until every agent has taken so many steps. The state passed in is consumed."""
        ...

    def measure(self, state: Any) -> tuple[Any, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state to go on with."""
        ...

    def close(self, state: Any) -> None:
        """Let go of what the state holds outside this process."""
        ...


def make_engine(config: RunConfig) -> Engine:
    keep_what_is_compiled()
    if envs.on_host(config.env):
        from lookrep.training.hosted import HostedEngine

        return HostedEngine(config)
    return FusedEngine(config, envs.make(config.env))


def keep_what_is_compiled() -> None:
    """On a GPU most of a minute of compiling is timing variants of kernels: later starts of a program reuse it."""
    if jax.default_backend() == "gpu" and not jax.config.values["jax_compilation_cache_dir"]:
        caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        jax.config.update("jax_compilation_cache_dir", str(Path(caches) / "lookrep" / "jax"))


def start(config: RunConfig, out: Path, *, quiet: bool = False) -> bool:
    """Train from scratch into a new folder; whether it reached its end (or was interrupted)."""
    return together([(out, config)], quiet=quiet)


def resume(out: Path, steps: int | None = None, *, quiet: bool = False) -> bool:
    """Go on from the last checkpoint, or from the start if there is none yet; `steps` sets a new end."""
    run = _begun(out, steps)
    with graceful() as stop:
        return _trained([run], stop, quiet)


def together(runs: Sequence[tuple[Path, RunConfig | None]], *, quiet: bool = False) -> bool:
    """Train runs in one program, each with its own folder: new ones by their configuration, others (None) from where
    they are. Several must be alike in what `config.shared` says. Whether all reached their end.

    What was saved at different steps, by a kill while saving, goes on one after the other; so do environments on the
    host.
    """
    opened = [_begun(out) if config is None else _Run(config, out) for out, config in runs]
    groups: dict[Any, list[_Run]] = {}
    for run in sorted(opened, key=lambda run: run.at_steps):
        groups.setdefault(run.out if envs.on_host(run.config.env) else run.at_steps, []).append(run)
    with graceful() as stop:
        return all(not stop.requested and _trained(group, stop, quiet) for group in groups.values())


@dataclass
class _Run:
    """A run and its books, while it is trained."""

    config: RunConfig
    out: Path
    resumed: bool = False
    at_steps: int = 0
    engine: Engine | None = None  # its own, where it has one already, and the state it restored
    state: Any = None
    notes: list[str] = field(default_factory=list)
    diverged: set[int] = field(default_factory=set)
    saved_at: int = 0

    def row(self, columns: dict[str, Any], span: slice, steps_per_second: float) -> dict[str, Any]:
        """Its agents' part of the measures, with whose they are."""
        config = self.config
        games = {"env": np.repeat(config.games, config.agents // len(config.games))} if len(config.games) > 1 else {}
        mine = {name: values[span] for name, values in columns.items()}
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
        every = self.config.checkpoint_interval_steps
        return bool(every) and (at_steps - self.saved_at >= every or stopping or at_steps == self.config.steps)


def _begun(out: Path, steps: int | None = None) -> _Run:
    """A run where it is; `steps` sets a new end."""
    stored = configs.load(out)
    config = stored if steps is None else configs.replace(stored, steps=steps)
    versions.check_roms(config, out / CONFIG_FILE)
    engine = make_engine(config)
    run = _Run(config, out, resumed=True, engine=engine)

    def ready(tree: Any, meta: dict[str, Any]) -> Any:
        if meta["agent_steps"] >= config.steps:
            raise UserError(f"{out} is finished ({meta['agent_steps']:,} steps): --steps with a larger number goes on")
        return engine.place(tree, meta, out)

    if checkpoint.latest(out / CHECKPOINTS) is None:
        if _last_row_steps(out) >= stored.steps:
            raise UserError(f"{out} is finished and has no checkpoint to go on from: choose a new --out")
    else:
        restored = checkpoint.restore_latest(out / CHECKPOINTS, engine.shapes(), use=ready)
        run.state, run.at_steps = restored.tree, int(restored.meta["agent_steps"])
        run.saved_at = run.at_steps
        run.notes += [restored.warning] if restored.warning else []
    if config != stored:
        try:
            _write_config(config, out)
        except OSError as error:
            raise UserError(f"cannot write to {out}: {error.strerror or error}") from error
    return run


def _trained(runs: list[_Run], stop: Stop, quiet: bool) -> bool:
    """All of them, which are at the same step, in one engine."""
    first, *others = runs
    joint = _joint_engine(first.config, [run.config for run in others]) if others else None
    engine = joint or first.engine or make_engine(first.config)
    new = [run for run in runs if not run.resumed]
    if new:
        engine.shapes()  # whatever can be wrong with the configuration shows before a file is made
    for run in new:
        _make_folder(run)
    if any(run.state is None for run in runs):  # then all are at step 0
        state = engine.place(None, {}, first.out)
    else:
        state = joint.joined([run.state for run in runs]) if joint else first.state
    for run in runs:
        run.engine = run.state = None  # their memory
    return _loop(engine, runs, state, stop, quiet)


def _joint_engine(config: RunConfig, beside: Sequence[RunConfig]) -> FusedEngine:
    keep_what_is_compiled()
    return FusedEngine(config, envs.make(config.env), beside)


def _make_folder(run: _Run) -> None:
    out = run.out
    try:
        if (out / CONFIG_FILE).exists() or (out / METRICS_FILE).exists():
            raise UserError(f"{out} already holds a run: lookrep train --resume {out}, or choose another --out")
        out.mkdir(parents=True, exist_ok=True)
        _write_config(run.config, out)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from error


def _loop(engine: Engine, runs: list[_Run], state: Any, stop: Stop, quiet: bool) -> bool:
    config, agents, at_steps = runs[0].config, sum(run.config.agents for run in runs), runs[0].at_steps
    ends = np.cumsum([run.config.agents for run in runs]).tolist()
    spans = [slice(end - run.config.agents, end) for run, end in zip(runs, ends, strict=True)]
    targets = dict.fromkeys(run.config.settings.target.target for run in runs)
    title = f"{config.env} · {config.agent} · {', '.join(targets)}"
    summary = None
    with contextlib.ExitStack() as stack:
        display = stack.enter_context(
            progress.Progress(
                config.steps, agents, title, start_steps=at_steps, quiet=quiet, stopping=lambda: stop.requested
            )
        )
        books = (MetricsWriter(run.out, at_steps if run.resumed else None, note=display.note) for run in runs)
        writers = [stack.enter_context(book) for book in books]
        for note in (note for run in runs for note in run.notes):
            display.note(note)
        started_at_steps, clock = at_steps, time.perf_counter()
        stopping = stop.requested
        while at_steps < config.steps and not stopping:
            until, before = (
                min((at_steps // config.log_interval_steps + 1) * config.log_interval_steps, config.steps),
                at_steps,
            )
            state, at_steps = _advanced(engine, config, state, at_steps, until, stop, display)
            if at_steps == until:
                state, row = engine.measure(state)
                now = time.perf_counter()
                speed, clock = (until - before) / (now - clock), now
                for run, writer, span in zip(runs, writers, spans, strict=True):
                    columns = run.row(row, span, speed * run.config.agents)
                    writer.write(columns)
                    for agent in run.newly_diverged(columns):
                        display.note(
                            f"agent {agent} turned NaN by step {until:,}: marked in the metrics, the others go on"
                        )
                summary = progress.summarise({"agent": np.arange(agents), **row, "steps_per_second": speed * agents})
                display.update(summary)
            stopping = stop.requested  # once: all of them save, or none
            for i, run in enumerate(runs):
                if run.saves(at_steps, stopping):
                    writers[i].sync()
                    _save(engine, engine.part(state, i), run, at_steps)
        seconds = display.seconds
        engine.close(state)
    complete = at_steps == config.steps
    place = runs[0].out if len(runs) == 1 else runs[0].out.parent
    if summary is not None and not quiet:
        verb = "finished" if complete else "stopped after"
        print(progress.finished(summary, agents, seconds, place, started_at_steps=started_at_steps, verb=verb))
    if not complete:
        again = "go on with" if config.checkpoint_interval_steps else "without checkpoints, start again with"
        for run in runs:
            print(f"interrupted; {again}: lookrep train --resume {run.out}")
    return complete


def _save(engine: Engine, state: Any, run: _Run, at_steps: int) -> None:
    tree, meta = engine.saved(state, run.out)
    checkpoint.save(run.out / CHECKPOINTS, at_steps, tree, meta | {"agent_steps": at_steps})
    run.saved_at = at_steps


def _advanced(
    engine: Engine, config: RunConfig, state: Any, at_steps: int, until: int, stop: Stop, display: progress.Progress
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
        display.moved(at_steps)
    return state, at_steps


def _last_row_steps(out: Path) -> int:
    steps = metrics.read(out)["agent_steps"] if (out / METRICS_FILE).exists() else np.array([])
    return int(steps.max(initial=0))


def _write_config(config: RunConfig, out: Path) -> None:
    data = configs.to_json(config) | {"versions": versions.here(config)}
    write_whole(out / CONFIG_FILE, json.dumps(data, indent=2) + "\n")
