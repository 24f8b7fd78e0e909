"""Two-level sums: draws land where float64 arithmetic says, never on nothing, and sums stay right for ever."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from lookrep.replay import priorities as prio

find, write = jax.jit(prio.find), jax.jit(prio.write)
ALMOST_ONE = 1.0 - 2.0**-24  # the largest draw there is


def filled(values: np.ndarray) -> prio.Priorities:
    """[N, capacity] priorities, written position by position through `write`."""
    agents, capacity = values.shape
    position = jnp.broadcast_to(jnp.arange(capacity), values.shape)
    keep = jnp.ones(values.shape, bool)
    return write(prio.init(capacity, agents), position, jnp.asarray(values, jnp.float32), keep)


def by_position(priorities: prio.Priorities) -> np.ndarray:
    """[N, at least capacity] stored priorities."""
    return np.moveaxis(np.asarray(priorities.values), 1, 0).reshape(priorities.values.shape[1], -1)


def large(values: np.ndarray) -> prio.Priorities:
    """As `filled`, for capacities where pairwise comparison of all positions is too much."""
    agents, capacity = values.shape
    empty = prio.init(capacity, agents)
    blocks, _, size = empty.values.shape
    padded = np.pad(values.astype(np.float32), ((0, 0), (0, blocks * size - capacity)))
    stored = jnp.asarray(np.moveaxis(padded.reshape(agents, blocks, size), 0, 1))
    return empty._replace(values=stored, sums=stored.sum(-1))


@pytest.mark.parametrize("capacity", [2, 17, 1000, 100_000])
def test_every_position_has_its_own_slot(capacity):
    values = np.random.default_rng(0).uniform(0.5, 2.0, (1, min(capacity, 1000)))
    where = np.random.default_rng(1).permutation(capacity)[: values.shape[1]]
    state = write(
        prio.init(capacity, 1), jnp.asarray(where)[None], jnp.asarray(values, jnp.float32), jnp.ones(values.shape, bool)
    )
    expected = np.zeros(capacity, np.float32)
    expected[where] = values[0]
    np.testing.assert_array_equal(by_position(state)[0, :capacity], expected)
    np.testing.assert_allclose(np.asarray(state.sums).sum(), expected.sum(dtype=np.float64), rtol=1e-6)


def test_the_b_th_draw_falls_into_the_b_th_stratum():
    state = filled(np.ones((1, 64)))
    draws = np.random.default_rng(0).uniform(0, ALMOST_ONE, (1, 8)).astype(np.float32)
    position, _ = find(state, jnp.asarray(draws))
    np.testing.assert_array_equal(position[0], [8 * b + int(8 * u) for b, u in enumerate(draws[0])])


def test_unequal_priorities_worked_by_hand():
    """Masses 1, 2, 0, 5 end at 1, 3, 3, 8; four strata of 2 with draws at their halves: places 1, 3, 5, 7."""
    position, priority = find(filled(np.array([[1.0, 2.0, 0.0, 5.0]])), jnp.full((1, 4), 0.5))
    np.testing.assert_array_equal(position, [[1, 3, 3, 3]])
    np.testing.assert_array_equal(priority, [[2.0, 5.0, 5.0, 5.0]])


@pytest.mark.parametrize(("capacity", "batch"), [(1_000, 32), (100_000, 32), (1_000_000, 32), (100_000, 1)])
def test_draws_land_where_float64_says_up_to_a_few_roundings(capacity, batch):
    rng = np.random.default_rng(capacity)
    values = rng.lognormal(0.0, 1.5, (1, capacity)).astype(np.float32)
    state, ends = large(values), np.cumsum(values[0], dtype=np.float64)
    total, worst = ends[-1], 0.0
    for _ in range(2048 // batch):
        draws = rng.integers(0, 2**24, (1, batch)) * 2.0**-24
        position = np.asarray(find(state, jnp.asarray(draws, jnp.float32))[0][0])
        place = (np.arange(batch) + draws[0]) * total / batch
        begin, end = ends[position] - values[0][position], ends[position]
        worst = max(worst, float((np.maximum(begin - place, place - end) / total).max()))
    assert worst < 8 * 2.0**-24  # about 1 is measured


def test_frequencies_are_proportional_to_priorities():
    """Independent draws (one stratum) and stratified ones, 2¹⁸ of each, over five orders of magnitude."""
    rng = np.random.default_rng(3)
    values = np.where(rng.uniform(size=(1, 300)) < 0.2, 0.0, 10.0 ** rng.uniform(-3, 2, (1, 300)))
    state = filled(values)
    expected = values[0] / values.sum() * 2**18
    likely = expected > 5
    for batch in (1, 32):
        draws = rng.integers(0, 2**24, (2**18 // batch, 1, batch)) * 2.0**-24
        position = jax.jit(jax.vmap(lambda u: prio.find(state, u)[0]))(jnp.asarray(draws, jnp.float32))
        counts = np.bincount(np.asarray(position).ravel(), minlength=300)
        assert counts[values[0] == 0].sum() == 0
        observed = np.append(counts[likely], counts[~likely].sum())
        ideal = np.append(expected[likely], expected[~likely].sum())
        statistic = ((observed - ideal) ** 2 / ideal).sum()
        assert statistic < stats.chi2.isf(1e-3, likely.sum())
        if batch == 1:  # and the noise is there: stratified draws have less
            assert statistic > stats.chi2.isf(1 - 1e-3, likely.sum())


def test_zero_priority_is_never_found_whatever_the_rounding():
    rng = np.random.default_rng(4)
    draws = np.concatenate([np.zeros(64), np.full(64, ALMOST_ONE), rng.uniform(0, ALMOST_ONE, 384)])
    draws = jnp.asarray(rng.permuted(np.tile(draws, (8, 1)), axis=1), jnp.float32)
    for share in (0.001, 0.01, 0.5):
        values = 10.0 ** rng.uniform(-12, 12, (8, 2_000)) * (rng.uniform(size=(8, 2_000)) < share)
        values[:, rng.integers(2_000)] = 1e-5
        state = large(values)
        position, priority = (np.asarray(a) for a in find(state, draws))
        assert (priority > 0).all()
        np.testing.assert_array_equal(priority, np.take_along_axis(by_position(state), position, axis=1))


def test_sums_do_not_drift_in_a_million_updates():
    """Values from 10⁻⁵ to 10⁵ come and go; a sum updated by differences would be left with the large ones' rounding."""

    def update(i, state):
        draw = (jnp.uint32(i) * jnp.uint32(2654435761)) >> jnp.array([[3, 11]], jnp.uint32)
        value = 10.0 ** (jnp.float32(draw % 1009) / 100.8 - 5.0)
        return prio.write(state, (draw % 60).astype(jnp.int32), value, jnp.ones((1, 2), bool))

    state = jax.jit(lambda s: jax.lax.fori_loop(0, 1_000_000, update, s))(prio.init(60, 1))
    values = np.asarray(state.values, np.float64)
    assert (by_position(state)[0, :60] > 0).all()
    np.testing.assert_allclose(state.sums, values.sum(-1), rtol=4 * 2.0**-24)


def test_of_equal_positions_the_last_kept_one_counts():
    position = jnp.array([[5, 2, 5, 5, 2]])
    value = jnp.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    state = write(prio.init(16, 1), position, value, jnp.array([[True, True, True, False, True]]))
    np.testing.assert_array_equal(by_position(state)[0, [2, 5]], [5.0, 3.0])
    assert float(state.sums.sum()) == 8.0


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_broken_agent_stays_in_range_and_leaves_the_others_alone(broken):
    values = np.random.default_rng(5).uniform(0.1, 1.0, (3, 500))
    draws = jnp.asarray(np.random.default_rng(6).uniform(0, ALMOST_ONE, (3, 64)), jnp.float32)
    healthy, _ = find(large(values), draws)
    values[1, 77] = broken
    state = large(values)
    position, _ = find(state, draws)
    np.testing.assert_array_equal(position[0], healthy[0])
    np.testing.assert_array_equal(position[2], healthy[2])
    assert ((position >= 0) & (position < state.values[:, 0].size)).all()
