"""Two processes that would write to one run: one of them is refused, in a line, and no row is lost or there twice."""

import json
import random
import time
from pathlib import Path

from chaos.damage import _half
from chaos.world import Subject, World, check, one_line, same, until


def two_resumes(world: World, subject: Subject, rng: random.Random) -> int:
    template = world.once(f"half-{subject.name}", lambda out: _half(world, subject, out))
    out = world.copy(template, world.place("writers"))
    _one_wins(world, subject.go_on(out), subject.go_on(out), rng)
    same(subject, out, world.whole(subject))
    return 1


def two_starts(world: World, subject: Subject, rng: random.Random) -> int:
    out = world.place("writers") / "run"
    _one_wins(world, subject.begin(out), subject.begin(out), rng)
    same(subject, out, world.whole(subject))
    return 1


def two_study_starts(world: World, study: Subject, rng: random.Random) -> int:
    """One variant each: both are trained. The same variant with two step sizes: one of them is refused."""
    out, whole = world.place("writers") / "study", world.whole(study)
    parts = [[*study.begin(out), "--variant", run.name.split("--")[1]] for run in study.runs(out)]
    processes = [(words, world.start(words)) for words in parts if not time.sleep(rng.choice((0.0, 0.02)))]
    for words, process in processes:
        found = world.ended(process, words)
        check(found.status == 0, f"a start beside another was disturbed: {found}")
    same(study, out, whole)
    other = world.place("writers") / "study"
    changed = world.place("definitions") / Path(parts[0][2]).name
    changed.write_text(Path(parts[0][2]).read_text().replace("[overrides]", "[overrides]\nlearning_rate = 0.001", 1))
    first = study.begin(other)
    _one_wins(world, first, [*first[:2], str(changed), *first[3:]], rng, apart_seconds=0.02)
    rates = {json.loads((run / "config.json").read_text())["settings"]["learning"]["learning_rate"]
             for run in study.runs(other)}  # fmt: skip
    check(len(rates) == 1, f"two studies were mixed: step sizes {rates}")
    return 2


def _one_wins(
    world: World, first: list[str], second: list[str], rng: random.Random, apart_seconds: float = 1.0
) -> None:
    processes = [
        (words, world.start(words)) for words in (first, second) if not time.sleep(apart_seconds * rng.random())
    ]
    found = [world.ended(process, words) for words, process in processes]
    check(sorted(one.status for one in found) == [0, 2], f"not one of two: {[str(one) for one in found]}")
    one_line(next(one for one in found if one.status == 2))


def beside_a_study(world: World, study: Subject, rng: random.Random) -> int:
    """`train --resume` of a population while its study runs."""
    out = world.place("writers") / "study"
    run = rng.choice(study.runs(out))
    words = study.begin(out)
    process = world.start(words)
    check(until(lambda: (run / "metrics.jsonl").exists(), process), "the study ended too early")
    said = one_line(world.run(["train", "--resume", str(run), "--quiet"]))
    check("is being trained by process" in said or "is finished" in said, f"not the holder's name: {said}")
    found = world.ended(process, words)
    check(found.status == 0, f"the study was disturbed: {found}")
    same(study, out, world.whole(study))
    return 1


def without_a_lock(world: World, subject: Subject, rng: random.Random) -> int:
    """The lock is deleted under way, as a file system without locks would have none: rows stay whole all the same."""
    template = world.once(f"half-{subject.name}", lambda out: _half(world, subject, out))
    out = world.copy(template, world.place("writers"))
    before = (out / "metrics.jsonl").stat().st_size
    words = subject.go_on(out)
    process = world.start(words)
    until(lambda: (out / "metrics.jsonl").stat().st_size > before, process)
    (out / ".lock").unlink(missing_ok=True)
    time.sleep(rng.random())
    found = [world.run(words), world.ended(process, words)]
    for one in found:
        if one.status != 0:
            one_line(one)
    if all(one.status == 2 for one in found):
        world.done(words)
    same(subject, out, world.whole(subject))
    return 1
