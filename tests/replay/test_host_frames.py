"""Frames in the host's memory: rings that are written a few steps at a time and read all over."""

import numpy as np
import pytest

from lookrep.replay.frames import ROWS_A_THREAD, THREADS, HostFrames


@pytest.mark.parametrize("batch", [1, 3, 3 * ROWS_A_THREAD * THREADS])
def test_every_agent_gets_its_own_frames_of_the_steps_asked_for(batch: int) -> None:
    random = np.random.default_rng(batch)
    everything = random.integers(256, size=(40, 3, 10), dtype=np.uint8)
    frames = HostFrames()
    number = frames.make(40, 3, 10)
    for step in range(0, 40, 4):
        frames.store(number, step, everything[step : step + 4])
    at = random.integers(40, size=(3, batch, 2))
    found = frames.gather(np.int32(number), at)
    assert found.shape == (3, batch, 2, 10)
    for agent in range(3):
        np.testing.assert_array_equal(found[agent], everything[at[agent], agent])


def test_some_of_the_agents_frames_can_be_stored() -> None:
    frames = HostFrames()
    number = frames.make(8, 3, 2)
    frames.store(number, 4, np.full((2, 2, 2), 9, np.uint8), first_agent=1)
    found = frames.gather(np.int32(number), np.tile(np.arange(8), (3, 1)))
    assert found.sum(axis=(1, 2)).tolist() == [0, 36, 36]
    assert np.flatnonzero(found.any(axis=(0, 2))).tolist() == [4, 5]


def test_rings_do_not_share_memory_and_can_be_given_back() -> None:
    frames = HostFrames()
    first, second = frames.make(8, 1, 2), frames.make(8, 1, 2)
    frames.store(first, 4, np.full((2, 1, 2), 9, np.uint8))
    at = np.arange(8)[None]
    assert frames.gather(np.int32(first), at).sum() == 36
    assert frames.gather(np.int32(second), at).sum() == 0
    frames.drop(first)
    with pytest.raises(KeyError):
        frames.gather(np.int32(first), at)
    assert frames.make(8, 1, 2) != first  # numbers are not used again: a compiled function may remember one
