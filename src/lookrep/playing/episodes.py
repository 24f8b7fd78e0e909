"""What playing is about, however environments are stepped: trained agents, episodes, recordings, random numbers."""

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.agents import Agent
from lookrep.config import RunConfig
from lookrep.envs import Environment
from lookrep.envs.host import EnvSpec
from lookrep.heads import Head

STREAM = 0x706C6179  # keeps these random numbers apart from those that the agents were trained with


class Trained(NamedTuple):
    """Some agents of a run as they were at its last checkpoint."""

    config: RunConfig
    env: Environment | EnvSpec  # an environment on the device, or what all those on the host have in common
    agent: Agent
    games: tuple[str, ...]  # [N]: the environment of each agent
    numbers: np.ndarray  # [N]: what the metrics call them; counted within a game
    legal: np.ndarray | None  # int32 [N]: how many of the network's actions each agent has; None: all of them
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


class Screens:
    """Pictures, deflated: half an hour of an Atari game is 2.7 GB as it comes, and mostly background.

    >>> pictures = Screens([np.zeros((2, 3, 3), np.uint8), np.ones((2, 3, 3), np.uint8)])
    >>> len(pictures), pictures[1].sum()
    (2, np.uint64(18))
    """

    def __init__(self, pictures: Iterable[np.ndarray] = ()) -> None:
        self._packed: list[tuple[tuple[int, ...], bytes]] = []
        for picture in pictures:
            self.add(picture)

    def add(self, picture: np.ndarray) -> None:
        self._packed.append((picture.shape, zlib.compress(picture.tobytes(), 1)))

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, t: int) -> np.ndarray:
        shape, packed = self._packed[t]
        return np.frombuffer(zlib.decompress(packed), np.uint8).reshape(shape)


class Standing(NamedTuple):
    """How far episodes that are played side by side are."""

    over: int  # episodes
    of: int
    steps: int  # taken in those under way


class Recording(NamedTuple):
    """One agent's play, a row per step: what it saw, what both networks said to that, what it did."""

    observations: np.ndarray  # [T, ...]; of stacked frames the newest
    actions: np.ndarray  # [T]
    rewards: np.ndarray  # [T]: what the action earned
    ends: np.ndarray  # [T]: the action was the last of its episode
    episodes: np.ndarray  # [T]: number of the episode
    online_values: np.ndarray  # [T, A]
    target_values: np.ndarray
    online_returns: Distribution | None  # [T, A, K]; None for a head that only knows values
    target_returns: Distribution | None
    screens: Screens | None = None  # T × uint8 [height, width, 3]: what a person would see, if anything

    @property
    def function_gap(self) -> np.ndarray:
        """|q_θ − q_w| at each state, mean over actions, as in the metrics."""
        gap: np.ndarray = np.abs(self.target_values - self.online_values).mean(axis=1)
        return gap


def episode_key(seed: int, number: jax.Array, episode: jax.Array) -> jax.Array:
    """Where all of an episode's chance comes from, the agent's and (on the device) the environment's."""
    stream = jax.random.fold_in(jax.random.key(seed), STREAM)
    return jax.random.fold_in(jax.random.fold_in(stream, number), episode)


def recording(trained: Trained, columns: dict[str, Any]) -> Recording:
    """Of the columns of a `Recording`, with both networks' outputs [T, A, K] as `online` and `target`."""
    columns = dict(columns)
    for name in ("online", "target"):
        outputs = columns.pop(name)
        columns[f"{name}_values"] = np.asarray(trained.agent.head.values(jnp.asarray(outputs)))
        columns[f"{name}_returns"] = distribution(trained.agent.head, outputs)
    return Recording(**columns)


def distribution(head: Head, outputs: np.ndarray) -> Distribution | None:
    """What a head's K numbers per action say about the return; None where they are its expectation alone."""
    if head.distribution is None:
        return None
    return Distribution(*map(np.asarray, head.distribution(jnp.asarray(outputs))))
