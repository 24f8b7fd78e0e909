"""Frames on disk, each written once: what a checkpoint of a large replay need not write again.

A log takes the frames of groups of agents step by step; threads of its own turn every few megabytes of a group's into a
segment, a file that never changes. A checkpoint names the segments that its replay consists of. Whatever groups wrote
them, they can be read for any others: every segment says whose frames it holds. What the frames are for, and how they
become a replay again, is the engine's business.

A segment `<first step>-<first agent>-<CRC-32 of the file>.seg` is one zlib stream of uint8 [steps, agents, cells], in
which each frame is replaced by its exclusive-or with the same agent's frame before it (the segment's first: as it is).
Little changes from one frame to the next, so this is both smaller and quicker to compress than the frames themselves.
"""

import contextlib
import os
import zlib
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lookrep.errors import UserError
from lookrep.files import sync_folder
from lookrep.runs.checkpoint import Damaged

CHUNK_BYTES = 32 << 20  # of frames in a segment: a tenth of a second to compress, which is what a checkpoint waits for
BACKLOG_CHUNKS = 4  # of each group may wait to be written, before whoever adds more has to wait as well
THREADS = 8
SUFFIX, UNFINISHED = ".seg", ".seg.tmp"


class FramesDamaged(Damaged):
    """A checkpoint may be whole but for the frames of its replay."""


class Segment(NamedTuple):
    """A file of frames."""

    name: str
    first_step: int
    steps: int
    first_agent: int
    agents: int
    bytes: int
    crc32: int

    @property
    def end_step(self) -> int:
        return self.first_step + self.steps


class FrameLog:
    """Appends to a folder. One thread may use it at a time.

    first_step: the step whose frames come first
    segments: what the folder holds of the steps before
    chunk_bytes: of a group's frames in a segment; default: `CHUNK_BYTES`
    """

    def __init__(
        self, folder: Path, first_step: int = 0, segments: Sequence[Segment] = (), chunk_bytes: int | None = None
    ) -> None:
        self.folder = folder
        self._segments, self._chunk_bytes = list(segments), chunk_bytes or CHUNK_BYTES
        self._chunks: dict[int, list[np.ndarray]] = defaultdict(list)  # by the first agent of a group
        self._next_step: dict[int, int] = defaultdict(lambda: first_step)
        self._writing: deque[Future[Segment]] = deque()
        self._writers = ThreadPoolExecutor(THREADS, "frames")

    def add(self, first_agent: int, frames: np.ndarray) -> None:
        """What a group's agents saw in their next step, uint8 [agents, cells]. It is kept, not copied: leave it as it
        is."""
        chunk = self._chunks[first_agent]
        chunk.append(frames)
        if len(chunk) * frames.size >= self._chunk_bytes:
            self._hand_over(first_agent)
            while len(self._writing) > BACKLOG_CHUNKS * len(self._chunks):
                self._collect()

    def flush(self, since_step: int) -> list[Segment]:
        """Wait until everything is on the disk; the segments that hold the steps from `since_step` on."""
        for first_agent, chunk in self._chunks.items():
            if chunk:
                self._hand_over(first_agent)
        while self._writing:
            self._collect()
        if self._segments:
            sync_folder(self.folder)
        self._segments = [segment for segment in self._segments if segment.end_step > since_step]
        return list(self._segments)

    def close(self) -> None:
        """Frames that no flush has asked for are given up."""
        self._writers.shutdown(cancel_futures=True)

    def _hand_over(self, first_agent: int) -> None:
        chunk, first_step = self._chunks[first_agent], self._next_step[first_agent]
        self._chunks[first_agent], self._next_step[first_agent] = [], first_step + len(chunk)
        self._writing.append(self._writers.submit(_write, self.folder, first_step, first_agent, chunk))

    def _collect(self) -> None:
        try:
            self._segments.append(self._writing.popleft().result())
        except OSError as error:
            raise UserError(f"cannot write frames to {self.folder}: {error.strerror or error}") from error


def read(
    folder: Path, segments: Iterable[Segment], end_step: int, capacity_steps: int, agents: int, begin_step: int = 0
) -> Iterator[tuple[int, int, np.ndarray]]:
    """The last `capacity_steps` steps before `end_step`, or as many as there are since `begin_step`, of these agents.

    They come in pieces that fit into a ring where step t is at t % capacity: (position, first agent, uint8 [steps,
    agents, cells]).
    """
    reached = np.full(agents, max(begin_step, end_step - capacity_steps))
    for segment in sorted(segments, key=lambda segment: segment.first_step):
        whose = reached[segment.first_agent : segment.first_agent + segment.agents]
        at = int(whose[0])
        if not (segment.first_step <= at < min(segment.end_step, end_step) and (whose == at).all()):
            continue
        frames = _read(folder, segment)[at - segment.first_step : end_step - segment.first_step]
        whose += len(frames)
        while len(frames):
            position = at % capacity_steps
            piece, frames = np.split(frames, [capacity_steps - position])
            yield position, segment.first_agent, piece
            at += len(piece)
    if (reached != end_step).any():
        raise FramesDamaged(f"replay folder {folder} is damaged: it lacks the frames of step {reached.min():,}")


def tidy(folder: Path, needed: Iterable[Segment]) -> None:
    """Delete the segments that no checkpoint needs, and what a process that was killed left behind."""
    keep = {segment.name for segment in needed}
    for path in folder.glob("*"):
        if path.name.endswith((SUFFIX, UNFINISHED)) and path.name not in keep:
            with contextlib.suppress(OSError):  # what cannot be deleted costs disk, not the run
                path.unlink()


def _write(folder: Path, first_step: int, first_agent: int, chunk: list[np.ndarray]) -> Segment:
    frames = np.stack(chunk)
    changes = frames.copy()
    np.bitwise_xor(frames[1:], frames[:-1], out=changes[1:])
    data = zlib.compress(changes.data, 1)
    crc = zlib.crc32(data)
    # With the checksum in its name, a file that another life of the run wrote for the same steps is never replaced.
    path = folder / f"{first_step:012d}-{first_agent:06d}-{crc:08x}{SUFFIX}"
    temporary = path.with_suffix(UNFINISHED)
    folder.mkdir(exist_ok=True)  # not the run's: where that was moved or deleted, it must not come back
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Segment(path.name, first_step, len(chunk), first_agent, frames.shape[1], len(data), crc)


def _read(folder: Path, segment: Segment) -> np.ndarray:
    path = folder / segment.name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FramesDamaged(f"cannot read replay file {path}: {error.strerror or error}") from error
    if len(data) != segment.bytes or zlib.crc32(data) != segment.crc32:
        raise FramesDamaged(f"replay file {path} is damaged: it does not match its checksum")
    changes = np.frombuffer(bytearray(zlib.decompress(data)), np.uint8).reshape(segment.steps, segment.agents, -1)
    frames: np.ndarray = np.bitwise_xor.accumulate(changes, axis=0, out=changes)
    return frames
