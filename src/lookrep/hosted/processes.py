"""Crews in processes of their own, over shared memory; the parent's side. What a worker does is in `worker.py`.

Everything between parent and workers is a pipe or a file without a name, so nothing can be left behind: not by
`close`, and not by `kill -9`. Per worker: `go` (which group to step), `report` (ready, or what went wrong; its end
means that the worker died) and standard input (the job; its end means that the parent did). Per group: `others` and
`done`, by which only the last worker to finish wakes the parent.

Workers are plain child processes, not `multiprocessing`'s: those import the user's main script again, and with it JAX.
"""

import contextlib
import ctypes
import mmap
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from lookrep.errors import UserError
from lookrep.hosted.crew import Layout, Member
from lookrep.hosted.waiting import give_way, look_out, poll_of
from lookrep.hosted.worker import MAX_MESSAGE_BYTES, READY, Job, Share

BOOT = "import sys; sys.path[:] = sys.argv[1:]; from lookrep.hosted.worker import main; main()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
NAP_S = 20e-6  # a system makes it 70 or so
GROUPS_A_WORKER = 2  # at least, where there are many: while one looks, the environments of another are played
PATIENCE_S = 5.0  # with workers that do not leave, before they are killed


class Processes:
    """Worker processes. `start` a group's step in all of them, then `wait` until the last one is through."""

    def __init__(
        self, members: Sequence[Member], seed: int, layout: Layout, groups: Sequence[slice], count: int, spin_s: float
    ) -> None:
        if not hasattr(signal, "pthread_sigmask"):
            raise UserError("worker processes need Linux or macOS: set processes to 0")
        self._lock, self._failure, self._closed = threading.Lock(), "", False
        self._workers: list[_Worker] = []
        self._spin_s = spin_s
        self._pipes: list[_Pipe] = []
        memory = _anonymous_file(layout.nbytes())
        self.table = layout.over(mmap.mmap(memory, layout.nbytes()))
        try:
            others, done = ([self._pipe() for _ in groups] for _ in range(2))
            for pipe in others:
                os.set_blocking(pipe.reader, False)
            rows = [range(len(members))[part] for part in groups]
            with _deaf_to_signals():
                for own in places([len(part) for part in rows], count):
                    shares = {
                        g: Share(tuple(rows[g][i] for i in own[g]), others[g].reader, done[g].writer) for g in own
                    }
                    crew = [members[row] for share in shares.values() for row in share.rows]
                    self._workers.append(_Worker(crew, shares, memory))
            self._reports = {worker.report for worker in self._workers}
            self._groups = []
            for g in range(len(groups)):
                doers = [worker.go for worker in self._workers if g in worker.shares]
                wait = poll_of([done[g].reader, *self._reports])
                self._groups.append(_Group(doers, others[g].writer, done[g].reader, wait))
            self._any = poll_of([*self._reports, *(pipe.reader for pipe in done)])
            for worker in self._workers:
                worker.tell(seed, layout, memory, spin_s)
            self._await_ready()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def start(self, group: int) -> None:
        doers, others, _, _ = self._groups[group]
        _write(others, bytes(len(doers)), len(doers) - 1)
        for go in doers:
            _write(go, bytes((group,)), 1)

    def first_ready(self, groups: Sequence[int]) -> int | None:
        """The first of these for which `wait` would return, or fail, at once. One question, however many they are."""
        ready = {fd for fd, _ in self._any.poll(0)}
        if not self._reports.isdisjoint(ready):
            return groups[0]
        return next((group for group in groups if self._groups[group].done in ready), None)

    def wait_for_any(self, groups: Sequence[int]) -> None:
        poll = poll_of([*(self._groups[group].done for group in groups), *self._reports])
        look_out(poll, self._spin_s)
        poll.poll()

    def nap(self) -> None:
        if self._spin_s:
            give_way()
        else:
            time.sleep(NAP_S)

    def wait(self, group: int) -> None:
        _, _, done, poll = self._groups[group]
        look_out(poll, self._spin_s)
        ready = [fd for fd, _ in poll.poll()]
        if self._closed or done not in ready:
            self._fail(ready[0])
        os.read(done, 1)

    def close(self) -> None:
        """Let the workers finish their step and leave; those that don't are killed."""
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + PATIENCE_S
        for worker in self._workers:
            os.close(worker.go)
        for worker in self._workers:
            worker.end(max(0.0, deadline - time.monotonic()))
        for fd in (fd for pipe in self._pipes for fd in pipe):
            os.close(fd)

    def _pipe(self) -> "_Pipe":
        self._pipes.append(_Pipe(*os.pipe()))
        return self._pipes[-1]

    def _await_ready(self) -> None:
        waiting = set(self._reports)
        while waiting:
            for report, _ in poll_of(waiting).poll():
                said = os.read(report, len(READY))
                if said != READY:
                    self._fail(report, said)
                waiting.remove(report)

    def _fail(self, report: int, said: bytes = b"") -> NoReturn:
        """Say what a worker said before it ended, or how it ended."""
        if self._closed:
            raise RuntimeError("the workers were closed while a step was under way")
        with self._lock:  # several groups' threads may find out at once
            if not self._failure:
                worker = next(worker for worker in self._workers if worker.report == report)
                self._failure = worker.last_words(said)
        raise UserError(self._failure)


