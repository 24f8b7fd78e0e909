"""Waiting for pipes: busy-wait while a core is idle, sleep otherwise."""

import os
import select
import time
from collections.abc import Iterable

TAKEN_S = 50e-6  # a yield that takes longer: somebody else used the core


def poll_of(pipes: Iterable[int]) -> select.poll:
    """Something that says which of these can be read from."""
    poll = select.poll()
    for pipe in pipes:
        poll.register(pipe, select.POLLIN)
    return poll


def busy_wait(poll: select.poll, seconds: float) -> None:
    """Return as soon as there is something to read, or after this time, or when somebody else wants the core. It takes
    a whole core, and spares its caller the time that waking up from sleep takes."""
    if not seconds:
        return
    now = time.perf_counter()
    until = now + seconds
    while not poll.poll(0) and now < until:
        before = now
        yield_core()
        now = time.perf_counter()
        if now - before > TAKEN_S:
            return


yield_core = getattr(os, "sched_yield", lambda: None)  # not everywhere
