"""A DQN on Gymnasium's CartPole with a replay in numpy, after CleanRL's `dqn_jax.py`. The target update is ours.

    python examples/host_replay.py --target replicate      (or hard)

Outside of `jit`, a rule decides in Python whether it is its turn, and `batches` may be any Python function: here it
draws from numpy. The lines to take into your own agent are marked with `# <-`.
"""

import argparse
import random
from typing import Any, NamedTuple

import flax.linen as nn
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax

from lookrep import distances, targets  # <-

# CleanRL's settings; every 50 updates are its 500 steps.
LEARNING_STARTS, TRAIN_EVERY, BATCH, CAPACITY, DISCOUNT, STEP_SIZE = 10_000, 10, 128, 10_000, 0.99, 2.5e-4
TARGET_EVERY, TARGET_UPDATES = 50, 50  # K_L and K_R


class Q(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in (120, 84):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(2)(x)


Q_VALUES = Q().apply


def target_rule(name: str) -> targets.ParameterRule | targets.Replicate:
    if name == "hard":
        return targets.hard(TARGET_EVERY)
    return targets.replicate(TARGET_EVERY, TARGET_UPDATES, optax.adam(STEP_SIZE), distances.squared(Q_VALUES))  # <-


class Batch(NamedTuple):
    state: Any
    action: Any
    reward: Any
    after: Any
    terminated: Any


class Replay:
    """Transitions in numpy, the oldest overwritten."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        shapes, dtypes = ((4,), (), (), (4,), ()), ("f4", "i4", "f4", "f4", "f4")
        self.columns = Batch(*(np.zeros((CAPACITY, *s), d) for s, d in zip(shapes, dtypes, strict=True)))
        self.added = 0

    def add(self, *transition: Any) -> None:
        for column, value in zip(self.columns, transition, strict=True):
            column[self.added % CAPACITY] = value
        self.added += 1

    def sample(self) -> Batch:
        rows = self.random.integers(min(self.added, CAPACITY), size=BATCH)
        return Batch(*(column[rows] for column in self.columns))


def train(target: str, steps: int, seed: int) -> float:
    """Mean return of the episodes that ended in the last tenth of the steps."""
    rule, optimizer = target_rule(target), optax.adam(STEP_SIZE)
    act = jax.jit(lambda params, x: Q_VALUES(params, x).argmax())

    @jax.jit
    def learn(params: Any, state: Any, bootstrap: Any, batch: Batch) -> tuple[Any, Any]:
        aim = batch.reward + DISCOUNT * (1.0 - batch.terminated) * Q_VALUES(bootstrap, batch.after).max(axis=-1)

        def loss(params: Any) -> jax.Array:
            return jnp.mean((Q_VALUES(params, batch.state)[jnp.arange(BATCH), batch.action] - aim) ** 2)

        change, state = optimizer.update(jax.grad(loss)(params), state)
        return optax.apply_updates(params, change), state

    params = Q().init(jax.random.key(seed), jnp.zeros(4))
    optimizer_state, following = optimizer.init(params), rule.init(params)  # <-
    chance, replay, updates = random.Random(seed), Replay(seed), 0
    environment = gymnasium.make("CartPole-v1")
    x, _ = environment.reset(seed=seed)
    length, ended = 0, []
    for t in range(steps):
        epsilon = max(0.05, 1.0 - t / (0.5 * steps))
        action = chance.randrange(2) if chance.random() < epsilon else int(act(params, x))
        after, reward, terminated, truncated, _ = environment.step(action)
        replay.add(x, action, reward, after, terminated)
        x, length = after, length + 1
        if terminated or truncated:
            ended.append((t, length))
            x, length = environment.reset()[0], 0
        if t >= LEARNING_STARTS and t % TRAIN_EVERY == 0:
            params, optimizer_state = learn(params, optimizer_state, following.params, replay.sample())  # <-
            updates += 1
            following = rule.update(following, params, updates, batches=lambda k: replay.sample().state)  # <-
    recent = float(np.mean([length for t, length in ended if t >= 0.9 * steps]))
    print(f"{target:9s} seed {seed}: return {recent:6.1f}, {updates} updates, {int(following.updates)} of the target")
    return recent


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument("--target", choices=("hard", "replicate"), default="replicate", help="how the target follows")
    flags.add_argument("--steps", type=int, default=100_000)
    flags.add_argument("--seed", type=int, default=1)
    arguments = flags.parse_args()
    train(arguments.target, arguments.steps, arguments.seed)
