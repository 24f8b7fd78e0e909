"""Programs side by side on MinAtar, in turns: our network and a flax one of the same shape; one variant and many.

    python benchmarks/programs.py own --agents 512 --precision bf16      # ours, and flax as lookrep runs it
    python benchmarks/programs.py variants --seeds 20 --precision bf16   # 25 variants × 20 seeds, and one × 500 agents

A line of JSON for each: agent steps per second in all (median and range over rounds), seconds to compile.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import flax.linen as nn
import jax
import turns

from lookrep import envs
from lookrep.agents import Parts
from lookrep.config import AgentConfig, RunConfig, preset
from lookrep.networks import own
from lookrep.training.fused import FusedEngine

ROUNDS = 5


class SameShape(nn.Module):
    """cnn16:128 without its last layer."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(16, (3, 3), padding="VALID")(x))
        return nn.relu(nn.Dense(128)(x.reshape(len(x), -1)))


def settings(agent: str, precision: str, **target: Any) -> AgentConfig:
    base = preset(agent)
    network = dataclasses.replace(base.network, precision=precision)
    return dataclasses.replace(base, network=network, target=dataclasses.replace(base.target, **target))


def own_networks(agents: int, precision: str, agent: str, as_it_is: bool) -> dict[str, Callable[[], FusedEngine]]:
    run = RunConfig("minatar/breakout", agent, agents=agents, settings=settings(agent, precision))
    env = envs.make(run.env)

    def grouped() -> FusedEngine:
        kept = own.convolutions_as_products
        own.convolutions_as_products = lambda function: function
        try:
            return FusedEngine(run, env, parts=Parts(network=SameShape()))
        finally:
            own.convolutions_as_products = kept

    programs = {
        "ours": lambda: FusedEngine(run, env),
        "flax": lambda: FusedEngine(run, env, parts=Parts(network=SameShape())),
    }
    return programs | ({"flax, grouped convolutions": grouped} if as_it_is else {})


def variants(seeds: int, precision: str, agent: str) -> dict[str, Callable[[], FusedEngine]]:
    """Five step sizes × {hard, two τ, Replicate with two K_R}."""
    targets: list[dict[str, Any]] = [
        {"target": "hard", "target_period_updates": 250},
        {"target": "polyak", "tau": 0.005},
        {"target": "polyak", "tau": 0.05},
        {"target": "replicate", "replicate_updates": 25},
        {"target": "replicate", "replicate_updates": 50},
    ]
    runs = []
    for target in targets:
        for rate in (1e-4, 2.5e-4, 5e-4, 1e-3, 2e-3):
            one = settings(agent, precision, **target)
            one = dataclasses.replace(one, learning=dataclasses.replace(one.learning, learning_rate=rate))
            runs.append(RunConfig("minatar/breakout", agent, agents=seeds, settings=one))
    alone = RunConfig("minatar/breakout", agent, agents=seeds * len(runs), settings=settings(agent, precision))
    env = envs.make(alone.env)
    return {
        f"one variant × {alone.agents}": lambda: FusedEngine(alone, env),
        f"{len(runs)} variants × {seeds}": lambda: FusedEngine(runs[0], env, runs[1:]),
    }


def compare(programs: dict[str, Callable[[], FusedEngine]], steps: int) -> None:
    engines = {name: make() for name, make in programs.items()}
    with ThreadPoolExecutor() as pool:
        under_way = dict(zip(engines, pool.map(lambda engine: started(engine, steps), engines.values()), strict=True))
    turns.wait()
    speeds: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, (state, seconds) in under_way.items():
            engine = engines[name]
            began = time.perf_counter()
            state = engine.advance(state, int(state.agent_steps) + steps)
            jax.block_until_ready(state.agents.online)
            speeds[name].append(steps * engine.config.agents / (time.perf_counter() - began))
            under_way[name] = state, seconds
    for name, found in speeds.items():
        row = {
            "program": name,
            "agents": engines[name].config.agents,
            "steps_per_second": round(statistics.median(found)),
            "range": [round(min(found)), round(max(found))],
            "start_seconds": round(under_way[name][1], 1),
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
        }
        print(json.dumps(row), flush=True)


def started(engine: FusedEngine, steps: int) -> tuple[Any, float]:
    """A state with everything compiled, and the seconds that took beside the others."""
    began = time.perf_counter()
    state = engine.advance(engine.init(), engine.config.settings.replay.warmup_steps + steps)
    state = jax.block_until_ready(engine.advance(state, int(state.agent_steps) + steps))
    return state, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("own", "variants"))
    parser.add_argument("--agents", type=int, default=512)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--agent", default=None)
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--steps", type=int, default=4_000, help="agent steps of each agent in a round")
    parser.add_argument("--as-it-is", action="store_true", help="own: with the grouped convolutions of vmap, too; slow")
    options = parser.parse_args()
    if options.what == "own":
        compare(
            own_networks(options.agents, options.precision, options.agent or "c51", options.as_it_is), options.steps
        )
    else:
        compare(variants(options.seeds, options.precision, options.agent or "rainbow"), options.steps)


if __name__ == "__main__":
    main()
