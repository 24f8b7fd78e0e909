"""rejax's DQN on MinAtar Breakout with our network and settings, timed in the same process as ours. Prints JSON rows.

    pip install -e '.[bench]'
    python benchmarks/peers/rejax_dqn.py 1 16

rejax (https://github.com/keraJLi/rejax) trains four environments an agent and updates once per round: one update per
four steps, as we do. Its Breakout is gymnax's.
"""

import importlib.metadata
import json
import statistics
import sys
import time
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from lookrep.benchmarks import minatar

SHORT_STEPS = {1: 4_000}  # of each agent; a second run is twice as long. Larger populations make do with fewer
FEWEST_STEPS = 1_500
REPEATS = 3


def measure(agents: int) -> dict[str, Any]:
    """Environment steps per second of `agents` rejax agents under vmap, compile time apart."""
    try:
        import gymnax
        import rejax
        from rejax.algos.dqn import EpsilonGreedyPolicy
    except ImportError as error:
        sys.exit(f"this needs rejax: pip install -e '.[bench]' ({error})")

    class QNetwork(nn.Module):
        action_dim: int

        @nn.compact
        def __call__(self, observation: jax.Array) -> jax.Array:
            x = nn.relu(nn.Conv(16, (3, 3), padding="VALID")(observation.astype(jnp.float32)))
            x = nn.relu(nn.Dense(128)(x.reshape(x.shape[0], -1)))
            return nn.Dense(self.action_dim)(x)

        def take(self, observation: jax.Array, action: jax.Array) -> jax.Array:
            return jnp.take_along_axis(self(observation), action[:, None], axis=1).squeeze(axis=1)

    env, env_params = gymnax.make("Breakout-MinAtar")

    def algorithm(steps: int) -> Any:
        built = rejax.DQN.create(
            env=env,
            env_params=env_params,
            total_timesteps=steps,
            eval_freq=steps,
            num_envs=4,
            num_epochs=1,
            batch_size=32,
            buffer_size=100_000,
            fill_buffer=1_000,
            learning_rate=2.5e-4,
            target_update_freq=1_000,
            gamma=0.99,
        )
        policy = EpsilonGreedyPolicy(QNetwork)(action_dim=env.num_actions)
        return built.replace(agent=policy, skip_initial_evaluation=True, eval_callback=lambda *_: ())

    def seconds(steps: int) -> tuple[list[float], float]:
        train = jax.jit(jax.vmap(algorithm(steps).train))
        times = []
        for repeat in range(REPEATS + 1):
            keys = jax.random.split(jax.random.key(repeat), agents)
            began = time.perf_counter()
            jax.block_until_ready(train(keys))
            times.append(time.perf_counter() - began)
        return times[1:], times[0] - statistics.median(times[1:])

    steps = SHORT_STEPS.get(agents, FEWEST_STEPS)
    short, _ = seconds(steps)
    long, compile_seconds = seconds(2 * steps)
    each = (statistics.median(long) - statistics.median(short)) / steps  # start-up and filling the buffer cancel
    return {
        "peer": f"rejax {importlib.metadata.version('rejax')}, DQN",
        "agents": agents,
        "game": "breakout",
        "env_steps_per_second": round(agents / each),
        "compile_seconds": round(compile_seconds, 1),
    }


def main(sizes: list[int]) -> None:
    for agents in sizes:
        theirs = measure(agents)
        ours = minatar.prepare(minatar.Case(agents, "dqn"))()["env_steps_per_second"]
        print(
            json.dumps({**theirs, "ours": ours, "ratio": round(ours / theirs["env_steps_per_second"], 2)}), flush=True
        )


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1, 16])
