"""How fast could Dopamine's Rainbow train one agent on this CPU? The arithmetic of an update at the speed of the best
matrix product, and what must happen one after the other beside it. One JSON object.

    python benchmarks/atari_cpu_limit.py
"""

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lookrep import agents
from lookrep.config import preset
from lookrep.envs.host import make
from lookrep.networks import NATURE_LAYERS
from lookrep.replay import Batch

STACK, SIDE, REPEATS, EDGE = 4, 84, 40, 4096


def main() -> None:
    settings = preset("dopamine-rainbow")
    env = make("atari/Breakout")
    actions, batch = env.spec.num_actions, settings.learning.batch_size
    agent = agents.Agent(settings, (STACK, SIDE, SIDE), actions)
    state = agent.init(jax.random.key(0))
    chance = np.random.default_rng(0)
    frames = jnp.asarray(chance.integers(0, 256, (batch, STACK, SIDE, SIDE), dtype=np.uint8))
    ones, zeros = jnp.ones(batch), jnp.zeros(batch, jnp.int32)
    seen = Batch(frames, zeros, ones, ones, frames[::-1], zeros, ones)

    @jax.jit
    def update(state: agents.AgentState, key: jax.Array) -> agents.AgentState:
        return agent.learn(state, state.online, state.target.params, seen, key)[0]

    look = jax.jit(lambda online: agent.greedy(online, frames[0], None))
    square = chance.random((EDGE, EDGE), dtype=np.float32)
    flop = update_flop(batch, actions * settings.learning.atoms)
    product = milliseconds(lambda: square @ square, 5)
    peak = 2 * EDGE**3 / product  # a millisecond
    env.reset(0)
    parts = {
        "update": milliseconds(lambda: jax.block_until_ready(update(state, jax.random.key(1)))),
        "look": milliseconds(lambda: jax.block_until_ready(look(state.online))),
        "emulator": milliseconds(lambda: env.step(0)),
    }
    steps = settings.learning.steps_per_update
    cycle = flop / peak + steps * (parts["look"] + parts["emulator"])
    print(
        json.dumps(
            {
                "update_gigaflop": round(flop / 1e9, 2),
                "best_product_gigaflop_per_second": round(peak / 1e6),
                "update_ms_at_that_speed": round(flop / peak, 1),
                "measured_ms": {name: round(value, 2) for name, value in parts.items()},
                "agent_steps_per_second_at_most": round(1e3 * steps / cycle),
            }
        )
    )


def update_flop(batch: int, outputs: int) -> float:
    """Multiplications and additions: a forward pass of both networks; backward twice one, but for what the frames
    would get."""
    side, channels, layers = SIDE, STACK, []
    for features, size, stride in NATURE_LAYERS:
        side = -(-side // stride)
        layers.append(side**2 * size**2 * channels * features)
        channels = features
    dense = side**2 * channels * 512 + 512 * outputs
    return 2.0 * batch * (4 * (sum(layers) + dense) - layers[0])


def milliseconds(f: Callable[[], Any], repeats: int = REPEATS) -> float:
    f()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        f()
        found.append(time.perf_counter() - began)
    return 1e3 * statistics.median(found)


if __name__ == "__main__":
    main()
