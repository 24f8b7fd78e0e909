"""The engine for environments on the host: they step in worker processes while the device acts and learns.

A cycle is `steps_per_update` steps of every agent and one update of each. The update that follows a cycle is made
while the environments already play the next action, which was chosen just before it: acting never waits for learning.
A population is split into groups, each with its own replay and place in its cycle
(`lookrep.training.host.scheduler`): one group's environments play while another's networks act or learn. Nothing an
agent sees depends on how it is scheduled: its environment is a function of its seed and its actions, its random
numbers of (seed, agent, counter).

A checkpoint's arrays are those of the whole population, so any number of groups can go on from it. Frames make a
replay of several GB an agent, so checkpoints leave them out: they go into a log as they come
(`lookrep.runs.frame_log`), and a resume puts the replay together from it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep.agents import AgentState, Parts
from lookrep.config import RunConfig
from lookrep.envs.host import EnvPool, EnvPoolState, check, common_spec
from lookrep.envs.host.atari import AtariRules
from lookrep.envs.host.pool import processes_for
from lookrep.errors import UserError
from lookrep.replay import priorities
from lookrep.replay.frames import HostFrames
from lookrep.runs import checkpoint, frame_log, names
from lookrep.runs.array_bytes import Joined
from lookrep.runs.frame_log import FrameLog, Segment
from lookrep.training import memory
from lookrep.training.host.group import GroupRunner
from lookrep.training.host.partition import slices
from lookrep.training.host.programs import GroupFunctions, Snapshot, compiler
from lookrep.training.host.scheduler import serve
from lookrep.training.host.stopwatch import Stopwatch
from lookrep.training.population import Population, agent_key

FRAMES = "replay"  # the folder, inside a run's, of the frames that its checkpoints leave out


@dataclass(frozen=True)
class HostState:
    """A run under way."""

    groups: list[GroupRunner]
    pool: EnvPool
    log: FrameLog | None
    folder: Path | None  # the run's
    refilled_at: int = 0  # the step at which it went on without the frames of its replay, which were damaged


class HostEngine:
    """Advances a population whose environments are on the host."""

    can_pause = True
    moved: Callable[[int], None]  # never called: the loop pauses

    def __init__(self, config: RunConfig, parts: Parts | None = None) -> None:
        if config.devices != 1:
            raise UserError(f"devices = {config.devices}: environments on the host train on one device")
        self.config, self.watch = config, Stopwatch()
        self.spec = common_spec(config.games)
        per_game = config.agents // len(config.games)
        self._names = [name for name in config.games for _ in range(per_game)]
        actions = np.array([check(name).num_actions for name in self._names], np.int32)
        self._legal = actions if len(set(actions.tolist())) > 1 else None
        self._slices = slices(config)
        # A stack's frames are worth a log of their own; anything else is small.
        self._logs_frames = self.spec.frame_stack > 1 and self.spec.observation_dtype == np.uint8
        size = config.agents // len(self._slices)
        population = partial(Population, config, self.spec, size, self.spec.frame_stack, parts)
        self._functions = GroupFunctions(population(), self.spec)
        self._frames: HostFrames | None = None
        whole = self._shapes(slice(None))
        frames = self.spec.observation_dtype if self._logs_frames else None
        if memory.place(config, whole, self._functions.population.agent, frames=frames) == "host":
            self._frames = HostFrames()
            self._functions = GroupFunctions(population(frames_from=self._frames.gather), self.spec)
        self.population, self.agent = self._functions.population, self._functions.agent
        # Where each array of a checkpoint counts agents; -1: nowhere.
        axes = jax.tree.map(lambda x: 0 if x.ndim else -1, whole)._replace(replay=self.population.replay.agent_axes())
        self._axes, self._whole = self._without_frames(axes), self._without_frames(whole)
        # A CUDA graph is made for certain memory: groups that shared one would rewrite it in every call.
        compiled, count = compiler(self._functions, self._shapes(self._slices[0]).learner), len(self._slices)
        own = jax.default_backend() == "gpu"
        self._programs = [compiled() for _ in range(count)] if own else count * [compiled()]
        self._new = jax.jit(self._functions.new)
        self._put = jax.jit(lax.dynamic_update_slice, donate_argnums=0)

    # What the host loop calls

    def init(self) -> HostState:
        """Everything at step 0, for a run that leaves nothing on disk."""
        return self._started(self._fresh(), None, None)

    def shapes(self) -> Snapshot:
        """What a checkpoint's arrays look like."""
        return self._whole

    def saved(self, state: HostState, folder: Path) -> tuple[Snapshot, dict[str, Any]]:
        """What a checkpoint must hold: arrays, where the environments stand, and which files have the frames."""
        meta: dict[str, Any] = {"environments": state.pool.state().to_json()}
        if self._logs_frames:
            if state.log is None:
                raise RuntimeError("a run that was started without a folder cannot be saved: its frames were not kept")
            meta["frames"] = state.log.flush(state.groups[0].steps - self.population.replay.capacity_steps)
            meta |= {"refilled_at": state.refilled_at} if state.refilled_at else {}
            _tidy(folder, meta)
        each = [self._without_frames(group.snapshot()) for group in state.groups]
        whole: Snapshot = jax.tree.map(
            lambda axis, *arrays: arrays[0] if axis < 0 else Joined(arrays, axis), self._axes, *each
        )
        return whole, meta

    def place(self, tree: Snapshot | None, meta: dict[str, Any], folder: Path) -> HostState:
        """A restored state where it is computed on, with its environments played to where they were; or a new one.

        With `refilled_at` in `meta`, the replay was emptied at that step: it is filled again before it is learned from.
        """
        if tree is None:
            return self._started(self._fresh(), None, folder)
        segments, steps = _segments(meta) if self._logs_frames else [], int(tree.agent_steps)
        refilled_at = meta.get("refilled_at", 0)
        if refilled_at == steps and steps:
            tree = _emptied(tree)
        # The frames first: where they are damaged, nothing else has been started yet.
        rings = self._rings_from(folder / FRAMES, segments, steps, refilled_at) if self._logs_frames else []
        groups = [self._part(tree, agents) for agents in self._slices]
        if self._logs_frames:
            groups = [_with_frames(group, ring) for group, ring in zip(groups, rings, strict=True)]
        return self._started(groups, EnvPoolState.from_json(meta["environments"]), folder, segments, refilled_at)

    def joined(self, states: Sequence[HostState]) -> HostState:
        """Here every run has a program of its own."""
        (state,) = states
        return state

    def part(self, state: HostState, i: int) -> HostState:
        """The state of the only run."""
        del i
        return state

    def agents(self, state: HostState) -> AgentState:
        """All agents' networks and optimisers, with an axis of agents."""
        each = [jax.device_get(group.snapshot().agents) for group in state.groups]
        whole: AgentState = jax.tree.map(lambda *x: np.concatenate(x), *each)
        return whole

    def advance(self, state: HostState, until_steps: int) -> HostState:
        """Train until every agent has taken `until_steps` steps. The state passed in is consumed."""
        serve(state.groups, state.pool, self.watch, until_steps)
        return state

    def measure(self, state: HostState) -> tuple[HostState, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state with its tally cleared."""
        rows = [group.measure() for group in state.groups]
        return state, {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    def close(self, state: HostState) -> None:
        state.pool.close()
        for group in state.groups:
            group.close()
        if state.log is not None and state.folder is not None:
            state.log.close()
            _tidy(state.folder)

    # The start

    def _beginning(self, agents: slice) -> tuple[jax.Array, jax.Array | None]:
        numbers = jnp.asarray(self.config.numbers[agents], jnp.uint32)
        keys = jax.vmap(partial(agent_key, self.config.seed))(numbers)
        return keys, None if self._legal is None else jnp.asarray(self._legal[agents])

    def _shapes(self, agents: slice) -> Snapshot:
        return jax.eval_shape(self._functions.new, *self._beginning(agents))

    def _part(self, whole: Snapshot, agents: slice) -> Snapshot:
        """A group's part of a checkpoint."""

        def part(axis: int, array: Any) -> jax.Array:
            return jnp.asarray(array if axis < 0 else array[(slice(None),) * axis + (agents,)])

        group: Snapshot = jax.tree.map(part, self._axes, whole)
        return group

    def _fresh(self) -> list[Snapshot]:
        groups = [self._new(*self._beginning(agents)) for agents in self._slices]
        if self._frames is None:
            return groups
        return [_with_frames(group, self._new_ring(s)) for group, s in zip(groups, self._slices, strict=True)]

    def _started(
        self,
        snapshots: list[Snapshot],
        resume: EnvPoolState | None,
        folder: Path | None,
        segments: Sequence[Segment] = (),
        refilled_at: int = 0,
    ) -> HostState:
        config, log = self.config, None
        pool = EnvPool(
            self._names,
            config.numbers,
            config.seed,
            groups=self._slices,
            processes=processes_for(config.env, config.workers),
            resume=resume,
            rules=AtariRules(**vars(config.settings.atari)),
        )
        if folder is not None and self._logs_frames and config.checkpoint_interval_steps:
            log = FrameLog(folder / FRAMES, int(snapshots[0].agent_steps), segments)
        groups = [
            GroupRunner(
                number=i,
                agents=agents,
                config=config,
                spec=self.spec,
                schedule=self.agent.schedule,
                programs=self._programs[i],
                snapshot=snapshots[i],
                pool=pool,
                watch=self.watch,
                frames=self._frames,
                log=log,
                filled_from=refilled_at,
            )
            for i, agents in enumerate(self._slices)
        ]
        if resume is None:
            for group in groups:
                group.begin()
        return HostState(groups, pool, log, folder, refilled_at)

    # Frames, which checkpoints leave out

    def _without_frames(self, snapshot: Snapshot) -> Snapshot:
        return _with_frames(snapshot, None) if self._logs_frames else snapshot

    def _new_ring(self, agents: slice) -> jax.Array:
        """A group's frames as its replay keeps them: itself, or the number by which the host knows them."""
        cells = math.prod(self.spec.observation_shape)
        shape = self.population.replay.capacity_steps, agents.stop - agents.start, cells
        return jnp.zeros(shape, jnp.uint8) if self._frames is None else jnp.int32(self._frames.make(*shape))

    def _rings_from(self, folder: Path, segments: Sequence[Segment], end_step: int, begin_step: int) -> list[jax.Array]:
        """Every group's frames, put together from their log piece by piece, whatever groups wrote it."""
        rings, capacity = [self._new_ring(agents) for agents in self._slices], self.population.replay.capacity_steps
        pieces = frame_log.read(folder, segments, end_step, capacity, self.config.agents, begin_step)
        for position, first, frames in pieces:
            for i, agents in enumerate(self._slices):
                begin, end = max(first, agents.start), min(first + frames.shape[1], agents.stop)
                if begin >= end:
                    continue
                part, at = frames[:, begin - first : end - first], begin - agents.start
                if self._frames is None:
                    rings[i] = self._put(rings[i], part, (position, at, 0))
                else:
                    self._frames.store(int(rings[i]), position, part, at)
        return rings


def _with_frames(snapshot: Snapshot, ring: Any) -> Snapshot:
    return snapshot._replace(replay=snapshot.replay._replace(observation=ring))


def _emptied(tree: Snapshot) -> Snapshot:
    """Without what its replay holds; new items begin with the largest priority so far."""
    replay = tree.replay
    if replay.priorities is not None:
        none = priorities.init(*replay.reward.shape)
        replay = replay._replace(priorities=none._replace(largest=replay.priorities.largest))
    return tree._replace(replay=replay._replace(filled_steps=0 * replay.filled_steps))


def _segments(meta: dict[str, Any]) -> list[Segment]:
    return [Segment(*one) for one in meta["frames"]]


def _tidy(folder: Path, *newer: dict[str, Any]) -> None:
    """Delete the frames that no checkpoint needs, neither one on disk nor one that is about to be."""
    metas = [*checkpoint.metas(folder / names.CHECKPOINTS), *newer]
    if metas:  # without any, better keep a file too many
        frame_log.tidy(folder / FRAMES, (segment for meta in metas for segment in _segments(meta)))
