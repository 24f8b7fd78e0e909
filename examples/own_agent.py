"""A complete DQN on CartPole in plain JAX and flax. From lookrep it uses the target update, and nothing else.

    python examples/own_agent.py --target replicate      (or hard, polyak)

The lines to take into your own agent are marked with `# <-`.
"""

import argparse
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from lookrep import distances, targets  # <-

CAPACITY, WARMUP, BATCH, DISCOUNT, TIME_LIMIT = 50_000, 1_000, 128, 0.99, 500


class Q(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in (128, 128):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(2)(x)


Q_VALUES = Q().apply


Rule = targets.ParameterRule | targets.Replicate
TARGETS: dict[str, Rule] = {
    "hard": targets.hard(every_updates=100),
    "polyak": targets.polyak(tau=0.01),
    "replicate": targets.replicate(  # <- the distance says what "the same function" means to you
        every_updates=100, updates=100, optimizer=optax.adam(1e-3), distance=distances.squared(Q_VALUES)
    ),  # <-
}


def cartpole(state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One Euler step of CartPole-v1: next state, and whether the pole fell."""
    _, dx, angle, spin = state
    force = jnp.where(action == 1, 10.0, -10.0)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    push = (force + 0.05 * spin**2 * sin) / 1.1
    spin_change = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    speed_change = push - 0.05 * spin_change * cos / 1.1
    after = state + 0.02 * jnp.array([dx, speed_change, spin, spin_change])
    return after, (jnp.abs(after[0]) > 2.4) | (jnp.abs(after[2]) > 0.2095)


class Memory(NamedTuple):
    state: jax.Array
    action: jax.Array
    after: jax.Array
    fell: jax.Array


class Agent(NamedTuple):
    params: Any
    optimizer: Any
    target: targets.TargetState
    memory: Memory
    state: jax.Array
    length: jax.Array  # steps of the running episode
    returns: jax.Array  # return of the last finished episode
    key: jax.Array


def start(key: jax.Array, rule: Rule, optimizer: optax.GradientTransformation) -> Agent:
    params = Q().init(key, jnp.zeros(4))
    shapes = ((CAPACITY, 4), (CAPACITY,), (CAPACITY, 4), (CAPACITY,))
    dtypes = (jnp.float32, jnp.int32, jnp.float32, jnp.float32)
    memory = Memory(*(jnp.zeros(s, d) for s, d in zip(shapes, dtypes, strict=True)))
    target = rule.init(params)  # <-
    return Agent(params, optimizer.init(params), target, memory, jnp.zeros(4), jnp.int32(0), jnp.float32(0), key)


def step(rule: Rule, optimizer: optax.GradientTransformation, agent: Agent, t: jax.Array) -> Any:
    key, explore, random_action, sample, again = jax.random.split(agent.key, 5)

    # act, and remember
    epsilon = jnp.maximum(0.05, 1.0 - t / 10_000)
    greedy = Q_VALUES(agent.params, agent.state).argmax()
    chance = jax.random.uniform(explore) < epsilon
    action = jnp.where(chance, jax.random.randint(random_action, (), 0, 2), greedy)
    after, fell = cartpole(agent.state, action)
    row = Memory(agent.state, action, after, fell.astype(jnp.float32))
    memory = jax.tree.map(lambda all_rows, new: all_rows.at[t % CAPACITY].set(new), agent.memory, row)
    length = agent.length + 1
    over = fell | (length >= TIME_LIMIT)
    fresh = jax.random.uniform(again, (4,), minval=-0.05, maxval=0.05)

    def batch(number: jax.Array, size: int = BATCH) -> Memory:
        rows = jax.random.randint(jax.random.fold_in(sample, number), (size,), 0, jnp.minimum(t + 1, CAPACITY))
        return jax.tree.map(lambda all_rows: all_rows[rows], memory)

    # learn: the bootstrap comes from agent.target.params, whatever the target update is
    def loss(params: Any, rows: Memory) -> jax.Array:
        bootstrap = Q_VALUES(agent.target.params, rows.after).max(axis=-1)  # <-
        aim = 1.0 + DISCOUNT * (1.0 - rows.fell) * bootstrap
        chosen = jnp.take_along_axis(Q_VALUES(params, rows.state), rows.action[:, None], axis=-1)[:, 0]
        return jnp.mean((chosen - aim) ** 2)

    def learn(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        params, state = carry
        change, state = optimizer.update(jax.grad(loss)(params, batch(jnp.int32(0))), state)
        return optax.apply_updates(params, change), state

    updates_done = t - WARMUP + 1
    params, optimizer_state = jax.lax.cond(updates_done > 0, learn, lambda c: c, (agent.params, agent.optimizer))
    done = jnp.maximum(updates_done, 0)
    target = rule.update(agent.target, params, done, batches=lambda k: batch(k + 1).state)  # <-

    agent = Agent(
        params, optimizer_state, target, memory,
        state=jnp.where(over, fresh, after),
        length=jnp.where(over, 0, length),
        returns=jnp.where(over, length.astype(jnp.float32), agent.returns),
        key=key,
    )  # fmt: skip
    return agent, agent.returns


def train(target: str, steps: int, seed: int) -> float:
    """Train and print as it goes; the mean return over the last tenth."""
    rule, optimizer = TARGETS[target], optax.adam(1e-3)
    agent = start(jax.random.key(seed), rule, optimizer)
    chunk = jax.jit(partial(jax.lax.scan, partial(step, rule, optimizer)))
    recent = 0.0
    for first in range(0, steps, steps // 10):
        agent, returns = chunk(agent, jnp.arange(first, first + steps // 10))
        recent = float(returns.mean())
        print(f"{first + steps // 10:7d} steps  return {recent:6.1f}  target updates {int(agent.target.updates)}")
    return recent


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument("--target", choices=TARGETS, default="replicate", help="how the target follows")
    flags.add_argument("--steps", type=int, default=50_000, help="agent steps (a multiple of 10)")
    flags.add_argument("--seed", type=int, default=0)
    arguments = flags.parse_args()
    train(arguments.target, arguments.steps, arguments.seed)
