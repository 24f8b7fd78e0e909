"""From a run's folder to its agents: the networks of the last checkpoint, all of them or those that are asked for."""

import difflib
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lookrep import config as configs
from lookrep import envs
from lookrep.agents import Agent, AgentState, Parts
from lookrep.agents.parts import for_playing
from lookrep.config import RunConfig
from lookrep.envs import host as host_envs
from lookrep.errors import UserError
from lookrep.playing.episodes import Trained
from lookrep.runs import checkpoint, names, trust, versions


class _Saved(NamedTuple):
    """The part of a trainer's state that playing needs, under the name it has there."""

    agents: AgentState


class _Seat(NamedTuple):
    """What the agents of a run play in."""

    env: envs.Environment | host_envs.EnvSpec
    observation_shape: tuple[int, ...]  # what the networks see
    legal: np.ndarray | None


def load(run: str | Path, parts: Parts | None = None, *, trusted: bool = True) -> Trained:
    """All agents of the run in this folder. Reads the networks alone: the replay may be far larger than the memory.
    Where its settings are not `trusted`, modules that they name are not imported but refused."""
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"{run}: there is no such run folder")
    config = configs.load(run)
    trust.check(config, run / names.CONFIG, trusted, (parts or Parts()).given)
    versions.check_roms(config, run / names.CONFIG)
    seat = _seat(config)
    agent = _agent(config, seat, parts)
    folder = run / names.CHECKPOINTS
    if checkpoint.latest(folder) is None:
        every = config.checkpoint_interval_steps
        when = f" yet: this run saves one every {every:,} steps, at its end and when it is stopped"
        raise UserError(f"{run} has no checkpoint{when if every else ': it was told to save none'}")
    keys = jax.random.split(jax.random.key(0), config.agents)
    shapes: AgentState = jax.eval_shape(jax.vmap(agent.init), keys)
    wanted = _Saved(AgentState(shapes.online, None, shapes.target._replace(optimizer=None)))
    found = checkpoint.restore_latest(folder, wanted, part=True)
    versions.check_settings(config, found.meta, run / names.CONFIG)
    agents: AgentState = found.tree.agents
    agent_steps = int(found.meta["agent_steps"])
    return _trained(config, seat, agent, agents.online, agents.target.params, agent_steps, found.warning)


def in_memory(config: RunConfig, parts: Parts, agents: AgentState, agent_steps: int) -> Trained:
    """Agents that no folder holds."""
    seat = _seat(config)
    agent = _agent(config, seat, parts)
    return _trained(config, seat, agent, agents.online, agents.target.params, agent_steps, None)


def _agent(config: RunConfig, seat: _Seat, parts: Parts | None) -> Agent:
    settings, parts = for_playing(config.settings, parts or Parts())
    return Agent(settings, seat.observation_shape, seat.env.num_actions, parts)


def _trained(
    config: RunConfig, seat: _Seat, agent: Agent, online: Any, target: Any, agent_steps: int, warning: str | None
) -> Trained:
    return Trained(
        config=config,
        env=seat.env,
        agent=agent,
        games=tuple(game for game in config.games for _ in range(config.agents // len(config.games))),
        numbers=np.array(config.numbers),
        legal=seat.legal,
        online=agent.compute(online),
        target=agent.compute(agent.target_params(online, target)),
        agent_steps=agent_steps,
        warning=warning,
    )


def choose(trained: Trained, number: int | None = None, game: str | None = None) -> Trained:
    """Only the agents with this number, in this game."""
    picked = np.ones(len(trained.numbers), bool)
    if game is not None:
        name = _game(game, trained)
        picked &= np.array([other == name for other in trained.games])
    if number is not None:
        first, last = int(trained.numbers.min()), int(trained.numbers.max())
        if not first <= number <= last:
            has = f"agents {first} to {last}" if last > first else f"only agent {first}"
            raise UserError(f"agent = {number}: this run has {has}")
        picked &= trained.numbers == number
    rows = np.flatnonzero(picked)
    online, target, legal = jax.tree.map(lambda x: x[rows], (trained.online, trained.target, trained.legal))
    games = tuple(trained.games[row] for row in rows)
    return trained._replace(games=games, numbers=trained.numbers[rows], legal=legal, online=online, target=target)


def diverged(trained: Trained) -> np.ndarray:
    """[N]: which agents' networks hold something that is not a number."""
    params = jax.tree.leaves((trained.online, trained.target))
    return np.array([not all(np.isfinite(x[i]).all() for x in params) for i in range(len(trained.numbers))])


def _seat(config: RunConfig) -> _Seat:
    return _on_host(config) if envs.on_host(config.env) else _on_device(config)


def _on_device(config: RunConfig) -> _Seat:
    env = envs.make(config.env)
    return _Seat(env, env.observation_shape, None)


def _on_host(config: RunConfig) -> _Seat:
    spaces = host_envs.common_spec(config.games)
    each = [host_envs.check(name).num_actions for name in config.games]
    actions = np.repeat(each, config.agents // len(each)).astype(np.int32)
    stack = (spaces.frame_stack,) if spaces.frame_stack > 1 else ()
    return _Seat(spaces, (*stack, *spaces.observation_shape), actions if len(set(actions.tolist())) > 1 else None)


def _game(name: str, trained: Trained) -> str:
    """The run's own spelling of a game; the suite may be left out, and so may capitals and underscores."""
    by_word: dict[str, str] = {_word(game): game for game in dict.fromkeys(trained.games)}
    if _word(name) in by_word:
        return by_word[_word(name)]
    near = difflib.get_close_matches(_word(name), by_word, n=1, cutoff=0.5)
    hint = (
        f"did you mean {_short(by_word[near[0]])}?"
        if near
        else f"this run has {', '.join(map(_short, by_word.values()))}"
    )
    raise UserError(f"game '{name}' is not in this run: {hint}")


def _short(game: str) -> str:
    return game.partition("/")[2] or game


def _word(game: str) -> str:
    return _short(game).replace("_", "").casefold()
