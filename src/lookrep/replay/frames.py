"""Frames in the host's memory, for replays that a device has no room for.

Everything else about a replay is small and stays on the device, which draws the batches: compiled functions ask for the
frames of a batch by a callback (`lookrep.replay.Replay.frames_from`), and get those alone.
"""

import itertools
import mmap
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

THREADS = 4  # copying is limited by memory, not by cores
ROWS_A_THREAD = 256  # below that a thread is not worth waking


class HostFrames:
    """Ring buffers of frames, [capacity, agents, cells] uint8 each, by number."""

    def __init__(self) -> None:
        self._rings: dict[int, np.ndarray] = {}
        self._numbers = itertools.count()
        self._pool = ThreadPoolExecutor(THREADS, "frames")

    def make(self, capacity_steps: int, agents: int, cells: int) -> int:
        """A ring of zeros, which takes memory as it fills; its number."""
        memory = mmap.mmap(-1, capacity_steps * agents * cells, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # frames are read in random order, all over it
            memory.madvise(mmap.MADV_HUGEPAGE)
        number = next(self._numbers)
        self._rings[number] = np.frombuffer(memory, np.uint8).reshape(capacity_steps, agents, cells)
        return number

    def drop(self, number: int) -> None:
        del self._rings[number]

    def store(self, number: int, position: int, frames: np.ndarray, first_agent: int = 0) -> None:
        """Frames [steps, agents, cells] of consecutive steps, of some of the agents. The caller knows that nobody is
        asking for any now."""
        steps, agents, _ = frames.shape
        self._rings[number][position : position + steps, first_agent : first_agent + agents] = frames

    def gather(self, number: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Each agent's frames at these steps: [agents, …] to [agents, …, cells]."""
        ring, at = self._rings[int(number)], np.asarray(at)
        capacity, agents, cells = ring.shape
        rows = at.reshape(agents, -1).astype(np.int64) * agents + np.arange(agents)[:, None]
        rows, source = rows.reshape(-1), ring.reshape(capacity * agents, cells)
        found = np.empty((len(rows), cells), np.uint8)
        parts = np.array_split(np.arange(len(rows)), max(1, min(THREADS, len(rows) // ROWS_A_THREAD)))
        jobs = [slice(part[0], part[-1] + 1) for part in parts]
        # `take` lets go of the interpreter; "clip" spares it a look at every index.
        others = [self._pool.submit(np.take, source, rows[job], 0, found[job], "clip") for job in jobs[1:]]
        np.take(source, rows[jobs[0]], 0, found[jobs[0]], "clip")
        wait(others)
        return found.reshape(*at.shape, cells)
