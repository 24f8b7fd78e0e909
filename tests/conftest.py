"""How the tests compile, fixtures that several test modules ask for by name, and ears for Ctrl-C.

Many small runs are mostly compile time. So programs are compiled at XLA's lowest effort, and once for all processes of
a run of the tests: pytest's workers and the commands that tests start.
"""

import atexit
import os
import shutil
import signal
import tempfile

import pytest

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # otherwise this is one of several workers, or the user has one
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="lookrep-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
QUICK = {
    "JAX_COMPILATION_CACHE_DIR": os.environ["JAX_COMPILATION_CACHE_DIR"],
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
os.environ |= QUICK  # before JAX is imported

# What a shell (`nohup`, `&`) or a CI service starts may be deaf to some signals, and so would be all that tests start
# and then interrupt.
for number, usual in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGTERM, signal.SIG_DFL),
):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session")
def quick_compilation() -> dict[str, str]:
    """The environment variables by which another process compiles as this one does, and so computes the same bits."""
    return QUICK
