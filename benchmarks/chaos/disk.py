"""A disk that fills up: a tmpfs of a few MiB, mounted in a namespace of its own, where every user is root.

unshare -rm python -m chaos.disk FOLDER SEED TRIES STEPS      prints a JSON list: tries, failures
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

from chaos import subjects
from chaos.world import Subject, Tally, World, check, checkpoints, one_line, same

MIB = 1 << 20
ENOUGH_MIB = 64


def attack(world: World, tally: Tally, tries: int, steps: int) -> None:
    """In a process that may mount; skipped, with the reason, where that is not possible."""
    world.whole(subjects.minatar(steps))
    if shutil.which("unshare") is None:
        tally.skipped = "no unshare"
        return
    numbers = [str(number) for number in (world.seed, tries, steps)]
    command = [
        "unshare",
        "-m" if os.geteuid() == 0 else "-rm",
        sys.executable,
        "-m",
        "chaos.disk",
        str(world.folder),
        *numbers,
    ]
    path = str(Path(__file__).parents[1])
    environment = {**world.environment, "PYTHONPATH": ":".join([path, world.environment.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 3 or "unshare failed" in done.stderr:
        tally.skipped = (done.stderr.strip().splitlines() or ["cannot mount"])[-1]
    elif done.returncode:
        tally.tries, tally.failures = 1, [done.stderr[-1500:]]
    else:
        tally.tries, tally.failures = json.loads(done.stdout)


def main() -> int:
    folder, (seed, tries, steps) = Path(sys.argv[1]), map(int, sys.argv[2:])
    world = World(folder, seed)
    small = folder / "small-disk"
    small.mkdir(exist_ok=True)
    failures: list[str] = []
    full, number = 0, -1
    while full < tries and number < 5 * tries:
        number += 1
        subject = subjects.study(world.folder / "on-disk") if number % 3 == 2 else subjects.minatar(steps)
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={ENOUGH_MIB}m", "chaos", str(small)], capture_output=True, text=True
        )
        if mounted.returncode:
            print(mounted.stderr.strip() or "mount failed", file=sys.stderr)
            return 3
        try:
            full += _fill(world, small, subject, world.random("full disk", number))
        except (AssertionError, OSError, ValueError) as error:
            full += 1
            failures.append(f"full disk, try {number}: {error}")
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)
    print(json.dumps([full, failures]))
    return 0


def _fill(world: World, small: Path, subject: Subject, rng: random.Random) -> int:
    """Whether it was full before the end; then there is room again, and it goes on."""
    out = small / "run"
    _size(small, rng.uniform(0.2, 12.0) * (1 if subject.alone else 2))
    words = subject.begin(out)
    found = world.run(words)
    check(found.status in (0, 2) if subject.alone else found.status in (0, 1, 2), f"not said in a line: {found}")
    if subject.alone and found.status:
        one_line(found)
    if found.status == 0:
        same(subject, out, world.whole(subject))
        return 0
    _size(small, ENOUGH_MIB)  # room again
    world.done(_again(subject, out))
    same(subject, out, world.whole(subject))
    return 1


def _again(subject: Subject, out: Path) -> list[str]:
    if not subject.alone:
        return subject.go_on(out) if (out / "study.toml").exists() else subject.begin(out)
    if not (out / "config.json").exists():
        return subject.begin(out)
    began = (out / "metrics.jsonl").exists() and (out / "metrics.jsonl").stat().st_size
    return subject.go_on(out) + (["--restart"] if began and not checkpoints(out) else [])


def _size(small: Path, mib: float) -> None:
    options = f"remount,size={int(mib * MIB)}"
    # By all its words: with fewer, `mount` looks into a table that only the system's root can.
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", str(small)], check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
