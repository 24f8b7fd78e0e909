"""What the environments wrote arrives on the device: pinned buffers, step packets, the observation buffer."""

import gc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.envs.host import EnvSpec, VectorStep
from lookrep.training.host.buffers import ObservationBuffer, packet_row, pinned_buffer, write_packet

FRAMES = EnvSpec((2, 3), np.dtype(np.uint8), 4, frame_stack=3, can_truncate=True)
FLOATS = EnvSpec((2,), np.dtype(np.float32), 4, frame_stack=1, can_truncate=True)
ENDLESS = EnvSpec((2,), np.dtype(np.uint8), 4, frame_stack=1, can_truncate=False)


@pytest.mark.parametrize("shape", [(8,), (3, 84 * 84 + 8)])
def test_a_compiled_function_sees_what_was_written_last(shape: tuple[int, ...]) -> None:
    buffer = pinned_buffer(shape)
    total = jax.jit(lambda seen: seen.astype(jnp.int32).sum())
    assert (buffer.array.shape, buffer.array.dtype) == (shape, jnp.uint8)
    assert int(total(buffer.array)) == 0
    random = np.random.default_rng(0)
    for _ in range(3):
        buffer.view[:] = random.integers(256, size=shape)
        assert int(total(buffer.array)) == buffer.view.sum(dtype=int)


def test_pinned_buffers_have_memory_of_their_own_for_as_long_as_they_live() -> None:
    first, second = pinned_buffer((64,)), pinned_buffer((64,))
    first.view[:] = 7
    del second
    gc.collect()
    third = pinned_buffer((64,))
    assert (np.asarray(first.array) == 7).all()
    assert not np.asarray(third.array).any()


def step(spec: EnvSpec, value: int, ended: tuple[bool, bool] = (False, False)) -> VectorStep:
    """Two agents see `value`, and `value` + 100; the second one's episode may have ended, with 200 + `value`."""

    def seen(first: int, second: int) -> np.ndarray:
        values = np.array([first, second]).reshape(-1, *[1] * len(spec.observation_shape))
        return np.broadcast_to(values, (2, *spec.observation_shape)).astype(spec.observation_dtype)

    terminated, truncated = (np.array([False, end]) for end in ended)
    final = seen(0, 200 + value) if spec.keeps_final else None
    reward = np.array([value / 8, -value], np.float32)
    return VectorStep(seen(value, value + 100), reward, terminated, truncated, final, goes_on=np.zeros(2, bool))


def played(spec: EnvSpec, steps: list[VectorStep], cycle_steps: int = 2) -> ObservationBuffer:
    """The buffer after these steps. In each both agents take the action that is its number."""
    stack = (spec.frame_stack,) if spec.frame_stack > 1 else ()
    first = jnp.zeros((2, *stack, *spec.observation_shape), spec.observation_dtype)
    buffer, packet = ObservationBuffer.begin(first, spec, cycle_steps), np.zeros(2, packet_row(spec))
    push = jax.jit(lambda buffer, packet: buffer.pushed(packet, spec))
    for number, one in enumerate(steps):
        write_packet(packet, np.full(2, number), one)
        buffer = push(buffer, packet.copy().view(np.uint8).reshape(2, -1))
    return buffer


def test_stacks_begin_with_zeros_in_every_episode() -> None:
    buffer = played(FRAMES, [step(FRAMES, 1), step(FRAMES, 2), step(FRAMES, 3, (True, False)), step(FRAMES, 4)])
    assert buffer.observation.shape == (2, 3, 2, 3)
    assert buffer.observation[:, :, 0, 0].tolist() == [[2, 3, 4], [0, 103, 104]]
    assert buffer.next_observations is None


@pytest.mark.parametrize("spec", [FRAMES, FLOATS, ENDLESS], ids=["frames", "floats", "endless"])
def test_a_cycle_of_steps_has_what_was_seen_done_and_earned(spec: EnvSpec) -> None:
    buffer = played(spec, [step(spec, 1), step(spec, 2, (True, False)), step(spec, 3, (False, spec.can_truncate))])
    steps = buffer.steps()
    assert steps.observation.dtype == spec.observation_dtype
    assert steps.observation.reshape(2, 2, -1)[:, :, 0].tolist() == [[1, 101], [2, 102]]
    assert steps.action.tolist() == [[1, 1], [2, 2]]
    assert steps.reward.tolist() == [[2 / 8, -2], [3 / 8, -3]]
    assert steps.terminated.tolist() == [[False, True], [False, False]]
    assert steps.truncated.tolist() == [[False, False], [False, spec.can_truncate]]


def test_where_an_action_led_is_the_last_observation_of_its_episode() -> None:
    steps = played(FLOATS, [step(FLOATS, 1), step(FLOATS, 2, (True, False)), step(FLOATS, 3, (False, True))]).steps()
    assert steps.next_observation is not None
    assert steps.next_observation[:, :, 0].tolist() == [[2, 202], [3, 203]]
