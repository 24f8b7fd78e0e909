"""Memory that the host writes and compiled functions read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.training.window import open_window


@pytest.mark.parametrize("shape", [(8,), (3, 84 * 84 + 8)])
def test_a_compiled_function_sees_what_was_written_last(shape: tuple[int, ...]) -> None:
    window = open_window(shape)
    total = jax.jit(lambda bytes_seen: bytes_seen.astype(jnp.int32).sum())
    assert window.array.shape == shape
    assert window.array.dtype == jnp.uint8
    assert int(total(window.array)) == 0
    random = np.random.default_rng(0)
    for _ in range(3):
        window.view[:] = random.integers(256, size=shape)
        assert int(total(window.array)) == window.view.sum(dtype=int)


def test_windows_have_memory_of_their_own() -> None:
    first, second = open_window((64,)), open_window((64,))
    first.view[:] = 7
    del first
    assert not np.asarray(jnp.asarray(second.array)).any()
