"""Fixtures that several test modules ask for by name, and ears for Ctrl-C."""

import signal
from collections.abc import Iterator

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

# What a shell or a CI service starts in the background may be deaf to Ctrl-C, and so would be all that tests start and
# then interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

QUICK = {
    "jax_disable_most_optimizations": True,
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="session")
def compilation_cache_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def quick_compilation(compilation_cache_dir: str) -> Iterator[dict[str, str]]:
    """Compile at XLA's lowest effort, and every program once: many small runs are mostly compile time.

    Gives the environment variables by which another process does the same, and so computes the same bits.
    """
    settings = QUICK | {"jax_compilation_cache_dir": compilation_cache_dir}
    before = {name: jax.config.values[name] for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield {name.upper(): str(value) for name, value in settings.items()}
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
