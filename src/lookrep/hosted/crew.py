"""Environments that some agents play in, and the table where what they see is written.

A crew steps its environments one after another, in whatever process it lives; the processes, and who waits for whom,
are in `processes.py`. An agent's row depends on its seed, its number and its actions only.
"""

import math
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lookrep.errors import UserError
from lookrep.hosted.making import make
from lookrep.hosted.protocol import Outcome, Spaces
from lookrep.importing import in_short

ALIGNMENT_BYTES = 64


class Table(NamedTuple):
    """One row per agent."""

    action: np.ndarray  # uint8 [n]
    observation: np.ndarray  # [n, …]
    reward: np.ndarray  # float32 [n]
    terminated: np.ndarray  # bool [n]
    truncated: np.ndarray  # bool [n]
    final_observation: np.ndarray | None  # [n, …]
    start: np.ndarray | None  # uint8 [n, bytes]: what the running episodes began from


class Layout(NamedTuple):
    """What a table's columns look like; every process lays them over the same memory."""

    rows: int
    observation_shape: tuple[int, ...]
    observation_dtype: np.dtype
    keeps_final: bool
    start_bytes: int

    def columns(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        observation = ((self.rows, *self.observation_shape), self.observation_dtype)
        flag = ((self.rows,), np.dtype(bool))
        columns = {"action": ((self.rows,), np.dtype(np.uint8)), "observation": observation}
        columns |= {"reward": ((self.rows,), np.dtype(np.float32)), "terminated": flag, "truncated": flag}
        columns |= {"final_observation": observation} if self.keeps_final else {}
        return columns | ({"start": ((self.rows, self.start_bytes), np.dtype(np.uint8))} if self.start_bytes else {})

    def nbytes(self) -> int:
        return sum(_aligned(math.prod(shape) * dtype.itemsize) for shape, dtype in self.columns().values())

    def over(self, memory: Any) -> Table:
        """The table over `nbytes()` bytes of memory, which stays in use while any column is."""
        columns: dict[str, Any] = {"final_observation": None, "start": None}
        offset = 0
        for name, (shape, dtype) in self.columns().items():
            count = math.prod(shape)
            columns[name] = np.frombuffer(memory, dtype, count, offset).reshape(shape)
            offset += _aligned(count * dtype.itemsize)
        return Table(**columns)


def layout(rows: int, spaces: Spaces) -> Layout:
    """Final observations are kept where a cut episode needs its last one; stacked frames are the trainer's to keep."""
    keeps_final = spaces.can_truncate and spaces.frame_stack == 1
    return Layout(rows, spaces.observation_shape, spaces.observation_dtype, keeps_final, spaces.start_bytes)


class Member(NamedTuple):
    """An agent, its environment, and where it stands: what its running episode began from, if more than a seed, and the
    actions taken so far."""

    row: int
    name: str
    agent: int
    episode: int
    actions: bytes
    start: bytes = b""


def episode_seed(seed: int, agent: int, episode: int) -> int:
    """31 bits, which every environment takes.

    >>> episode_seed(0, 0, 0) != episode_seed(0, 0, 1) != episode_seed(0, 1, 0)
    True
    """
    return int(np.random.SeedSequence((seed, agent, episode)).generate_state(1)[0]) >> 1


class Crew:
    """The environments of some members. What happens to them is written into the table's rows."""

    def __init__(self, members: Sequence[Member], seed: int, table: Table) -> None:
        self._table, self._seed = table, seed
        self._members = {member.row: member for member in members}
        self._episodes = {member.row: member.episode for member in members}
        self._envs = {member.row: make(member.name) for member in members}
        for member in members:
            self._replay(member)

    def step(self, rows: Iterable[int]) -> None:
        """Take the actions of these rows, one environment after another; an episode that ends starts anew."""
        table = self._table
        for row in rows:
            try:
                outcome = self._envs[row].step(int(table.action[row]))
                self._write(row, outcome)
            except Exception as error:  # whatever an environment may do
                raise self._failure(row, error) from error

    def play_ahead(self, rows: Iterable[int]) -> None:
        """What can be done of these rows' next steps while nobody waits."""
        for row in rows:
            try:
                self._envs[row].play_ahead()
            except Exception as error:
                raise self._failure(row, error) from error

    def close(self) -> None:
        for env in self._envs.values():
            env.close()

    def _write(self, row: int, outcome: Outcome) -> None:
        table, observation = self._table, outcome.observation
        table.reward[row], table.terminated[row], table.truncated[row] = outcome[1:]
        if outcome.terminated or outcome.truncated:
            if table.final_observation is not None:
                table.final_observation[row] = observation
            self._episodes[row] += 1
            observation = self._reset(row)
        table.observation[row] = observation

    def _reset(self, row: int, start: bytes = b"") -> np.ndarray:
        env = self._envs[row]
        observation = env.reset(episode_seed(self._seed, self._members[row].agent, self._episodes[row]), start)
        if self._table.start is not None:
            self._table.start[row] = np.frombuffer(env.start(), np.uint8)
        return observation

    def _replay(self, member: Member) -> None:
        """Begin the running episode again and repeat what was done in it."""
        row, env = member.row, self._envs[member.row]
        try:
            observation = self._reset(row, member.start)
            for count, action in enumerate(member.actions, start=1):
                observation, _, terminated, truncated = env.step(action)
                if terminated or truncated:
                    raise UserError(
                        f"step {count} of {len(member.actions)} ended the episode this time: "
                        "an environment must repeat itself, given seed and actions, to be resumed"
                    )
        except Exception as error:
            raise self._failure(row, error) from error
        self._table.observation[row] = observation

    def _failure(self, row: int, error: Exception) -> UserError:
        member = self._members[row]
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = str(error) if isinstance(error, UserError) else f"{in_short(error)}; {where.filename}:{where.lineno}"
        return UserError(f"{member.name} failed for agent {member.agent} in episode {self._episodes[row]} ({what})")


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
