"""From a run's folder to its agents: the networks of the last checkpoint, all of them or those that are asked for."""

import difflib
import json
import re
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from lookrep import agent as agent_parts
from lookrep import config as configs
from lookrep import envs, hosted
from lookrep.agent import AgentState
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.playing.episodes import Trained
from lookrep.training import checkpoint, versions
from lookrep.training.run import CHECKPOINTS, CONFIG_FILE


class _Saved(NamedTuple):
    """The part of a trainer's state that playing needs, under the name it has there."""

    agents: AgentState


class _Seat(NamedTuple):
    """What the agents of a run play in."""

    env: envs.Environment | hosted.Spaces
    observation_shape: tuple[int, ...]  # what the networks see
    legal: np.ndarray | None


def load(run: Path) -> Trained:
    """All agents of the run in this folder. Reads the networks alone: the replay may be far larger than the memory."""
    if not run.is_dir():
        raise UserError(f"{run}: there is no such run folder")
    config = configs.load(run)
    versions.check_roms(config, run / CONFIG_FILE)
    seat = _on_host(config) if envs.on_host(config.env) else _on_device(config)
    agent = agent_parts.build(config.settings, seat.observation_shape, seat.env.num_actions)
    folder = run / CHECKPOINTS
    newest = checkpoint.latest(folder)
    if newest is None:
        every = config.checkpoint_interval_steps
        when = f" yet: this run saves one every {every:,} steps, at its end and on Ctrl-C"
        raise UserError(f"{run} has no checkpoint{when if every else ': it was told to save none'}")
    groups = _groups(newest, config) if isinstance(seat.env, hosted.Spaces) else None
    keys = jax.random.split(jax.random.key(0), config.agents // (groups or 1))
    shapes: AgentState = jax.eval_shape(jax.vmap(agent.init), keys)
    wanted = _Saved(AgentState(shapes.online, None, shapes.target._replace(optimizer=None)))
    found = checkpoint.restore_latest(folder, wanted if groups is None else [wanted] * groups, part=True)
    parts: list[_Saved] = found.tree if isinstance(found.tree, list) else [found.tree]
    online, target = (
        parts[0] if len(parts) == 1 else jax.tree.map(lambda *x: np.concatenate(x), *parts)
        for parts in ([p.agents.online for p in parts], [p.agents.target.params for p in parts])
    )
    return Trained(
        config=config,
        env=seat.env,
        agent=agent,
        games=tuple(game for game in config.games for _ in range(config.agents // len(config.games))),
        numbers=np.array(config.numbers),
        legal=seat.legal,
        online=agent.compute(online),
        target=agent.compute(target),
        agent_steps=int(found.meta["agent_steps"]),
        warning=found.warning,
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


def _on_device(config: RunConfig) -> _Seat:
    env = envs.make(config.env)
    return _Seat(env, env.observation_shape, None)


def _on_host(config: RunConfig) -> _Seat:
    each = [hosted.check(name) for name in config.games]
    spaces = each[0]._replace(num_actions=max(s.num_actions for s in each))
    actions = np.repeat([s.num_actions for s in each], config.agents // len(each)).astype(np.int32)
    stack = (spaces.frame_stack,) if spaces.frame_stack > 1 else ()
    return _Seat(spaces, (*stack, *spaces.observation_shape), actions if len(set(actions.tolist())) > 1 else None)


def _groups(path: Path, config: RunConfig) -> int:
    """Into how many groups the trainer had divided its agents: by default, that depends on the device it ran on."""
    try:
        leaves = json.loads((path / checkpoint.MANIFEST).read_bytes())["leaves"]
        return len({found[1] for leaf in leaves if (found := re.match(r"\[(\d+)\]\.agents\.", leaf["path"]))}) or 1
    except (OSError, ValueError, KeyError, TypeError):
        return config.groups or 1  # a damaged one: whoever reads it next says so


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
