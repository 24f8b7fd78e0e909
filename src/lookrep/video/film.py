"""A trained agent at play as a video file: what is recorded, what it is called, where it goes."""

import re
from pathlib import Path

from lookrep import playing
from lookrep.config.playing import MOST_FILM_STEPS, check_playing
from lookrep.envs.minatar.engine import MinAtar
from lookrep.errors import UserError
from lookrep.playing import Recording, Trained
from lookrep.video.files import check_path, pending, write
from lookrep.video.frames import Film, Labels

MAX_STEPS = 500
MOVES = {"n": "no-op", "l": "left", "u": "up", "r": "right", "d": "down", "f": "fire"}  # MinAtar's letters
ALE_NAME = re.compile("(NOOP)?(UP|DOWN)?(LEFT|RIGHT)?(FIRE)?")


def make(
    trained: Trained,
    path: Path,
    *,
    episodes: int | None = None,
    max_steps: int | None = None,
    epsilon: float = 0.001,
    seed: int = 0,
    fps: int = 15,
) -> Recording:
    """The first of these agents plays, with both networks' values beside the game: one episode of at most `MAX_STEPS`
    steps, unless told otherwise."""
    check_playing(epsilon, seed, episodes=episodes, max_steps=max_steps)
    if max_steps is not None and max_steps > MOST_FILM_STEPS:
        raise UserError(f"max_steps = {max_steps}: must be at most {MOST_FILM_STEPS} for a film")
    if not 1 <= fps <= 50:
        raise UserError(f"fps = {fps}: must be from 1 to 50 (players slow faster gifs down)")
    check_path(path)
    if episodes is None and max_steps is None:
        episodes = 1
    with pending(path) as temporary:
        recording = playing.record(
            trained, max_episodes=episodes, max_steps=max_steps or MAX_STEPS, epsilon=epsilon, seed=seed
        )
        write(temporary, Film(recording, labels(trained)), fps)
    return recording


def labels(trained: Trained) -> Labels:
    """What the video says about this agent; Atari's and MinAtar's actions have names, and MinAtar's channels."""
    config, env = trained.config, trained.env
    title = f"{trained.games[0]} · {config.agent} · target: {config.settings.target.target}"
    subtitle = f"agent {trained.numbers[0]} after {trained.agent_steps:,} steps"
    if isinstance(env, MinAtar):
        return Labels(title, subtitle, tuple(MOVES[letter] for letter in env.rules.actions), env.rules.channels)
    names = playing.action_names(trained) if playing.on_host(trained) else map(str, range(env.num_actions))
    return Labels(title, subtitle, tuple(map(action_label, names)))


def action_label(name: str) -> str:
    """An environment's name for an action, for people.

    >>> [action_label(name) for name in ("NOOP", "UPRIGHTFIRE", "DOWN", "3", "open the door")]
    ['no-op', 'up-right fire', 'down', 'action 3', 'open the door']
    """
    if name.isdigit():
        return f"action {name}"
    found = ALE_NAME.fullmatch(name)
    if not name or not found:
        return name
    noop, vertical, horizontal, fire = found.groups()
    direction = "-".join(part.lower() for part in (vertical, horizontal) if part)
    return " ".join(part for part in (noop and "no-op", direction, fire and "fire") if part)
