"""Replay: every item against a slow reference, sampling against its law, and no buffer is ever copied."""

import math
import re
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lookrep.errors import UserError
from lookrep.replay import Batch, Replay, ReplayState, Steps

GAMMA = 0.9
add = jax.jit(Replay.add, static_argnums=0)
sample = jax.jit(Replay.sample, static_argnums=(0, 3, 4))  # (replay, state, keys, batch_size, prioritised)
set_priorities = jax.jit(Replay.set_priorities, static_argnums=0)


def history(length: int, agents: int, can_truncate: bool, seed: int = 0) -> Steps:
    """Random episodes. An observation is (agent, step), so every item tells where it came from; the one an action
    led to is negative, so it cannot be taken for a stored observation of the next step."""
    rng = np.random.default_rng(seed)
    ends = rng.uniform(size=(length, agents)) < 0.25
    cut = rng.uniform(size=(length, agents)) < 0.5 if can_truncate else np.zeros((length, agents), bool)
    agent, step = np.meshgrid(np.arange(agents), np.arange(length))
    seen = np.stack([agent, step], axis=-1).astype(np.float32)
    return Steps(
        observation=seen,
        action=rng.integers(0, 256, (length, agents)),
        reward=rng.normal(size=(length, agents)).astype(np.float32),
        terminated=ends & ~cut,
        truncated=ends & cut,
        next_observation=-1.0 - seen if can_truncate else None,
    )


def some(steps: Steps, start: int, length: int) -> Steps:
    return jax.tree.map(lambda a: jnp.asarray(a[start : start + length]), steps)


def reference_item(steps: Steps, t: int, agent: int, n: int, can_truncate: bool):
    """One item from the whole history, as the definition says: (return, discount, bootstrap observation)."""
    total, discount = 0.0, 1.0
    for k in range(t, t + n):
        total += discount * float(steps.reward[k, agent])
        discount *= GAMMA
        if steps.terminated[k, agent]:
            return total, 0.0, None
        if steps.truncated[k, agent] or k == t + n - 1:
            where = steps.next_observation[k, agent] if can_truncate else steps.observation[k + 1, agent]
            return total, discount, where
    raise AssertionError


def fill(replay: Replay, steps: Steps, per_add: int) -> ReplayState:
    state = replay.init()
    for start in range(0, len(steps.reward), per_add):
        state = add(replay, state, some(steps, start, per_add))
    return state


def keys(agents: int, seed: int = 0) -> jax.Array:
    return jax.random.split(jax.random.key(seed), agents)


def stored_priorities(state: ReplayState) -> np.ndarray:
    """[N, at least capacity]."""
    values = np.moveaxis(np.asarray(state.priorities.values), 1, 0)
    return values.reshape(len(values), -1)


