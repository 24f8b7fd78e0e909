"""Episodes of environments in JAX: everything that plays is pure, unbatched and on the device.

`play_episodes` vmaps it over agents and episodes.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep.envs import Environment
from lookrep.envs.host import EnvSpec
from lookrep.playing.episodes import Episodes, Recording, Trained, episode_key, recording

CHUNK_STEPS = 256  # recorded on the device before the host looks whether the episode is over


class _Going(NamedTuple):
    """An episode in progress."""

    environment: Any
    observation: jax.Array
    earned: jax.Array
    steps: jax.Array
    over: jax.Array


def play_episodes(trained: Trained, count: int, *, epsilon: float, seed: int, max_steps: int) -> Episodes:
    """`count` episodes of every agent, all at once; each is cut after `max_steps`."""

    def episode(params: Any, key: jax.Array) -> tuple[jax.Array, ...]:
        end = lax.while_loop(
            lambda going: ~going.over & (going.steps < max_steps),
            lambda going: _step(trained, params, key, epsilon, going)[0],
            _begin(trained, key),
        )
        return end.earned, end.steps, end.over

    def episodes(params: Any, number: jax.Array) -> tuple[jax.Array, ...]:
        return jax.vmap(partial(episode, params))(jax.vmap(partial(episode_key, seed, number))(jnp.arange(count)))

    played = jax.jit(jax.vmap(episodes))(trained.online, jnp.asarray(trained.numbers, jnp.uint32))
    return Episodes(*jax.device_get(played))


def record(trained: Trained, *, max_episodes: int | None, max_steps: int, epsilon: float, seed: int) -> Recording:
    """The first agent's play, a chunk of steps at a time."""
    networks = jax.tree.map(lambda x: jnp.asarray(x[0]), (trained.online, trained.target))

    @jax.jit
    def begin(episode: jax.Array) -> tuple[jax.Array, _Going]:
        key = episode_key(seed, jnp.uint32(trained.numbers[0]), episode)
        return key, _begin(trained, key)

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
    return recording(trained, {name: np.concatenate([row[name] for row in rows]) for name in rows[0]})


def _environment(trained: Trained) -> Environment:
    assert not isinstance(trained.env, EnvSpec)
    return trained.env


def _begin(trained: Trained, key: jax.Array) -> _Going:
    environment, observation = _environment(trained).init(jax.random.fold_in(key, 0))
    return _Going(environment, observation, jnp.float32(0), jnp.int32(0), jnp.bool_(False))


def _step(
    trained: Trained, params: Any, key: jax.Array, epsilon: float, going: _Going
) -> tuple[_Going, jax.Array, jax.Array]:
    """One action of an agent, without its layers' noise: the episode after it, the action, its reward."""
    chance_key, env_key = jax.random.split(jax.random.fold_in(key, going.steps + 1))
    action = trained.agent.act(params, going.observation, None, jax.random.bits(chance_key, (2,)), epsilon)
    environment, seen = _environment(trained).step(env_key, going.environment, action)
    over = seen.terminated | seen.truncated
    after = _Going(environment, seen.observation, going.earned + seen.reward, going.steps + 1, over)
    return after, action, seen.reward
