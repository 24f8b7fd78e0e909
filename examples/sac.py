"""Soft actor-critic on a pendulum swing-up, all of it in one compiled JAX program.

    python examples/sac.py --target replicate      (or hard, polyak)

The targets of the two critics come from `lookrep.targets`; those lines are marked with `# <-`.
"""

import argparse
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from lookrep import distances, targets  # <-

CAPACITY, WARMUP, BATCH, DISCOUNT, STEP_SIZE = 20_000, 500, 128, 0.98, 1e-3
EPISODE, MAX_TORQUE, MAX_SPEED = 200, 2.0, 8.0


# Pendulum-v1 of Gymnasium, as pure functions. A state is (angle from upright, angular velocity).


def observe(state: jax.Array) -> jax.Array:
    return jnp.stack([jnp.cos(state[..., 0]), jnp.sin(state[..., 0]), state[..., 1]], axis=-1)


def reset(key: jax.Array) -> jax.Array:
    return jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0) * jnp.array([jnp.pi, 1.0])


def pendulum(state: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Next state and reward for an action in [−1, 1]."""
    angle, speed = state
    torque = MAX_TORQUE * jnp.clip(action[0], -1.0, 1.0)
    upright = (angle + jnp.pi) % (2 * jnp.pi) - jnp.pi
    reward = -(upright**2 + 0.1 * speed**2 + 0.001 * torque**2)
    speed = jnp.clip(speed + 0.05 * (15.0 * jnp.sin(angle) + 3.0 * torque), -MAX_SPEED, MAX_SPEED)
    return jnp.stack([angle + 0.05 * speed, speed]), reward


# Networks


class MLP(nn.Module):
    outputs: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        for width in (64, 64):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(self.outputs)(x)


ACTOR, CRITIC = MLP(2), MLP(1)


def policy(actor: Any, state: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A sampled action in (−1, 1) and its log-probability."""
    mean, log_std = jnp.split(ACTOR.apply(actor, observe(state)), 2, axis=-1)
    log_std = jnp.clip(log_std, -5.0, 2.0)
    noise = jax.random.normal(key, mean.shape)
    raw = mean + jnp.exp(log_std) * noise
    squash = 2.0 * (jnp.log(2.0) - raw - nn.softplus(-2.0 * raw))  # log(1 − tanh²)
    log_prob = -0.5 * noise**2 - log_std - 0.5 * jnp.log(2 * jnp.pi) - squash
    return jnp.tanh(raw), log_prob.sum(axis=-1)


def values(critics: Any, state: jax.Array, action: jax.Array) -> jax.Array:
    """What each of the two critics says: [2, batch]. Their parameters are stacked."""
    inputs = jnp.concatenate([observe(state), action], axis=-1)
    return jax.vmap(CRITIC.apply, in_axes=(0, None))(critics, inputs)[..., 0]


# The target update of the critics

Rule = targets.ParameterRule | targets.Replicate
TARGETS: dict[str, Rule] = {
    "hard": targets.hard(every_updates=50),
    "polyak": targets.polyak(tau=0.01),
    "replicate": targets.replicate(  # <- a batch is (states, actions)
        every_updates=50,
        updates=50,
        optimizer=optax.adam(STEP_SIZE),
        distance=distances.squared(lambda critics, batch: values(critics, *batch)),
    ),  # <-
}


# The agent


class Memory(NamedTuple):
    state: jax.Array
    action: jax.Array
    reward: jax.Array
    after: jax.Array


class Learned(NamedTuple):
    """Three things that are learned, each with an optimiser of its own."""

    actor: Any
    critics: Any
    log_alpha: jax.Array  # temperature of the entropy bonus


class Agent(NamedTuple):
    params: Learned
    optimizers: Learned
    target: targets.TargetState
    memory: Memory
    state: jax.Array
    key: jax.Array


OPTIMIZER = optax.adam(STEP_SIZE)


def start(key: jax.Array, rule: Rule) -> Agent:
    key, actor, critics, first = jax.random.split(key, 4)
    params = Learned(
        actor=ACTOR.init(actor, jnp.zeros(3)),
        critics=jax.vmap(CRITIC.init, in_axes=(0, None))(jax.random.split(critics), jnp.zeros(4)),
        log_alpha=jnp.float32(0.0),
    )
    memory = Memory(*(jnp.zeros((CAPACITY, *shape)) for shape in ((2,), (1,), (), (2,))))
    optimizers = Learned(*map(OPTIMIZER.init, params))
    return Agent(params, optimizers, rule.init(params.critics), memory, reset(first), key)  # <-


def losses(params: Learned, target: Any, rows: Memory, key: jax.Array) -> jax.Array:
    """The sum of three losses; each has a gradient in one of the three parts alone."""
    now, later = jax.random.split(key)
    fixed = jax.lax.stop_gradient(params)
    alpha = jnp.exp(fixed.log_alpha)

    action, log_prob = policy(fixed.actor, rows.after, later)
    bootstrap = values(target, rows.after, action).min(axis=0) - alpha * log_prob
    aim = rows.reward + DISCOUNT * bootstrap  # an episode is only ever cut, so there is always a next state
    critics_loss = jnp.mean((values(params.critics, rows.state, rows.action) - aim) ** 2)

    action, log_prob = policy(params.actor, rows.state, now)
    actor_loss = jnp.mean(alpha * log_prob - values(fixed.critics, rows.state, action).min(axis=0))
    missing = jax.lax.stop_gradient(log_prob).mean() - 1.0  # the wanted entropy is −1, minus the size of an action
    return critics_loss + actor_loss - params.log_alpha * missing


def step(rule: Rule, agent: Agent, t: jax.Array) -> tuple[Agent, jax.Array]:
    key, act, random, sample, again, learning = jax.random.split(agent.key, 6)

    # act, and remember
    wild = jax.random.uniform(random, (1,), minval=-1.0, maxval=1.0)
    action = jnp.where(t < WARMUP, wild, policy(agent.params.actor, agent.state, act)[0])
    after, reward = pendulum(agent.state, action)
    row = Memory(agent.state, action, reward, after)
    memory = jax.tree.map(lambda rows, new: rows.at[t % CAPACITY].set(new), agent.memory, row)

    def batch(number: Any) -> Memory:
        rows = jax.random.randint(jax.random.fold_in(sample, number), (BATCH,), 0, jnp.minimum(t + 1, CAPACITY))
        return jax.tree.map(lambda all_rows: all_rows[rows], memory)

    def probe(k: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Where the bootstrap asks for values: next states, and what the policy does there."""
        states = batch(k + 1).after
        return states, policy(params.actor, states, jax.random.fold_in(learning, k))[0]

    # learn
    def learn(carry: tuple[Learned, Learned]) -> tuple[Learned, Learned]:
        params, optimizers = carry
        gradients = jax.grad(losses)(params, agent.target.params, batch(0), learning)  # <- bootstraps from the target
        changes, states = zip(*map(OPTIMIZER.update, gradients, optimizers), strict=True)
        return optax.apply_updates(params, Learned(*changes)), Learned(*states)

    updates = jnp.maximum(t - WARMUP + 1, 0)
    params, optimizers = jax.lax.cond(updates > 0, learn, lambda c: c, (agent.params, agent.optimizers))
    target = rule.update(agent.target, params.critics, updates, batches=probe)  # <-

    state = jnp.where((t + 1) % EPISODE == 0, reset(again), after)
    return Agent(params, optimizers, target, memory, state, key), reward


@jax.jit
def evaluate(actor: Any, key: jax.Array) -> jax.Array:
    """Mean return of the policy's most likely actions over 32 episodes, from starts that depend on `key` alone."""

    def move(state: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return pendulum(state, jnp.tanh(ACTOR.apply(actor, observe(state))[:1]))

    return jax.vmap(lambda k: jax.lax.scan(move, reset(k), length=EPISODE)[1].sum())(jax.random.split(key, 32)).mean()


def train(target: str, steps: int, seed: int) -> tuple[float, float]:
    """Returns of the untrained and of the trained policy."""
    agent = start(jax.random.key(seed), TARGETS[target])
    before = float(evaluate(agent.params.actor, jax.random.key(0)))
    agent, _ = jax.jit(partial(jax.lax.scan, partial(step, TARGETS[target])))(agent, jnp.arange(steps))
    after = float(evaluate(agent.params.actor, jax.random.key(0)))
    print(f"{target:9s} seed {seed}: return {before:7.1f} before, {after:7.1f} after {steps} steps")
    return before, after


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    flags.add_argument("--target", choices=TARGETS, default="replicate", help="how the critics' targets follow")
    flags.add_argument("--steps", type=int, default=10_000, help="environment steps, one update each")
    flags.add_argument("--seed", type=int, default=0)
    arguments = flags.parse_args()
    train(arguments.target, arguments.steps, arguments.seed)
