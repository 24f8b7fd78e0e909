"""Our update of Rainbow and Dopamine's, on the same networks and batches: the same losses, priorities and parameters?

python -m venv dopamine && dopamine/bin/pip install dopamine-rl==4.1.2
python benchmarks/dopamine_update.py dopamine/bin/python

Pictures, actions, rewards, ends and weights are random. The second half of this file runs in Dopamine's Python, where
lookrep is not installed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jax
import jax.numpy as jnp
import numpy as np

ACTIONS, BATCH, UPDATES, DISCOUNT = 7, 32, 20, np.float32(0.99) ** 3
LAYERS = ((8, 4, 4, 32), (4, 2, 32, 64), (3, 1, 64, 64))  # size, stride, channels in and out


def batches() -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(0)

    def pictures() -> np.ndarray:
        return draw.integers(0, 256, (BATCH, 4, 84, 84), dtype=np.uint8)

    return [
        {
            "observation": pictures(),
            "next_observation": pictures(),
            "action": draw.integers(0, ACTIONS, BATCH).astype(np.int32),
            "reward": draw.uniform(-3, 3, BATCH).astype(np.float32),
            "terminal": draw.uniform(size=BATCH) < 0.1,
            "weight": draw.uniform(0.1, 1, BATCH).astype(np.float32),
        }
        for _ in range(UPDATES)
    ]


# Ours


def ours(theirs_python: str) -> None:
    from lookrep import agent as agents
    from lookrep import config
    from lookrep.replay import Batch

    agent = agents.build(config.preset("dopamine-rainbow", "atari/Assault"), (4, 84, 84), ACTIONS)
    state, other = (agent.init(jax.random.key(seed)) for seed in (0, 1))  # so that the target is another network
    before, target = state.online, other.online
    losses, priorities = [], []
    for b in batches():
        discount = np.where(b["terminal"], 0, DISCOUNT).astype(np.float32)
        nowhere = np.zeros(BATCH, np.int32)
        batch = Batch(b["observation"], b["action"], b["reward"], discount, b["next_observation"], nowhere, b["weight"])
        state, learned = jax.jit(agent.learn)(state, state.online, target, batch, jax.random.key(0))
        losses.append(float(learned.loss))
        priorities.append(np.asarray(learned.priority))
    with tempfile.TemporaryDirectory() as folder:
        start, end = Path(folder, "start.npz"), Path(folder, "end.npz")
        np.savez(start, **flat("online", before), **flat("target", target))
        subprocess.run([theirs_python, __file__, "--theirs", start, end], check=True, stdout=subprocess.DEVNULL)
        found = dict(np.load(end))
    after, began = flat("online", state.online), flat("online", before)
    report = {
        "updates": UPDATES,
        "largest difference of a loss": float(np.abs(found["losses"] - losses).max()),
        "of a priority": float(np.abs(found["priorities"] - priorities).max()),
        "of a parameter": max(float(np.abs(found[name] - after[name]).max()) for name in after),
        "largest change of a parameter": max(float(np.abs(began[name] - after[name]).max()) for name in after),
        "lookrep's JAX": jax.__version__,
        "Dopamine's JAX": str(found["jax"]),
    }
    print(json.dumps(report, indent=2))


def flat(prefix: str, params: Any) -> dict[str, np.ndarray]:
    """Our parameters under Dopamine's names and in its layout (`lookrep.convolutions` has ours)."""
    found = {}
    for layer, (size, stride, channels, features) in enumerate(LAYERS):
        blocks = size // stride
        kernel = np.asarray(params[f"conv_{layer}"]["kernel"])
        kernel = kernel.reshape(blocks, blocks, stride, stride, channels, features).transpose(0, 2, 1, 3, 4, 5)
        found[f"Conv_{layer}/kernel"] = kernel.reshape(size, size, channels, features)
        found[f"Conv_{layer}/bias"] = np.asarray(params[f"conv_{layer}"]["bias"])
    for theirs, name in (("Dense_0", "q_0"), ("Dense_1", "q_out")):
        found |= {f"{theirs}/{part}": np.asarray(params[name][part]) for part in ("kernel", "bias")}
    return {f"{prefix}/{name}": array for name, array in found.items()}


# Theirs


def theirs(start: str, end: str) -> None:
    # It imports these at the top, for PPO and SAC only.
    for unused in ("baselines", "baselines.common", "tensorflow_probability", "tensorflow_probability.substrates"):
        sys.modules[unused] = MagicMock()
    from dopamine.jax import networks
    from dopamine.jax.agents.dqn import dqn_agent
    from dopamine.jax.agents.rainbow import rainbow_agent

    arrays = np.load(start)
    online, target = (
        {
            "params": {
                layer: {part: jnp.asarray(arrays[f"{network}/{layer}/{part}"]) for part in ("kernel", "bias")}
                for layer in ("Conv_0", "Conv_1", "Conv_2", "Dense_0", "Dense_1")
            }
        }
        for network in ("online", "target")
    )
    network = networks.RainbowNetwork(num_actions=ACTIONS, num_atoms=51)
    optimizer = dqn_agent.create_optimizer("adam", learning_rate=6.25e-5, eps=1.5e-4)
    optimizer_state, support = optimizer.init(online), jnp.linspace(-10.0, 10.0, 51)
    losses, priorities = [], []
    for b in batches():
        optimizer_state, online, each, mean = rainbow_agent.train(
            network,
            online,
            target,
            optimizer,
            optimizer_state,
            jnp.asarray(b["observation"].transpose(0, 2, 3, 1)),
            b["action"],
            jnp.asarray(b["next_observation"].transpose(0, 2, 3, 1)),
            b["reward"],
            b["terminal"],
            b["weight"],
            support,
            DISCOUNT,
        )
        losses.append(float(mean))
        priorities.append(np.sqrt(np.asarray(each) + 1e-10))  # as its agent writes them into its replay
    after = {
        f"online/{layer}/{part}": np.asarray(array)
        for layer, parts in online["params"].items()
        for part, array in parts.items()
    }
    np.savez(end, losses=losses, priorities=priorities, jax=np.array(jax.__version__), **after)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--theirs"]:
        theirs(*sys.argv[2:4])
    elif len(sys.argv) == 2:
        ours(sys.argv[1])
    else:
        sys.exit(__doc__)