@pytest.mark.parametrize("can_truncate", [False, True])
@pytest.mark.parametrize("n_steps", [1, 2, 3, 4, 5])
def test_every_item_agrees_with_a_slow_reference(n_steps, can_truncate):
    """After every write, from the first to the fourth time round, for 1 and 4 steps a write."""
    agents, capacity = 2, 24
    replay = Replay((2,), jnp.float32, agents, capacity, n_steps, GAMMA, can_truncate)
    steps = history(4 * capacity, agents, can_truncate, seed=n_steps)
    for per_add in (1, 4):
        state = replay.init()
        for written in range(per_add, 4 * capacity + 1, per_add):
            state = add(replay, state, some(steps, written - per_add, per_add))
            items = range(max(0, written - capacity), written - n_steps)
            assert int(replay.sampleable(state)) == len(items)
            if not items:
                continue
            batch: Batch = jax.tree.map(np.asarray, sample(replay, state, keys(agents, seed=written), 400))
            for agent in range(agents):
                found = batch.observation[agent, :, 1].astype(int)
                assert set(found) == set(items)
                for t, b in dict(zip(found, range(400), strict=True)).items():
                    total, discount, bootstrap = reference_item(steps, t, agent, n_steps, can_truncate)
                    assert batch.observation[agent, b, 0] == agent
                    assert batch.position[agent, b] == t % capacity
                    assert batch.action[agent, b] == steps.action[t, agent]
                    assert math.isclose(batch.reward[agent, b], total, rel_tol=1e-5, abs_tol=1e-5)
                    assert math.isclose(batch.discount[agent, b], discount, rel_tol=1e-6)
                    if bootstrap is not None:
                        np.testing.assert_array_equal(batch.next_observation[agent, b], bootstrap)
    assert (batch.action.dtype, batch.position.dtype) == (np.int32, np.int32)
    assert {batch.reward.dtype, batch.discount.dtype, batch.weight.dtype} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(batch.weight, 1.0)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((10, 10, 4), bool), ((3, 5), bool), ((), bool), ((7, 1, 3), np.uint8), ((), np.float32), ((2, 3), np.float32)],
)
def test_observations_come_back_as_they_were(shape, dtype):
    rng = np.random.default_rng(1)
    seen = rng.integers(0, 2 if dtype is bool else 256, (8, 2, *shape)).astype(dtype)
    replay = Replay(shape, dtype, agents=2, capacity_steps=16, can_truncate=True)
    zeros, no = np.zeros((8, 2)), np.zeros((8, 2), bool)
    state = add(replay, replay.init(), Steps(seen, zeros, zeros, no, no, seen[::-1]))
    batch = jax.tree.map(np.asarray, sample(replay, state, keys(2), 64))
    assert batch.observation.shape == batch.next_observation.shape == (2, 64, *shape)
    assert batch.observation.dtype == batch.next_observation.dtype == dtype
    for agent in range(2):
        np.testing.assert_array_equal(batch.observation[agent], seen[batch.position[agent], agent])
        np.testing.assert_array_equal(batch.next_observation[agent], seen[::-1][batch.position[agent], agent])


def test_a_bit_observation_takes_a_bit():
    state = jax.eval_shape(Replay((10, 10, 4), bool, agents=3, capacity_steps=100).init)
    assert (state.observation.shape, state.observation.dtype) == ((100, 3, 50), np.uint8)
    assert sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(state)) == 100 * 3 * (50 + 1 + 4 + 1) + 8


def test_uniform_sampling_is_uniform():
    replay = Replay((2,), jnp.float32, agents=2, capacity_steps=64, n_steps=3)
    state = fill(replay, history(80, 2, False), per_add=4)  # the cursor is at 16: items 16 … 63 and 0 … 12
    position = np.asarray(sample(replay, state, keys(2), 100_000).position)
    for agent in range(2):
        counts = np.bincount(position[agent], minlength=64)
        assert counts[13:16].sum() == 0
        assert stats.chisquare(np.delete(counts, [13, 14, 15])).pvalue > 1e-3
    assert (position[0] != position[1]).mean() > 0.9


