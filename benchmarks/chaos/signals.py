"""Signals, a closed terminal and readers that go away: what is asked to stop saves and goes on later."""

import contextlib
import os
import pty
import random
import signal
import subprocess
import sys

from chaos.world import Subject, World, check, checkpoints, rows, same, until

ASKING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


def asked(world: World, subject: Subject, name: str, rng: random.Random) -> int:
    """To stop, after some rows; then it goes on."""
    out = world.place("signals") / "run"
    words = subject.begin(out)
    process = world.start(words)
    run = rng.choice(subject.runs(out))
    wanted = rng.randrange(1, 15)
    if not until(lambda: len(rows(run)) >= wanted, process):
        return 0
    process.send_signal(signal.Signals[name])
    found = world.ended(process, words)
    check(found.status in (0, 130), f"{name}: {found}")
    if found.status == 130:
        check(bool(checkpoints(run)) and rows(run)[-1]["agent_steps"] == checkpoints(run)[-1], f"{name}: not saved")
        world.done(subject.go_on(out))
    same(subject, out, world.whole(subject))
    return 1


def closed_terminal(world: World, subject: Subject, rng: random.Random) -> int:
    """The window in which it runs is closed: SIGHUP, and a terminal that takes no more."""
    out = world.place("terminal") / "run"
    words = [word for word in subject.begin(out) if word != "--quiet"]
    leader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_A_TERMINAL, *words],
        stdin=terminal, stdout=terminal, stderr=terminal, env=world.environment, cwd=world.folder,
        start_new_session=True, text=True,
    )  # fmt: skip
    os.close(terminal)
    os.set_blocking(leader, False)
    wanted = rng.randrange(1, 15)

    def far_enough() -> bool:
        with contextlib.suppress(OSError):
            os.read(leader, 65536)
        return len(rows(out)) >= wanted

    reached = until(far_enough, process)
    os.close(leader)
    process.wait(600)
    if reached:
        check(process.returncode in (0, 130), f"a closed terminal: status {process.returncode}")
        if process.returncode == 130:
            check(rows(out)[-1]["agent_steps"] == checkpoints(out)[-1], "a closed terminal: not saved")
            world.done(subject.go_on(out))
    same(subject, out, world.whole(subject))
    return 1


_IN_A_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from lookrep.cli import main
sys.exit(main(sys.argv[1:]))
"""


def broken_pipe(world: World, subject: Subject, rng: random.Random) -> int:
    """`lookrep train … 2>&1 | head -1`: nobody reads the progress, and training goes on."""
    out = world.place("pipe") / "run"
    words = [word for word in subject.begin(out) if word != "--quiet"]
    process = world.start(words, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    process.wait(600)
    check(process.returncode == 0, f"a broken pipe: status {process.returncode}")
    same(subject, out, world.whole(subject))
    return 1


def list_into_head(world: World, rng: random.Random) -> int:
    process = world.start(["study", "list"])
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    found = world.ended(process, ["study", "list"])
    check(found.status == 0 and not found.err, f"study list | head -1: {found}")
    return 1
