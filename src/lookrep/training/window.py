"""Memory of the host that compiled functions read as if it were the device's: written by numpy, never copied.

To hand a numpy array to a compiled function costs 100–200 µs a call on a GPU, most of an action's time. Here the host
writes into pinned memory, which a GPU can read over the bus, and JAX is shown that memory as an array of the device's.
Such an array changes behind JAX's back: whoever writes must know that nothing which reads it is still running.
"""

import ctypes
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

CPU, CUDA = 1, 2  # DLPack's device types
UNSIGNED = 1  # DLPack's type code


class Window(NamedTuple):
    array: jax.Array  # uint8, what a compiled function gets
    view: np.ndarray  # the same memory, to write into
    memory: jax.Array  # its owner


def open_window(shape: tuple[int, ...]) -> Window:
    """A window of bytes, zeros at first."""
    device = jax.devices()[0]
    pinned = SingleDeviceSharding(device, memory_kind="pinned_host")
    memory = jax.block_until_ready(jax.device_put(np.zeros(shape, np.uint8), pinned))
    address = memory.unsafe_buffer_pointer()
    view = np.frombuffer((ctypes.c_uint8 * memory.size).from_address(address), np.uint8).reshape(shape)
    kind = CUDA if device.platform == "gpu" else CPU
    return Window(jax.dlpack.from_dlpack(_Bytes(address, shape, (kind, device.id))), view, memory)


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("number", ctypes.c_int))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """DLPack's DLManagedTensor, version 0."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("device", _Device),
        ("dimensions", ctypes.c_int),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset_bytes", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


# The memory has an owner already, so there is nothing to delete. JAX insists on a function all the same, and calls it
# from any thread, even when Python is on its way out: one of C's that looks at its argument and does nothing.
_KEEP = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p)
_described: list[Any] = []  # JAX reads a description for as long as its array lives, which nothing tells us


class _Bytes:
    """Somebody's memory, as DLPack wants to be told about it. It stays theirs."""

    def __init__(self, address: int, shape: tuple[int, ...], device: tuple[int, int]) -> None:
        self._device = device
        sizes = (ctypes.c_int64 * len(shape))(*shape)
        self._tensor = _Tensor(
            address, _Device(*device), len(shape), _Type(UNSIGNED, 8, 1), sizes, None, 0, None, _KEEP
        )
        _described.append((self._tensor, sizes))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._tensor), b"dltensor", None)