def test_prioritised_sampling_follows_the_priorities_and_weighs_against_them():
    replay = Replay((2,), jnp.float32, agents=1, capacity_steps=64, n_steps=3, prioritised=True)
    state = fill(replay, history(80, 1, False), per_add=4)
    items = jnp.asarray(np.r_[16:64, 0:13])[None]
    given = np.random.default_rng(2).lognormal(size=(1, 61)).astype(np.float32)
    state = set_priorities(replay, state, items, given)
    batches = jax.jit(jax.vmap(lambda s, k: replay.sample(s, k[None], 32), (None, 0)))(state, keys(1024, seed=1))
    counts = np.bincount(np.asarray(batches.position).ravel(), minlength=64)[items[0]]
    assert counts.sum() == 1024 * 32
    # Stratified counts scatter less than independent ones: the upper tail of the chi-square law bounds theirs.
    assert stats.chisquare(counts, given[0] / given.sum(dtype=np.float64) * counts.sum()).pvalue > 1e-3
    uniform = sample(replay, state, keys(1), 100_000, False)
    assert stats.chisquare(np.bincount(uniform.position[0], minlength=64)[items[0]]).pvalue > 1e-3
    np.testing.assert_array_equal(uniform.weight, 1.0)

    sampled = given[0][np.argsort(items[0])][np.searchsorted(np.sort(items[0]), batches.position[:, 0])]
    expected = 1 / np.sqrt(sampled.astype(np.float64) + 1e-10)
    np.testing.assert_allclose(batches.weight[:, 0], expected / expected.max(axis=1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("n_steps", "per_add"), [(1, 1), (3, 1), (3, 4), (5, 4)])
def test_exactly_the_sampleable_items_have_a_priority_and_new_ones_the_largest_so_far(n_steps, per_add):
    agents, capacity = 2, 24
    replay = Replay((2,), jnp.float32, agents, capacity, n_steps, prioritised=True)
    steps, rng = history(4 * capacity, agents, False), np.random.default_rng(0)
    state = replay.init()
    expected, largest = np.zeros((agents, capacity), np.float32), np.ones(agents, np.float32)
    for written in range(per_add, 4 * capacity + 1, per_add):
        state = add(replay, state, some(steps, written - per_add, per_add))
        for t in range(written - per_add, written):
            expected[:, t % capacity] = 0.0
            if t >= n_steps:
                expected[:, (t - n_steps) % capacity] = largest
        for t in range(written - n_steps, written):
            expected[:, t % capacity] = 0.0
        np.testing.assert_array_equal(stored_priorities(state)[:, :capacity], expected)
        if written > n_steps:
            items = np.arange(max(0, written - capacity), written - n_steps)
            position = np.stack([rng.choice(items) for _ in range(agents)])[:, None] % capacity
            value = rng.uniform(0, 1 + written / 10, (agents, 1)).astype(np.float32)
            state = set_priorities(replay, state, jnp.asarray(position, jnp.int32), jnp.asarray(value))
            np.put_along_axis(expected, position, value, axis=1)
            largest = np.maximum(largest, value[:, 0])
    assert largest.min() > 1


def test_a_late_priority_for_an_item_that_is_gone_is_not_written():
    replay = Replay((2,), jnp.float32, agents=1, capacity_steps=8, prioritised=True)
    steps = history(16, 1, False)
    state = fill(replay, some(steps, 0, 12), per_add=4)  # the cursor is at 4; position 3 has no successor yet
    before = stored_priorities(state)
    state = set_priorities(replay, state, jnp.array([[3, 2]]), jnp.array([[9.0, 5.0]]))
    after = stored_priorities(state)
    assert after[0, 2] == 5.0
    np.testing.assert_array_equal(np.delete(after, 2, axis=1), np.delete(before, 2, axis=1))


def test_without_priorities_setting_them_does_nothing():
    replay = Replay((2,), jnp.float32, agents=1, capacity_steps=8)
    state = replay.init()
    assert replay.set_priorities(state, jnp.zeros((1, 2), jnp.int32), jnp.ones((1, 2))) is state


@partial(jax.jit, static_argnums=0)
def learn(replay: Replay, steps: Steps, agent_keys: jax.Array) -> tuple[ReplayState, tuple[Batch, Batch]]:
    """Add, sample both ways, write priorities made from the data, and again."""

    def cycle(state, now):
        step, key = now
        state = replay.add(state, step)
        batch = replay.sample(state, key, 8)
        state = replay.set_priorities(state, batch.position, jnp.abs(batch.reward) + 0.1)
        return state, (batch, replay.sample(state, key, 8, prioritised=False))

    chunks = jax.tree.map(lambda a: a.reshape(-1, 4, *a.shape[1:]), steps)
    return jax.lax.scan(cycle, replay.init(), (chunks, agent_keys))


def test_agent_i_of_a_population_is_agent_i_alone():
    agents, length = 3, 80
    steps = history(length, agents, True)
    agent_keys = keys(length // 4 * agents).reshape(-1, agents)
    together = Replay((2,), jnp.float32, agents, 32, n_steps=3, can_truncate=True, prioritised=True)
    alone = replace(together, agents=1)
    state, batches = learn(together, steps, agent_keys)
    for i in range(agents):
        own_state, own_batches = learn(alone, jax.tree.map(lambda a: a[:, i : i + 1], steps), agent_keys[:, i : i + 1])
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[:, i : i + 1], b), batches, own_batches)

        def same(population: jax.Array, own: jax.Array, axis: int) -> None:
            np.testing.assert_array_equal(population if axis < 0 else np.take(population, [i], axis), own)

        jax.tree.map(same, state, own_state, together.agent_axes())


