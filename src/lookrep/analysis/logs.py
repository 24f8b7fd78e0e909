"""Other software's logs as results: a CSV file, or TensorBoard folders as Stable-Baselines3 and CleanRL write them.

Every run is cut into intervals of equal steps; the score of one is the mean of what was logged in it. From there on
the rules of `scores` hold. The study ends where the shortest run ends, not counting runs that were broken off: those
that are shorter than nine tenths of the longest are unfinished.
"""

import csv
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookrep.analysis import results
from lookrep.analysis.results import Results, StudyMember
from lookrep.errors import UserError, missing
from lookrep.runs import names
from lookrep.runs.rows import LARGEST
from lookrep.studies.definition import Study, Variant

INTERVALS = 100
MOST_STEPS = 2**53  # from there on, floats skip whole numbers, and intervals would have no exact ends
BROKEN_OFF = 0.9  # of the longest run's steps: shorter ones are unfinished
TAGS = ("charts/episodic_return", "rollout/ep_rew_mean", "episodic_return")  # CleanRL's, Stable-Baselines3's, plain
NEEDED = ("run", "step", "score")
_CLEANRL = re.compile(r"(?P<env>.+)__(?P<variant>.+)__(?P<seed>\d+)__\d+")
_NUMBERED = re.compile(r"(?P<variant>.+)_(?P<number>\d+)")  # Stable-Baselines3: DQN_1


class Log(NamedTuple):
    """One run's scores, in the order in which they were logged."""

    env: str
    variant: str
    name: str
    steps: np.ndarray
    scores: np.ndarray


def are_in(path: Path) -> bool:
    return path.suffix == ".csv" or (path.is_dir() and next(path.rglob(names.EVENTS), None) is not None)


def load(path: Path, steps: int | None = None) -> Results:
    """What was logged there, as results."""
    found = list(_of_csv(path) if path.suffix == ".csv" else _of_tensorboard(path))
    ends = [int(log.steps.max()) for log in found]
    whole = _study(path, found, min(end for end in ends if end >= BROKEN_OFF * max(ends)))
    study = whole if steps is None else results.ending_at(whole, steps)
    members = []
    for env in study.environments:
        for variant in study.variants:
            mine = [log for log in found if (log.env, log.variant) == (env, variant.name)]
            for seed in range(study.seeds):
                columns = _columns(mine[seed], study.steps) if seed < len(mine) else {}
                members.append(StudyMember(env, variant.name, seed, results.status_of(columns, study.steps), columns))
    return Results(study, whole, path if path.is_dir() else path.parent, tuple(members), (), (), source="logs")


def _study(path: Path, found: list[Log], steps: int) -> Study:
    variants = list(dict.fromkeys(log.variant for log in found))
    counts = [(log.env, log.variant) for log in found]
    return Study(
        name=path.resolve().stem,
        title=path.resolve().stem,
        question="",
        kind="training",
        environments=tuple(dict.fromkeys(log.env for log in found)),
        agent="not recorded",
        variants=tuple(Variant(name, name, {}) for name in variants),
        seeds=max(counts.count(key) for key in counts),
        steps=steps,
        overrides={},
        size="logs",
        figures=(),
        baseline=variants[0],
    )


def _columns(log: Log, steps: int) -> dict[str, np.ndarray]:
    """Its intervals up to those steps; the last one is whole where the run goes that far. None where not even the first
    one is whole."""
    ends = np.unique(np.linspace(0, steps, INTERVALS + 1).astype(np.int64)[1:])
    ends = ends[: int(np.searchsorted(ends, min(int(log.steps.max()), steps), side="right"))]
    if not len(ends):
        return {}
    place = np.searchsorted(ends, log.steps)  # a score belongs to the interval that ends at or after it
    sums, counts = (np.bincount(place, w, len(ends) + 1)[: len(ends)] for w in (log.scores, np.ones(len(place))))
    with np.errstate(invalid="ignore"):
        return {"agent_steps": ends, "return_mean": sums / counts, "diverged": np.zeros(len(ends), bool)}


