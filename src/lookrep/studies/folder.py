"""A study's folder: the definition in it, its populations, what went wrong, and the record of sittings.

    study.toml   populations/ENV--VARIANT--FIRST-LAST/   sittings.jsonl   logs/   videos/   exact/

Each population is the folder of a run (`lookrep.runs`); its variant is in its name, all else in its `config.json`.
"""

import contextlib
import json
import platform
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lookrep
from lookrep.errors import UserError, printable, shortened
from lookrep.files import from_json, write_new, write_whole, writing
from lookrep.runs import lock, names
from lookrep.studies import definition, hardware
from lookrep.studies.definition import Study
from lookrep.studies.hardware import Hardware

POPULATIONS, SITTINGS, VIDEOS, EXACT, LOGS = names.POPULATIONS, "sittings.jsonl", "videos", "exact", "logs"
DEFINING_SECONDS = 30.0  # others hold the definition for an instant
SITTING = {"sitting": str, "start": str, "end": str, "command": str, "hardware": dict, "versions": dict}
KILLED = "ended by "  # begins a failure by a signal
LONGEST_NAME = 200  # letters of what files are named after: a file system takes 255, with what stands around it


def plain(env: str) -> str:
    """An environment's name as part of a file's.

    >>> plain("minatar/breakout"), plain("my_envs:Corridor"), plain("a--b")
    ('minatar_breakout', 'my_envs_Corridor', 'a-b')
    """
    return re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9._-]", "_", env))


def check_name(name: str, study: str) -> None:
    """Refuse an environment with a variant that no file could be named after."""
    if len(name) > LONGEST_NAME:
        raise UserError(
            f"study {study}: '{shortened(name, LONGEST_NAME, 40, 20)}' would be the name of a file, and has "
            f"{len(name)} letters: at most {LONGEST_NAME}; give its variant or environment a shorter name"
        )


def populations(folder: Path) -> list[Path]:
    """Folders of the populations that were begun, in the order of their names."""
    return sorted(path.parent for path in (folder / POPULATIONS).glob(f"*/{names.CONFIG}"))


def variant_of(run: Path) -> str:
    """The variant in the name of a population's folder.

    >>> variant_of(Path("populations/minatar_breakout--replicate-all--0-9"))
    'replicate-all'
    """
    parts = run.name.split("--")
    return parts[1] if len(parts) > 1 else parts[0]


def merged(out: Path, study: Study) -> Study:
    """What the study of this folder would be with what is asked for; writes nothing."""
    if (out / definition.FILE).exists():
        return definition.union(definition.load(out), study, str(out))
    if out.exists() and not (out.is_dir() and all(map(_before_definition, out.iterdir()))):
        raise UserError(f"{out} exists and is no study: choose another --out")
    return study


def _before_definition(path: Path) -> bool:
    """Whether it is what a study is killed with that was just about to write its definition."""
    if path.name in (POPULATIONS, LOGS, EXACT):
        return path.is_dir() and not any(path.iterdir())
    return path.name == names.LOCK or path.name.startswith(f".{definition.FILE}.")


@contextlib.contextmanager
def defined(out: Path, asked: Study) -> Iterator[tuple[Study, str | None]]:
    """The study of this folder with what is asked for, on the disk; and what is to be said of its lock, if anything. It
    is held until the end of the block: two that start there at the same instant are merged, or one is refused."""
    with lock.held(out, "being begun", DEFINING_SECONDS) as note:
        begun = (out / definition.FILE).exists()
        study = merged(out, asked)
        prepare(out, study, begun=begun)
        yield study, note


def prepare(out: Path, study: Study, *, begun: bool = False) -> None:
    """Make the folder, with the definition in it; if it was `begun`, in the place of the one that is there."""
    with writing(f"study '{out}'"):
        for name in (POPULATIONS, LOGS) if study.kind == "training" else (EXACT,):
            (out / name).mkdir(parents=True, exist_ok=True)
        try:
            (write_whole if begun else write_new)(out / definition.FILE, definition.to_toml(study))
        except FileExistsError:
            raise UserError(f"another study was begun in {out} at the same instant: start this one again") from None


def failure(folder: Path, population: str) -> str | None:
    """Why its last attempt failed, in a line."""
    path = _failure(folder, population)
    return printable(path.read_text(errors="replace").strip()) if path.exists() else None


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
    _append(out / SITTINGS, {"sitting": name, **start})
    end: dict[str, Any] = {}
    try:
        yield end
    finally:
        _append(out / SITTINGS, {"sitting": name, "end": _now(), **end})


def sittings(out: Path) -> tuple[dict[str, Any], ...]:
    """One dictionary per sitting. Its start and its end are separate lines, so that a killed one is on record too."""
    path = out / SITTINGS
    found: dict[Any, dict[str, Any]] = {}
    for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
        try:
            row = from_json(line)
        except ValueError:
            continue  # torn by a kill
        whole = isinstance(row, dict) and all(type(row.get(name, kind())) is kind for name, kind in SITTING.items())
        if whole and {"device", "cores"} <= row.get("hardware", {"device": 0, "cores": 0}).keys():
            key = row.get("sitting", str(number))
            found[key] = found.get(key, {}) | row
    return tuple(found.values())


def _append(path: Path, row: dict[str, Any]) -> None:
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _failure(folder: Path, population: str) -> Path:
    return folder / LOGS / f"{population}.failed"
