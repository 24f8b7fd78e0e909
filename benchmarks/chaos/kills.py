"""`kill -9` at random moments: before the first row, between rows, inside a save; what is left goes on."""

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from chaos.world import Ended, Failure, Subject, World, check, checkpoints, one_line, rows, same, until

KILLS_IN_A_LIFE = 3
START_SECONDS = 4.0


def life(world: World, subject: Subject, rng: random.Random) -> int:
    """Begun, killed a few times, and brought to its end; how many kills there were."""
    out, whole = world.place("kills") / "run", world.whole(subject)
    killed = failed = 0
    words = subject.begin(out)
    for _ in range(KILLS_IN_A_LIFE):
        process = world.start(words)
        if not _killed(process, subject, out, whole, rng):
            found = world.ended(process, words)
            check(found.status in (0, 1) or _was_done(found), f"it ended by itself: {found}")
            break
        killed += 1
        process.communicate()
        _nothing_lost(subject, out, whole)
        words = _next(world, subject, out)
    else:
        found = world.run(words)
    while found.status == 1 and not subject.alone and failed < KILLS_IN_A_LIFE:  # it says which worker was killed
        failed += 1
        found = world.run(subject.go_on(out))
    check(found.status == 0 or _was_done(found), f"it does not go on: {found}")
    same(subject, out, whole)
    return killed


def _was_done(found: Ended) -> bool:
    """Killed at its very end, behind its last save, a run has nothing left to do, and says so."""
    return found.status == 2 and " is finished (" in one_line(found)


def _killed(process: "subprocess.Popen[str]", subject: Subject, out: Path, whole: Path, rng: random.Random) -> bool:
    """Whether it lived long enough for that."""
    run, moment = rng.choice(subject.runs(out)), rng.random()
    if moment < 0.1:  # anywhere in its start
        try:
            process.wait(rng.uniform(0, START_SECONDS))
        except subprocess.TimeoutExpired:
            pass
        else:
            return False
    elif moment < 0.5:
        last = len(rows(whole if subject.alone else subject.runs(whole)[0]))
        wanted = rng.randrange(_size(run) // 2 + 1, max(_size(run) // 2 + 2, last))
        if not until(lambda: _size(run) >= wanted, process):
            return False
    else:  # inside a save
        seen = {path.name for path in run.glob("checkpoints/*")}
        new = rng.randrange(1, 4)

        def saving() -> bool:
            seen.update(path.name for path in run.glob("checkpoints/*.tmp"))
            return sum(name.endswith(".tmp") for name in seen) >= new

        if not until(saving, process):
            return False
        time.sleep(rng.choice((0.0, 0.001, 0.004, 0.02)) * rng.random())
    return _kill(process, subject, out, rng)


def _size(run: Path) -> int:
    """Rows, counted without reading them: this is asked every millisecond."""
    try:
        return (run / "metrics.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def _kill(process: "subprocess.Popen[str]", subject: Subject, out: Path, rng: random.Random) -> bool:
    if process.poll() is not None:
        return False
    workers = [] if subject.alone else _children(process.pid)
    who = rng.choice(("parent", "worker", "both")) if workers else "both"
    if who in ("parent", "both"):
        process.kill()
    if who in ("worker", "both"):
        for worker in workers if who == "both" else [rng.choice(workers)]:
            _send(worker, signal.SIGKILL)
    if who == "worker":
        process.wait(600)
    deadline = time.monotonic() + 600
    while any(os.path.exists(f"/proc/{worker}") for worker in workers):  # an orphan saves its state and ends
        check(time.monotonic() < deadline, "a worker of a study that was killed does not end")
        time.sleep(0.05)
    process.wait(600)
    return True


def _children(process: int) -> list[int]:
    try:
        with open(f"/proc/{process}/task/{process}/children") as file:
            return [int(number) for number in file.read().split()]
    except OSError:
        return []


def _send(process: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, number)


def _nothing_lost(subject: Subject, out: Path, whole: Path) -> None:
    """What is there is how the undisturbed run began, and there is no more of it in checkpoints than in rows."""
    for run, expected in zip(subject.runs(out), subject.runs(whole), strict=True):
        found = rows(run)
        check(found == rows(expected)[: len(found)], f"{run} has rows that are not those of an undisturbed run")
        saved = checkpoints(run)
        if saved:
            check(bool(found) and found[-1]["agent_steps"] >= saved[-1], f"{run} has a checkpoint ahead of its rows")


def _next(world: World, subject: Subject, out: Path) -> list[str]:
    """What a person types next."""
    if not subject.alone:
        return subject.go_on(out) if (out / "study.toml").exists() else subject.begin(out)
    if not (out / "config.json").exists():
        return subject.begin(out)
    words = subject.go_on(out)
    if rows(out) and not checkpoints(out):  # nothing is thrown away in silence
        said = one_line(world.run(words))
        if "--restart begins anew" not in said:
            raise Failure(f"no way out: {said}")
        return [*words, "--restart"]
    return words
