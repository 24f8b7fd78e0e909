"""The runs behind docs/notes/first-runs.md: rainbow with each target update on three MinAtar games, 1 M steps.

    python benchmarks/learning_minatar.py runs/learning [JOB ...]

Each run is what `lookrep train minatar/GAME --agent rainbow --target TARGET --agents 16 --steps 1_000_000` does; here
three jobs train in threads of one process, so that compiling one overlaps with running another.
"""

import dataclasses
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lookrep.config import AgentConfig, RunConfig, preset
from lookrep.training import session as run

GAMES = ("breakout", "freeway", "space_invaders")
AGENTS, STEPS = 16, 1_000_000


def jobs() -> dict[str, tuple[str, AgentConfig]]:
    """Name → (game, settings)."""
    base = preset("rainbow")

    def target(**changes: Any) -> AgentConfig:
        papers = {"replicate_updates": 25, "replicate_learning_rate": None}  # the paper's ratio and step size
        return dataclasses.replace(base, target=dataclasses.replace(base.target, **papers | changes))

    found = {
        f"{game}-{name}": (game, target(target=name)) for game in GAMES for name in ("hard", "polyak", "replicate")
    }
    low = dataclasses.replace(base, network=dataclasses.replace(base.network, precision="bf16"))
    found["breakout-hard-bf16"] = ("breakout", low)
    found["breakout-replicate-250"] = ("breakout", target(target="replicate", replicate_updates=250))
    return found


def train(folder: Path, name: str) -> None:
    game, settings = jobs()[name]
    config = RunConfig(
        f"minatar/{game}", "rainbow", AGENTS, steps=STEPS, checkpoint_interval_steps=0, settings=settings
    )
    began = time.perf_counter()
    run.start(config, folder / name, quiet=True)
    print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: train(Path(sys.argv[1]), name), sys.argv[2:] or jobs()))
