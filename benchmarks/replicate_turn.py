"""How much of the gap between the two networks a turn of Replicate closes, from a checkpoint of a run with LR.

    lookrep train atari/Assault --agent paper-lr --steps 51_000 --replay-capacity-steps 60_000 --out runs/turn
    python benchmarks/replicate_turn.py runs/turn

From the checkpoint's two networks, the target takes gradient steps written out here (cross-entropy, Adam), so that they
are a check on the library's: the first line says how far apart the two are after the run's own turn, on the same
batches, relative to what the turn changed; and how large gradients have been in both networks (root mean squares, as
Adam keeps them; quantiles over parameters). The others are turns under other settings; gap and spread are on 512 states
drawn once. A JSON object a line.
"""

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lookrep import config as configs
from lookrep import envs
from lookrep.runs import checkpoint, names
from lookrep.training.engines import make_engine
from lookrep.training.population import subkeys, typed

STATES = 512  # on which the gap is measured
TURNS: dict[str, dict[str, Any]] = {  # what differs from the run's own turn
    "the run's own": {},
    "4 × as many steps": {"steps": 4},
    "steps 10 × as large": {"size": 10},
    "batches 16 × as large": {"batch": 16},
    "steps 10 ×, batches 16 × as large": {"size": 10, "batch": 16},
    "Adam's epsilon 1e-8": {"epsilon": 1e-8},
    "summed over actions": {"summed": True},
}
BETA1, BETA2 = 0.9, 0.999


class Pair:
    """The two networks of a run's agent, its replay, and how to step the target."""

    def __init__(self, engine: Any, state: Any) -> None:
        self.population, self.state, self.agent = engine.population, state, engine.agent
        self.settings = engine.config.settings
        self.online = jax.tree.map(lambda x: x[0], state.agents.online)
        self.target = jax.tree.map(lambda x: x[0], state.agents.target.params)
        self.adam = jax.tree.map(lambda x: x[0], state.agents.target.optimizer[0])
        self.turn_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(
            typed(state.keys.replicate), state.online_updates
        )
        self.seen = self._states(typed(state.keys.measure), STATES, prioritised=False)

    def _states(self, keys: jax.Array, batch: int, prioritised: bool | None) -> jax.Array:
        return self.population.replay.sample(self.state.replay, keys, batch, prioritised).observation[0]

    def logits(self, params: Any, states: jax.Array) -> jax.Array:
        return self.agent.online.apply(params, states, None).per_action

    def gap(self, target: Any) -> tuple[float, float]:
        """Mean |q_θ − q_w|, and the standard deviation of q_θ − q_w: without what all values have in common."""
        theirs, ours = (self.agent.head.values(self.logits(p, self.seen)) for p in (target, self.online))
        return float(jnp.abs(theirs - ours).mean()), float((theirs - ours).std())

    def turned(
        self, steps: float = 1, size: float = 1, batch: int = 1, epsilon: float | None = None, summed: bool = False
    ) -> tuple[Any, dict[int, tuple[float, float]]]:
        """The target after a turn, and the gap on the way. `steps`, `size` and `batch` are factors."""
        settings = self.settings
        rate = size * (settings.target.replicate_learning_rate or settings.learning.learning_rate)
        epsilon = epsilon or settings.target.replicate_adam_epsilon or settings.learning.adam_epsilon
        drawn, limit = batch * settings.target.replicate_batch_size, int(steps * settings.target.replicate_updates)

        def loss(target: Any, states: jax.Array) -> jax.Array:
            p = jax.nn.softmax(self.logits(self.online, states))
            each = -(p * jax.nn.log_softmax(self.logits(target, states))).sum(axis=-1)  # [batch, actions]
            return each.sum(axis=-1).mean() if summed else each.mean()

        @jax.jit
        def step(k: jax.Array, target: Any, mean: Any, square: Any, count: jax.Array) -> Any:
            sample_keys, _ = subkeys(jax.random.key_data(self.turn_keys), k)
            gradient = jax.grad(loss)(target, self._states(sample_keys, drawn, None))
            count = count + 1
            mean = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, mean, gradient)
            square = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g**2, square, gradient)

            def moved(x: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
                return x - rate * (m / (1 - BETA1**count)) / (jnp.sqrt(v / (1 - BETA2**count)) + epsilon)

            return jax.tree.map(moved, target, mean, square), mean, square, count

        target, mean, square, count = self.target, self.adam.mu, self.adam.nu, self.adam.count
        gaps = {0: self.gap(target)}
        for k in range(limit):
            target, mean, square, count = step(jnp.int32(k), target, mean, square, count)
            if (k + 1) % max(limit // 10, 1) == 0:
                gaps[k + 1] = self.gap(target)
        return target, gaps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run of one agent with --target replicate and checkpoints")
    parser.add_argument(
        "--only", nargs="+", default=list(TURNS), choices=list(TURNS), metavar="TURN", help="of the turns"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # a run that is opened may be tidied up
        run = Path(shutil.copytree(arguments.run, Path(folder) / "run"))
        _measure(run, arguments.only)


def _measure(run: Path, turns: list[str]) -> None:
    config = configs.load(run)
    target = config.settings.target
    if config.agents != 1 or target.target != "replicate" or target.replicate_actions != "all":
        sys.exit("must be a run of one agent with --target replicate and --replicate-actions all")
    if not envs.on_host(config.env):
        sys.exit(f"{config.env} is on the device: must be a run on Atari or Gymnasium")
    engine = make_engine(config)
    restored = checkpoint.restore_latest(run / names.CHECKPOINTS, engine.shapes())
    state = engine.place(restored.tree, restored.meta, run)
    pair = Pair(engine, state.groups[0].state)
    library = jax.tree.map(lambda x: x[0], jax.jit(pair.population.target_turn)(pair.state).agents.target.params)
    by_hand, _ = pair.turned()
    differ, moved = (jax.tree.map(jnp.subtract, library, other) for other in (by_hand, pair.target))
    agents = pair.state.agents
    check = {
        "agent_steps": int(restored.meta["agent_steps"]),
        "online_updates": int(pair.state.online_updates),
        "difference_from_library": float(optax.tree.norm(differ) / optax.tree.norm(moved)),  # of what it changed
        "gradients_online": _gradients(agents.optimizer),
        "gradients_target": _gradients(agents.target.optimizer),
    }
    print(json.dumps(check), flush=True)
    for name in turns:
        _, gaps = pair.turned(**TURNS[name])
        (gap, spread), (gap_after, spread_after) = gaps[0], list(gaps.values())[-1]
        closes = {"gap": round(1 - gap_after / gap, 3), "spread": round(1 - spread_after / spread, 3)}
        print(json.dumps({"turn": name, "closes": closes, "gap_and_spread_after_steps": gaps}), flush=True)
    engine.close(state)


def _gradients(optimizer: Any) -> dict[str, float]:
    """Root of Adam's running mean of squared gradients: quantiles over all parameters."""
    moments = optimizer[0]
    every = np.concatenate([np.sqrt(np.asarray(leaf)).ravel() for leaf in jax.tree.leaves(moments.nu)])
    unbiased = every / np.sqrt(1 - BETA2 ** float(np.asarray(moments.count).ravel()[0]))
    return {f"{q:g}": float(np.quantile(unbiased, q)) for q in (0.1, 0.5, 0.9, 0.99)}


if __name__ == "__main__":
    main()
