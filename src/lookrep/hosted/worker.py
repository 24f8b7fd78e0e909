"""What runs in a worker process: a crew, told by a pipe which group's agents to step next.

The parent's side, and what the pipes are for, is in `processes.py`. A worker lives as long as its standard input is
open: when the parent is gone, however it went, so is the worker.
"""

import mmap
import os
import pickle
import sys
import threading
import warnings
from typing import NamedTuple

from lookrep.errors import UserError
from lookrep.hosted.crew import Crew, Layout, Member
from lookrep.hosted.waiting import look_out, poll_of
from lookrep.importing import in_short

READY = b"ready\n"
MAX_MESSAGE_BYTES = 4096  # fits a pipe: a worker that fails never waits for a reader


class Job(NamedTuple):
    """All that a worker is told, by standard input, once."""

    members: list[Member]
    seed: int
    layout: Layout
    memory: int  # file descriptors, from here on
    go: int  # a byte: the number of a group to step
    report: int  # READY; or what went wrong
    groups: dict[int, "Share"]
    spin_s: float  # how long to look out for the next step before going to sleep


class Share(NamedTuple):
    """What a worker does for one group."""

    rows: tuple[int, ...]
    others: int  # holds a token for every worker of the group but one: who finds none was the last
    done: int


def main() -> None:
    """The whole life of a worker."""
    warnings.simplefilter("ignore")  # the parent, which made each environment once, has shown them
    job: Job = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    try:
        crew = Crew(job.members, job.seed, job.layout.over(mmap.mmap(job.memory, job.layout.nbytes())))
        os.write(job.report, READY)
        _work(job, crew)
        crew.close()
    except BrokenPipeError:
        pass  # the parent is gone
    except BaseException as error:
        text = str(error) if isinstance(error, UserError) else in_short(error)
        os.write(job.report, text.encode()[:MAX_MESSAGE_BYTES])
    sys.stdout.flush()
    os._exit(0)  # without waiting for whatever threads an environment has left behind


def _work(job: Job, crew: Crew) -> None:
    next_step = poll_of([job.go])
    while groups := os.read(job.go, 64):  # nothing when the parent closed the pipe
        for group in groups:
            rows, others, done = job.groups[group]
            crew.step(rows)
            if _is_last(others):
                os.write(done, b"\0")
            if group == groups[-1] and not next_step.poll(0):
                crew.play_ahead(rows)
        look_out(next_step, job.spin_s)


def _is_last(others: int) -> bool:
    try:
        os.read(others, 1)
    except BlockingIOError:
        return True
    return False


def _leave_with_the_parent() -> None:
    os.read(0, 1)  # nothing more is ever written: this returns when the parent closed it, or died
    os._exit(1)
