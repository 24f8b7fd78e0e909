"""One environment per agent, stepped in worker processes: in groups, which the caller serves one after another.

    with EnvPool(names, agents, seed, groups=[slice(0, 8), slice(8, 16)], processes=16) as pool:
        observation = pool.observation(0)
        pool.send(0, actions)          # does not wait
        step = pool.receive(0)         # does

What an agent sees follows from the seed, its number, its environment and its actions, never from processes, groups or
timing. Emulators cannot be saved, so the running episodes' actions are kept here: `state` gives them, and a pool that
is made with them plays them again.
"""

import base64
import os
import zlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from lookrep.envs.host.atari import RULES, AtariRules
from lookrep.envs.host.by_name import common_spec
from lookrep.envs.host.process_pool import ProcessPool
from lookrep.envs.host.protocol import EnvSpec
from lookrep.envs.host.serial import EnvArrays, EnvSlot, SerialEnvs, arrays_over, nbytes
from lookrep.errors import UserError

SPIN_S = 0.002  # longer than a step of most environments
LOG_STEPS = 4096  # room for an episode's actions, at first


def processes_for(name: str, asked: int | None) -> int:
    """How many processes to use where nobody says: emulators have their own, other environments are quick."""
    if asked is not None:
        return asked
    return (os.cpu_count() or 1) if name.startswith("atari/") else 0


def spin_seconds(processes: int) -> float:
    """How long to busy-wait before going to sleep, for the trainer and for its workers.

    Waking up takes a tenth of an emulator's step, twice in each, so it pays where a core would be idle otherwise. One
    emulator and a trainer on two cores, which thinks for 0.3 ms after each step: 500 µs until it sees the next frame,
    475 if it busy-waits, 360 if the worker does, too.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return SPIN_S if cores > processes + 1 else 0.0


class VectorStep(NamedTuple):
    """What a group's actions led to: views into shared memory, valid until that group's next `send`."""

    observation: np.ndarray  # [n, …]; of an agent whose episode ended: the first one of its next episode
    reward: np.ndarray  # float32 [n]
    terminated: np.ndarray  # bool [n]
    truncated: np.ndarray  # bool [n]
    # [n, …], the observation that ended an episode, in the rows where one did (other rows: leftovers). Kept where the
    # environment can truncate and frames are not stacked; None otherwise.
    final_observation: np.ndarray | None
    goes_on: np.ndarray  # bool [n]: terminated for learning alone, the episode goes on

    @property
    def over(self) -> np.ndarray:
        """Whose episode is over, bool [n]."""
        return np.asarray((self.terminated | self.truncated) & ~self.goes_on)


class EnvPoolState(NamedTuple):
    """Where every agent stands: enough to get there again by replaying the actions of the running episodes."""

    episode: np.ndarray  # int64 [n], from 0
    offsets: np.ndarray  # int64 [n + 1]: agent i's actions are actions[offsets[i] : offsets[i + 1]]
    actions: np.ndarray  # uint8
    starts: np.ndarray | None = None  # uint8 [n, bytes]: what the episodes began from, where a seed does not say it all

    def to_json(self) -> dict[str, Any]:
        """For a checkpoint."""
        found = {"episode": self.episode.tolist(), "offsets": self.offsets.tolist(), "actions": _text(self.actions)}
        return found | ({} if self.starts is None else {"starts": _text(self.starts)})

    @staticmethod
    def from_json(stored: dict[str, Any]) -> "EnvPoolState":
        episode, offsets = (np.array(stored[name], np.int64) for name in ("episode", "offsets"))
        starts = _bytes(stored["starts"]).reshape(len(episode), -1) if "starts" in stored else None
        return EnvPoolState(episode, offsets, _bytes(stored["actions"]), starts)


class EnvPool:
    """A pool of environments. One thread may use it.

    names: each agent's environment; all must agree in their observations
    agents: each agent's number; with `seed` it decides how its episodes begin and what chance does in them
    groups: consecutive slices of the agents, which together are all of them
    processes: 0 steps everything in this process, when `receive` is called
    resume: what `state()` gave in an earlier life
    spin_s: how long `receive` busy-waits before it goes to sleep; None: as cores allow
    rules: of Atari's games
    """

    def __init__(
        self,
        names: Sequence[str],
        agents: Sequence[int],
        seed: int,
        *,
        groups: Sequence[slice],
        processes: int,
        resume: EnvPoolState | None = None,
        spin_s: float | None = None,
        rules: AtariRules = RULES,
    ) -> None:
        _check_groups(groups, len(names))
        spec = common_spec(names)
        start = resume or fresh_state(len(names))
        if len(start.episode) != len(names):
            raise UserError(f"the saved state is of {len(start.episode)} environments, not of {len(names)}")
        actions = np.split(start.actions, start.offsets[1:-1])
        starts = [b""] * len(names) if start.starts is None else [row.tobytes() for row in start.starts]
        slots = [
            EnvSlot(row, names[row], agents[row], int(start.episode[row]), actions[row].tobytes(), starts[row])
            for row in range(len(names))
        ]
        count = min(processes, len(names))
        spin_s = spin_seconds(count) if spin_s is None else spin_s
        self._envs: ProcessPool | _InProcess = (
            ProcessPool(slots, seed, spec, groups, count, spin_s, rules)
            if processes
            else _InProcess(slots, seed, spec, groups, rules)
        )
        arrays = self._envs.arrays
        self._logs = [_ActionLog(start.episode[part], actions[part], _rows(arrays.start, part)) for part in groups]
        self._actions = [arrays.action[part] for part in groups]
        self._steps = [
            VectorStep(
                arrays.observation[part],
                arrays.reward[part],
                arrays.terminated[part],
                arrays.truncated[part],
                _rows(arrays.final_observation, part),
                arrays.goes_on[part],
            )
            for part in groups
        ]
        self._under_way = [False for _ in groups]
        self._unlogged = [False for _ in groups]

    def observation(self, group: int) -> np.ndarray:
        """What the agents of a group see now, [n, …]: a view, valid until the group's next `send`."""
        return self._steps[group].observation

    def send(self, group: int, actions: np.ndarray) -> None:
        """Let the agents of a group act; they are stepped while the caller does something else."""
        if self._under_way[group]:
            raise RuntimeError(f"group {group}: receive what the last actions led to before sending new ones")
        self.log(group)
        self._under_way[group] = True
        self._actions[group][:] = actions
        self._envs.start(group)

    def first_ready(self, groups: Sequence[int]) -> int | None:
        """The first of these groups, all sent to act, for which `receive` would not wait."""
        return self._envs.first_ready(groups) if groups else None

    def wait_for_any(self, groups: Sequence[int]) -> None:
        """Until one of these groups, all sent to act, is ready."""
        self._envs.wait_for_any(groups)

    def nap(self) -> None:
        """Do nothing for a moment, for whoever waits for something else as well."""
        self._envs.nap()

    def receive(self, group: int) -> VectorStep:
        """Wait until all of a group's agents have acted. A UserError if an environment, or its process, failed."""
        if not self._under_way[group]:
            raise RuntimeError(f"group {group}: send actions before receiving what they lead to")
        self._envs.wait(group)
        self._under_way[group] = False
        self._unlogged[group] = True
        return self._steps[group]

    def log(self, group: int) -> None:
        """Keep what was received. `send` and `state` see to it, too: to call this is to choose a better moment."""
        if self._unlogged[group]:
            self._unlogged[group] = False
            step = self._steps[group]
            self._logs[group].add(self._actions[group], step.over)

    def state(self) -> EnvPoolState:
        """Where all agents stand, after what was received last. Copies: later steps don't change it."""
        for group in range(len(self._logs)):
            self.log(group)
        running = [actions for log in self._logs for actions in log.running()]
        starts = [log.starts for log in self._logs if log.starts is not None]
        return EnvPoolState(
            np.concatenate([log.episode for log in self._logs]),
            np.cumsum([0, *(len(actions) for actions in running)], dtype=np.int64),
            np.concatenate([np.zeros(0, np.uint8), *running]),
            np.concatenate(starts) if starts else None,
        )

    def close(self) -> None:
        """End the workers. The memory goes when the last array that was handed out does."""
        self._envs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def fresh_state(agents: int) -> EnvPoolState:
    """Before the first step."""
    return EnvPoolState(np.zeros(agents, np.int64), np.zeros(agents + 1, np.int64), np.zeros(0, np.uint8))


