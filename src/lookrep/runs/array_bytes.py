"""The bytes of arrays, a slice at a time: what a checkpoint writes, and where it reads them back to."""

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

SLICE_BYTES = 32 << 20  # what passes through host memory at a time; a replay leaf may be tens of GB


class Joined:
    """A leaf: arrays that are written as one, joined along an axis, and never put together in memory."""

    def __init__(self, arrays: Sequence[Any], axis: int) -> None:
        first, length = arrays[0], sum(array.shape[axis] for array in arrays)
        self.arrays, self.axis, self.dtype = arrays, axis, first.dtype
        self.shape = (*first.shape[:axis], length, *first.shape[axis + 1 :])
        self.nbytes = sum(array.nbytes for array in arrays)

    def __len__(self) -> int:
        return int(self.shape[0])


def pieces(leaf: Any) -> Iterator[memoryview]:
    """The leaf's bytes in C order, a slice at a time."""
    joined, axis = (leaf.arrays, leaf.axis) if isinstance(leaf, Joined) else ((leaf,), 0)
    if axis == 0:
        for array in joined:
            yield from _pieces_of(array)
        return
    rows = _rows_per_slice(leaf)
    for start in range(0, len(leaf), rows):
        yield from cut(bytes_of(np.concatenate([_rows(array, start, rows) for array in joined], axis)))


def _pieces_of(array: Any) -> Iterator[memoryview]:
    if not _on_device(array) or array.nbytes <= SLICE_BYTES:
        array = np.asarray(array)
        if array.flags.c_contiguous:
            yield from cut(bytes_of(array))
            return
    rows = _rows_per_slice(array)
    for start in range(0, len(array), rows):
        yield from cut(bytes_of(np.ascontiguousarray(_rows(array, start, rows))))


def _rows(array: Any, start: int, count: int) -> np.ndarray:
    """Some rows of an array, on the host.

    A device array is sliced on the device: `np.asarray` of the whole would stay cached on it, and the caches of all
    leaves together would be a second copy of the replay in host memory. A CPU array is viewed, not copied.
    """
    if _on_device(array):
        # The start is an operand of the compiled slice, so all full slices share one program.
        array, start = jax.lax.dynamic_slice_in_dim(array, start, min(count, len(array) - start)), 0
    return np.asarray(array)[start : start + count]


def _on_device(array: Any) -> bool:
    return isinstance(array, jax.Array) and any(d.platform != "cpu" for d in array.devices())


def _rows_per_slice(array: Any) -> int:
    return max(1, SLICE_BYTES // max(1, array.nbytes // max(1, len(array))))


def bytes_of(array: np.ndarray) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def cut(data: memoryview) -> Iterator[memoryview]:
    for start in range(0, len(data), SLICE_BYTES):
        yield data[start : start + SLICE_BYTES]
