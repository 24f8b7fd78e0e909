"""`metrics.jsonl`, the truth about a run: one JSON object per line, one line per agent and interval.

TensorBoard events are written beside it, for looking at; nothing reads them back. What the numbers mean is computed by
the trainer, and statistics over runs belong to the analysis, which reads the file with `read`.

Columns, in this order: `env` (only where a population plays several games), `agent` (its number, counted within its
game), `seed` (may be left out), the counters `agent_steps`, `online_updates`,
`target_updates`, `episodes`, the measures `return_mean`, `return_max`, `loss`, `function_gap`, `bellman_residual`,
`norm_online`, `norm_target`, `parameter_distance`, `steps_per_second` (of all agents together), then `diverged` (the
member has turned NaN) and whatever else the trainer gives (`refilled_at_steps`: since when the replay was filled
again, because its frames were damaged). A value that is not finite is written as null.
"""

import json
import os
import time
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookrep.errors import UserError
from lookrep.files import same_file
from lookrep.runs.names import EVENTS
from lookrep.runs.names import METRICS as FILE
from lookrep.runs.rows import COLUMNS, MEASURES, OPTIONAL, WHOLE, Row, check_order, parsed
from lookrep.runs.rows import COUNTERS as COUNTERS  # for readers of a run
from lookrep.runs.wandb import WandbRun


class Mark(NamedTuple):
    """The rows up to a checkpoint: so many bytes, with this checksum."""

    bytes: int
    crc32: int


