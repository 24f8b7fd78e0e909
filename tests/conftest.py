"""Fixtures that several test modules ask for by name; nothing here happens by itself."""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation() -> Iterator[None]:
    """Compile at XLA's lowest effort: many small programs, each run for a second, are mostly compile time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
