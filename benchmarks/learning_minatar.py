"""The runs behind docs/learning.md: rainbow with each target update on three MinAtar games, 16 agents, 1 M steps.

    python benchmarks/learning_minatar.py runs/learning

Each run is what `lookrep train minatar/GAME --agent rainbow --target TARGET --agents 16 --steps 1_000_000` does; here
the target updates of a game train in three threads of one process, so that compiling one overlaps with running another.
"""

import dataclasses
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lookrep.config import AgentConfig, RunConfig, preset
from lookrep.training import run

GAMES = ("breakout", "freeway", "space_invaders")


def variants() -> dict[str, AgentConfig]:
    base = preset("rainbow")
    targets = {name: dataclasses.replace(base.target, target=name) for name in ("hard", "polyak", "replicate")}
    found = {name: dataclasses.replace(base, target=target) for name, target in targets.items()}
    return found


def main(folder: Path, agents: int, steps: int) -> None:
    jobs = [(game, name, settings) for game in GAMES for name, settings in variants().items()]
    base = preset("rainbow")
    low = dataclasses.replace(base, network=dataclasses.replace(base.network, precision="bf16"))
    as_many = dataclasses.replace(
        base, target=dataclasses.replace(base.target, target="replicate", replicate_updates=250)
    )
    jobs += [("breakout", "hard-bf16", low), ("breakout", "replicate-250", as_many)]

    def train(job: tuple[str, str, AgentConfig]) -> None:
        game, name, settings = job
        config = RunConfig(
            f"minatar/{game}", "rainbow", agents, steps=steps, checkpoint_interval_steps=0, settings=settings
        )
        began = time.perf_counter()
        run.start(config, folder / f"{game}-{name}", quiet=True)
        print(f"{game} {name}: {time.perf_counter() - began:.0f} s", flush=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(train, jobs))


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 16,
        int(sys.argv[3]) if len(sys.argv) > 3 else 1_000_000,
    )