def _of_csv(path: Path) -> Iterator[Log]:
    """Columns `run`, `step` and `score`; perhaps `env` and `variant` as well."""
    try:
        with open(path, newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            rows, header = list(reader), reader.fieldnames or ()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: not readable ({error})") from None
    lacking = [name for name in NEEDED if name not in header]
    if lacking:
        raise UserError(f"{path}: the column '{lacking[0]}' is missing (run, step and score; perhaps env and variant)")
    if not rows:
        raise UserError(f"{path}: it has no rows")
    points: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for number, row in enumerate(rows, 2):
        try:
            point = (int(float(row["step"])), float(row["score"]))
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{path} line {number}: step and score must be numbers") from None
        key = (row.get("env") or path.stem, row.get("variant") or path.stem, row["run"])
        points.setdefault(key, []).append(point)
    return _logs(path, points)


def _of_tensorboard(root: Path) -> Iterator[Log]:
    """A run for each folder of events below."""
    points: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for folder in sorted({file.parent for file in root.rglob(names.EVENTS)}, key=_natural):
        found = [point for file in sorted(folder.glob(names.EVENTS)) for point in _scalars(file)]
        if found:
            points[_named(root, folder)] = found
    if not points:
        raise UserError(f"{root}: its TensorBoard events have no scalar {' or '.join(TAGS[:2])}")
    return _logs(root, points)


def _logs(where: Path, points: Mapping[tuple[str, str, str], list[tuple[int, float]]]) -> Iterator[Log]:
    for key, found in points.items():
        whole = [point for point in found if np.isfinite(point[1]) and point[0] > 0]
        if not whole:
            raise UserError(f"{where}: run '{key[2]}' has no score")
        steps, scores = zip(*whole, strict=True)
        if max(steps) >= MOST_STEPS:
            raise UserError(f"{where}: run '{key[2]}' has step {max(steps)}: steps must be below 2⁵³")
        if abs(largest := max(scores, key=abs)) > LARGEST:
            raise UserError(f"{where}: run '{key[2]}' has score {largest}: scores must be at most {LARGEST} in size")
        yield Log(*key, np.array(steps, np.int64), np.array(scores, np.float64))


def _named(root: Path, folder: Path) -> tuple[str, str, str]:
    """Environment, variant and run, from the folder's name.

    >>> _named(Path("runs"), Path("runs/CartPole-v1__dqn__2__1700000000"))
    ('CartPole-v1', 'dqn', 'CartPole-v1__dqn__2__1700000000')
    >>> _named(Path("logs"), Path("logs/CartPole-v1/DQN_3"))
    ('CartPole-v1', 'DQN', 'CartPole-v1/DQN_3')
    """
    parts = folder.relative_to(root).parts or (folder.resolve().name,)
    name = "/".join(parts)
    if match := _CLEANRL.fullmatch(parts[-1]):
        return match["env"], match["variant"], name
    if match := _NUMBERED.fullmatch(parts[-1]):
        return (parts[-2] if len(parts) > 1 else root.resolve().name), match["variant"], name
    above = (root.resolve().name, *parts)  # …/ENV/VARIANT/RUN, as far as there are so many
    return (above[-3], above[-2], name) if len(above) > 2 else (above[0], above[-1], name)


def _natural(folder: Path) -> list[Any]:
    return [int(word) if word.isdecimal() else word for word in re.split(r"(\d+)", str(folder))]


def _scalars(file: Path) -> Iterator[tuple[int, float]]:
    """Steps and scores of an event file; a last record that was torn does not count."""
    try:
        from tensorboard.compat.proto import event_pb2
    except ImportError as error:
        raise missing("reading TensorBoard events", error) from error
    try:
        for record in _records(file.read_bytes()):
            event = event_pb2.Event.FromString(record)
            for value in event.summary.value:
                if value.tag in TAGS:
                    yield event.step, value.simple_value or sum(value.tensor.float_val)
    except Exception as error:  # whatever protobuf makes of someone else's bytes
        raise UserError(f"{file}: not readable as TensorBoard events ({type(error).__name__})") from None


def _records(data: bytes) -> Iterable[bytes]:
    """TFRecord: the length, its checksum, as many bytes, their checksum."""
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        record = data[at + 12 : at + 12 + length]
        if len(record) < length:
            return
        yield record
        at += length + 16