def places(sizes: Sequence[int], workers: int) -> list[dict[int, list[int]]]:
    """Which of each group's agents are whose: by worker, {group: places in it}.

    A group waits for the slowest of its workers, so each has no more than it takes to give every worker several groups:
    then a worker that is held up holds up those alone, and each is told less often. Few groups are spread over all.

    >>> places([2, 2], 2)
    [{0: [0], 1: [0]}, {0: [1], 1: [1]}]
    >>> places([2, 2, 2, 2], 2)
    [{0: [0, 1], 2: [0, 1]}, {1: [0, 1], 3: [0, 1]}]
    """
    found: list[dict[int, list[int]]] = [{} for _ in range(workers)]
    each, first = _workers_a_group(sizes, workers), 0
    for group, size in enumerate(sizes):
        for i in range(size):
            found[(first + i % each) % workers].setdefault(group, []).append(i)
        first += min(each, size)  # who comes next
    return found


def _workers_a_group(sizes: Sequence[int], workers: int) -> int:
    """The fewest with which every worker has as much to do as any other, in several groups."""
    count, size = len(sizes), sizes[0]
    if len(set(sizes)) == 1:
        for each in range(1, min(size, workers)):
            if size % each == 0 and count * each % workers == 0 and count * each >= GROUPS_A_WORKER * workers:
                return each
    return workers


class _Pipe(NamedTuple):
    reader: int
    writer: int


class _Group(NamedTuple):
    doers: list[int]  # the `go` pipes of workers that have agents of this group
    others: int
    done: int
    poll: select.poll


class _Worker:
    """One process and the parent's ends of its pipes."""

    def __init__(self, members: Sequence[Member], shares: dict[int, Share], memory: int) -> None:
        self.shares, self._members = shares, list(members)
        self._its_go, self.go = os.pipe()
        self.report, self._its_report = os.pipe()
        inherited = {memory, self._its_go, self._its_report, *(fd for share in shares.values() for fd in share[1:])}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", BOOT, *sys.path],
                stdin=subprocess.PIPE,
                env=os.environ | ONE_THREAD,
                pass_fds=tuple(inherited),
            )
        finally:  # so that each side sees the other's end
            os.close(self._its_go)
            os.close(self._its_report)

    def tell(self, seed: int, layout: Layout, memory: int, spin_s: float) -> None:
        job = Job(self._members, seed, layout, memory, self._its_go, self._its_report, self.shares, spin_s)
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it died already; its report will say so
            self._process.stdin.write(pickle.dumps(job))
            self._process.stdin.flush()

    def last_words(self, said: bytes) -> str:
        while more := os.read(self.report, MAX_MESSAGE_BYTES):
            said += more
        status = self._process.wait()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        names = ", ".join(sorted({member.name for member in self._members}))
        return said.decode(errors="replace") or f"the worker process of {names} ended unexpectedly ({how})"

    def end(self, patience_s: float) -> None:
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self.report)


@contextlib.contextmanager
def _deaf_to_signals() -> Iterator[None]:
    """Children started in this block never notice Ctrl-C or a scheduler's SIGTERM: the parent decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _anonymous_file(nbytes: int) -> int:
    """Memory that several processes can map; it is gone with the last of them."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("lookrep-workers")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, nbytes)
    return fd


# Not os.write: that one lets go of the interpreter for each byte, and with other threads about may wait to get it back.
_write = ctypes.PyDLL(None).write
_write.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
