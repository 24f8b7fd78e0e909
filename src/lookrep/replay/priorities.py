"""Sampling in proportion to priorities: a two-level sum per agent, for a population at once.

What lives here: the priorities of ring positions, the sum of every block of them, and the search that turns a
draw into a position. What does not: which positions may be sampled, and what is stored there (replay.py).

A binary sum tree costs a small kernel per level and, updated in increments, drifts. Here a block is about √n
priorities and its sum is always computed anew from the block, so sums are as right after 10⁶ updates as after one.

Precision (float32). A draw is looked up in four short sums of about n^¼ terms, never in one long running sum, so a
boundary between two positions is off by a rounding or two of the total. A draw is kept as (start of its
stratum, distance from there): what lies before it is subtracted from the start alone, and the distance keeps
the resolution of a B-th of the mass, so a small item among 10⁶ is not lost between neighbouring float32 numbers.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Priorities(NamedTuple):
    """Non-negative priorities of ring positions; agents on axis 1 (`largest`: axis 0).

    A block holds `k²` positions, and there are a multiple of `k` blocks, `k` about the fourth root of the capacity.
    """

    values: jax.Array  # float32 [blocks, N, k²]; position = block · k² + slot, zero beyond the capacity
    sums: jax.Array  # float32 [blocks, N], each the sum of its block
    largest: jax.Array  # float32 [N], the largest priority ever written; 1 at first


AGENT_AXES = Priorities._make((1, 1, 0))  # where each counts agents


def init(capacity: int, agents: int) -> Priorities:
    """All priorities 0.

    >>> [a.shape for a in init(capacity=100_000, agents=2)]
    [(324, 2, 324), (324, 2), (2,)]
    """
    radix = math.ceil(capacity**0.25)
    blocks = radix * math.ceil(capacity / radix**3)
    return Priorities(
        values=jnp.zeros((blocks, agents, radix**2), jnp.float32),
        sums=jnp.zeros((blocks, agents), jnp.float32),
        largest=jnp.ones((agents,), jnp.float32),
    )


def write(priorities: Priorities, position: jax.Array, value: jax.Array, keep: jax.Array) -> Priorities:
    """Set priorities; all arrays are [N, K]. Where `keep` is False nothing is written.

    Where a position occurs twice in a row of kept entries, the last one counts (Dopamine sets them one by one).
    """
    blocks, agents, size = priorities.values.shape
    agent = jnp.arange(agents)[:, None]
    order = jnp.arange(position.shape[1])
    again_later = (position[:, :, None] == position[:, None, :]) & (order > order[:, None]) & keep[:, None, :]
    keep = keep & ~again_later.any(-1)
    block, slot = lax.div(position, size), lax.rem(position, size)  # not // and %: positions are never negative
    # What is not kept is sent to (distinct) blocks that do not exist and dropped there: no order of writing matters.
    values = priorities.values.at[jnp.where(keep, block, blocks + order), agent, slot].set(
        value, mode="drop", unique_indices=True
    )
    # Two entries of one block write the same sum of the same row.
    sums = priorities.sums.at[block, agent].set(values[block, agent].sum(-1), mode="promise_in_bounds")
    return Priorities(values, sums, priorities.largest)


def find(priorities: Priorities, draws: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stratified sampling: the b-th of B draws in [0, 1) is a place in the b-th of B equal parts of the mass.

    Takes [N, B] draws, returns positions and their priorities, both [N, B]. A position of priority 0 is found only
    where all are 0; where a priority is infinite or not a number, any position within the blocks may be.
    """
    blocks, agents, size = priorities.values.shape
    radix = math.isqrt(size)
    agent = jnp.arange(agents)[:, None]

    sums = priorities.sums.reshape(-1, radix, agents)
    groups = sums.sum(1).T[:, None, :]
    stratum = groups.sum(-1) / draws.shape[1]
    start, distance = stratum * jnp.arange(draws.shape[1]), stratum * draws

    group, start = _pick(groups, start, distance)
    column, start = _pick(sums[group, :, agent], start, distance)
    block = group * radix + column
    rows = priorities.values.reshape(blocks, agents, radix, radix)
    row, start = _pick(rows[block, agent].sum(-1), start, distance)
    masses = rows[block, agent, row]
    column, _ = _pick(masses, start, distance)
    priority = jnp.take_along_axis(masses, column[..., None], axis=-1)[..., 0]
    return block * size + row * radix + column, priority


def _pick(masses: jax.Array, start: jax.Array, distance: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The interval, among consecutive ones as long as `masses` (last axis), that holds the place `start + distance`;
    and `start` as seen from that interval.

    Compared with all intervals at once: a few kernels, where a looping search takes many. Taking the last interval
    of positive length that begins at or before the place cannot end in an empty one, however sums were rounded.
    """
    begins = jnp.where(jnp.tri(masses.shape[-1], k=-1, dtype=bool), masses[..., None, :], 0.0).sum(-1)
    place = jnp.maximum(start + distance, 0.0)
    reached = (begins <= place[..., None]) & (masses > 0)
    pick = jnp.where(reached, jnp.arange(masses.shape[-1]), 0).max(-1)
    return pick, start - jnp.where(reached, begins, 0.0).max(-1)
