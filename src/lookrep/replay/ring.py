"""Replay memory on the device: what N agents saw, and batches of n-step transitions from it.

What lives here: the ring buffers `[capacity, N, …]`, n-step returns with right episode ends, uniform and
prioritised sampling with Dopamine's semantics. What does not: the priorities' sums (priorities.py), losses, and
when to learn. All functions are pure; donate the state and it is updated in place, also inside `lax.scan`.

The agents step in lock-step, so they share one write cursor. Entry t holds what was seen at step t, the action taken
there, and its outcome. Item t, the transition that starts there, can be sampled from when entry t + n is written
until entry t is overwritten.

With `frame_stack` an entry holds a single frame, and the stack that the agent saw is put together on sampling: frames
of the same episode, zeros before its first. An item then lives until a frame of its stack is overwritten. Frames may be
kept elsewhere (`frames_from`): then everything but them is here.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep.errors import UserError
from lookrep.replay import priorities as prio

TERMINATED, TRUNCATED = 1, 2  # bits of an entry's flags

# A function on the host: (`ReplayState.observation`, steps [N, …]) → frames [N, …, cells]
FramesFrom = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Steps(NamedTuple):
    """T consecutive steps of all N agents, oldest first: every array is [T, N, …]."""

    observation: jax.Array  # what the agent saw when it chose the action
    action: jax.Array  # 0 to 255
    reward: jax.Array
    terminated: jax.Array  # bool: this step ended the episode, there is no future
    truncated: jax.Array  # bool: this step was the episode's last, its future still has a value
    next_observation: jax.Array | None = None  # where the action led, never a reset; needed with `can_truncate`


class Batch(NamedTuple):
    """B transitions for each of N agents: every array is [N, B, …]."""

    observation: jax.Array  # observation_dtype; with frame_stack [N, B, stack, …], the newest frame last
    action: jax.Array  # int32
    reward: jax.Array  # float32: Σ_{k<m} γ^k r_{t+k}, m = n or fewer where the episode ends
    discount: jax.Array  # float32: γ^m, 0 after termination; what the bootstrap value is multiplied by
    next_observation: jax.Array  # where to bootstrap; arbitrary where discount is 0
    position: jax.Array  # int32: where in the ring the item starts, for `set_priorities`
    weight: jax.Array  # float32: importance weights, the largest of each agent's batch is 1


class ReplayState(NamedTuple):
    """The memory. `cursor` and `filled_steps` are shared; all else has its agents where `agent_axes` says."""

    observation: jax.Array  # [capacity, N, cells], bool as bits; with `frames_from` a number that it knows them by
    action: jax.Array  # uint8 [capacity, N]
    reward: jax.Array  # float32 [capacity, N]
    flags: jax.Array  # uint8 [capacity, N]
    next_observation: jax.Array | None  # as observation, only with `can_truncate` and without a stack
    priorities: prio.Priorities | None  # only with `prioritised`
    cursor: jax.Array  # int32: where the next entry goes
    filled_steps: jax.Array  # int32: entries written, at most the capacity


@dataclass(frozen=True)
class Replay:
    """What is fixed about a replay memory; its methods are pure functions of `ReplayState`.

    >>> replay = Replay((2,), jnp.float32, agents=1, capacity_steps=8, n_steps=2, discount=0.5)
    >>> t = jnp.arange(4.0)[:, None]
    >>> no = jnp.zeros((4, 1), bool)
    >>> steps = Steps(jnp.stack([t, -t], axis=-1), no, t, terminated=no, truncated=no)
    >>> state = replay.add(replay.init(), steps)
    >>> int(replay.sampleable(state))
    2
    >>> batch = replay.sample(state, jax.random.split(jax.random.key(0), 1), batch_size=1)
    >>> t = batch.observation[0, 0, 0]
    >>> bool(batch.reward[0, 0] == t + 0.5 * (t + 1)), float(batch.discount[0, 0])
    (True, 0.25)
    """

    observation_shape: tuple[int, ...]
    observation_dtype: Any
    agents: int
    capacity_steps: int
    n_steps: int = 1
    discount: float | np.ndarray = 0.99  # or one for each agent
    can_truncate: bool = False
    prioritised: bool = False
    frame_stack: int = 1
    frames_from: FramesFrom | None = None  # where frames are, if not here

    def __post_init__(self) -> None:
        object.__setattr__(self, "observation_shape", tuple(int(d) for d in self.observation_shape))
        object.__setattr__(self, "observation_dtype", np.dtype(self.observation_dtype))
        if any(d < 1 for d in self.observation_shape):
            raise UserError(f"observation_shape {self.observation_shape} has a dimension below 1")
        if not self._bits and not jnp.issubdtype(self.observation_dtype, jnp.number):
            raise UserError(f"observation_dtype {self.observation_dtype} is neither bool nor a number type")
        if self.agents < 1:
            raise UserError(f"agents must be at least 1, got {self.agents}")
        if self.frame_stack < 1:
            raise UserError(f"frame_stack must be at least 1, got {self.frame_stack}")
        if self.frames_from is not None and (self.frame_stack == 1 or self._bits):
            raise UserError("frames_from is for stacked frames, of a number type")
        if self.n_steps < 1:
            raise UserError(f"n_steps must be at least 1, got {self.n_steps}")
        if not np.all((np.asarray(self.discount) >= 0.0) & (np.asarray(self.discount) <= 1.0)):
            raise UserError(f"discount must lie between 0 and 1, got {self.discount}")
        if self.capacity_steps < self.n_steps + self.frame_stack:
            raise UserError(
                f"capacity_steps must be at least n_steps + frame_stack = {self.n_steps + self.frame_stack} for any "
                f"item to be complete, got {self.capacity_steps}"
            )

    def init(self) -> ReplayState:
        """An empty memory."""
        entries = (self.capacity_steps, self.agents)
        cells, dtype = math.prod(self.observation_shape), self.observation_dtype
        if self._bits:
            cells, dtype = -(-cells // 8), np.dtype(np.uint8)
        here = self.frames_from is None
        return ReplayState(
            observation=jnp.zeros((*entries, cells), dtype) if here else jnp.zeros((), jnp.int32),
            action=jnp.zeros(entries, jnp.uint8),
            reward=jnp.zeros(entries, jnp.float32),
            flags=jnp.zeros(entries, jnp.uint8),
            next_observation=jnp.zeros((*entries, cells), dtype) if self._keeps_next else None,
            priorities=prio.init(*entries) if self.prioritised else None,
            cursor=jnp.zeros((), jnp.int32),
            filled_steps=jnp.zeros((), jnp.int32),
        )

    def agent_axes(self) -> ReplayState:
        """The state's structure with the axis that counts agents in place of each array, -1 where none does."""
        shapes = jax.eval_shape(self.init)
        axes: Any = jax.tree.map(lambda _: 1, shapes)._replace(cursor=-1, filled_steps=-1)
        if self.frames_from is not None:
            axes = axes._replace(observation=-1)
        if shapes.priorities is not None:
            axes = axes._replace(priorities=prio.AGENT_AXES)
        found: ReplayState = axes
        return found

    def add(self, state: ReplayState, steps: Steps) -> ReplayState:
        """Append T steps of every agent. T must divide the capacity and be the same in every call."""
        length = steps.reward.shape[0]
        least = self.n_steps + length + self.frame_stack - 1
        if self.capacity_steps % length or self.capacity_steps < least:
            raise UserError(
                f"capacity_steps = {self.capacity_steps} must be a multiple of the {length} steps added at a time, "
                f"and at least {least}: n_steps = {self.n_steps}, those steps, and what else a stack looks back on"
            )
        if self._keeps_next and steps.next_observation is None:
            raise UserError("next_observation is missing: it must be given when can_truncate is True")

        def put(buffer: jax.Array, values: jax.Array) -> jax.Array:
            # A shared start and whole rows: this is what stays in place inside scan.
            return lax.dynamic_update_slice_in_dim(buffer, values.astype(buffer.dtype), state.cursor, axis=0)

        flags = TERMINATED * steps.terminated.astype(jnp.uint8)
        if self.can_truncate:
            flags = flags | TRUNCATED * steps.truncated.astype(jnp.uint8)
        next_observation = state.next_observation
        if next_observation is not None and steps.next_observation is not None:
            next_observation = put(next_observation, self._pack(steps.next_observation))
        return ReplayState(
            observation=put(state.observation, self._pack(steps.observation))
            if self.frames_from is None
            else state.observation,
            action=put(state.action, steps.action),
            reward=put(state.reward, steps.reward),
            flags=put(state.flags, flags),
            next_observation=next_observation,
            priorities=self._priorities_after_add(state, length),
            cursor=self._wrap(state.cursor + length),
            filled_steps=jnp.minimum(state.filled_steps + length, self.capacity_steps),
        )

    def sampleable(self, state: ReplayState) -> jax.Array:
        """How many items can be sampled now, from each agent's memory."""
        return jnp.maximum(self._whole(state) - self.n_steps, 0)

    def sample(self, state: ReplayState, keys: jax.Array, batch_size: int, prioritised: bool | None = None) -> Batch:
        """Draw `batch_size` items for each agent; agent i's depend on `keys[i]` and its own memory alone.

        `prioritised` is the memory's own setting unless given. Meaningless while nothing is sampleable.
        """
        prioritised = self.prioritised if prioritised is None else prioritised
        bits = jax.vmap(lambda key: jax.random.bits(key, (batch_size,), jnp.uint32))(keys)
        # The remainder favours some items by at most (items / 2³²): 0.02 % at a million.
        offset = lax.rem(bits, jnp.maximum(self.sampleable(state), 1).astype(jnp.uint32))
        position = self._wrap(self._oldest(state) + offset.astype(jnp.int32))
        weight = jnp.ones(position.shape, jnp.float32)
        if prioritised:
            if state.priorities is None:
                raise UserError("prioritised sampling needs a replay made with prioritised=True")
            found, priority = prio.find(state.priorities, (bits >> 8).astype(jnp.float32) * 2.0**-24)
            # An agent whose priorities are all 0, infinite or NaN samples uniformly: always a real item.
            position = jnp.where((priority > 0) & (priority < jnp.inf), found, position)
            weight = lax.rsqrt(priority + 1e-10)
            weight = weight / weight.max(axis=1, keepdims=True)
        return self._gather(state, position, weight)

    def set_priorities(self, state: ReplayState, position: jax.Array, priorities: jax.Array) -> ReplayState:
        """Write priorities (≥ 0) of sampled items, both [N, B]; items overwritten since are left alone."""
        if state.priorities is None:
            return state
        age_rank = self._wrap(position - self._oldest(state) + self.capacity_steps)
        written = prio.write(state.priorities, position, priorities, keep=age_rank < self.sampleable(state))
        largest = jnp.maximum(written.largest, priorities.max(axis=1))
        return state._replace(priorities=written._replace(largest=largest))

    @property
    def _bits(self) -> bool:
        return self.observation_dtype.kind == "b"

    @property
    def _keeps_next(self) -> bool:
        """Whether entries hold where their action led. Twice the memory: with frames, a shorter window does instead."""
        return self.can_truncate and self.frame_stack == 1

    def _whole(self, state: ReplayState) -> jax.Array:
        """Entries whose stack is whole: all, until the newest frames lie where the oldest entries look back to."""
        return jnp.minimum(state.filled_steps, self.capacity_steps - self.frame_stack + 1)

    def _wrap(self, position: jax.Array) -> jax.Array:
        """Into the ring, from at most one round ahead; cheaper than %."""
        return jnp.where(position < self.capacity_steps, position, position - self.capacity_steps)

    def _oldest(self, state: ReplayState) -> jax.Array:
        return self._wrap(state.cursor - self._whole(state) + self.capacity_steps)

    def _priorities_after_add(self, state: ReplayState, length: int) -> prio.Priorities | None:
        """Items become sampleable n steps behind the cursor, with the largest priority so far; what is ahead of them
        up to the new cursor is overwritten or not yet complete, what follows may miss a frame of its stack: 0."""
        if state.priorities is None:
            return None
        behind = jnp.arange(-self.n_steps, length + self.frame_stack - 1)
        complete = (behind < length - self.n_steps) & (state.filled_steps + behind >= 0)
        value = jnp.where(complete, state.priorities.largest[:, None], 0.0)
        position = state.cursor + behind  # from before the ring's first entry to beyond its last
        position = self._wrap(jnp.where(position < 0, position + self.capacity_steps, position))
        position = jnp.broadcast_to(position, value.shape)
        return prio.write(state.priorities, position, value, jnp.ones(value.shape, bool))

    def _gather(self, state: ReplayState, position: jax.Array, weight: jax.Array) -> Batch:
        """The items at `position` [N, B]. The loop over n is unrolled: elementwise, so it becomes one kernel."""
        # Indexing both leading axes at once; vmapping over agents would transpose the buffers.
        agent = jnp.arange(position.shape[0])[:, None]

        def take(buffer: jax.Array, at: jax.Array) -> jax.Array:
            return buffer.at[at, agent].get(mode="promise_in_bounds")

        by_agent = self.discount if isinstance(self.discount, float) else np.asarray(self.discount)[..., None]
        powers = [np.float32(by_agent**k) for k in range(self.n_steps + 1)]
        going = jnp.ones(position.shape, bool)  # no episode end before step k of the window
        reward = jnp.zeros(position.shape, jnp.float32)
        discount, last, bootstrap_at = reward, position, self._wrap(position + self.n_steps)
        for k in range(self.n_steps):
            at = self._wrap(position + k)
            flags = take(state.flags, at)
            # Where a truncated step led is not kept with stacked frames: the window ends just before that step, which
            # is exact. An item that starts there has no window left, and no weight.
            cut = (flags & TRUNCATED != 0) if self.frame_stack > 1 else jnp.zeros(position.shape, bool)
            reward = reward + jnp.where(going & ~cut, powers[k] * take(state.reward, at), 0.0)
            here = jnp.where(flags & TERMINATED, 0.0, powers[k + 1])
            discount = jnp.where(going, jnp.where(cut, powers[k], here), discount)
            bootstrap_at = jnp.where(going & cut, at, bootstrap_at)
            last = jnp.where(going, at, last)
            going = going & (flags == 0)
        if self.frame_stack > 1:
            weight = jnp.where(take(state.flags, position) & TRUNCATED, 0.0, weight)
        return Batch(
            observation=self._seen(state, position),
            action=take(state.action, position).astype(jnp.int32),
            reward=reward,
            discount=discount,
            next_observation=self._seen(state, bootstrap_at)
            if state.next_observation is None
            else self._unpack(take(state.next_observation, last)),
            position=position,
            weight=weight,
        )

    def _seen(self, state: ReplayState, position: jax.Array) -> jax.Array:
        """What the agents saw at `position` [N, B]: an observation, or a stack of frames within its episode."""
        agent = jnp.arange(position.shape[0])[:, None]
        if self.frame_stack == 1:
            return self._unpack(state.observation.at[position, agent].get(mode="promise_in_bounds"))
        back = jnp.arange(self.frame_stack - 1, -1, -1)
        at = self._wrap(position[..., None] - back + self.capacity_steps)
        if self.frames_from is None:
            frames = state.observation.at[at, agent[..., None]].get(mode="promise_in_bounds")
        else:
            shape = jax.ShapeDtypeStruct((*at.shape, math.prod(self.observation_shape)), self.observation_dtype)
            frames = jax.pure_callback(self.frames_from, shape, state.observation, at)
        ends = state.flags.at[at[..., :-1], agent[..., None]].get(mode="promise_in_bounds") != 0
        ended_since = jnp.flip(jnp.cumsum(jnp.flip(ends, -1), axis=-1), -1) > 0
        frames = jnp.where(jnp.pad(ended_since, ((0, 0), (0, 0), (0, 1)))[..., None], 0, frames)
        return frames.reshape(*position.shape, self.frame_stack, *self.observation_shape)

    def _pack(self, observation: jax.Array) -> jax.Array:
        """[T, N, …] to [T, N, cells]; eight bools to a byte."""
        flat = observation.reshape(*observation.shape[:2], -1)
        return jnp.packbits(flat, axis=-1) if self._bits else flat

    def _unpack(self, cells: jax.Array) -> jax.Array:
        if self._bits:
            cells = jnp.unpackbits(cells, axis=-1, count=math.prod(self.observation_shape)).astype(bool)
        return cells.reshape(*cells.shape[:2], *self.observation_shape)