class _InProcess:
    """No processes: a group is stepped when someone waits for it."""

    def __init__(
        self, slots: Sequence[EnvSlot], seed: int, spec: EnvSpec, groups: Sequence[slice], rules: AtariRules
    ) -> None:
        self.arrays: EnvArrays = arrays_over(bytearray(nbytes(len(slots), spec)), len(slots), spec)
        self._rows = [range(len(slots))[part] for part in groups]
        self._serial = SerialEnvs(slots, seed, self.arrays, rules)

    def start(self, group: int) -> None:
        pass

    def first_ready(self, groups: Sequence[int]) -> int | None:
        return groups[0]

    def wait_for_any(self, groups: Sequence[int]) -> None:
        pass

    def nap(self) -> None:
        pass

    def wait(self, group: int) -> None:
        self._serial.step(self._rows[group])

    def close(self) -> None:
        self._serial.close()


class _ActionLog:
    """How a group's running episodes began, and the actions that its agents took in them."""

    def __init__(self, episode: np.ndarray, running: Sequence[np.ndarray], starts: np.ndarray | None) -> None:
        self.episode = episode.astype(np.int64)
        self._newest, self.starts = starts, None if starts is None else starts.copy()
        self._steps = np.array([len(actions) for actions in running], np.int64)
        self._agents = np.arange(len(running))
        self._actions = np.zeros((len(running), max(LOG_STEPS, 2 * int(self._steps.max(initial=0)))), np.uint8)
        for agent, actions in enumerate(running):
            self._actions[agent, : len(actions)] = actions

    def add(self, actions: np.ndarray, ended: np.ndarray) -> None:
        if self._steps.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._agents, self._steps] = actions
        self._steps += 1
        self._steps[ended] = 0
        self.episode += ended
        if self.starts is not None and self._newest is not None and ended.any():
            self.starts[ended] = self._newest[ended]

    def running(self) -> list[np.ndarray]:
        return [self._actions[agent, : self._steps[agent]] for agent in self._agents]


def _rows(array: np.ndarray | None, part: slice) -> np.ndarray | None:
    return None if array is None else array[part]


def _text(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(array.tobytes())).decode()


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)


def _check_groups(groups: Sequence[slice], agents: int) -> None:
    rows = [row for part in groups for row in range(agents)[part]]
    if rows != list(range(agents)) or not all(len(range(agents)[part]) for part in groups) or len(groups) > 256:
        raise ValueError(f"groups = {list(groups)} must divide {agents} agents into consecutive parts, none empty")
