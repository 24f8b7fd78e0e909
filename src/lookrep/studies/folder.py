"""A study's folder: the definition in it, who is working on which population, and the record of sittings.

What the populations' metrics say is read by `lookrep.studies.results`.
"""

import contextlib
import fcntl
import json
import os
import platform
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lookrep
from lookrep.errors import UserError
from lookrep.files import write_whole
from lookrep.studies import definition, hardware, results
from lookrep.studies.definition import Study
from lookrep.studies.hardware import Hardware

LOCK, LOGS = ".lock", "logs"
KILLED = "ended by "  # begins a failure by a signal
LOCK_SECONDS = 2.0  # someone who only looks whether a population is running holds its lock for an instant


class Busy(UserError):
    """Another process is at it."""


def merged(out: Path, study: Study) -> Study:
    """What the study of this folder would be with what is asked for; writes nothing."""
    if (out / definition.FILE).exists():
        return definition.union(definition.load(out), study, str(out))
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is no study: choose another --out")
    return study


def prepare(out: Path, study: Study) -> None:
    """Make the folder, with the definition in it."""
    try:
        for name in (results.POPULATIONS, LOGS) if study.kind == "training" else (results.EXACT,):
            (out / name).mkdir(parents=True, exist_ok=True)
        write_whole(out / definition.FILE, definition.to_toml(study))
    except OSError as error:
        raise UserError(f"cannot write to {out}: {error.strerror or error}") from None


def finished(run: Path) -> bool:
    """Whether a population has reached its end, and saved it if it was to. A study that was copied without any
    checkpoints, for its numbers, is as finished as it was."""
    config = results.read_config(run)
    if config is None or last_steps(run) < config["steps"]:
        return False
    checkpoints = run / "checkpoints"
    saved = checkpoints / f"{config['steps']:012d}" / "manifest.json"
    return not config["checkpoint_interval_steps"] or saved.is_file() or not checkpoints.exists()


def saved_at(run: Path) -> int:
    """The steps of its newest checkpoint; 0 if there is none."""
    names = [path.parent.name for path in run.glob("checkpoints/*/manifest.json")]
    return max((int(name) for name in names if name.isdecimal()), default=0)  # others are being written


def last_rows(run: Path, agents: int = 1) -> list[dict[str, Any]]:
    """The last interval's whole rows, read from the end of the file: it may be long, and this is asked often."""
    try:
        with open(run / "metrics.jsonl", "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1000 * (agents + 1)))
            lines = file.read().split(b"\n")[:-1]  # behind the last end of line: nothing, or a torn row
    except FileNotFoundError:
        return []
    rows: list[dict[str, Any]] = []
    for line in reversed(lines):
        try:
            row = json.loads(line)
        except ValueError:
            break  # the first one may be cut
        if len(rows) == agents or (rows and row["agent_steps"] != rows[-1]["agent_steps"]):
            break
        rows.append(row)
    return rows[::-1]


def last_steps(run: Path) -> int:
    rows = last_rows(run)
    return int(rows[-1]["agent_steps"]) if rows else 0


@contextlib.contextmanager
def claim(run: Path) -> Iterator[None]:
    """Hold a population: two processes must not train it at once. The lock ends with the process, however that ends."""
    run.mkdir(parents=True, exist_ok=True)
    with open(run / LOCK, "a+") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    who = file.read().strip() or "another process"
                    raise Busy(f"{run} is being trained by {who}: wait for it, or stop it first") from None
                time.sleep(0.05)
        file.truncate(0)
        file.write(f"process {os.getpid()}\n")
        file.flush()
        yield


def is_running(run: Path) -> bool:
    try:
        with open(run / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def failure(folder: Path, population: str) -> str | None:
    """Why its last attempt failed, in a line."""
    path = _failure(folder, population)
    return path.read_text().strip() if path.exists() else None


def went_wrong(folder: Path, population: str) -> bool:
    """Whether it failed by itself: what was killed may do better next time, as it is."""
    said = failure(folder, population)
    return said is not None and not said.startswith(KILLED)


def set_failure(folder: Path, population: str, text: str | None) -> None:
    if text is None:
        _failure(folder, population).unlink(missing_ok=True)
    else:
        write_whole(_failure(folder, population), text + "\n")


@contextlib.contextmanager
def sitting(out: Path, command: str, here: Hardware) -> Iterator[dict[str, Any]]:
    """Put one on record: a line at its start, and one at its end with what is in the dictionary by then."""
    name = uuid.uuid4().hex[:12]
    versions = {"lookrep": lookrep.__version__, "python": platform.python_version()}
    start = {"start": _now(), "command": command, "hardware": hardware.as_json(here), "versions": versions}
    _append(out / results.SITTINGS, {"sitting": name, **start})
    end: dict[str, Any] = {}
    try:
        yield end
    finally:
        _append(out / results.SITTINGS, {"sitting": name, "end": _now(), **end})


def _append(path: Path, row: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _failure(folder: Path, population: str) -> Path:
    return folder / LOGS / f"{population}.failed"
