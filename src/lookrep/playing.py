"""Trained agents at play: read a run's networks from its last checkpoint, roll out episodes, record what they see.

Everything that plays is pure, unbatched and on the device; `play_episodes` vmaps it over agents and episodes. An
episode is a function of (seed, agent, number of the episode): `record` and `play_episodes` see the same ones, and no
agent's score depends on who else plays. Nothing here learns, prints or draws.
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep import agent as agent_parts
from lookrep import config as configs
from lookrep import envs
from lookrep.agent import Agent, AgentState
from lookrep.config import LearningConfig, RunConfig
from lookrep.envs import Environment
from lookrep.errors import UserError
from lookrep.training import checkpoint
from lookrep.training.run import CHECKPOINTS

CHUNK_STEPS = 256  # recorded on the device before the host looks whether the episode is over
STREAM = 0x706C6179  # keeps these random numbers apart from those that the agents were trained with


class Trained(NamedTuple):
    """Some agents of a run as they were at its last checkpoint."""

    config: RunConfig
    env: Environment
    agent: Agent
    numbers: np.ndarray  # [N]: what the metrics call them
    online: Any  # parameters as matrix products use them, numpy arrays with N agents in axis 0
    target: Any
    agent_steps: int
    warning: str | None  # one line when the newest checkpoint was damaged


class Episodes(NamedTuple):
    """Outcomes, [agents, episodes]."""

    returns: np.ndarray
    lengths: np.ndarray
    ended: np.ndarray  # False: still going at the cap


class Distribution(NamedTuple):
    """Returns that a network thinks possible: atoms [..., K] and what each one weighs [..., K]."""

    atoms: np.ndarray
    weights: np.ndarray


class Recording(NamedTuple):
    """One agent's play, a row per step: what it saw, what both networks said to that, what it did."""

    observations: np.ndarray  # [T, ...]
    actions: np.ndarray  # [T]
    rewards: np.ndarray  # [T]: what the action earned
    ends: np.ndarray  # [T]: the action was the last of its episode
    episodes: np.ndarray  # [T]: number of the episode
    online_values: np.ndarray  # [T, A]
    target_values: np.ndarray
    online_returns: Distribution | None  # [T, A, K]; None for a head that only knows values
    target_returns: Distribution | None

    @property
    def function_gap(self) -> np.ndarray:
        """|q_θ − q_w| at each state, mean over actions, as in the metrics."""
        gap: np.ndarray = np.abs(self.target_values - self.online_values).mean(axis=1)
        return gap


class _Saved(NamedTuple):
    """The part of a trainer's state that playing needs, under the name it has there."""

    agents: AgentState


class _Going(NamedTuple):
    """An episode in progress."""

    environment: Any
    observation: jax.Array
    earned: jax.Array
    steps: jax.Array
    over: jax.Array


def load(run: Path) -> Trained:
    """All agents of the run in this folder. Reads the networks alone: the replay may be far larger than the memory."""
    if not run.is_dir():
        raise UserError(f"{run}: there is no such run folder")
    config = configs.load(run)
    env = envs.make(config.env)
    agent = agent_parts.build(config.settings, env.observation_shape, env.num_actions)
    keys = jax.random.split(jax.random.key(0), config.agents)
    shapes: AgentState = jax.eval_shape(jax.vmap(agent.init), keys)
    wanted = AgentState(shapes.online, None, shapes.target._replace(optimizer=None))
    folder = run / CHECKPOINTS
    if checkpoint.latest(folder) is None:
        every = config.checkpoint_interval_steps
        when = f" yet: this run saves one every {every:,} steps, at its end and on Ctrl-C"
        raise UserError(f"{run} has no checkpoint{when if every else ': it was told to save none'}")
    found = checkpoint.restore_latest(folder, _Saved(wanted), part=True)
    saved: AgentState = found.tree.agents
    return Trained(
        config=config,
        env=env,
        agent=agent,
        numbers=np.arange(config.agents) + config.first_agent,
        online=agent.compute(saved.online),
        target=agent.compute(saved.target.params),
        agent_steps=int(found.meta["agent_steps"]),
        warning=found.warning,
    )


def choose(trained: Trained, number: int) -> Trained:
    """Only the agent with this number."""
    first, last = int(trained.numbers[0]), int(trained.numbers[-1])
    if not first <= number <= last:
        has = f"agents {first} to {last}" if last > first else f"only agent {first}"
        raise UserError(f"agent = {number}: this run has {has}")
    one = slice(number - first, number - first + 1)
    online, target = jax.tree.map(lambda x: x[one], (trained.online, trained.target))
    return trained._replace(numbers=trained.numbers[one], online=online, target=target)


def diverged(trained: Trained) -> np.ndarray:
    """[N]: which agents' networks hold something that is not a number."""
    params = jax.tree.leaves((trained.online, trained.target))
    return np.array([not all(np.isfinite(x[i]).all() for x in params) for i in range(len(trained.numbers))])


