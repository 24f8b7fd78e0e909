"""Trees that are packed into few arrays come back as they were."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.training.host.packing import PackedArrays, Packing

TREE: dict[str, Any] = {
    "kernel": jnp.arange(600.0).reshape(20, 30),
    "bias": jnp.arange(30.0) - 7,
    "low": jnp.arange(6.0).astype(jnp.bfloat16).reshape(2, 3),
    "keys": jnp.array([[0, 2**32 - 1]], jnp.uint32),
    "flags": jnp.array([True, False, True]),
    "none": None,
    "count": jnp.int32(-5),
    "more": (jnp.zeros((0, 4)), jnp.float32(jnp.nan)),
}


@pytest.mark.parametrize(("small_bytes", "large", "small"), [(0, 8, 1), (500, 1, 5), (10**6, 0, 5)])
def test_a_tree_comes_back_as_it_was(small_bytes: int, large: int, small: int) -> None:
    """An empty array is small whatever is said."""
    packing = Packing(jax.eval_shape(lambda: TREE), small_bytes)
    packed = jax.jit(packing.pack)(TREE)
    assert (len(packed.large), len(packed.small)) == (large - (small_bytes == 0), small)
    back = jax.jit(packing.unpack)(packed)
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for found, expected in zip(jax.tree.leaves(back), jax.tree.leaves(TREE), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_arrays_on_a_cpu_stay_as_they_are() -> None:
    packed = Packing(TREE["kernel"]).pack(TREE["kernel"])
    assert packed == PackedArrays((TREE["kernel"],), ())


def test_another_tree_does_not_fit() -> None:
    with pytest.raises(ValueError, match=r"shorter|longer"):
        Packing(TREE).pack({"kernel": TREE["kernel"]})
