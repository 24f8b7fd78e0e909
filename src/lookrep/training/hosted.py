"""The engine for environments on the host: emulators play in worker processes while the device acts and learns.

A cycle is `steps_per_update` steps of every agent and one update of each. The update that follows a cycle is made
while the environments already play the next action, which was chosen just before it: acting never waits for learning.
A population is split into groups, each with its own replay and place in its cycle, which take turns
(`lookrep.training.taking_turns`): one group's emulators play while another's networks look or learn. Nothing an agent
sees depends on how it is scheduled: its environment is a function of its seed and its actions, its random numbers of
(seed, agent, counter).

Frames from emulators make a replay of several GB an agent, so checkpoints leave them out: they go into a log as they
come (`lookrep.training.frame_log`), and a resume puts the replay together from it.

How environments are stepped is in `lookrep.hosted`; a group's part, in `lookrep.training.turn`; what runs on the
device, in `lookrep.training.group`; rows, checkpoints and the loop around it all, in `lookrep.training.run`.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.hosted import check
from lookrep.hosted.protocol import Spaces
from lookrep.hosted.workers import Seen, Workers, WorkersState, processes_for
from lookrep.training import checkpoint, frame_log, memory
from lookrep.training.frame_log import FrameLog, Segment
from lookrep.training.group import CHANCES, TAIL, Copies, Eyes, GroupState, OnDevice, Programs, memory_of_actions
from lookrep.training.host_frames import HostFrames
from lookrep.training.pieces import Pieces
from lookrep.training.population import agent_key
from lookrep.training.stopwatch import Stopwatch
from lookrep.training.taking_turns import take_turns
from lookrep.training.turn import Chances, Group, Rules, Turn, look_at
from lookrep.training.window import open_window

FRAMES = "replay"  # the folder, inside a run's, of the frames that its checkpoints leave out


@dataclass
class HostedState:
    groups: list[Group]
    workers: Workers
    folder: Path | None  # the run's


class HostedEngine:
    """Advances a population whose environments are on the host."""

    can_pause = True

    def __init__(self, config: RunConfig) -> None:
        if config.devices != 1:
            raise UserError(f"devices = {config.devices}: environments on the host train on one device")
        self.config = config
        spaces = [check(name) for name in config.games]
        self._spaces = _common(config.games, spaces)
        per_game = config.agents // len(spaces)
        actions = np.repeat([s.num_actions for s in spaces], per_game).astype(np.int32)
        self._legal = actions if len(set(actions)) > 1 else None
        self._names = [name for name in config.games for _ in range(per_game)]
        count = config.groups or _default_groups(config.agents)
        self._slices = [slice(i * config.agents // count, (i + 1) * config.agents // count) for i in range(count)]
        self._device = OnDevice(config, self._spaces, config.agents // count)
        self.population, self.agent = self._device.population, self._device.agent
        # A stack's frames are worth a log of their own; anything else is small.
        self._logs_frames = self._spaces.frame_stack > 1 and self._spaces.observation_dtype == np.uint8
        self._has_window = self._logs_frames and jax.default_backend() == "gpu"
        self._frames = self._chosen_memory()
        self._new = jax.jit(self._device.new)
        self._measure = jax.jit(self.population.row, donate_argnums=0)
        # A CUDA graph is made for certain memory: groups that shared one would rewrite it in every call.
        own = jax.default_backend() == "gpu"
        new = self._device.compiled(self._shapes()[0]._replace(seen=None, greedy=None))
        self._programs = [new() for _ in range(count)] if own else count * [new()]
        self._put = jax.jit(partial(lax.dynamic_update_slice_in_dim, axis=0), donate_argnums=0)
        self.watch, settings = Stopwatch(), config.settings
        self._rules = Rules(
            draw_chances=jax.jit(self._device.draw_chances),
            noisy=settings.network.noisy,
            packs_frames=self._logs_frames,
            frames=self._frames,
            capacity_steps=self.population.replay.capacity_steps,
            steps_per_update=settings.learning.steps_per_update,
            warmup_steps=settings.replay.warmup_steps,
            target_period_updates=self.agent.target_update.every_updates,
            watch=self.watch,
        )

    # What the host loop calls

    def init(self) -> HostedState:
        """Everything at step 0, for a run that leaves nothing on disk."""
        return self._started(self._fresh(), None, None)

    def shapes(self) -> list[GroupState]:
        """What a checkpoint's arrays look like."""
        return [self._without_frames(group) for group in self._shapes()]

    def saved(self, state: HostedState, folder: Path) -> tuple[list[GroupState], dict[str, Any]]:
        """What a checkpoint must hold: arrays, where the environments stand, and which files have the frames."""
        meta: dict[str, Any] = {"environments": state.workers.state().to_json()}
        if self._logs_frames:
            meta["frames"] = self._flushed(state)
            _tidy(folder, meta)
        states = [g.state._replace(seen=g.eyes.seen, greedy=g.greedy) for g in state.groups]
        return [self._without_frames(group) for group in states], meta

    def place(self, tree: list[GroupState] | None, meta: dict[str, Any], folder: Path) -> HostedState:
        """A restored state where it is computed on, with its environments played to where they were; or a new one."""
        if tree is None:
            return self._started(self._fresh(), None, folder)
        where = WorkersState.from_json(meta["environments"])
        segments = _segments(meta) if self._logs_frames else [[] for _ in tree]
        # The frames first: where they are damaged, nothing else has been started yet.
        groups = []
        for number, group in enumerate(tree):
            if self._logs_frames:
                group = self._with_frames(group, folder, number, segments[number])
            groups.append(jax.tree.map(jnp.asarray, group))
        return self._started(groups, where, folder, segments)

    def part(self, state: HostedState, i: int) -> HostedState:
        """Here every run has a program of its own."""
        del i
        return state

    def advance(self, state: HostedState, until_steps: int) -> HostedState:
        """Train until every agent has taken `until_steps` steps. The state passed in is consumed."""
        turns = [
            Turn(self._rules, state.workers, number, *one)
            for number, one in enumerate(zip(state.groups, self._programs, strict=True))
        ]
        take_turns(turns, state.workers, self.watch, until_steps)
        for turn in turns:
            turn.end()
        return state

    def measure(self, state: HostedState) -> tuple[HostedState, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state with its tally cleared."""
        rows = []
        for group in state.groups:
            group.state, row = self._measure(group.state)
            rows.append(jax.device_get(row))
        return state, {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    def close(self, state: HostedState) -> None:
        state.workers.close()
        for group in state.groups:
            if self._frames is not None and group.ring is not None:
                self._frames.drop(group.ring)
        logs = [group.log for group in state.groups if group.log is not None]
        for log in logs:
            log.close()
        if logs and state.folder is not None:
            _tidy(state.folder)

    # The start

    def _beginning(self, group: slice) -> tuple[jax.Array, jax.Array | None]:
        numbers = jnp.asarray(self.config.numbers[group], jnp.uint32)
        keys = jax.vmap(partial(agent_key, self.config.seed))(numbers)
        return keys, None if self._legal is None else jnp.asarray(self._legal[group])

    def _shapes(self) -> list[GroupState]:
        return [jax.eval_shape(self._device.new, *self._beginning(s)) for s in self._slices]

    def _chosen_memory(self) -> HostFrames | None:
        """Where frames are kept: on the device (None), or in the host's memory. Refuses what fits neither."""
        if memory.place(self.config, self._shapes(), frames=self._logs_frames) == "device":
            return None
        frames = HostFrames()
        self.population.replay = dataclasses.replace(self.population.replay, frames_from=frames.gather)
        return frames

    def _fresh(self) -> list[GroupState]:
        return [self._at_host(self._new(*self._beginning(s))) for s in self._slices]

    def _at_host(self, state: GroupState) -> GroupState:
        """With a ring for its frames, if that is where they go."""
        if self._frames is None:
            return state
        replay, cells = self.population.replay, math.prod(self._spaces.observation_shape)
        number = self._frames.make(replay.capacity_steps, len(state.episode_return), cells)
        return state._replace(replay=state.replay._replace(observation=jnp.int32(number)))

    def _started(
        self,
        states: list[GroupState],
        where: WorkersState | None,
        folder: Path | None,
        segments: list[list[Segment]] | None = None,
    ) -> HostedState:
        workers = Workers(
            self._names,
            self.config.numbers,
            self.config.seed,
            groups=self._slices,
            processes=processes_for(self.config.env, self.config.workers),
            resume=where,
        )
        groups = []
        for number, s in enumerate(states):
            log = None
            if folder is not None and self._logs_frames and self.config.checkpoint_interval_steps:
                known = segments[number] if segments else []
                log = FrameLog(_frames_folder(folder, number), int(s.agent_steps), known)
            groups.append(self._under_way(s, log))
            copies = self._programs[number].copies(groups[-1].state)
            if self._device.low:
                groups[-1].copies = copies
            if where is None:
                self._open_eyes(groups[-1], self._programs[number], copies.online, workers.observation(number))
        return HostedState(groups, workers, folder)

    def _under_way(self, state: GroupState, log: FrameLog | None) -> Group:
        seen, greedy, spaces = state.seen, state.greedy, self._spaces
        assert seen is not None
        assert greedy is not None
        frame = seen[:, -1] if spaces.frame_stack > 1 else seen
        steps = self.config.settings.learning.steps_per_update
        # Of the last cycle's frames none is needed again but the one seen now.
        recent = jnp.broadcast_to(frame, (steps + 1, *frame.shape))
        keeps_next = spaces.can_truncate and spaces.frame_stack == 1
        eyes = Eyes(seen, recent, jnp.zeros((steps, len(frame), 4), jnp.float32), recent[1:] if keeps_next else None)
        none = Chances(np.zeros(0), np.zeros(0), -CHANCES)
        on_host = np.asarray(frame).reshape(len(frame), -1)
        ring = None if self._frames is None else int(state.replay.observation)
        window = open_window((len(frame), on_host.shape[1] + TAIL)) if self._has_window else None
        greedy = jax.device_put(greedy, memory_of_actions())
        # Copies of what never changes: the state's own are given away with it.
        keys, legal = jnp.array(state.keys.act), None if state.legal is None else jnp.array(state.legal)
        state = state._replace(seen=None, greedy=None)
        return Group(state, keys, legal, eyes, greedy, on_host, [], ring, Copies(None, None), none, log, window)

    def _open_eyes(self, group: Group, programs: Programs, network: Pieces, observation: np.ndarray) -> None:
        """The first look, before anything was done."""
        nothing = np.zeros(len(observation), np.float32)
        no, led_to = nothing > 0, None if group.eyes.led_to is None else observation
        look_at(self._rules, group, programs, network, nothing, Seen(observation, nothing, no, no, led_to), 0)

    # Frames, which checkpoints leave out

    def _without_frames(self, state: GroupState) -> GroupState:
        if not self._logs_frames:
            return state
        none: Any = None  # a leaf less, as far as a checkpoint is concerned
        return state._replace(replay=state.replay._replace(observation=none))

    def _flushed(self, state: HostedState) -> list[list[Segment]]:
        """Every group's frames on disk: the files that hold its replay."""
        logs = [group.log for group in state.groups if group.log is not None]
        if len(logs) < len(state.groups):
            raise RuntimeError("a state that was started without a folder cannot be saved: its frames were not kept")
        for log in logs:
            log.start_flush()
        capacity = self.population.replay.capacity_steps
        return [
            log.flush(int(group.state.agent_steps) - capacity) for log, group in zip(logs, state.groups, strict=True)
        ]

    def _with_frames(self, state: GroupState, folder: Path, number: int, segments: list[Segment]) -> GroupState:
        """A group with its frames as its replay keeps them, put together from their log piece by piece."""
        log, end_step, replay = _frames_folder(folder, number), int(state.agent_steps), self.population.replay
        shape = (replay.capacity_steps, len(state.episode_return), math.prod(self._spaces.observation_shape))
        pieces = (
            (position, steps.reshape(-1, *shape[1:]))
            for position, steps in frame_log.read(log, segments, end_step, shape[0])
        )
        if self._frames is not None:
            state = self._at_host(state)
            for position, steps in pieces:
                self._frames.store(int(state.replay.observation), position, steps)
            return state
        ring = jnp.zeros(shape, jnp.uint8)
        for position, steps in pieces:
            ring = self._put(ring, steps, position)
        return state._replace(replay=state.replay._replace(observation=ring))


def _frames_folder(folder: Path, group: int) -> Path:
    return folder / FRAMES / str(group)


def _segments(meta: dict[str, Any]) -> list[list[Segment]]:
    return [[Segment(*one) for one in group] for group in meta["frames"]]


def _tidy(folder: Path, *newer: dict[str, Any]) -> None:
    """Delete the frames that no checkpoint needs, neither one on disk nor one that is about to be."""
    metas = [*checkpoint.metas(folder / checkpoint.FOLDER), *newer]
    if metas:  # without any, better keep a file too many
        frame_log.tidy(folder / FRAMES, map(_segments, metas))


def _common(names: Sequence[str], spaces: Sequence[Spaces]) -> Spaces:
    """One set of spaces for all games: the same observations, the most actions."""
    first = spaces[0]
    for name, other in zip(names, spaces, strict=True):
        if other._replace(num_actions=0) != first._replace(num_actions=0):
            raise UserError(f"{names[0]} and {name} cannot share a population: their observations differ")
    return first._replace(num_actions=max(s.num_actions for s in spaces))


def _default_groups(agents: int) -> int:
    """Not a matter of the machine: a checkpoint's arrays are by group. On 16 cores and an H200, two groups of 8 agents
    did 10 000 steps/s and four of 4 9200, but four of 8 13 400 and two of 16 12 000; eight of 12 16 100, six of 16
    15 400. Without networks, 16 of 16 did 0.82 of what the emulators could and eight of 32 0.77."""
    from_agents = {16: 256, 8: 96, 6: 72, 4: 32, 2: 4}
    return next((count for count, least in from_agents.items() if agents >= least and agents % count == 0), 1)