def play_episodes(trained: Trained, count: int, *, epsilon: float, seed: int, max_steps: int) -> Episodes:
    """`count` episodes of every agent, all at once; each is cut after `max_steps`."""

    def episode(params: Any, key: jax.Array) -> tuple[jax.Array, ...]:
        end = lax.while_loop(
            lambda going: ~going.over & (going.steps < max_steps),
            lambda going: _step(trained, params, key, epsilon, going)[0],
            _begin(trained.env, key),
        )
        return end.earned, end.steps, end.over

    def episodes(params: Any, number: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vmap(partial(episode, params))(jax.vmap(partial(_key, seed, number))(jnp.arange(count)))

    played = jax.jit(jax.vmap(episodes))(trained.online, jnp.asarray(trained.numbers, jnp.uint32))
    return Episodes(*jax.device_get(played))


def record(trained: Trained, *, max_episodes: int | None, max_steps: int, epsilon: float, seed: int) -> Recording:
    """The first agent plays until `max_episodes` are over or `max_steps` steps are taken, whichever is first."""
    networks = jax.tree.map(lambda x: jnp.asarray(x[0]), (trained.online, trained.target))
    learning = trained.config.settings.learning

    @jax.jit
    def begin(episode: jax.Array) -> tuple[jax.Array, _Going]:
        key = _key(seed, jnp.uint32(trained.numbers[0]), episode)
        return key, _begin(trained.env, key)

    @jax.jit
    def chunk(networks: tuple[Any, Any], key: jax.Array, going: _Going) -> tuple[_Going, dict[str, Any]]:
        online, target = networks

        def step(going: _Going, _: None) -> tuple[_Going, dict[str, Any]]:
            after, action, reward = _step(trained, online, key, epsilon, going)
            seen = going.observation[None]
            row = {
                "observations": going.observation,
                "actions": action,
                "rewards": reward,
                "ends": after.over,
                "online": trained.agent.online.apply(online, seen, None).per_action[0],
                "target": trained.agent.target.apply(target, seen, None).per_action[0],
            }
            return after, row

        return lax.scan(step, going, length=CHUNK_STEPS)

    rows: list[dict[str, Any]] = []
    steps, episode = 0, 0
    while steps < max_steps and (max_episodes is None or episode < max_episodes):
        key, going = begin(episode)
        over = False
        while steps < max_steps and not over:
            going, chunk_rows = chunk(networks, key, going)
            part = jax.device_get(chunk_rows)
            over = bool(part["ends"].any())
            length = int(part["ends"].argmax()) + 1 if over else CHUNK_STEPS
            length = min(length, max_steps - steps)
            rows.append({name: x[:length] for name, x in part.items()} | {"episodes": np.full(length, episode)})
            steps += length
        episode += 1
    columns: dict[str, Any] = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    for name in ("online", "target"):
        outputs = columns.pop(name)
        columns[f"{name}_values"] = np.asarray(trained.agent.head.values(jnp.asarray(outputs)))
        columns[f"{name}_returns"] = distribution(learning, outputs)
    return Recording(**columns)


def distribution(learning: LearningConfig, outputs: np.ndarray) -> Distribution | None:
    """What a head's K numbers per action say about the return; None where they are its expectation alone."""
    if learning.head == "dqn":
        return None
    if learning.head == "c51":
        weights = np.asarray(jax.nn.softmax(jnp.asarray(outputs)))
        atoms = np.linspace(learning.v_min, learning.v_max, learning.atoms, dtype=np.float32)
        return Distribution(np.broadcast_to(atoms, weights.shape), weights)
    return Distribution(outputs, np.full_like(outputs, 1 / outputs.shape[-1]))


def _key(seed: int, number: jax.Array, episode: jax.Array) -> jax.Array:
    stream = jax.random.fold_in(jax.random.key(seed), STREAM)
    return jax.random.fold_in(jax.random.fold_in(stream, number), episode)


def _begin(env: Environment, key: jax.Array) -> _Going:
    environment, observation = env.init(jax.random.fold_in(key, 0))
    return _Going(environment, observation, jnp.float32(0), jnp.int32(0), jnp.bool_(False))


def _step(
    trained: Trained, params: Any, key: jax.Array, epsilon: float, going: _Going
) -> tuple[_Going, jax.Array, jax.Array]:
    """One action of an agent, without its layers' noise: the episode after it, the action, its reward."""
    chance_key, env_key = jax.random.split(jax.random.fold_in(key, going.steps + 1))
    action = trained.agent.act(params, going.observation, None, jax.random.bits(chance_key, (2,)), epsilon)
    environment, seen = trained.env.step(env_key, going.environment, action)
    over = seen.terminated | seen.truncated
    after = _Going(environment, seen.observation, going.earned + seen.reward, going.steps + 1, over)
    return after, action, seen.reward
