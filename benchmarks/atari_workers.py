"""How fast worker processes play Atari when nobody learns: what networks would take is only waited for.

    python benchmarks/atari_workers.py --cases 96/8/16 256/16/16 256/16/32      (agents/groups/workers)

A group's step keeps the host busy for a while, as launching its programs does, and its actions come some time later, as
they do from a GPU. So how agents are best put into groups and workers can be found in seconds, without a GPU and with
nothing to compile. Each figure stands beside what emulators alone reach, one on each core, in the seconds between.
"""

import argparse
import os
import statistics
import time
from collections import deque

import numpy as np

from lookrep.benchmarks.atari import Emulators
from lookrep.envs.host import EnvPool, check, process_pool


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = "AGENTS/GROUPS/WORKERS"
    words.add_argument("--cases", nargs="+", type=numbers, default=[(96, 8, 16), (256, 16, 16)], metavar=names)
    words.add_argument("--groups-a-worker", type=int, nargs="+", default=[process_pool.GROUPS_A_WORKER])
    words.add_argument("--game", default="Breakout")
    words.add_argument("--host-us", type=float, default=450.0, help="of the host thread, for a group's step")
    words.add_argument("--device-us", type=float, default=2000.0, help="until the actions are there")
    words.add_argument("--repeats", type=int, default=5)
    chosen = words.parse_args()
    print("| agents | groups | workers | groups a worker, at least | steps/s | emulators alone | ratio |")
    print("|---|---|---|---|---|---|---|")
    with Emulators(chosen.game, os.cpu_count() or 1) as emulators:
        for case in chosen.cases:
            for least in chosen.groups_a_worker:
                process_pool.GROUPS_A_WORKER = least
                measure(chosen, emulators, *case)


def numbers(text: str) -> tuple[int, int, int]:
    agents, groups, workers = map(int, text.split("/"))
    if not 1 <= groups <= agents or workers < 1:
        raise ValueError
    return agents, groups, workers


def measure(chosen: argparse.Namespace, emulators: Emulators, agents: int, groups: int, workers: int) -> None:
    parts = [slice(i * agents // groups, (i + 1) * agents // groups) for i in range(groups)]
    names, num_actions = agents * [f"atari/{chosen.game}"], check(f"atari/{chosen.game}").num_actions
    with EnvPool(names, range(agents), 0, groups=parts, processes=workers) as pool:
        found, alone = [], []
        for _ in range(chosen.repeats):
            alone.append(emulators.speed())
            found.append(play(pool, parts, num_actions, 2.0, chosen.host_us / 1e6, chosen.device_us / 1e6))
    ratio = statistics.median(a / b for a, b in zip(found, alone, strict=True))
    least = process_pool.GROUPS_A_WORKER
    row = agents, groups, workers, least, f"{statistics.median(found):.0f} ({min(found):.0f}–{max(found):.0f})"
    print("|", " | ".join(map(str, (*row, f"{statistics.median(alone):.0f}", f"{ratio:.2f}"))), "|", flush=True)


def play(pool: EnvPool, parts: list[slice], num_actions: int, seconds: float, host_s: float, device_s: float) -> float:
    """Steps per second in all. Every group has its result when this returns."""
    chance, sizes = np.random.default_rng(0), [part.stop - part.start for part in parts]
    actions = [chance.integers(num_actions, size=(100, size)) for size in sizes]
    playing, steps = list(range(len(parts))), 0
    thinking: deque[tuple[float, int]] = deque()
    for group in playing:
        pool.send(group, actions[group][0])
    began = time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or playing:
        if thinking and thinking[0][0] <= now and now - began < seconds:
            group = thinking.popleft()[1]
            pool.send(group, actions[group][steps % 100])
            playing.append(group)
        elif (ready := pool.first_ready(playing)) is not None:
            playing.remove(ready)
            pool.receive(ready)
            pool.log(ready)
            steps += sizes[ready]
            while time.perf_counter() - now < host_s:
                pass
            thinking.append((time.perf_counter() + device_s, ready))
        else:
            pool.nap()
    return steps / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