def test_raw_keys_and_typed_keys_draw_the_same():
    replay = Replay((2,), jnp.float32, agents=2, capacity_steps=32)
    state = fill(replay, history(32, 2, False), per_add=4)
    typed, raw = (sample(replay, state, k, 16).position for k in (keys(2), jax.random.key_data(keys(2))))
    np.testing.assert_array_equal(typed, raw)


def test_an_agent_with_broken_priorities_gets_real_items_and_leaves_the_others_alone():
    replay = Replay((2,), jnp.float32, agents=3, capacity_steps=32, n_steps=3, prioritised=True)
    state = fill(replay, history(40, 3, False), per_add=4)  # positions 5, 6, 7 are not sampleable
    one_in_four = jnp.asarray(np.where(np.arange(32) % 4 == 0, 2.0, 1.0))
    broken = jnp.stack([one_in_four, one_in_four.at[9].set(jnp.nan), jnp.zeros(32)])

    def draw(priorities: jax.Array) -> Batch:
        everywhere = jnp.tile(jnp.arange(32), (3, 1))
        return sample(replay, set_priorities(replay, state, everywhere, priorities), keys(3), 256)

    batch, healthy = draw(broken), draw(jnp.tile(one_in_four, (3, 1)))
    for field, other in zip(batch, healthy, strict=True):
        np.testing.assert_array_equal(field[0], other[0])
    assert not np.isin(batch.position, [5, 6, 7]).any()
    assert ((batch.position >= 0) & (batch.position < 32)).all()
    assert len(np.unique(batch.position[2])) > 20  # nothing has a priority: uniform


def test_no_buffer_is_copied_inside_a_scan():
    """With the state donated, the compiled loop neither copies nor transposes anything of a buffer's size."""
    agents, capacity = 3, 20_000
    replay = Replay((10, 10, 4), bool, agents, capacity, 3, can_truncate=True, prioritised=True)
    smallest = capacity * agents  # elements of the smallest buffer; a batch of observations has fewer

    def cycle(state, key):
        seen = jnp.broadcast_to(key[0] % 2 == 0, (4, agents, 10, 10, 4))
        no = jnp.zeros((4, agents), bool)
        state = replay.add(state, Steps(seen, no, no, no, no, seen))
        batch = replay.sample(state, jax.random.split(key, agents), 8)
        return replay.set_priorities(state, batch.position, batch.reward + 1), batch.observation.any()

    run = jax.jit(lambda s, k: jax.lax.scan(cycle, s, k), donate_argnums=0)
    state = jax.eval_shape(replay.init)
    compiled = run.lower(state, jax.ShapeDtypeStruct((10, 2), jnp.uint32)).compile()
    moved = re.findall(r"= \w+\[([\d,]+)\]\S* (?:copy|transpose)\(", compiled.as_text())
    assert moved  # small ones there are, so the pattern still reads this compiler's text
    assert max(math.prod(map(int, dims.split(","))) for dims in moved) < smallest
    memory = compiled.memory_analysis()
    assert memory.alias_size_in_bytes >= sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(state))
    assert memory.temp_size_in_bytes < 4 * smallest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": 0}, "agents must be at least 1, got 0"),
        ({"n_steps": 0}, "n_steps must be at least 1, got 0"),
        ({"discount": 1.5}, "discount must lie between 0 and 1, got 1.5"),
        ({"discount": float("nan")}, "discount must lie between 0 and 1, got nan"),
        ({"capacity_steps": 3, "n_steps": 3}, "capacity_steps must be at least n_steps . frame_stack = 4 .*, got 3"),
        ({"observation_shape": (4, 0)}, r"observation_shape \(4, 0\) has a dimension below 1"),
        ({"observation_dtype": "U3"}, "observation_dtype <U3 is neither bool nor a number type"),
    ],
)
def test_a_wrong_setting_is_one_line(change, message):
    good = {"observation_shape": (2,), "observation_dtype": np.uint8, "agents": 1, "capacity_steps": 8}
    with pytest.raises(UserError, match=message) as raised:
        Replay(**(good | change))
    assert "\n" not in str(raised.value)


