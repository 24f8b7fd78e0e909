"""What runs in a worker process: environments, and a pipe that says which group's agents to step next.

The parent's side, and what the pipes are for, is in `process_pool.py`. A worker lives as long as its standard input is
open: when the parent is gone, however it went, so is the worker.
"""

import mmap
import os
import pickle
import sys
import threading
import warnings
from typing import NamedTuple

from lookrep.envs.host.atari import AtariRules
from lookrep.envs.host.protocol import EnvSpec
from lookrep.envs.host.serial import EnvSlot, SerialEnvs, arrays_over, nbytes
from lookrep.envs.host.waiting import busy_wait, poll_of
from lookrep.errors import UserError
from lookrep.importing import in_short

READY = b"ready\n"
MAX_MESSAGE_BYTES = 4096  # fits a pipe: a worker that fails never waits for a reader


class GroupShare(NamedTuple):
    """What a worker does for one group."""

    rows: tuple[int, ...]
    tokens: int  # a pipe with a token for every worker of the group but one: who finds none was the last
    done: int


class WorkerSetup(NamedTuple):
    """All that a worker is told, by standard input, once."""

    slots: list[EnvSlot]
    seed: int
    rows: int  # of the shared arrays
    spec: EnvSpec
    memory: int  # file descriptors, from here on
    go: int  # a byte: the number of a group to step
    report: int  # READY; or what went wrong
    groups: dict[int, GroupShare]
    spin_s: float  # how long to busy-wait for the next step before going to sleep
    rules: AtariRules  # of Atari's games


def main() -> None:
    """The whole life of a worker."""
    warnings.simplefilter("ignore")  # the parent, which made each environment once, has shown them
    setup: WorkerSetup = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_leave_with_the_parent, daemon=True).start()
    try:
        memory = mmap.mmap(setup.memory, nbytes(setup.rows, setup.spec))
        envs = SerialEnvs(setup.slots, setup.seed, arrays_over(memory, setup.rows, setup.spec), setup.rules)
        os.write(setup.report, READY)
        _work(setup, envs)
        envs.close()
    except BrokenPipeError:
        pass  # the parent is gone
    except BaseException as error:
        text = str(error) if isinstance(error, UserError) else in_short(error)
        os.write(setup.report, text.encode()[:MAX_MESSAGE_BYTES])
    sys.stdout.flush()
    os._exit(0)  # without waiting for whatever threads an environment has left behind


def _work(setup: WorkerSetup, envs: SerialEnvs) -> None:
    next_step = poll_of([setup.go])
    while groups := os.read(setup.go, 64):  # nothing when the parent closed the pipe
        for group in groups:
            rows, tokens, done = setup.groups[group]
            envs.step(rows)
            if _is_last(tokens):
                os.write(done, b"\0")
            if group == groups[-1] and not next_step.poll(0):
                envs.play_ahead(rows)
        busy_wait(next_step, setup.spin_s)


def _is_last(tokens: int) -> bool:
    try:
        os.read(tokens, 1)
    except BlockingIOError:
        return True
    return False


def _leave_with_the_parent() -> None:
    os.read(0, 1)  # nothing more is ever written: this returns when the parent closed it, or died
    os._exit(1)