class MetricsWriter:
    """Appends to a run's metrics; `resume_at_steps` cuts away what came after the checkpoint the run resumes from: what
    is behind its mark, if it has one.

    After the cut the file is what it was when that checkpoint was made, so a resumed run ends with the file of a run
    that never stopped. `note` hears about what is not worth stopping for, in one line each.
    """

    def __init__(
        self,
        run: Path,
        resume_at_steps: int | None = None,
        mark: Mark | None = None,
        *,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._path = run / FILE
        if resume_at_steps is None and self._path.exists():
            raise UserError(f"{self._path} already exists: resume that run or choose another folder")
        try:
            run.mkdir(parents=True, exist_ok=True)
            if mark is not None:
                os.truncate(self._path, mark.bytes)
            elif resume_at_steps is not None and self._path.exists():
                _cut_after(self._path, resume_at_steps)
            self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 (closed by `close`)
            self._mark = mark or _marked(self._path)  # a row that another writer adds meanwhile is noticed
        except OSError as error:
            raise _cannot("write", self._path, error) from error
        self._events = _Events(run, resume_at_steps, note)
        self._wandb = WandbRun(run, resume_at_steps, note)

    def write(self, columns: Mapping[str, Any]) -> None:
        """One interval: every column holds one value per agent, or one that all agents share."""
        interval = rows(columns)
        text = "".join(json.dumps(row, allow_nan=False) + "\n" for row in interval).encode()
        self._check_still_ours()
        try:
            rest = memoryview(text)
            while len(rest):
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            os.ftruncate(self._file.fileno(), self._mark.bytes)  # leave whole lines behind, also on a full disk
            raise _cannot("write", self._path, error) from error
        self._mark = Mark(self._mark.bytes + len(text), zlib.crc32(text, self._mark.crc32))
        numbers = averages(interval)
        self._events.write(numbers, interval[0]["agent_steps"])
        self._wandb.write(numbers, interval[0]["agent_steps"])

    def synced(self) -> Mark:
        """Wait until the rows are on the disk. Call it before a checkpoint, which must never be ahead of them, and
        keep the mark there: a resume then knows whether they still are."""
        self._check_still_ours()
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _cannot("write", self._path, error) from error
        return self._mark

    def _check_still_ours(self) -> None:
        """What is written to a file without a name is lost, and two writers spoil each other's rows."""
        if not same_file(self._file.fileno(), self._path):
            raise UserError(
                f"{self._path} is gone: it was moved or deleted under way, or its folder was; training stops here"
            )
        size = os.fstat(self._file.fileno()).st_size
        if size != self._mark.bytes:
            raise UserError(
                f"{self._path} has {size:,} bytes instead of {self._mark.bytes:,}: someone else has written to it; "
                "training stops here"
            )

    def close(self) -> None:
        self._file.close()
        self._events.close()
        self._wandb.close()

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def read(run: str | Path) -> dict[str, np.ndarray]:
    """A run's metrics as columns of equal length, in the order of the file. Damage is one line with its place.

    Counters are int64, `diverged` is bool, measures are float64 with NaN for null. An interval that is still being
    written (or was torn by a kill) is left out.
    """
    path = Path(run) / FILE
    try:
        rows = [row for row, _ in _lines(path)]
        check_order(rows, str(path))
    except FileNotFoundError:
        raise UserError(f"no metrics in {run}: {FILE} is missing (is it the folder of a run?)") from None
    except OSError as error:
        raise _cannot("read", path, error) from error
    agents = len({(row.get("env"), row["agent"]) for row in rows})
    if rows:
        last_steps = rows[-1]["agent_steps"]
        first_of_last = len(rows)
        while first_of_last and rows[first_of_last - 1]["agent_steps"] == last_steps:
            first_of_last -= 1
        if len(rows) - first_of_last < agents:
            rows = rows[:first_of_last]
    given = dict.fromkeys(key for row in rows for key in row)
    names = [*(n for n in COLUMNS if n in given or n not in OPTIONAL), *(n for n in given if n not in COLUMNS)]
    return {name: _column(name, [row.get(name) for row in rows]) for name in names}


def holds(run: Path, mark: Mark) -> bool:
    """Whether all rows are there that a checkpoint with this mark goes on from."""
    try:
        return _marked(run / FILE, mark.bytes) == mark
    except OSError:
        return False


def rows(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One interval's columns as rows of plain values, an agent each."""
    missing = [name for name in COLUMNS if name not in columns and name not in OPTIONAL]
    if missing:
        raise ValueError(f"metrics lack the column {missing[0]}")
    agents = len(np.atleast_1d(np.asarray(columns["agent"])))
    names = [*(name for name in COLUMNS if name in columns), *(name for name in columns if name not in COLUMNS)]
    values = {}
    for name in names:
        array = np.asarray(columns[name])
        if array.shape not in ((), (agents,)):
            raise ValueError(f"metrics column {name} has shape {array.shape}, expected () or ({agents},)")
        values[name] = _plain(np.broadcast_to(array, (agents,)))
    return [{name: values[name][i] for name in names} for i in range(agents)]


def averages(rows: list[dict[str, Any]]) -> dict[str, float]:
    """One interval for people who watch: each number averaged over the agents, and the spread of their returns."""
    numbers = {}
    for name in rows[0]:
        kept = [row[name] for row in rows if isinstance(row[name], int | float)]
        if kept and name not in ("agent", "seed", "agent_steps", "diverged"):
            numbers[name] = float(np.mean(kept))
    returns = [row["return_mean"] for row in rows if row["return_mean"] is not None]
    if returns:
        spread = {"min": np.min(returns), "max": np.max(returns), "std": np.std(returns)}
        numbers |= {f"across_agents/return_mean_{name}": float(value) for name, value in spread.items()}
    return numbers | {"across_agents/diverged": float(sum(row["diverged"] for row in rows))}


def _plain(array: np.ndarray) -> list[Any]:
    """Python values for JSON. A float32 is written with the fewest digits that give the same float32 back."""
    if array.dtype.kind == "O":
        return [None if isinstance(v, float) and not np.isfinite(v) else v for v in array.tolist()]
    if array.dtype.kind in "biuU":
        return array.tolist()
    if array.dtype != np.float64:
        array = array.astype(np.float32)  # exact for float16 and bfloat16
    return [float(str(value)) if np.isfinite(value) else None for value in array]


def _column(name: str, values: list[Any]) -> np.ndarray:
    whole = bool(values) and all(type(value) is int for value in values)
    if name == "diverged" or (values and all(type(value) is bool for value in values)):
        return np.array(values, bool)
    if (whole and name not in MEASURES) or (name in WHOLE and not values):
        return np.array(values, np.int64)
    if any(isinstance(value, str) for value in values):
        return np.array(values, object)
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _lines(path: Path) -> list[tuple[Row, bytes]]:
    """Every whole line with its text; a last line without its end of line was torn and does not count."""
    found = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            found.append((parsed(line, f"{path} line {number}"), line))
    return found


def _marked(path: Path, most_bytes: int | None = None) -> Mark:
    """The mark of a file, or of how it begins."""
    data = path.read_bytes()[:most_bytes]
    return Mark(len(data), zlib.crc32(data))


def _cut_after(path: Path, agent_steps: int) -> None:
    """Drop the rows after `agent_steps` and a torn last line: beside the file first, then in one rename."""
    text = b"".join(line for row, line in _lines(path) if row["agent_steps"] <= agent_steps)
    if len(text) == path.stat().st_size:
        return
    temporary = path.with_suffix(".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _cannot(verb: str, path: Path, error: OSError) -> UserError:
    return UserError(f"cannot {verb} {path}: {error.strerror or error}")


class _Events:
    """Scalars for TensorBoard, as `averages` has them.

    Written with TensorBoard's record writer, not its `EventFileWriter`: that one imports TensorFlow where it is
    installed, and reports a full disk as a traceback from its own thread. If anything fails, the run goes on without.
    """

    def __init__(self, run: Path, resume_at_steps: int | None, note: Callable[[str], None]) -> None:
        self._note = note
        self._writer: Any = None
        try:
            from tensorboard.compat.proto import event_pb2
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            note(f"no TensorBoard events: tensorboard is not installed; {FILE} holds everything")
            return
        self._event = event_pb2.Event
        # TensorBoard reads the files of a run in the order of their names: the newest must come last, also when
        # two are made within a second.
        seconds = [file.name.split(".")[3] for file in run.glob(f"{EVENTS}.lookrep")]
        taken = [int(second) for second in seconds if second.isdecimal()]  # others are copies, as "17 (1)"
        created = max([int(time.time()), *(second + 1 for second in taken)])
        try:
            file = open(run / f"events.out.tfevents.{created:010d}.lookrep", "xb", buffering=0)  # noqa: SIM115
        except OSError as error:
            note(f"no TensorBoard events: {error.strerror or error}")
            return
        self._writer = RecordWriter(file)
        self._put(file_version="brain.Event:2")
        if resume_at_steps is not None:
            # A session start makes TensorBoard forget earlier events from its step on: those we cut away.
            start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._put(session_log=start, step=resume_at_steps + 1)

    def write(self, numbers: Mapping[str, float], agent_steps: int) -> None:
        values = [{"tag": tag, "simple_value": number} for tag, number in numbers.items()]
        self._put(summary={"value": values}, step=agent_steps)

    def _put(self, **fields: Any) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        except OSError as error:
            self._note(f"no more TensorBoard events: {error.strerror or error}")
            self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
