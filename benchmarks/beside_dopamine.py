"""Our games and updates beside Dopamine's own: the same frames, rewards, losses, priorities and parameters?

python -m venv dopamine && dopamine/bin/pip install dopamine-rl==4.1.2
python benchmarks/beside_dopamine.py dopamine/bin/python

Games: ten of them, the same random actions, no sticky actions (theirs are drawn inside the emulator), up to the end of
the first episode. What a game shows when it is over is left out: nobody learns from it. Updates: Rainbow's, on the same
networks and random batches. The second half of this file runs in Dopamine's Python, where lookrep is not installed.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import jax
import jax.numpy as jnp
import numpy as np

GAMES = (
    "RoadRunner",
    "Breakout",
    "Boxing",
    "Freeway",
    "Krull",
    "Gopher",
    "CrazyClimber",
    "Assault",
    "Enduro",
    "UpNDown",
)
STEPS = 3000
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


def played(act: Callable[[int], tuple[np.ndarray, float, bool]], first: np.ndarray, actions: int) -> list[Any]:
    """What random actions lead to: [frame, reward] by step; of the last step, the reward alone."""
    draw = np.random.default_rng(0)
    seen: list[Any] = [[_digest(first), 0.0]]
    for _ in range(STEPS):
        frame, reward, over = act(int(draw.integers(actions)))
        seen.append(["" if over else _digest(frame), float(reward)])
        if over:
            break
    return seen


def _digest(frame: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(frame).tobytes()).hexdigest()


# Ours


def ours(theirs_python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {"games": games(theirs_python, Path(folder)), "update": updates(theirs_python, Path(folder))}
    print(json.dumps(found, indent=2))


def games(theirs_python: str, folder: Path) -> dict[str, str]:
    from lookrep.envs.host.atari import Atari, Rules

    found = {}
    _run_theirs(theirs_python, "games", folder)
    for game, theirs in json.loads((folder / "games.json").read_text()).items():
        env = Atari(game, Rules(sticky_actions=0.0))

        def act(action: int, env: Atari = env) -> tuple[np.ndarray, float, bool]:
            outcome = env.step(action)
            return outcome.observation, outcome.reward, outcome.terminated

        same = [a == b for a, b in zip(played(act, env.reset(0), env.spec.num_actions), theirs, strict=True)]
        found[game] = f"{sum(same)} of {len(same)} steps the same, score {sum(reward for _, reward in theirs):g}"
    return found


def updates(theirs_python: str, folder: Path) -> dict[str, Any]:
    from lookrep import agents, config
    from lookrep.replay import Batch

    agent = agents.Agent(config.preset("dopamine-rainbow", "atari/Assault"), (4, 84, 84), ACTIONS)
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
    np.savez(folder / "start.npz", **flat("online", before), **flat("target", target))
    _run_theirs(theirs_python, "update", folder)
    found = dict(np.load(folder / "end.npz"))
    after, began = flat("online", state.online), flat("online", before)
    return {
        "updates": UPDATES,
        "largest difference of a loss": float(np.abs(found["losses"] - losses).max()),
        "of a priority": float(np.abs(found["priorities"] - priorities).max()),
        "of a parameter": max(float(np.abs(found[name] - after[name]).max()) for name in after),
        "largest change of a parameter": max(float(np.abs(began[name] - after[name]).max()) for name in after),
        "lookrep's JAX": jax.__version__,
        "Dopamine's JAX": str(found["jax"]),
    }


def _run_theirs(python: str, what: str, folder: Path) -> None:
    subprocess.run([python, __file__, "--theirs", what, folder], check=True, stdout=subprocess.DEVNULL)


def flat(prefix: str, params: Any) -> dict[str, np.ndarray]:
    """Our parameters under Dopamine's names and in its layout (`lookrep.networks.convolutions` has ours)."""
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


def theirs(what: str, folder: Path) -> None:
    # It imports these at the top, for PPO and SAC only.
    for unused in ("baselines", "baselines.common", "tensorflow_probability", "tensorflow_probability.substrates"):
        sys.modules[unused] = MagicMock()
    {"games": their_games, "update": their_updates}[what](folder)


def their_games(folder: Path) -> None:
    from dopamine.discrete_domains import atari_lib

    found = {}
    for game in GAMES:
        env = atari_lib.create_atari_environment(game_name=game, sticky_actions=False)

        def act(action: int, env: Any = env) -> tuple[np.ndarray, float, bool]:
            observation, reward, over, _ = env.step(action)
            return observation, reward, over

        found[game] = played(act, env.reset(), env.action_space.n)
    (folder / "games.json").write_text(json.dumps(found))


def their_updates(folder: Path) -> None:
    from dopamine.jax import networks
    from dopamine.jax.agents.dqn import dqn_agent
    from dopamine.jax.agents.rainbow import rainbow_agent

    arrays = np.load(folder / "start.npz")
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
    np.savez(folder / "end.npz", losses=losses, priorities=priorities, jax=np.array(jax.__version__), **after)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--theirs"]:
        theirs(sys.argv[2], Path(sys.argv[3]))
    elif len(sys.argv) == 2:
        ours(sys.argv[1])
    else:
        sys.exit(__doc__)
