"""Environments in worker processes, over shared memory; the parent's side. A worker's is in `worker_process.py`.

Everything between parent and workers is a pipe or a file without a name, so nothing can be left behind: not by
`close`, and not by `kill -9`. Per worker: `go` (which group to step), `report` (ready, or what went wrong; its end
means that the worker died) and standard input (the setup; its end means that the parent did). Per group: `tokens` and
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
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from lookrep.envs.host.atari import RULES, AtariRules
from lookrep.envs.host.protocol import EnvSpec
from lookrep.envs.host.serial import EnvSlot, arrays_over, nbytes
from lookrep.envs.host.waiting import busy_wait, poll_of, yield_core
from lookrep.envs.host.worker_process import MAX_MESSAGE_BYTES, READY, GroupShare, WorkerSetup
from lookrep.errors import UserError

BOOT = "import sys; sys.path[:] = sys.argv[1:]; from lookrep.envs.host.worker_process import main; main()"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
NAP_S = 20e-6  # a system makes it 70 or so
GROUPS_A_WORKER = 2  # at least, where there are many: while one group's networks act, it steps another's environments
CLOSE_S = 5.0  # for workers to leave, before they are killed


class ProcessPool:
    """Worker processes. `start` a group's step in all of them, then `wait` until the last one is through."""

    def __init__(
        self,
        slots: Sequence[EnvSlot],
        seed: int,
        spec: EnvSpec,
        groups: Sequence[slice],
        count: int,
        spin_s: float,
        rules: AtariRules = RULES,
    ) -> None:
        if not hasattr(signal, "pthread_sigmask"):
            raise UserError("worker processes need Linux or macOS: set processes to 0")
        self._spin_s, self._failure, self._closed = spin_s, "", False
        self._workers: list[_Worker] = []
        self._pipes: list[_Pipe] = []
        memory = _anonymous_file(nbytes(len(slots), spec))
        self.arrays = arrays_over(mmap.mmap(memory, nbytes(len(slots), spec)), len(slots), spec)
        try:
            tokens, done = ([self._pipe() for _ in groups] for _ in range(2))
            for pipe in tokens:
                os.set_blocking(pipe.reader, False)
            rows = [range(len(slots))[part] for part in groups]
            with _signals_blocked():
                for own in assigned([len(part) for part in rows], count):
                    shares = {
                        g: GroupShare(tuple(rows[g][i] for i in own[g]), tokens[g].reader, done[g].writer) for g in own
                    }
                    mine = [slots[row] for share in shares.values() for row in share.rows]
                    self._workers.append(_Worker(mine, shares, memory))
            self._reports = {worker.report for worker in self._workers}
            self._groups = [
                _Group(
                    go=[worker.go for worker in self._workers if g in worker.shares],
                    tokens=tokens[g].writer,
                    done=done[g].reader,
                    poll=poll_of([done[g].reader, *self._reports]),
                )
                for g in range(len(groups))
            ]
            self._any = poll_of([*self._reports, *(pipe.reader for pipe in done)])
            for worker in self._workers:
                worker.begin(seed, len(slots), spec, memory, spin_s, rules)
            self._await_ready()
        except BaseException:
            self.close()
            raise
        finally:
            os.close(memory)

    def start(self, group: int) -> None:
        go, tokens, _, _ = self._groups[group]
        _write(tokens, bytes(len(go)), len(go) - 1)
        for pipe in go:
            _write(pipe, bytes((group,)), 1)

    def first_ready(self, groups: Sequence[int]) -> int | None:
        """The first of these for which `wait` would return, or fail, at once. One question, however many they are."""
        ready = {fd for fd, _ in self._any.poll(0)}
        if not self._reports.isdisjoint(ready):
            return groups[0]
        return next((group for group in groups if self._groups[group].done in ready), None)

    def wait_for_any(self, groups: Sequence[int]) -> None:
        poll = poll_of([*(self._groups[group].done for group in groups), *self._reports])
        busy_wait(poll, self._spin_s)
        poll.poll()

    def nap(self) -> None:
        if self._spin_s:
            yield_core()
        else:
            time.sleep(NAP_S)

    def wait(self, group: int) -> None:
        _, _, done, poll = self._groups[group]
        busy_wait(poll, self._spin_s)
        ready = [fd for fd, _ in poll.poll()]
        if done not in ready:
            self._fail(ready[0])
        os.read(done, 1)

    def close(self) -> None:
        """Let the workers finish their step and leave; those that don't are killed."""
        if self._closed:
            return
        self._closed = True
        deadline = time.monotonic() + CLOSE_S
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
        """Say what a worker said before it ended, or how it ended; to every group that asks."""
        if not self._failure:
            worker = next(worker for worker in self._workers if worker.report == report)
            self._failure = worker.how_it_ended(said)
        raise UserError(self._failure)


def assigned(sizes: Sequence[int], workers: int) -> list[dict[int, list[int]]]:
    """Which of each group's agents are whose: by worker, {group: positions in it}.

    A group waits for the slowest of its workers. So each group has the fewest workers that still give every worker
    several groups: one that is held up then holds up those alone, and each is told less often. Few groups are spread
    over all workers.

    >>> assigned([2, 2], 2)
    [{0: [0], 1: [0]}, {0: [1], 1: [1]}]
    >>> assigned([2, 2, 2, 2], 2)
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
    go: list[int]  # the pipes of workers that have agents of this group
    tokens: int
    done: int
    poll: select.poll


class _Worker:
    """One process and the parent's ends of its pipes."""

    def __init__(self, slots: Sequence[EnvSlot], shares: dict[int, GroupShare], memory: int) -> None:
        self.shares, self._slots = shares, list(slots)
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

    def begin(self, seed: int, rows: int, spec: EnvSpec, memory: int, spin_s: float, rules: AtariRules) -> None:
        setup = WorkerSetup(
            self._slots, seed, rows, spec, memory, self._its_go, self._its_report, self.shares, spin_s, rules
        )  # fmt: skip
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it died already; its report will say so
            self._process.stdin.write(pickle.dumps(setup))
            self._process.stdin.flush()

    def how_it_ended(self, said: bytes) -> str:
        while more := os.read(self.report, MAX_MESSAGE_BYTES):
            said += more
        status = self._process.wait()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        names = ", ".join(sorted({slot.name for slot in self._slots}))
        return said.decode(errors="replace") or f"the worker process of {names} ended unexpectedly ({how})"

    def end(self, within_s: float) -> None:
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        os.close(self.report)


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Children started in this block never notice Ctrl-C, a closed terminal or a scheduler: the parent decides."""
    asking = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, asking)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _anonymous_file(size: int) -> int:
    """Memory that several processes can map; it is gone with the last of them."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("lookrep-workers")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.truncate(fd, size)
    return fd


# Not os.write: that one lets go of the interpreter for each byte, and with other threads about may wait to get it back.
_write = ctypes.PyDLL(None).write
_write.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
