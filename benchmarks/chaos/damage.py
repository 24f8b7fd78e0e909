"""Damage to one file of a run or a study that was stopped half-way: it goes on to the same rows, or it says in a line
what is wrong and touches nothing."""

import os
import random
import shutil
import signal
from pathlib import Path

from chaos.world import Subject, World, check, checkpoints, one_line, rows, same, until

OF_A_RUN = ("checkpoints/*/manifest.json", "checkpoints/*/arrays.bin", "metrics.jsonl", "config.json", ".lock")
FILES = {
    "MinAtar": OF_A_RUN,
    "Atari": (*OF_A_RUN, "replay/*.seg"),
    "study": ("study.toml", "sittings.jsonl", *(f"populations/*/{name}" for name in OF_A_RUN), "logs/*"),
}
FREE = ("steps", "checkpoint_interval_steps", "devices", "workers", "groups", "replay_memory")


def kinds(subject: Subject) -> tuple[str, ...]:
    return FILES[subject.name]


def one(world: World, subject: Subject, kind: str, rng: random.Random) -> int:
    """Damage to one file of this kind."""
    whole, template = world.whole(subject), world.once(f"half-{subject.name}", lambda out: _half(world, subject, out))
    out = world.copy(template, world.place("damage"))
    victim = rng.choice(sorted(out.glob(kind)))
    how = _harm(victim, rng)
    what = f"{victim.relative_to(out)} {how}"
    before = _files(out)
    found = world.run(subject.go_on(out))
    if found.status == 0:
        if kind.endswith("config.json"):  # how long a run is may be changed, and changes no row
            _as_far_as_both_go(subject, out, whole)
        else:
            same(subject, out, whole)
    elif found.status == 2 and subject.alone:
        said = one_line(found)
        check(_files(out) == before, f"{what}: refused, and files were changed: {said}")
        if "--refill-replay" in said:
            world.done([*subject.go_on(out), "--refill-replay"])
        elif "--restart" in said:
            world.done([*subject.go_on(out), "--restart"])
            same(subject, out, whole)
    else:  # a study says which population could not go on, and finishes the others
        check(found.status in (1, 2), f"{what}: {found}")
        if found.status == 2:
            one_line(found)
        check("lookrep" in found.out + found.err, f"{what}: nothing was said: {found}")
    if not subject.alone:
        status = world.run(["study", "status", str(out)])
        check(status.status in (0, 2), f"{what}: {status}")
    return 1


def _half(world: World, subject: Subject, out: Path) -> None:
    """Stopped by Ctrl-C with two checkpoints at least."""
    words = subject.begin(out)
    process = world.start(words)
    run = subject.runs(out)[-1]
    check(until(lambda: len(checkpoints(run)) >= 2, process), "it ended too early")
    process.send_signal(signal.SIGINT)
    found = world.ended(process, words)
    check(found.status == 130, f"it should have saved and stopped: {found}")
    if not subject.alone:
        (out / "logs" / f"{run.name}.failed").write_text("it failed\n")


def _harm(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    how = rng.choice(("deleted", "emptied", "halved", "flipped", "zeroed", "replaced"))
    if how == "deleted":
        path.unlink()
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "halved":
        path.write_bytes(data[: int(len(data) * rng.random())])
    elif how == "flipped" and data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    elif how == "zeroed" and data:
        start = rng.randrange(len(data))
        end = min(len(data), start + 4096)
        path.write_bytes(data[:start] + bytes(end - start) + data[end:])
    else:
        path.write_bytes(rng.randbytes(rng.randrange(1, 3000)))
    return how


def _files(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}


def _as_far_as_both_go(subject: Subject, out: Path, whole: Path) -> None:
    for run, expected in zip(subject.runs(out), subject.runs(whole), strict=True):
        found, theirs = rows(run), rows(expected)
        length = min(len(found), len(theirs))
        check(found[:length] == theirs[:length] and length > 0, f"{run} has other rows than an undisturbed run")


def gone(world: World, subject: Subject, how: str, rng: random.Random) -> int:
    """The folder, or the metrics, go away while it trains."""
    out = world.place("gone") / "run"
    words = subject.begin(out)
    process = world.start(words)
    wanted = rng.randrange(4, 12)
    until(lambda: len(rows(out)) >= wanted, process)
    if how == "moved":
        out.rename(out.with_name("elsewhere"))
    elif how == "deleted":
        shutil.rmtree(out, ignore_errors=True)
    else:
        os.unlink(out / "metrics.jsonl")
    said = one_line(world.ended(process, words))
    check("is gone" in said or "cannot" in said, f"it does not say what happened: {said}")
    if how == "moved":
        go_on = subject.go_on(out.with_name("elsewhere"))
        if not checkpoints(out.with_name("elsewhere")):
            go_on.append("--restart")
        world.done(go_on)
        same(subject, out.with_name("elsewhere"), world.whole(subject))
    return 1
