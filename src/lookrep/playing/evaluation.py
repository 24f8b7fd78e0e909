"""How well trained agents play, as plain data: what `lookrep eval` reports and `Run.evaluate` gives."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lookrep.config.playing import DEFAULT_MAX_STEPS, MOST_EPISODES, check_playing
from lookrep.envs.host.atari import MAX_STEPS as ATARI_MAX_STEPS
from lookrep.errors import UserError
from lookrep.playing import diverged, play_episodes
from lookrep.playing.episodes import Standing, Trained


def most_steps(trained: Trained) -> int:
    """Agent steps after which an episode is cut: on Atari as in training."""
    return ATARI_MAX_STEPS if trained.config.env.startswith("atari/") else DEFAULT_MAX_STEPS


def evaluate(
    trained: Trained,
    episodes: int,
    *,
    epsilon: float = 0.001,
    seed: int = 0,
    max_steps: int | None = None,
    watch: Callable[[Standing], None] | None = None,
) -> dict[str, Any]:
    """Every agent plays so many episodes with its online network."""
    check_playing(epsilon, seed, episodes=episodes, max_steps=max_steps)
    most = MOST_EPISODES // len(trained.numbers)
    if episodes > most:
        raise UserError(f"episodes = {episodes}: must be at most {most}, with {len(trained.numbers)} agents")
    max_steps = max_steps or most_steps(trained)
    played = play_episodes(trained, episodes, epsilon=epsilon, seed=seed, max_steps=max_steps, watch=watch)
    gone = diverged(trained)
    agents = [
        {
            "game": game,
            "agent": int(number),
            "episodes": episodes,
            "return_mean": _number(returns.mean()),
            "return_std": _spread(returns),
            "return_min": _number(returns.min()),
            "return_max": _number(returns.max()),
            "length_mean": float(lengths.mean()),
            "cut_episodes": int((~ended).sum()),
            "diverged": bool(bad),
            "returns": [_number(x) for x in returns],
        }
        for game, number, returns, lengths, ended, bad in zip(
            trained.games,
            trained.numbers,
            *map(np.asarray, (played.returns.astype(float), *played[1:], gone)),
            strict=True,
        )
    ]
    means = played.returns.astype(float).mean(axis=1)
    games = [_summary(game, means[[other == game for other in trained.games]]) for game in dict.fromkeys(trained.games)]
    whole = games[0] if len(games) == 1 else {}  # scores of different games have no mean
    return {
        "env": trained.config.env,
        "preset": trained.config.agent,
        "target": trained.config.settings.target.target,
        "agent_steps": trained.agent_steps,
        "episodes": episodes,
        "epsilon": epsilon,
        "seed": seed,
        "max_steps": max_steps,
        "agents": agents,
        "games": games,
        "return_mean": whole.get("return_mean"),
        "return_standard_error": whole.get("return_standard_error"),
        "warning": trained.warning,
    }


def _summary(game: str, means: np.ndarray) -> dict[str, Any]:
    """The agents of a game, each of which has a mean return."""
    spread = _spread(means)
    return {
        "game": game,
        "agents": len(means),
        "return_mean": _number(means.mean()),
        "return_standard_error": None if spread is None else spread / math.sqrt(len(means)),
    }


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _spread(values: np.ndarray) -> float | None:
    """The sample's standard deviation, where there is one."""
    return _number(values.std(ddof=1)) if len(values) > 1 else None
