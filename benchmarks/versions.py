"""Two versions of lookrep in turns on one machine: is the newer one as fast?

    git worktree add /tmp/before COMMIT
    python benchmarks/versions.py minatar /tmp/before/src src       # populations on the device
    python benchmarks/versions.py atari /tmp/before/src src         # 1 and 16 agents with emulators

Each version trains in a process of its own. All are compiled first, then one trains while the others wait. A line of
JSON for each case: steps per second of both, and the ratio of neighbours in time, as median and range over rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import turns

ROUNDS = 7
SECONDS_A_ROUND = 1.2
MINATAR = ("c51 hard 512 bf16", "c51 replicate 512 bf16", "c51 hard 1 f32")
ATARI = ("Breakout 1 bf16", "Breakout 16 bf16")
CAPACITY_STEPS = 150_000  # so that both versions fit


class Version:
    """One version under way with one case."""

    def __init__(self, source: str, what: str, case: str) -> None:
        command = [sys.executable, __file__, what, "--serve", case]
        path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def answer(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"versions.py: a process ended with status {self._process.wait()}")
        return [float(word) for word in line.split()]

    def speed(self, steps: int) -> float:
        """Steps per second of all its agents."""
        assert self._process.stdin is not None
        print(steps, file=self._process.stdin, flush=True)
        seconds, agents = self.answer()
        return agents * steps / seconds

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def compare(what: str, cases: list[str], sources: tuple[str, str]) -> None:
    running = {case: [Version(source, what, case) for source in sources] for case in cases}
    for version in (version for versions in running.values() for version in versions):
        version.answer()  # it is compiled
    turns.wait()
    for case, (before, after) in running.items():
        unit = 1_000 if what == "minatar" else 40
        steps = max(1, round(after.speed(unit) / _agents(case) * SECONDS_A_ROUND / unit)) * unit
        before.speed(unit)
        found = []
        for n in range(ROUNDS):
            first, second = (before, after) if n % 2 else (after, before)
            speeds = {first: first.speed(steps), second: second.speed(steps)}
            found.append((speeds[before], speeds[after]))
        row: dict[str, Any] = {"case": f"{what} {case}", "steps_a_round": steps}
        for name, values in (("before", [a for a, _ in found]), ("after", [b for _, b in found])):
            row[name] = round(statistics.median(values))
            row[f"{name}_range"] = [round(min(values)), round(max(values))]
        ratios = [b / a for a, b in found]
        row["ratio"] = round(statistics.median(ratios), 3)
        row["ratio_range"] = [round(min(ratios), 3), round(max(ratios), 3)]
        print(json.dumps(row), flush=True)
        before.close()
        after.close()


def _agents(case: str) -> int:
    return int(next(word for word in case.split() if word.isdigit()))


def serve(what: str, case: str) -> None:
    """Train so many steps as each line of the input says; answer with seconds and agents."""
    answers, sys.stdout = sys.stdout, sys.stderr
    advance = {"minatar": _minatar, "atari": _atari}[what](case.split())
    print("0", file=answers, flush=True)
    for line in sys.stdin:
        print(advance(int(line)), _agents(case), file=answers, flush=True)


def _minatar(words: list[str]) -> Callable[[int], float]:
    import dataclasses

    import jax

    from lookrep import envs
    from lookrep.config import RunConfig, preset
    from lookrep.training.fused import FusedEngine

    agent, target, agents, precision = words
    settings = preset(agent)
    settings = dataclasses.replace(
        settings,
        replay=dataclasses.replace(settings.replay, warmup_steps=1_000),
        # Every number of Replicate, since defaults change from version to version.
        target=dataclasses.replace(
            settings.target,
            target=target,
            target_period_updates=250,
            replicate_updates=25,
            replicate_batch_size=32,
            replicate_learning_rate=settings.learning.learning_rate,
        ),
        network=dataclasses.replace(settings.network, precision=precision),
    )
    config = RunConfig("minatar/breakout", agent, int(agents), steps=10**9, settings=settings)
    engine = FusedEngine(config, envs.make(config.env))
    state = jax.block_until_ready(engine.advance(engine.init(), 1_000))

    def advance(steps: int) -> float:
        nonlocal state
        began = time.perf_counter()
        state = jax.block_until_ready(engine.advance(state, int(state.agent_steps) + steps))
        return time.perf_counter() - began

    advance(2_000)
    return advance


def _atari(words: list[str]) -> Callable[[int], float]:
    from lookrep.benchmarks import atari

    game, agents, precision = words
    case = atari.Case(int(agents), game, "hard", precision, capacity_steps=CAPACITY_STEPS)
    trainer = atari.Trainer(case).__enter__()  # until its process ends
    trainer.advance(atari.FIRST_STEPS)
    trainer.advance(400)
    return trainer.advance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("minatar", "atari"))
    parser.add_argument("before", nargs="?", help="the older version's folder of source")
    parser.add_argument("after", nargs="?", help="the newer one's")
    parser.add_argument("--cases", nargs="+", help="for instance 'c51 hard 512 bf16' or 'Breakout 16 bf16'")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.what, options.serve)
    elif options.after is None:
        parser.error("two versions are needed: the folders of their source")
    else:
        cases = options.cases or list(MINATAR if options.what == "minatar" else ATARI)
        compare(options.what, cases, (options.before, options.after))


if __name__ == "__main__":
    main()
