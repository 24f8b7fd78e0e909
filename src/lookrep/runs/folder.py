"""A run's folder seen from outside, without JAX: how far the run is, and which process trains it.

Files are read again each time, because others write to them.
"""

import contextlib
import functools
import itertools
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lookrep.config import check_agents
from lookrep.errors import UserError
from lookrep.files import from_json, json_object, writing
from lookrep.runs import lock, names
from lookrep.runs.lock import Busy as Busy
from lookrep.runs.rows import parsed

# Of a configuration, what is asked here and by studies, and what no run can do without.
PLAN = {"env": str} | dict.fromkeys(
    ("agents", "first_agent", "steps", "log_interval_steps", "checkpoint_interval_steps"), int
)
NEEDED = ("env", "agents", "steps")
LOCK_SECONDS = 2.0  # someone who only looks whether a run is being trained holds its lock for an instant


def read_config(run: Path) -> dict[str, Any] | None:
    """Its config.json as it is; None while it is being made. A plan that is mistyped, or that no population can have,
    is refused: studies count members by it."""
    path = run / names.CONFIG
    try:
        data = json_object(path)
    except FileNotFoundError:
        return None
    for name, kind in PLAN.items():
        value = data.get(name, kind())
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise UserError(f"{path}: {name} = {value!r}: must be {kind.__name__}")
    try:
        check_agents(data.get("agents", 0), data.get("first_agent", 0))
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return data


def planned(run: Path) -> dict[str, Any] | None:
    """The same, with all that says which agents it has and how far they are to go."""
    config = read_config(run)
    missing = [name for name in NEEDED if not config.get(name)] if config is not None else []
    if missing:
        raise UserError(f"{run / names.CONFIG}: {missing[0]} is missing")
    return config


def finished(run: Path) -> bool:
    """Whether it has reached its end with all its rows, and saved it if it was to. A run that was copied without any
    checkpoints, for its numbers, is as finished as it was."""
    config = planned(run)
    if config is None or last_steps(run) < config["steps"] or lost_rows(run):
        return False
    checkpoints = run / names.CHECKPOINTS
    saved = (checkpoints / names.of_step(config["steps"]) / names.MANIFEST).is_file()
    return not config.get("checkpoint_interval_steps") or saved or not checkpoints.exists()


def lost_rows(run: Path) -> str | None:
    """What to say of a run whose last checkpoint is that of its end, and knows of other rows than there are."""
    end, at_steps = (read_config(run) or {}).get("steps"), saved_at(run)
    if not end or at_steps < end:
        return None  # a resume looks at them
    manifest = run / names.CHECKPOINTS / names.of_step(at_steps) / names.MANIFEST
    ages = []
    for path in (run / names.METRICS, manifest):
        try:
            found = path.stat()
            ages.append((found.st_size, found.st_mtime_ns))
        except OSError:
            ages.append((0, 0))
    if _has_rows_of(run, at_steps, tuple(ages)):
        return None
    return (
        f"{run / names.METRICS} has lost rows, or has others than its checkpoint at {at_steps:,} steps was made with: "
        f"lookrep train --resume {run} --restart trains it again, and keeps what is there beside it"
    )


@functools.lru_cache(maxsize=4096)
def _has_rows_of(run: Path, at_steps: int, ages: tuple[tuple[int, int], ...]) -> bool:
    """Whether the rows are there that this checkpoint was made with; read again when a file has changed."""
    mark = (_newest_meta(run) or {}).get("metrics")
    if not isinstance(mark, dict) or type(mark.get("bytes")) is not int:
        return True  # a checkpoint that does not know, or is damaged
    try:
        with open(run / names.METRICS, "rb") as file:
            data = file.read(max(0, mark["bytes"]))
    except OSError:
        data = b""
    return len(data) == mark["bytes"] and zlib.crc32(data) == mark.get("crc32")


def moved_end(run: Path, flag: str = "--steps ") -> str | None:
    """What to say of a run whose settings have another end than its newest checkpoint knows of, though nobody asked."""
    config, saved = planned(run), (_newest_meta(run) or {}).get("length")
    then = saved.get("steps") if isinstance(saved, dict) else None
    if config is None or type(then) is not int or then == config["steps"]:
        return None
    recorded, now = config.get("versions"), config["steps"]
    if isinstance(recorded, dict) and recorded.get("end") == end_at(now)["end"]:
        return None
    return (
        f"{run / names.CONFIG} says steps = {now:,}, but it was trained to end at {then:,}: put that back, or say "
        f"{flag}{now} if you mean it"
    )


def end_at(steps: int) -> dict[str, str]:
    """For a run's `versions`: that it was asked to end there, later than it was begun to."""
    return {"end": f"moved to {steps:,} steps"}


def saves(run: Path) -> list[int]:
    """The steps of its checkpoints, oldest first."""
    found = [path.parent.name for path in run.glob(f"{names.CHECKPOINTS}/*/{names.MANIFEST}")]
    return sorted(int(name) for name in found if name.isdecimal())  # others are being written


