"""Schedules against a loop that counts: with whole numbers, and with arrays under `jit`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep import targets

SCHEDULES = {
    "every update": targets.Schedule(every=1),
    "every 7": targets.as_schedule(7),
    "never": targets.as_schedule(None),
    "listed": targets.Schedule(times=(1, 4, 5)),
    "listed, then every 3": targets.Schedule(times=(2, 9), every=3),
    "growing": targets.growing(3, 1.5, 20),
    "the last 3 of 10": targets.Schedule(every=10, last=3),
    "all 4 of 4": targets.Schedule(every=4, last=4),
}
LAST = 80


def counted(schedule):
    """The turns up to `LAST`, one update at a time."""
    turns, since = [], 0
    for n in range(1, LAST + 1):
        since += 1
        late = not schedule.times or n > schedule.times[-1]
        if n in schedule.times or (late and schedule.every and since > schedule.every - schedule.last):
            turns.append(n)
            since = 0 if n in schedule.times or since == schedule.every else since
        elif not late:
            since = 0
    return turns


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES.keys())
def test_a_schedule_is_what_counting_gives(schedule):
    turns = counted(schedule)
    ns = range(LAST + 1)
    by = [sum(turn <= n for turn in turns) for n in ns]
    assert [n for n in ns if schedule.due(n)] == turns
    assert [schedule.turns_by(n) for n in ns] == by
    assert all(isinstance(schedule.turns_by(n), int) and isinstance(schedule.due(n), bool) for n in ns)
    for before in ns[: turns[-1] if turns else LAST]:
        assert schedule.next_after(before) == next((turn for turn in turns if turn > before), None)
    crossed_traced = jax.jit(lambda n, new: schedule.crossed(n - new, n))
    for new in (1, 2, 5, 30):
        crossed = [any(n - new < turn <= n for turn in turns) for n in ns]
        assert [schedule.crossed(n - new, n) for n in ns] == crossed
        assert crossed_traced(jnp.arange(LAST + 1), new).tolist() == crossed
    assert jax.jit(schedule.turns_by)(jnp.arange(LAST + 1)).tolist() == by
    assert jax.jit(jax.vmap(schedule.due))(jnp.arange(LAST + 1)).tolist() == [n in turns for n in ns]


def test_a_growing_schedule_grows_to_its_longest_period_and_stays_there():
    turns = [n for n in range(1_000) if targets.growing(10, 1.5, 100).due(n)]
    assert np.diff([0, *turns]).tolist()[:8] == [10, 15, 22, 34, 51, 76, 100, 100]
    assert set(np.diff(turns)[6:].tolist()) == {100}
    assert targets.growing(50, 2.0, 50).period == 50  # nothing to grow


def test_a_schedule_serves_as_every_updates_and_has_a_period_only_if_it_is_one():
    schedule = targets.growing(2, 2.0, 8)
    rule = targets.hard(schedule)
    state = rule.init(jnp.zeros(1))
    follow = jax.jit(rule.update)
    turned = []
    for n in range(1, 25):
        state, before = follow(state, jnp.ones(1), n), state
        turned += [n] if int(state.updates) > int(before.updates) else []
    assert turned == [2, 6, 14, 22]
    assert (schedule.period, targets.as_schedule(5).period, targets.as_schedule(None).period) == (None, 5, None)
    assert hash(schedule) == hash(targets.growing(2, 2.0, 8))
