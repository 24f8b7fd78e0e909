"""Where attacks happen: commands as processes of their own, what they are let loose on, and how it is judged."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE_SECONDS = 600.0  # for a command that takes seconds where nobody else computes
POLL_SECONDS = 0.001
Rows = list[dict[str, Any]]


class Failure(AssertionError):
    """A promise that was not kept."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"`lookrep {' '.join(self.words)}` ended with {self.status}: {(self.err or self.out).strip()[-600:]}"


@dataclass(frozen=True)
class Subject:
    """Something to attack: how it begins, how it goes on, and which runs it has."""

    name: str
    begin: Callable[[Path], list[str]]
    go_on: Callable[[Path], list[str]]
    runs: Callable[[Path], list[Path]]
    alone: bool  # one run, not a study


class World:
    """A folder for everything, and the environment of all commands: quick compilation, every program once."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "LOOKREP_"))}
        self.environment = clean | {
            "JAX_PLATFORMS": "cpu",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        self._locks: dict[str, threading.Lock] = {}
        self._guard = threading.Lock()
        self._number = 0

    def random(self, attack: str, number: int) -> random.Random:
        return random.Random(f"{self.seed}/{attack}/{number}")

    def place(self, name: str) -> Path:
        """A new folder."""
        with self._guard:
            self._number += 1
            path = self.folder / "tries" / f"{self._number:04d}-{name}"
        path.mkdir(parents=True)
        return path

    def start(self, words: Sequence[str], **options: Any) -> "subprocess.Popen[str]":
        """A process group of its own, so that nothing of it is left behind."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        command = [sys.executable, "-m", "lookrep.cli", *words]
        return subprocess.Popen(
            command, env=self.environment, text=True, cwd=self.folder, start_new_session=True, **pipes | options
        )

    def ended(self, process: "subprocess.Popen[str]", words: Sequence[str]) -> Ended:
        try:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failure(f"`lookrep {' '.join(words)}` hangs") from None
        found = Ended(tuple(words), process.returncode, out or "", err or "")
        if "Traceback" in found.out + found.err:
            raise Failure(f"a traceback: {found}")
        return found

    def run(self, words: Sequence[str]) -> Ended:
        return self.ended(self.start(words), words)

    def done(self, words: Sequence[str]) -> Ended:
        found = self.run(words)
        check(found.status == 0, f"it should have come to its end: {found}")
        return found

    def refused(self, words: Sequence[str]) -> str:
        return one_line(self.run(words))

    def once(self, name: str, make: Callable[[Path], None]) -> Path:
        """A folder that several attacks start from, made by whoever needs it first."""
        with self._guard:
            lock = self._locks.setdefault(name, threading.Lock())
        path = self.folder / "templates" / name
        with lock:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                making = path.with_name(f"{name}.{os.getpid()}")
                make(making)
                making.rename(path)
        return path

    def whole(self, subject: Subject) -> Path:
        """What nobody disturbed."""
        return self.once(f"whole-{subject.name}", lambda out: (self.done(subject.begin(out)), None)[1])

    def copy(self, template: Path, place: Path) -> Path:
        return Path(shutil.copytree(template, place / template.name))


@dataclass
class Tally:
    """What came of an attack."""

    attack: str
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    skipped: str = ""


def check(kept: bool, promise: str) -> None:
    """A promise, as it reads when it was not kept."""
    if not kept:
        raise Failure(promise)


def one_line(found: Ended) -> str:
    """Its refusal."""
    check(found.status == 2, f"it should have been refused: {found}")
    lines = found.err.splitlines()
    check(len(lines) == 1 and lines[0].startswith("lookrep: ") and lines[0].isprintable(), f"not one line: {found}")
    return lines[0]


def rows(run: Path) -> Rows:
    """Whole rows without the one column that is a clock's reading."""
    file = run / "metrics.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [{k: v for k, v in json.loads(line).items() if k != "steps_per_second"} for line in lines]


def checkpoints(run: Path) -> list[int]:
    """Steps of those that are whole."""
    return sorted(int(p.parent.name) for p in run.glob("checkpoints/*/manifest.json") if p.parent.name.isdecimal())


def same(subject: Subject, out: Path, whole: Path, begun_only: bool = False) -> None:
    """It ended as if nothing had happened; with `begun_only`, as far as both go."""
    for run, expected in zip(subject.runs(out), subject.runs(whole), strict=True):
        found = (run / "metrics.jsonl").read_bytes() if (run / "metrics.jsonl").exists() else b""
        check(found.endswith(b"\n"), f"{run} has a torn row")
        ours, theirs = rows(run), rows(expected)
        if begun_only:
            length = min(len(ours), len(theirs))
            check(length > 0, f"{run} has no rows")
            ours, theirs = ours[:length], theirs[:length]
        check(ours == theirs, f"{run} has other rows than a run that nobody disturbed{_first(run, expected)}")
        temporary = [path.name for path in run.glob("checkpoints/*") if not path.name.isdecimal()]
        check(not temporary, f"{run} has leftovers: {temporary}")
    if not subject.alone:
        for log in out.glob("logs/*.log"):
            check("Traceback" not in log.read_text(errors="replace"), f"a traceback in {log}")


def _first(run: Path, expected: Path) -> str:
    ours, theirs = rows(run), rows(expected)
    place = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), min(len(ours), len(theirs)))
    return f": {len(ours)} instead of {len(theirs)}, from row {place + 1} on"


def until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> bool:
    """Wait for it; False if the process ended first."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if process.poll() is not None:
            return False
        check(time.monotonic() < deadline, "it hangs")
        time.sleep(POLL_SECONDS)
    return True
