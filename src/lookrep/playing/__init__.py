"""Trained agents at play: read a run's networks from its last checkpoint, roll out episodes, record what they see.

An episode is a function of (seed, agent, number of the episode): `record` and `play_episodes` see the same ones, and no
agent's score depends on who else plays. There is one interface and two ways to step: `device` for environments in JAX,
`host` for emulators and Gymnasium. Nothing here learns, prints or draws.
"""

from collections.abc import Callable

from lookrep.envs.host import EnvSpec
from lookrep.playing import device, host
from lookrep.playing.episodes import Distribution, Episodes, Recording, Standing, Trained, distribution
from lookrep.playing.host import action_names
from lookrep.playing.loading import choose, diverged, in_memory, load

__all__ = [
    "Distribution",
    "Episodes",
    "Recording",
    "Standing",
    "Trained",
    "action_names",
    "choose",
    "distribution",
    "diverged",
    "in_memory",
    "load",
    "on_host",
    "play_episodes",
    "record",
]


def on_host(trained: Trained) -> bool:
    """Whether these agents play in environments outside JAX."""
    return isinstance(trained.env, EnvSpec)


def play_episodes(
    trained: Trained,
    count: int,
    *,
    epsilon: float,
    seed: int,
    max_steps: int,
    watch: Callable[[Standing], None] | None = None,
) -> Episodes:
    """`count` episodes of every agent; each is cut after `max_steps`. `watch` is told how far it is, where that can be
    known before the end: on the host, after every step."""
    if on_host(trained):
        return host.play_episodes(trained, count, epsilon=epsilon, seed=seed, max_steps=max_steps, watch=watch)
    return device.play_episodes(trained, count, epsilon=epsilon, seed=seed, max_steps=max_steps)


def record(trained: Trained, *, max_episodes: int | None, max_steps: int, epsilon: float, seed: int) -> Recording:
    """The first agent plays until `max_episodes` are over or `max_steps` steps are taken, whichever is first."""
    way = host if on_host(trained) else device
    return way.record(trained, max_episodes=max_episodes, max_steps=max_steps, epsilon=epsilon, seed=seed)
