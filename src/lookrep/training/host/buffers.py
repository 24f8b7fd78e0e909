"""How a step's results get from the environments to the networks: step packet, pinned buffer, observation buffer.

The host writes what every agent of a group saw and earned into one step packet: each array that travels to a GPU costs.
The packet lies in pinned memory, which compiled functions read by themselves. On the device it is taken apart and
pushed into the observation buffer, from where the networks act and the replay takes a whole cycle of steps.
"""

import ctypes
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import SingleDeviceSharding

from lookrep.envs.host import EnvSpec, VectorStep
from lookrep.replay import Steps

OUTCOME = ("action", "reward", "terminated", "truncated", "goes_on")


class PinnedBuffer(NamedTuple):
    """Memory that the host writes and compiled functions read. It changes behind JAX's back: whoever writes must know
    that nothing which reads it is still running."""

    array: Any  # uint8: what a compiled function gets
    view: np.ndarray  # the same memory, to write into; in use as long as `array` is


def pinned_buffer(shape: tuple[int, ...]) -> PinnedBuffer:
    """Bytes, zeros at first.

    To hand a numpy array to a compiled function costs 100 to 200 µs a call on a GPU. A GPU can read the host's pinned
    memory over the bus, so JAX is shown that memory as an array on the device, by DLPack: 329 µs for a whole step's
    call, where a pinned array that the program copies takes 372 and a numpy array 505.
    """
    device = jax.devices()[0]
    if device.platform not in ("cpu", "gpu"):
        view = np.zeros(shape, np.uint8)
        return PinnedBuffer(view, view)
    pinned = SingleDeviceSharding(device, memory_kind="pinned_host")
    memory = jax.block_until_ready(jax.device_put(np.zeros(shape, np.uint8), pinned))
    view = np.ctypeslib.as_array((ctypes.c_uint8 * memory.size).from_address(memory.unsafe_buffer_pointer()))
    return PinnedBuffer(jax.dlpack.from_dlpack(_AsOnDevice(memory)), view.reshape(shape))


class _AsOnDevice:
    """A pinned array that says it is in the device's memory. JAX believes `__dlpack_device__`, not the capsule."""

    def __init__(self, memory: jax.Array) -> None:
        self._memory = memory

    def __dlpack_device__(self) -> tuple[Any, int]:
        on_device = jax.device_put(np.uint8(0), jax.devices()[0])
        return on_device.__dlpack_device__()

    def __dlpack__(self, **_: Any) -> Any:
        return self._memory.__dlpack__()


# Step packets


def packet_row(spec: EnvSpec) -> np.dtype:
    """What a step packet says of one agent. Where its action led is there if the replay has a use for it."""
    seen = (spec.observation_dtype, spec.observation_shape)
    led_to = [("next_observation", *seen)] if spec.keeps_final else []
    flags = [(name, np.uint8) for name in ("action", "terminated", "truncated", "goes_on")]
    return np.dtype([("observation", *seen), *led_to, *flags, ("reward", np.float32)])


def write_packet(packet: np.ndarray, action: np.ndarray, step: VectorStep) -> None:
    """Fill rows [n] with what these actions led to."""
    packet["observation"] = step.observation
    if step.final_observation is not None:
        led_to, ended = packet["next_observation"], step.over
        led_to[:] = step.observation
        led_to[ended] = step.final_observation[ended]
    packet["action"], packet["reward"] = action, step.reward
    packet["terminated"], packet["truncated"], packet["goes_on"] = step.terminated, step.truncated, step.goes_on


def read_packet(packet: jax.Array, spec: EnvSpec) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    """On the device, of uint8 [n, bytes]: observation, outcome (action, reward, terminated, truncated, goes_on as
    float32 [n, 5]), and where the action led."""
    fields: Any = packet_row(spec).fields

    def field(name: str) -> jax.Array:
        dtype, offset = fields[name]
        data = packet[:, offset : offset + dtype.itemsize]
        if dtype.base.itemsize > 1:
            data = lax.bitcast_convert_type(data.reshape(len(data), -1, dtype.base.itemsize), dtype.base)
        return data.reshape(-1, *dtype.shape)

    columns = [field(name).astype(jnp.float32) for name in OUTCOME]
    led_to = field("next_observation") if "next_observation" in fields else None
    return field("observation"), jnp.stack(columns, axis=1), led_to


class ObservationBuffer(NamedTuple):
    """What a group's agents see now, and what they saw and did in the cycle under way, newest last."""

    observation: jax.Array  # [n, stack, …] or [n, …]
    frames: jax.Array  # [steps + 1, n, …]: of the cycle's steps, and the one after
    outcomes: jax.Array  # float32 [steps, n, 5]: `OUTCOME`
    next_observations: jax.Array | None  # [steps, n, …]: never a reset's; None where the replay has no use for them

    @staticmethod
    def begin(observation: jax.Array, spec: EnvSpec, steps: int) -> "ObservationBuffer":
        """At the beginning of a cycle, which needs nothing of the one before."""
        frame = observation[:, -1] if spec.frame_stack > 1 else observation
        frames = jnp.broadcast_to(frame, (steps + 1, *frame.shape))
        outcomes = jnp.zeros((steps, len(frame), len(OUTCOME)), jnp.float32)
        return ObservationBuffer(observation, frames, outcomes, frames[1:] if spec.keeps_final else None)

    def pushed(self, packet: jax.Array, spec: EnvSpec) -> "ObservationBuffer":
        """After one more step."""
        frame, outcome, led_to = read_packet(packet, spec)
        observation, next_observations = frame, self.next_observations
        if spec.frame_stack > 1:  # behind the frames before it, or behind zeros where an episode begins
            ended = outcome[:, 2:4].any(axis=-1).reshape(-1, *[1] * (self.observation.ndim - 1))
            observation = jnp.concatenate([jnp.where(ended, 0, self.observation[:, 1:]), frame[:, None]], axis=1)
        if next_observations is not None and led_to is not None:
            next_observations = _pushed(next_observations, led_to)
        return ObservationBuffer(
            observation, _pushed(self.frames, frame), _pushed(self.outcomes, outcome), next_observations
        )

    def steps(self) -> Steps:
        """The cycle, for the replay."""
        action, reward, terminated, truncated, _ = jnp.moveaxis(self.outcomes, -1, 0)
        return Steps(self.frames[:-1], action, reward, terminated > 0, truncated > 0, self.next_observations)

    def over(self) -> jax.Array:
        """Whose episode is over after each step, and not just a life: bool [steps, n]."""
        _, _, terminated, truncated, goes_on = jnp.moveaxis(self.outcomes, -1, 0)
        return jnp.maximum(terminated, truncated) > goes_on


def _pushed(recent: jax.Array, newest: jax.Array) -> jax.Array:
    return jnp.concatenate([recent[1:], newest[None].astype(recent.dtype)])
