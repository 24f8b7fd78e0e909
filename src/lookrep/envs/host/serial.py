"""Environments stepped one after another, and the arrays that hold what their agents see.

This runs in whatever process the environments live in. The processes, and who waits for whom, are in
`process_pool.py`. What an agent sees depends on its seed, its number and its actions only.
"""

import math
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lookrep.envs.host.atari import RULES, AtariRules
from lookrep.envs.host.by_name import make
from lookrep.envs.host.protocol import EnvSpec, StepResult
from lookrep.errors import UserError
from lookrep.importing import in_short

ALIGNMENT_BYTES = 64


class EnvArrays(NamedTuple):
    """One row per agent."""

    action: np.ndarray  # uint8 [n]
    observation: np.ndarray  # [n, …]
    reward: np.ndarray  # float32 [n]
    terminated: np.ndarray  # bool [n]
    truncated: np.ndarray  # bool [n]
    goes_on: np.ndarray  # bool [n]
    final_observation: np.ndarray | None  # [n, …]
    start: np.ndarray | None  # uint8 [n, bytes]: what the running episodes began from


def nbytes(rows: int, spec: EnvSpec) -> int:
    """The memory that `arrays_over` needs."""
    return sum(_aligned(math.prod(shape) * dtype.itemsize) for shape, dtype in _columns(rows, spec).values())


def arrays_over(memory: Any, rows: int, spec: EnvSpec) -> EnvArrays:
    """Arrays over memory, which several processes may share; it stays in use while any of the arrays is."""
    columns: dict[str, Any] = {"final_observation": None, "start": None}
    offset = 0
    for name, (shape, dtype) in _columns(rows, spec).items():
        count = math.prod(shape)
        columns[name] = np.frombuffer(memory, dtype, count, offset).reshape(shape)
        offset += _aligned(count * dtype.itemsize)
    return EnvArrays(**columns)


def _columns(rows: int, spec: EnvSpec) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    observation = ((rows, *spec.observation_shape), spec.observation_dtype)
    byte, flag, reward = (((rows,), np.dtype(kind)) for kind in (np.uint8, bool, np.float32))
    columns = {"action": byte, "observation": observation, "reward": reward}
    columns |= {"terminated": flag, "truncated": flag, "goes_on": flag}
    columns |= {"final_observation": observation} if spec.keeps_final else {}
    return columns | ({"start": ((rows, spec.start_bytes), np.dtype(np.uint8))} if spec.start_bytes else {})


class EnvSlot(NamedTuple):
    """An agent's environment and where it begins: in the running episode, after the actions taken so far."""

    row: int
    name: str
    agent: int
    episode: int
    actions: bytes
    start: bytes = b""  # what the episode began from, if more than a seed


def episode_seed(seed: int, agent: int, episode: int) -> int:
    """31 bits, which every environment takes.

    >>> episode_seed(0, 0, 0) != episode_seed(0, 0, 1) != episode_seed(0, 1, 0)
    True
    """
    return int(np.random.SeedSequence((seed, agent, episode)).generate_state(1)[0]) >> 1


class SerialEnvs:
    """The environments of some slots. What happens to them is written into the arrays' rows."""

    def __init__(self, slots: Sequence[EnvSlot], seed: int, arrays: EnvArrays, rules: AtariRules = RULES) -> None:
        self._arrays, self._seed = arrays, seed
        self._slots = {slot.row: slot for slot in slots}
        self._episodes = {slot.row: slot.episode for slot in slots}
        self._envs = {slot.row: make(slot.name, rules) for slot in slots}
        for slot in slots:
            self._replay(slot)

    def step(self, rows: Iterable[int]) -> None:
        """Take the actions of these rows, one environment after another; an episode that ends starts anew."""
        for row in rows:
            try:
                self._write(row, self._envs[row].step(int(self._arrays.action[row])))
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

    def _write(self, row: int, result: StepResult) -> None:
        arrays, observation = self._arrays, result.observation
        arrays.reward[row], arrays.terminated[row], arrays.truncated[row], arrays.goes_on[row] = result[1:]
        if result.over:
            if arrays.final_observation is not None:
                arrays.final_observation[row] = observation
            self._episodes[row] += 1
            observation = self._reset(row)
        arrays.observation[row] = observation

    def _reset(self, row: int, start: bytes = b"") -> np.ndarray:
        env = self._envs[row]
        observation = env.reset(episode_seed(self._seed, self._slots[row].agent, self._episodes[row]), start)
        if self._arrays.start is not None:
            self._arrays.start[row] = np.frombuffer(env.start(), np.uint8)
        return observation

    def _replay(self, slot: EnvSlot) -> None:
        """Begin the running episode again and repeat what was done in it."""
        row, env = slot.row, self._envs[slot.row]
        try:
            observation = self._reset(row, slot.start)
            for count, action in enumerate(slot.actions, start=1):
                result = env.step(action)
                observation = result.observation
                if result.over:
                    raise UserError(
                        f"step {count} of {len(slot.actions)} ended the episode this time: "
                        "an environment must repeat itself, given seed and actions, to be resumed"
                    )
        except Exception as error:
            raise self._failure(row, error) from error
        self._arrays.observation[row] = observation

    def _failure(self, row: int, error: Exception) -> UserError:
        slot = self._slots[row]
        where = traceback.extract_tb(error.__traceback__)[-1]
        what = str(error) if isinstance(error, UserError) else f"{in_short(error)}; {where.filename}:{where.lineno}"
        return UserError(f"{slot.name} failed for agent {slot.agent} in episode {self._episodes[row]} ({what})")


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