def saved_at(run: Path) -> int:
    """The steps of its newest checkpoint; 0 if there is none."""
    return max(saves(run), default=0)


def keeps_replay(run: Path) -> bool:
    """Whether its newest checkpoint has what further training needs."""
    meta = _newest_meta(run)
    return meta is not None and meta.get("replay") != "dropped"


def half_saved(run: Path) -> bool:
    """Whether its newest checkpoint is one of several that were to be made at once, for runs that share a program, and
    the process was killed before it had made the others."""
    meta, found = _newest_meta(run), [0, 0, *saves(run)]
    beside = (meta or {}).get("beside", ())
    others = [run.parent / str(name) for name in beside] if isinstance(beside, list) else []
    return any(found[-2] <= saved_at(other) < found[-1] <= last_steps(other) for other in others)


def forget_newest(run: Path) -> None:
    """Go back to the checkpoint before. Whoever asks holds the folder."""
    newest = run / names.CHECKPOINTS / names.of_step(saved_at(run))
    with writing(f"run '{run}'"):
        doomed = newest.rename(newest.with_suffix(".half.tmp"))  # killed here, it is no checkpoint any more
        shutil.rmtree(doomed, ignore_errors=True)


def _newest_meta(run: Path) -> dict[str, Any] | None:
    manifest = run / names.CHECKPOINTS / names.of_step(saved_at(run)) / names.MANIFEST
    try:
        return dict(from_json(manifest.read_bytes())["meta"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def last_rows(run: Path, agents: int = 1) -> list[dict[str, Any]]:
    """The last interval's whole rows of metrics, read from the end of the file: it may be long, and this is asked
    often."""
    try:
        with open(run / names.METRICS, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = file.seek(max(0, size - 1000 * (agents + 1)))
            lines = file.read().split(b"\n")[:-1]  # behind the last end of line: nothing, or a torn row
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"cannot read {run / names.METRICS}: {error.strerror or error}") from None
    rows: list[dict[str, Any]] = []
    for line in reversed(lines if begin == 0 else lines[1:]):  # elsewhere than at the start, the first one is cut
        try:
            row = parsed(line, f"{run / names.METRICS}, near its end,")
        except UserError as error:
            way_out = f"lookrep train --resume {run} --restart begins anew, and keeps what is there beside it"
            raise UserError(f"{error}: {way_out}") from None
        if len(rows) == agents or (rows and row["agent_steps"] != rows[-1]["agent_steps"]):
            break
        rows.append(row)
    return rows[::-1]


def last_steps(run: Path) -> int:
    rows = last_rows(run)
    return int(rows[-1]["agent_steps"]) if rows else 0


@contextlib.contextmanager
def claim(run: Path) -> Iterator[str | None]:
    """Hold a run, whose folder is made if there is none: two processes must not write to it at once. Readers need no
    hold. What a process left that was killed while it saved is removed. Where the file system has no locks, there is a
    line that says so instead."""
    with lock.held(run, "being trained", LOCK_SECONDS) as note:
        for half_written in [] if note else left_behind(run):
            shutil.rmtree(half_written, ignore_errors=True)
        yield note


def left_behind(run: Path) -> list[Path]:
    """What is no checkpoint yet, or no longer: of a process that is saving, or was killed while it did."""
    return list((run / names.CHECKPOINTS).glob("*.tmp"))


def is_running(run: Path) -> bool:
    """Whether a process holds it."""
    return lock.is_held(run)


def never_saved(run: Path) -> bool:
    """Whether it was begun and never had a checkpoint: it saves none, or was killed before its first was whole. Rows
    that only come after the first one say that it is lost, and so does whatever carries a checkpoint's name."""
    config = planned(run)
    if config is None or any(path.name.isdecimal() for path in (run / names.CHECKPOINTS).glob("*")):
        return False
    every = config.get("checkpoint_interval_steps")
    if not every:
        return True
    rows = config.get("log_interval_steps") or every
    return last_steps(run) <= min(-(-every // rows) * rows, config["steps"])  # the row that the first one follows


def set_aside(run: Path) -> Path | None:
    """Make room for the run to start again: what it has come to moves into a folder inside its own, which is a run to
    look at, with its settings. Where there is nothing but settings, nothing is moved."""
    moved = (names.METRICS, names.CHECKPOINTS, names.FRAMES, names.UNSAVED)
    mine = [run / name for name in moved if (run / name).exists()]
    if not mine:
        return None
    numbers = itertools.count(1)
    kept = next(path for n in numbers if not (path := run / f"before-restart-{n}").exists())
    with writing(f"run '{kept}'"):
        kept.mkdir()
        shutil.copyfile(run / names.CONFIG, kept / names.CONFIG)
        for path in (*mine, *run.glob(names.EVENTS)):
            path.rename(kept / path.name)
    return kept
