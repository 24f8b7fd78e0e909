"""Damage to one file of a run or a study that was stopped half-way: it goes on to the same rows, or it says in a line
what is wrong and touches nothing."""

import json
import os
import random
import shutil
import signal
from pathlib import Path

from chaos.world import Subject, World, check, checkpoints, one_line, rows, same, until

OF_A_RUN = (
    "checkpoints/*/manifest.json", "checkpoints/*/arrays.bin", "metrics.jsonl", "config.json", ".lock",
    "events.out.tfevents*",
)  # fmt: skip
FILES = {
    "MinAtar": OF_A_RUN,
    "Atari": (*OF_A_RUN, "replay/*.seg"),
    "study": ("study.toml", "sittings.jsonl", *(f"populations/*/{name}" for name in OF_A_RUN), "logs/*"),
}
SAVED = ("manifest.json", "arrays.bin")


def kinds(subject: Subject) -> tuple[str, ...]:
    return FILES[subject.name]


def one(world: World, subject: Subject, kind: str, rng: random.Random) -> int:
    """Damage to one file of this kind."""
    whole, template = world.whole(subject), world.once(f"half-{subject.name}", lambda out: _half(world, subject, out))
    out = world.copy(template, world.place("damage"))
    victim = rng.choice(sorted(out.glob(kind)))
    run, older = victim.parents[2], len(checkpoints(victim.parents[2])) > 1 if victim.name in SAVED else False
    newest = older and int(victim.parent.name) == checkpoints(run)[-1]
    how, noticed = _harm(victim, rng)
    what = f"{victim.relative_to(out)} {how}"
    before = _files(out)
    found = world.run([word for word in subject.go_on(out) if word != "--quiet"])
    said = " ".join((found.out + found.err).split())
    if victim.name in SAVED and older:  # the other one is good
        check(found.status == 0, f"{what}: it does not go back to the older checkpoint: {found}")
        if subject.alone and newest and noticed:
            check("went back to" in said, f"{what}: it went back and did not say so: {found}")
    if found.status == 0:
        same(subject, out, whole, begun_only=kind == "study.toml")  # which may ask for more, and is a person's to edit
    elif found.status == 2 and subject.alone:
        said = one_line(found)
        check(_files(out) == before, f"{what}: refused, and files were changed: {said}")
        if "--refill-replay" in said:
            world.done([*subject.go_on(out), "--refill-replay"])
        elif "--restart" in said:
            world.done([*subject.go_on(out), "--restart"])
            same(subject, out, whole)
        else:
            check(kind == "config.json" and str(victim) in said, f"{what}: no way out: {said}")
    else:  # a study says which population could not go on, and finishes the others
        check(found.status in (1, 2), f"{what}: {found}")
        if found.status == 2:
            one_line(found)
        way_out = "--restart" in said or (victim.name in ("config.json", "study.toml") and victim.name in said)
        check(way_out, f"{what}: no way out: {found}")
    if not subject.alone:
        for look in (["study", "status", str(out)], ["report", str(out)]):
            seen = world.run(look)
            if seen.status:
                one_line(seen)
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


def _harm(path: Path, rng: random.Random) -> tuple[str, bool]:
    """What was done to it, and whether that can be noticed: there are bytes between arrays that nobody reads."""
    data, matters = bytearray(path.read_bytes()), _read_bytes(path)
    whole = bytes(data)
    how = rng.choice(("deleted", "emptied", "halved", "flipped", "zeroed", "replaced"))
    if how == "deleted":
        path.unlink()
        return how, True
    if how == "emptied":
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
    now = path.read_bytes()
    return how, len(now) != len(whole) or any(now[part] != whole[part] for part in matters)


def _read_bytes(path: Path) -> list[slice]:
    if path.name != "arrays.bin":
        return [slice(None)]
    leaves = json.loads((path.parent / "manifest.json").read_text())["leaves"]
    return [slice(leaf["offset"], leaf["offset"] + leaf["bytes"]) for leaf in leaves]


def _files(out: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}


def gone(world: World, subject: Subject, how: str, rng: random.Random) -> int:
    """The folder, or the metrics, go away while it trains."""
    out = world.place("gone") / "run"
    words, elsewhere = subject.begin(out), out.with_name("elsewhere")
    process = world.start(words)
    run, wanted = rng.choice(subject.runs(out)), rng.randrange(4, 12)
    until(lambda: len(rows(run)) >= wanted, process)
    if how == "moved":
        out.rename(elsewhere)
    elif how == "deleted":
        while out.exists() and process.poll() is None:  # what is being written at this instant, too
            shutil.rmtree(out, ignore_errors=True)
    else:
        os.unlink(out / "metrics.jsonl")
    found = world.ended(process, words)
    said = one_line(found)
    check("is gone" in said or "cannot" in said, f"it does not say what happened: {said}")
    if how == "deleted":
        check(not list(out.rglob("*")), f"it came back: {sorted(map(str, out.rglob('*')))}")
    if how == "moved":
        go_on = subject.go_on(elsewhere)
        if subject.alone and not checkpoints(elsewhere):
            go_on.append("--restart")
        world.done(go_on)
        same(subject, elsewhere, world.whole(subject))
    return 1
