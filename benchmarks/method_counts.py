"""What a method costs by XLA's counts, the table of docs/methods.md: operations of an online update and of a gradient
step on the target, and memory beside the online network and its optimiser, relative to hard copy's.

    python benchmarks/method_counts.py       # Rainbow on MinAtar's Breakout, batches of 32; a minute on a CPU
"""

import json

import jax
import jax.numpy as jnp

from lookrep import envs, methods
from lookrep.agents import Agent
from lookrep.config import preset
from lookrep.replay import Batch

ENV, BATCH = "minatar/breakout", 32


def counts(method: str) -> dict[str, float]:
    """Operations of an update, operations of a target's gradient step where it takes some, and bytes."""
    settings, env = preset("rainbow", ENV, method, {"target": {"replicate_updates": 1}}), envs.make(ENV)
    agent = Agent(settings, env.observation_shape, env.num_actions)
    frames, numbers = jnp.zeros((BATCH, *env.observation_shape), env.observation_dtype), jnp.zeros(BATCH)
    batch = Batch(frames, jnp.zeros(BATCH, jnp.int32), numbers, numbers, frames, jnp.arange(BATCH), numbers)
    state, key = jax.eval_shape(agent.init, jax.random.key(0)), jax.random.key(0)

    def update(state, online, target, batch, reference, key):  # type: ignore[no-untyped-def]
        return agent.learn(state, online, target, batch, key, reference=reference)

    def step(target, online, batch, key):  # type: ignore[no-untyped-def]
        return agent.turn(target, online, lambda k: agent.turn_inputs(batch, key))

    reference = batch if agent.wants_reference else None
    kept = jax.tree.leaves(state._replace(online=None, optimizer=None))
    found = {
        "update": operations(update, state, state.online, state.target.params, batch, reference, key),
        "memory": sum(leaf.size * leaf.dtype.itemsize for leaf in kept),
    }
    learns = settings.target.target == "replicate"
    return found | ({"step": operations(step, state.target, state.online, batch, key)} if learns else {})


def operations(function, *arguments) -> float:  # type: ignore[no-untyped-def]
    """Of the compiled function. What is an argument is neither folded nor known to be the same as another."""
    return float(jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"])


def main() -> None:
    hard = counts("hard")
    for method in (name for name in methods.names() if name != "plain"):
        times = {name: round(n / hard[name.replace("step", "update")], 2) for name, n in counts(method).items()}
        print(json.dumps({"method": method, **times}), flush=True)


if __name__ == "__main__":
    main()
