"""Dopamine's JAX Rainbow, stepped on request: run by the Python that has Dopamine, where lookrep is not installed.

Imports nothing of ours. `dopamine_rainbow.py` starts it; each line of its input is a number of agent steps to take,
each line of its output is JSON: first what is running, then, for each request, how long the steps took and how many
updates it has made in all (its optimiser's own count).
"""

import argparse
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

MAX_EPISODE_STEPS = 27_000

# Its rainbow.gin, which the wheel does not ship; what is not said here is a default of its code.
SETTINGS = """
    JaxDQNAgent.gamma = 0.99
    JaxDQNAgent.update_horizon = 3
    JaxDQNAgent.update_period = 4
    JaxDQNAgent.target_update_period = 8000
    JaxRainbowAgent.update_horizon = 3
    JaxRainbowAgent.min_replay_history = {warmup_steps}
    create_optimizer.learning_rate = 6.25e-5
    create_optimizer.eps = 1.5e-4
    atari_lib.create_atari_environment.game_name = '{game}'
    atari_lib.create_atari_environment.sticky_actions = True
    ReplayBuffer.max_capacity = {capacity_steps}
    ReplayBuffer.batch_size = 32
    PrioritizedSamplingDistribution.max_capacity = {capacity_steps}
"""


def player(env: Any, agent: Any) -> Callable[[int], None]:
    """Its runner's loop over episodes and steps, in portions."""
    action: Any = None
    episode_steps = 0

    def play(steps: int) -> None:
        nonlocal action, episode_steps
        for _ in range(steps):
            if action is None:
                action, episode_steps = agent.begin_episode(env.reset()), 0
            observation, reward, terminal, _ = env.step(action)
            reward = min(max(reward, -1.0), 1.0)
            episode_steps += 1
            if env.game_over or episode_steps == MAX_EPISODE_STEPS:
                agent.end_episode(reward, terminal)
                action = None
            else:
                action = agent.step(reward, observation)

    return play


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("game", "warmup-steps", "capacity-steps"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--repair-priorities", action="store_true")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what the libraries print is not an answer

    # It imports these at the top, for PPO and SAC only. The first its wheel does not ask for; the second does not work
    # with a current JAX.
    for unused in ("baselines", "baselines.common", "tensorflow_probability", "tensorflow_probability.substrates"):
        sys.modules[unused] = MagicMock()
    import gin
    import jax
    from dopamine.discrete_domains import atari_lib
    from dopamine.jax.agents.rainbow import rainbow_agent

    gin.parse_config(SETTINGS.format(**vars(arguments)))
    env = atari_lib.create_atari_environment()
    agent = rainbow_agent.JaxRainbowAgent(num_actions=env.action_space.n, seed=0)
    if arguments.repair_priorities:
        agent._replay_scheme = "prioritized"  # its issue 230: the base class overwrites it with 'uniform'
    about = {"version": importlib.metadata.version("dopamine-rl"), "jax": jax.__version__}
    answers.write(json.dumps(about | {"agent": type(agent).__name__, "replay_scheme": agent._replay_scheme}) + "\n")
    play = player(env, agent)
    for line in sys.stdin:
        began = time.perf_counter()
        play(int(line))
        jax.block_until_ready(agent.online_params)
        seconds = time.perf_counter() - began
        answers.write(json.dumps({"seconds": seconds, "updates": int(agent.optimizer_state[0].count)}) + "\n")


if __name__ == "__main__":
    main()