def test_steps_that_do_not_fit_are_refused():
    steps = history(12, 1, False)
    with pytest.raises(UserError, match="capacity_steps = 30 must be a multiple of the 4 steps added at a time"):
        fill(Replay((2,), jnp.float32, 1, 30), steps, per_add=4)
    with pytest.raises(UserError, match="at least 9: n_steps = 5"):
        fill(Replay((2,), jnp.float32, 1, 8, n_steps=5), steps, per_add=4)
    with pytest.raises(UserError, match="next_observation is missing"):
        fill(Replay((2,), jnp.float32, 1, 16, can_truncate=True), steps, per_add=4)
    replay = Replay((2,), jnp.float32, 1, 16)
    with pytest.raises(UserError, match="prioritised=True"):
        replay.sample(replay.init(), keys(1), 4, prioritised=True)


# ---- frames, stacked on sampling

STACK = 4


def frames_of(steps: Steps) -> Steps:
    """The same episodes, with frames of bytes that are never all zero: (agent + 1, step + 1)."""
    return steps._replace(observation=(steps.observation + 1).astype(np.uint8), next_observation=None)


def reference_stack(steps: Steps, t: int, agent: int) -> np.ndarray:
    """What the agent saw at step t: the newest frames of its episode, and zeros for those before its first."""
    stack, ended = np.zeros((STACK, 2), np.uint8), steps.terminated | steps.truncated
    for back in range(STACK):
        if t - back < 0 or (back and ended[t - back, agent]):
            break
        stack[STACK - 1 - back] = steps.observation[t - back, agent]
    return stack


def reference_stacked_item(steps: Steps, t: int, agent: int, n: int):
    """(return, discount, bootstrap step or None, whether it counts). Where a truncated step led nobody knows: the
    window ends before it."""
    total = 0.0
    for k in range(n):
        if steps.truncated[t + k, agent]:
            return total, GAMMA**k, t + k, k > 0
        total += GAMMA**k * float(steps.reward[t + k, agent])
        if steps.terminated[t + k, agent]:
            return total, 0.0, None, True
    return total, GAMMA**n, t + n, True


@pytest.mark.parametrize("prioritised", [False, True])
@pytest.mark.parametrize("n_steps", [1, 3])
def test_every_stacked_item_agrees_with_a_slow_reference(n_steps, prioritised):
    """After every write, until the ring has been written three times over: no stack crosses an episode, no window a
    truncation, and no item is drawn of which a frame is overwritten or not yet there."""
    agents, capacity = 2, 24
    replay = Replay((2,), np.uint8, agents, capacity, n_steps, GAMMA, True, prioritised, frame_stack=STACK)
    steps = frames_of(history(3 * capacity, agents, can_truncate=True, seed=n_steps))
    assert steps.terminated.sum() > 10
    assert steps.truncated.sum() > 10
    for per_add in (1, 4):
        state = replay.init()
        assert state.next_observation is None
        for written in range(per_add, 3 * capacity + 1, per_add):
            state = add(replay, state, some(steps, written - per_add, per_add))
            oldest = max(0, written - capacity + STACK - 1)
            items = range(oldest, written - n_steps)
            assert int(replay.sampleable(state)) == len(items)
            if not items:
                continue
            batch: Batch = jax.tree.map(np.asarray, sample(replay, state, keys(agents, seed=written), 400))
            for agent in range(agents):
                found = batch.observation[agent, :, -1, 1].astype(int) - 1
                assert set(found) == set(items)
                for t, b in dict(zip(found, range(400), strict=True)).items():
                    total, discount, bootstrap, counts = reference_stacked_item(steps, t, agent, n_steps)
                    np.testing.assert_array_equal(batch.observation[agent, b], reference_stack(steps, t, agent))
                    assert batch.position[agent, b] == t % capacity
                    assert batch.action[agent, b] == steps.action[t, agent]
                    assert batch.weight[agent, b] == float(counts)
                    assert math.isclose(batch.reward[agent, b], total, rel_tol=1e-5, abs_tol=1e-5)
                    assert math.isclose(batch.discount[agent, b], discount, rel_tol=1e-6)
                    if bootstrap is not None:
                        expected = reference_stack(steps, bootstrap, agent)
                        np.testing.assert_array_equal(batch.next_observation[agent, b], expected)


