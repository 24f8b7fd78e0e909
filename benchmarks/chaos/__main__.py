"""PYTHONPATH=benchmarks python -m chaos [--seed N] [--short] [--only WORD] [--keep FOLDER]"""

import argparse
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from chaos import damage, disk, kills, signals, subjects, writers
from chaos.world import Failure, Tally, World

Attack = Callable[[World, Tally], None]
KILL = "kill -9"
WAYS = ("moved", "deleted")  # for a folder to go away


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="chaos", description="attack runs and studies, and print what came of it")
    parser.add_argument("--seed", type=int, default=None, help="to repeat a failure")
    parser.add_argument("--short", action="store_true", help="a dozen attacks")
    parser.add_argument("--only", default="", help="attacks with this in their names")
    parser.add_argument("--keep", type=Path, default=None, help="a folder for everything, which stays")
    given = parser.parse_args(words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:  # by `nohup` or `&`: what is attacked would be deaf, too
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        print(f"seed {seed}", flush=True)
        tallies = attacked(World(folder.resolve(), seed), short=given.short, only=given.only)
        print(table(tallies))
        print(f"{(time.monotonic() - began) / 60:.1f} minutes, seed {seed}")
    for tally in tallies:
        for failure in tally.failures:
            print(f"FAILED {failure}")
    return 1 if any(tally.failures for tally in tallies) else 0


def attacked(world: World, *, short: bool, only: str = "", at_once: int = 2) -> list[Tally]:
    """All attacks, two at a time."""
    chosen = [(Tally(name), attack) for name, attack in attacks(world, short) if only in name]
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(lambda pair: pair[1](world, pair[0]), chosen):
            pass
    return [tally for tally, _ in chosen]


def attacks(world: World, short: bool) -> list[tuple[str, Attack]]:
    one, pong = subjects.minatar(800 if short else subjects.STEPS), subjects.atari()
    study, joint = (subjects.study(world.folder / "definitions", together) for together in (False, True))
    if short:
        return [
            (f"{KILL}, MinAtar", until(3, lambda w, rng: kills.life(w, one, rng))),
            *((f"damage to {kind}, MinAtar", times(1, partial(_damaged, one, kind))) for kind in damage.kinds(one)[:4]),
            ("two resumes", times(1, lambda w, rng: writers.two_resumes(w, one, rng))),
            ("SIGTERM, MinAtar", times(1, lambda w, rng: signals.asked(w, one, "SIGTERM", rng))),
            ("broken pipe", times(1, lambda w, rng: signals.broken_pipe(w, one, rng))),
            ("full disk (a small tmpfs)", partial(disk.attack, tries=1, steps=800)),
        ]
    found: list[tuple[str, Attack]] = [
        (f"{KILL}, study", until(12, lambda w, rng: kills.life(w, study, rng))),
        (f"{KILL}, joint program", until(12, lambda w, rng: kills.life(w, joint, rng))),
        (f"{KILL}, MinAtar", until(18, lambda w, rng: kills.life(w, one, rng))),
        (f"{KILL}, Atari", until(12, lambda w, rng: kills.life(w, pong, rng))),
    ]
    for subject, tries in ((one, 3), (pong, 2), (study, 1)):
        for kind in damage.kinds(subject):
            found.append((f"damage to {kind}, {subject.name}", times(tries, partial(_damaged, subject, kind))))
    for subject, ways in ((one, ("moved", "deleted", "without metrics")), (pong, WAYS), (study, WAYS)):
        for how in ways:
            found.append((f"folder {how} under way, {subject.name}", times(1, partial(_gone, subject, how))))
    for name in signals.ASKING:
        found.append((f"{name}, MinAtar", times(1, partial(_asked, one, name))))
    for subject, names in ((pong, ("SIGINT",)), (joint, ("SIGINT",)), (study, signals.ASKING)):
        for name in names:
            found.append((f"{name}, {subject.name}", times(1, partial(_asked, subject, name))))
    return [
        *found,
        ("closed terminal", times(2, lambda w, rng: signals.closed_terminal(w, one, rng))),
        ("broken pipe, MinAtar", times(2, lambda w, rng: signals.broken_pipe(w, one, rng))),
        ("broken pipe, study", times(1, lambda w, rng: signals.broken_pipe(w, study, rng))),
        ("a reader that goes away, study list", times(2, signals.list_into_head)),
        ("two resumes", times(3, lambda w, rng: writers.two_resumes(w, one, rng))),
        ("two starts", times(3, lambda w, rng: writers.two_starts(w, one, rng))),
        ("two study starts", times(2, lambda w, rng: writers.two_study_starts(w, study, rng))),
        ("resume beside its study", times(2, lambda w, rng: writers.beside_a_study(w, study, rng))),
        ("two resumes, lock deleted", times(3, lambda w, rng: writers.without_a_lock(w, one, rng))),
        ("full disk (a small tmpfs)", partial(disk.attack, tries=6, steps=subjects.STEPS)),
    ]


def _damaged(subject: subjects.Subject, kind: str, world: World, rng: object) -> int:
    return damage.one(world, subject, kind, rng)  # type: ignore[arg-type]


def _gone(subject: subjects.Subject, how: str, world: World, rng: object) -> int:
    return damage.gone(world, subject, how, rng)  # type: ignore[arg-type]


def _asked(subject: subjects.Subject, name: str, world: World, rng: object) -> int:
    return signals.asked(world, subject, name, rng)  # type: ignore[arg-type]


def times(count: int, one: Callable[..., int]) -> Attack:
    """So many tries."""

    def attack(world: World, tally: Tally) -> None:
        for number in range(count):
            _tried(world, tally, number, one)

    return attack


def until(hits: int, one: Callable[..., int]) -> Attack:
    """Tries until so many have hit; it is a failure if they do not."""

    def attack(world: World, tally: Tally) -> None:
        for number in range(3 * hits):
            if tally.tries < hits:
                _tried(world, tally, number, one)
        if tally.tries < hits:
            tally.failures.append(f"{tally.attack}: only {tally.tries} of {hits} hit; the others came too late")

    return attack


def _tried(world: World, tally: Tally, number: int, one: Callable[..., int]) -> None:
    try:
        tally.tries += one(world, world.random(tally.attack, number))
    except (Failure, OSError, ValueError) as error:
        tally.tries += 1
        tally.failures.append(f"{tally.attack}, try {number}: {type(error).__name__} {error}")
        print(f"FAILED {tally.failures[-1]}", file=sys.stderr, flush=True)
    print(f"{tally.attack}: {tally.tries} tries, {len(tally.failures)} failures", file=sys.stderr, flush=True)


def table(tallies: list[Tally]) -> str:
    lines = ["| attack | tries | failures |", "|---|---|---|"]
    for tally in tallies:
        failed = f"skipped ({tally.skipped})" if tally.skipped else str(len(tally.failures))
        lines.append(f"| {tally.attack} | {tally.tries} | {failed} |")
    tries, failed = sum(tally.tries for tally in tallies), sum(len(tally.failures) for tally in tallies)
    kills = sum(tally.tries for tally in tallies if tally.attack.startswith(KILL))
    skipped = sum(bool(tally.skipped) for tally in tallies)
    counted = f"all, {kills} of them kills" if kills else "all"
    return "\n".join([*lines, f"| {counted} | {tries} | {failed}{f', {skipped} skipped' if skipped else ''} |"])


if __name__ == "__main__":
    sys.exit(main())
