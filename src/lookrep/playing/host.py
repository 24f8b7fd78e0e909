"""Episodes of environments on the host: emulators step in worker processes, the device chooses all actions at once.

Every episode has an environment of its own, which starts at that episode and is left alone once it is over; many of
them run side by side. What an agent sees in an episode follows from (seed, agent, number of the episode) and from its
actions; so do its random actions.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.envs import host as host_envs
from lookrep.envs.host import EnvPool, EnvPoolState, EnvSpec
from lookrep.envs.host.atari import AtariRules
from lookrep.envs.host.pool import processes_for
from lookrep.envs.host.serial import episode_seed
from lookrep.errors import UserError
from lookrep.importing import in_short
from lookrep.playing.episodes import STREAM, Episodes, Recording, Screens, Standing, Trained, episode_key, recording

MOST_ENVIRONMENTS = 64  # at a time, unless there are more agents
MOST_PARTS = 64  # in which they are stepped: each rests when all of its episodes are over

Act = Callable[[jax.Array, np.int32, np.ndarray], Any]  # (keys [A, E], step from 0, what is seen [A, E, …]) → [A, E, …]


def play_episodes(
    trained: Trained,
    count: int,
    *,
    epsilon: float,
    seed: int,
    max_steps: int,
    watch: Callable[[Standing], None] | None = None,
) -> Episodes:
    """`count` episodes of every agent, as many at a time as there may be environments."""
    agents = len(trained.numbers)
    width = min(count, max(1, MOST_ENVIRONMENTS // agents))
    act = _acting(trained, epsilon)

    def wave(first: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        def tell(over: int, steps: int) -> None:
            if watch is not None:
                watch(Standing(first * agents + over, count * agents, steps))

        return _wave(trained, act, range(first, min(first + width, count)), width, seed, max_steps, tell)

    waves = [wave(first) for first in range(0, count, width)]
    return Episodes(*(np.concatenate(column, axis=1) for column in zip(*waves, strict=True)))


def record(trained: Trained, *, max_episodes: int | None, max_steps: int, epsilon: float, seed: int) -> Recording:
    """The first agent's play, in an environment of this process."""
    trained = trained._replace(
        **{name: jax.tree.map(lambda x: x[:1], getattr(trained, name)) for name in ("online", "target", "legal")}
    )
    spaces, number = _spaces(trained), int(trained.numbers[0])
    actions = spaces.num_actions if trained.legal is None else int(trained.legal[0])
    act = _acting(trained, epsilon, with_outputs=True)
    rows: list[dict[str, Any]] = []
    screens = Screens()
    episode = 0
    with contextlib.closing(host_envs.make(trained.games[0], _rules(trained))) as env:
        while len(rows) < max_steps and (max_episodes is None or episode < max_episodes):
            key = _keys(seed, trained.numbers[:1], range(episode, episode + 1))
            seen = _nothing_seen(spaces, 1, 1)
            with _failing(trained, episode):
                frame = env.reset(episode_seed(_environment_seed(seed), number, episode))
            over, t = False, 0
            while not over and len(rows) < max_steps:
                _look(spaces, seen, frame[None, None])
                if (picture := env.screen()) is not None:
                    screens.add(picture)
                action, online, target = jax.device_get(act(key, np.int32(t), seen))
                row = {"observations": frame.copy(), "actions": action[0, 0], "episodes": episode}
                with _failing(trained, episode):
                    result = env.step(int(action[0, 0]))
                frame, reward, over, t = result.observation, result.reward, result.over, t + 1
                if result.terminated:
                    seen[:] = 0  # as in training, also where only a life was lost
                outputs = {"online": online[0, 0, :actions], "target": target[0, 0, :actions]}
                rows.append(row | outputs | {"rewards": np.float32(reward), "ends": over})
            episode += 1
    columns: dict[str, Any] = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return recording(trained, columns | {"screens": screens if len(screens) == len(rows) else None})


def action_names(trained: Trained) -> tuple[str, ...]:
    """What the first agent's environment calls its actions."""
    with contextlib.closing(host_envs.make(trained.games[0])) as env:
        return tuple(env.action_names())