@pytest.mark.parametrize("per_add", [1, 4])
def test_with_a_stack_exactly_the_sampleable_items_have_a_priority(per_add):
    capacity, n_steps = 24, 3
    replay = Replay((2,), np.uint8, 1, capacity, n_steps, prioritised=True, frame_stack=STACK)
    steps, state = frames_of(history(3 * capacity, 1, False)), replay.init()
    for written in range(per_add, 3 * capacity + 1, per_add):
        state = add(replay, state, some(steps, written - per_add, per_add))
        oldest = max(0, written - capacity + STACK - 1)
        positions = np.flatnonzero(stored_priorities(state)[0])
        assert set(positions) == {t % capacity for t in range(oldest, written - n_steps)}


def as_dopamine_stores_it(length: int, n: int) -> list[tuple[list[int], int, list[int], bool]]:
    """An episode of `length` steps, terminated by the last, as Dopamine's TransitionAccumulator (2024) stores it:
    (frames of the stack, steps whose rewards are summed, frames of the next stack, terminal).

    It keeps the last n + STACK steps. Each new one completes the item that starts n steps before; at the end they are
    dropped one by one from the left, and after each drop the rest is stored again, while there are two.
    """

    def item(kept: list[int]) -> tuple[list[int], list[int], list[int], bool]:
        start = len(kept) - 1 - min(n, len(kept) - 1)

        def stack(newest: int) -> list[int]:
            return ([-1] * STACK + kept[: newest + 1])[-STACK:]

        return stack(start), kept[start : start + n], stack(len(kept) - 1), kept[-1] == length - 1

    stored, kept = [], []
    for step in range(length):
        kept = [*kept, step][-(n + STACK) :]
        if step < length - 1 and len(kept) > n:
            stored.append(item(kept))
    while len(kept) > 1:
        stored.append(item(kept))
        kept = kept[1:]
    return stored


def test_dopamine_stores_the_ends_of_episodes_wrongly():
    """google/dopamine#228: of eight steps, the last of them terminal, at n = 1. Four stored items claim to be the end,
    three with frames blanked that the agent did see; the reward of the last step is in none."""
    stored = as_dopamine_stores_it(length=8, n=1)
    assert len(stored) == 10
    assert [(stack, steps) for stack, steps, _, terminal in stored if terminal] == [
        ([3, 4, 5, 6], [6]),
        ([-1, 4, 5, 6], [6]),
        ([-1, -1, 5, 6], [6]),
        ([-1, -1, -1, 6], [6]),
    ]
    assert not any(7 in steps for _, steps, _, _ in stored)
    # At n = 3 the item three steps before the end loses its bootstrap value and the last reward, too.
    assert ([1, 2, 3, 4], [4, 5, 6], [4, 5, 6, 7], True) in as_dopamine_stores_it(length=8, n=3)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_ours_stores_them_right(n_steps):
    """The same episode, then another: each step starts one item, whole, that reaches to the end or n steps far."""
    length, following = 8, n_steps
    rewards = np.arange(length + following, dtype=np.float32)[:, None]
    ends = (np.arange(length + following) == length - 1)[:, None]
    steps = Steps(
        observation=np.arange(1, 1 + length + following, dtype=np.uint8)[:, None, None],
        action=np.zeros_like(rewards), reward=rewards, terminated=ends, truncated=np.zeros_like(ends),
    )  # fmt: skip
    replay = Replay((1,), np.uint8, 1, 32, n_steps, 1.0, can_truncate=True, frame_stack=STACK)
    batch = jax.tree.map(np.asarray, sample(replay, fill(replay, steps, per_add=1), keys(1), 400))
    for t in range(length):
        (rows,) = np.nonzero(batch.observation[0, :, -1, 0] == t + 1)
        assert len(rows)
        stack = np.maximum(np.arange(t - STACK + 1, t + 1) + 1, 0)
        summed = range(t, min(t + n_steps, length))
        assert (batch.observation[0, rows, :, 0] == stack).all()
        assert (batch.reward[0, rows] == sum(summed)).all()
        assert (batch.discount[0, rows] == (0.0 if length - 1 in summed else 1.0)).all()
