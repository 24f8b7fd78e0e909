"""A training run on disk: config, rows of metrics, checkpoints, progress. One loop for every engine.

An engine advances a state between two rows; this file decides when, writes down what came of it, and can stop and
resume at any row so that the metrics are the same as if nothing had happened. Nothing here knows how an engine works.
"""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

import lookrep
from lookrep import config as configs
from lookrep import envs
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.files import write_whole
from lookrep.training import checkpoint, metrics, progress
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
    engine = make_engine(config)
    engine.shapes()  # whatever can be wrong with the configuration shows before a file is made
    try:
        if (out / CONFIG_FILE).exists() or (out / METRICS_FILE).exists():
            raise UserError(f"{out} already holds a run: lookrep train --resume {out}, or choose another --out")
        out.mkdir(parents=True, exist_ok=True)
        _write_config(config, out)
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from error
    return _loop(engine, config, out, engine.place(None, {}, out), 0, resumed=False, quiet=quiet)


def resume(out: Path, steps: int | None = None, *, quiet: bool = False) -> bool:
    """Go on from the last checkpoint, or from the start if there is none yet; `steps` sets a new end."""
    stored = configs.load(out)
    config = stored if steps is None else configs.replace(stored, steps=steps)
    engine = make_engine(config)
    notes: list[str] = []

    def ready(tree: Any, meta: dict[str, Any]) -> Any:
        if meta["agent_steps"] >= config.steps:
            raise UserError(f"{out} is finished ({meta['agent_steps']:,} steps): --steps with a larger number goes on")
        return engine.place(tree, meta, out)

    if checkpoint.latest(out / CHECKPOINTS) is None:
        if _last_row_steps(out) >= stored.steps:
            raise UserError(f"{out} is finished and has no checkpoint to go on from: choose a new --out")
        state, at_steps = engine.place(None, {}, out), 0
    else:
        restored = checkpoint.restore_latest(out / CHECKPOINTS, engine.shapes(), use=ready)
        state, at_steps = restored.tree, int(restored.meta["agent_steps"])
        notes += [restored.warning] if restored.warning else []
    if config != stored:
        _write_config(config, out)
    return _loop(engine, config, out, state, at_steps, resumed=True, quiet=quiet, notes=notes)


def _loop(
    engine: Engine,
    config: RunConfig,
    out: Path,
    state: Any,
    at_steps: int,
    *,
    resumed: bool,
    quiet: bool,
    notes: list[str] | None = None,
) -> bool:
    title = f"{config.env} · {config.agent} · {config.settings.target.target}"
    numbers = np.array(config.numbers)
    games = {"env": np.repeat(config.games, config.agents // len(config.games))} if len(config.games) > 1 else {}
    diverged: set[int] = set()
    summary = None
    saved_at = at_steps
    with (
        graceful() as stop,
        progress.Progress(
            config.steps, config.agents, title, start_steps=at_steps, quiet=quiet, stopping=lambda: stop.requested
        ) as display,
        MetricsWriter(out, at_steps if resumed else None, note=display.note) as writer,
    ):
        for note in notes or []:
            display.note(note)
        started_at_steps, clock = at_steps, time.perf_counter()
        while at_steps < config.steps and not stop.requested:
            until, before = (
                min((at_steps // config.log_interval_steps + 1) * config.log_interval_steps, config.steps),
                at_steps,
            )
            state, at_steps = _advanced(engine, config, state, at_steps, until, stop, display)
            if at_steps == until:
                state, row = engine.measure(state)
                now = time.perf_counter()
                speed, clock = (until - before) * config.agents / (now - clock), now
                columns = {**games, "agent": numbers, "seed": config.seed, **row, "steps_per_second": round(speed, 1)}
                writer.write(columns)
                summary = progress.summarise(columns)
                display.update(summary)
                for agent in numbers[np.asarray(row["diverged"])]:
                    if agent not in diverged:
                        diverged.add(int(agent))
                        display.note(
                            f"agent {agent} turned NaN by step {until:,}: marked in the metrics, the others go on"
                        )
            due = config.checkpoint_interval_steps and at_steps - saved_at >= config.checkpoint_interval_steps
            if config.checkpoint_interval_steps and (due or stop.requested or at_steps == config.steps):
                writer.sync()
                tree, meta = engine.saved(state, out)
                checkpoint.save(out / CHECKPOINTS, at_steps, tree, meta | {"agent_steps": at_steps})
                saved_at = at_steps
        seconds = display.seconds
        engine.close(state)
    complete = at_steps == config.steps
    if summary is not None and not quiet:
        verb = "finished" if complete else "stopped after"
        print(progress.finished(summary, config.agents, seconds, out, started_at_steps=started_at_steps, verb=verb))
    if not complete:
        again = "go on with" if config.checkpoint_interval_steps else "without checkpoints, start again with"
        print(f"interrupted; {again}: lookrep train --resume {out}")
    return complete


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
    device = jax.devices()[0]
    data = configs.to_json(config) | {
        "versions": {
            "lookrep": lookrep.__version__,
            "jax": jax.__version__,
            "python": platform.python_version(),
            "device": f"{config.devices} × {device.device_kind}",
        }
    }
    write_whole(out / CONFIG_FILE, json.dumps(data, indent=2) + "\n")
