"""A tree of arrays as a few packed arrays, for compiled functions that are called thousands of times a second.

Launching one on a GPU costs about 3.5 µs for every array that it takes or gives: 305 µs for the 86 of a group of
agents, while the program itself does nothing. Networks and their optimisers are mostly small arrays (biases, kernels of
convolutions, counters), so those travel as one vector for each dtype. Nothing is gained on a CPU, where a call is cheap
and the copies are not.
"""

import math
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

SMALL_BYTES = 4 * 2**20


class PackedArrays(NamedTuple):
    large: tuple[jax.Array, ...]
    small: tuple[jax.Array, ...]  # all the others, flat, one vector for each dtype


class Packing:
    """How trees that look like `example` (shapes will do) are packed and come back."""

    def __init__(self, example: Any, small_bytes: int | None = None) -> None:
        if small_bytes is None:
            small_bytes = SMALL_BYTES if jax.default_backend() == "gpu" else 0
        leaves, self._tree = jax.tree.flatten(example)
        # The vector that each leaf is part of, by dtype; None: it travels alone.
        self._vectors = [leaf.dtype if leaf.size * leaf.dtype.itemsize <= small_bytes else None for leaf in leaves]
        self._dtypes = [dtype for dtype in dict.fromkeys(self._vectors) if dtype is not None]
        shapes = list(zip((leaf.shape for leaf in leaves), self._vectors, strict=True))
        self._shapes = tuple(tuple(shape for shape, dtype in shapes if dtype == one) for one in self._dtypes)

    def pack(self, tree: Any) -> PackedArrays:
        """Large arrays are not copied."""
        leaves = list(zip(jax.tree.leaves(tree), self._vectors, strict=True))
        large = tuple(leaf for leaf, dtype in leaves if dtype is None)
        return PackedArrays(large, _joined([[leaf for leaf, dtype in leaves if dtype == one] for one in self._dtypes]))

    def unpack(self, packed: PackedArrays) -> Any:
        large, small = iter(packed.large), map(iter, _divided(packed.small, self._shapes))
        by_dtype = dict(zip(self._dtypes, small, strict=True))
        leaves = [next(large if dtype is None else by_dtype[dtype]) for dtype in self._vectors]
        return jax.tree.unflatten(self._tree, leaves)


@jax.jit
def _joined(arrays: list[list[jax.Array]]) -> tuple[jax.Array, ...]:
    return tuple(jnp.concatenate([array.ravel() for array in some]) for some in arrays)


@partial(jax.jit, static_argnums=1)
def _divided(vectors: tuple[jax.Array, ...], shapes: tuple[tuple[tuple[int, ...], ...], ...]) -> list[list[jax.Array]]:
    """Each vector as arrays of these shapes."""
    found = []
    for vector, some in zip(vectors, shapes, strict=True):
        ends = list(accumulate(map(math.prod, some)))
        parts = zip([0, *ends], ends, some, strict=False)
        found.append([vector[begin:end].reshape(shape) for begin, end, shape in parts])
    return found