def _wave(
    trained: Trained,
    act: Act,
    episodes: range,
    width: int,
    seed: int,
    max_steps: int,
    tell: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some episodes of every agent. The device sees `width` of each, so that all waves share a program."""
    spaces, agents, count = _spaces(trained), len(trained.numbers), len(episodes)
    rows = agents * count
    size = -(-rows // MOST_PARTS)
    parts = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
    keys = _keys(seed, trained.numbers, range(episodes.start, episodes.start + width))
    seen = _nothing_seen(spaces, agents, width)
    frames = np.zeros((rows, *spaces.observation_shape), spaces.observation_dtype)
    earned, lengths, over = np.zeros(rows), np.zeros(rows, np.int64), np.zeros(rows, bool)
    with EnvPool(
        [game for game in trained.games for _ in episodes],
        [int(number) for number in trained.numbers for _ in episodes],
        _environment_seed(seed),
        groups=parts,
        processes=processes_for(trained.config.env, trained.config.workers),
        resume=EnvPoolState(np.tile(episodes, agents), np.zeros(rows + 1, np.int64), np.zeros(0, np.uint8)),
        rules=_rules(trained),
    ) as pool:
        for t in range(max_steps):
            going = [g for g, part in enumerate(parts) if not over[part].all()]
            if not going:
                break
            for g in going:
                frames[parts[g]] = pool.observation(g)
            _look(spaces, seen[:, :count], frames.reshape(agents, count, *spaces.observation_shape))
            actions = np.asarray(act(keys, np.int32(t), seen))[:, :count].reshape(-1)
            for g in going:
                pool.send(g, actions[parts[g]])
            for g in going:
                result, part = pool.receive(g), parts[g]
                lost = np.flatnonzero(result.terminated) + part.start
                seen[lost // count, lost % count] = 0  # as in training, also where only a life was lost
                counts = ~over[part]
                earned[part] += np.where(counts, result.reward, 0.0)
                lengths[part] += counts
                over[part] |= result.over
            tell(int(over.sum()), t + 1)
    return earned.reshape(agents, count), lengths.reshape(agents, count), over.reshape(agents, count)


def _acting(trained: Trained, epsilon: float, *, with_outputs: bool = False) -> Act:
    """Every agent's action in every one of its episodes, without its layers' noise; and what both networks say."""
    networks = jax.tree.map(jnp.asarray, (trained.online, trained.target if with_outputs else None))
    legal = None if trained.legal is None else jnp.asarray(trained.legal)
    agent = trained.agent

    @jax.jit
    def act(networks: tuple[Any, Any], legal: Any, keys: jax.Array, t: jax.Array, seen: jax.Array) -> Any:
        def one(networks: tuple[Any, Any], legal: Any, key: jax.Array, observation: jax.Array) -> Any:
            online, target = networks
            words = jax.random.bits(jax.random.fold_in(key, t), (2,))
            action = agent.act(online, observation, None, words, epsilon, legal)
            if not with_outputs:
                return action
            said = (
                agent.online.apply(online, observation[None], None),
                agent.target.apply(target, observation[None], None),
            )
            return action, *(out.per_action[0] for out in said)

        return jax.vmap(jax.vmap(one, in_axes=(None, None, 0, 0)))(networks, legal, keys, seen)

    return partial(act, networks, legal)


def _keys(seed: int, numbers: np.ndarray, episodes: range) -> jax.Array:
    def of_agent(number: jax.Array) -> jax.Array:
        return jax.vmap(partial(episode_key, seed, number))(jnp.arange(episodes.start, episodes.stop))

    return jax.vmap(of_agent)(jnp.asarray(numbers, jnp.uint32))


def _rules(trained: Trained) -> AtariRules:
    return AtariRules(**vars(trained.config.settings.atari))


def _environment_seed(seed: int) -> int:
    """No run's own: those have 32 bits."""
    return STREAM << 32 | seed


def _spaces(trained: Trained) -> EnvSpec:
    assert isinstance(trained.env, EnvSpec)
    return trained.env


def _nothing_seen(spaces: EnvSpec, agents: int, episodes: int) -> np.ndarray:
    """Before the first frame: zeros, as in training."""
    stack = (spaces.frame_stack,) if spaces.frame_stack > 1 else ()
    return np.zeros((agents, episodes, *stack, *spaces.observation_shape), spaces.observation_dtype)


def _look(spaces: EnvSpec, seen: np.ndarray, frames: np.ndarray) -> None:
    """Each new frame [A, E, …] takes its place behind those before it."""
    if spaces.frame_stack == 1:
        seen[:] = frames
        return
    seen[:, :, :-1] = seen[:, :, 1:]
    seen[:, :, -1] = frames


@contextlib.contextmanager
def _failing(trained: Trained, episode: int) -> Iterator[None]:
    """Whatever an environment may do becomes one line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        who = f"{trained.games[0]} failed for agent {trained.numbers[0]} in episode {episode}"
        raise UserError(f"{who} ({in_short(error)})") from error
