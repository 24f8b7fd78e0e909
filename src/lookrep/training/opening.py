"""A run before it is trained: a new one, or one on disk with the state it had at its last whole checkpoint.

Whoever opens a run holds its folder until it is closed. Nothing is erased: what cannot go on is refused, with the way
out.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookrep import config as configs
from lookrep import envs
from lookrep.agents import AgentState, Parts
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.files import write_new, write_whole
from lookrep.runs import checkpoint, folder, metrics, names, trust, versions
from lookrep.runs.frame_log import FramesDamaged
from lookrep.runs.metrics import Mark
from lookrep.training import memory
from lookrep.training.engines import Engine, make_engine
from lookrep.training.host.partition import resolved_groups


@dataclass
class OpenRun:
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


@contextlib.contextmanager
def started(config: RunConfig, out: Path | None, parts: Parts | None = None) -> Iterator[OpenRun]:
    """A new run, and the hold on its folder. What can be wrong with its configuration shows before that is made."""
    with memory.enough():
        engine = make_engine(config, parts)
        memory.check(config, engine.shapes(), engine.agent)
    run = OpenRun(config, out, parts or Parts(), engine=engine)
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
) -> Iterator[OpenRun]:  # fmt: skip
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
) -> OpenRun:
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
    run = OpenRun(config, out, parts or Parts(), resumed=True, engine=engine)
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

    if (out / names.UNSAVED).exists() and not checkpoint.any_in(out / names.CHECKPOINTS):
        run.notes.append(
            f"{out} was ended by an error before its first checkpoint: it begins at step 0; what there was is in "
            f"{folder.set_aside(out)}"
        )
    elif checkpoint.any_in(out / names.CHECKPOINTS):
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


def make_folder(run: OpenRun) -> None:
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


def _write_config(config: RunConfig, out: Path, *, new: bool = False, refilled_at: int = 0) -> None:
    made_with = versions.here(config) | ({} if new else folder.end_at(config.steps))
    if refilled_at:
        made_with["replay"] = f"filled again from step {refilled_at:,} on: its frames were damaged"
    data = configs.to_json(config) | {"versions": made_with}
    if envs.on_host(config.env):
        data["groups"] = resolved_groups(config)  # what is used, not "what suits"
    (write_new if new else write_whole)(out / names.CONFIG, json.dumps(data, indent=2) + "\n")
