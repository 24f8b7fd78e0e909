"""What the fuzz tests have in common: bounds, values, and what an answer is."""

import math
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lookrep.cli import main
from lookrep.errors import UserError

CASES = int(os.environ.get("LOOKREP_FUZZ", 60))
MORE_BYTES = 2 << 30  # than at the start
SECONDS = 120  # a case that takes longer hangs, also on a machine that is busy
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
many = settings(max_examples=CASES, deadline=None, suppress_health_check=CHECKS, database=None)
few = settings(many, max_examples=max(3, CASES // 20))  # where it takes seconds
some = settings(many, max_examples=max(8, CASES // 6))  # where a case takes a tenth of a second


@pytest.fixture(autouse=True)
def bounds() -> Iterator[None]:
    """Memory for everything in this file; what wants more gets a MemoryError, which is no answer."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + MORE_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def answered(ask: Callable[[], Any]) -> Any:
    """What it gives, or None where it refuses in one line."""

    def hangs(*_: Any) -> None:
        raise AssertionError(f"no answer within {SECONDS} seconds")

    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(SECONDS)
    try:
        return ask()
    except UserError as error:
        assert_one_line(str(error))
        return None
    finally:
        signal.alarm(0)


def assert_one_line(text: str) -> None:
    assert text
    assert text.isprintable()
    assert len(text) <= 1500


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit status of a command, whose refusals are one line."""

    def run() -> int:
        try:
            return main(words)
        except SystemExit as stop:  # --help
            return int(stop.code or 0)

    status: int = answered(run)
    err = capsys.readouterr().err
    assert status in (0, 1, 2), (status, err)
    assert "Traceback" not in err
    if status == 2:
        assert err.startswith("lookrep: ")
        assert_one_line(err.removesuffix("\n"))
    return status


def files(folder: Path) -> dict[str, int]:
    return {str(path): path.lstat().st_size for path in folder.rglob("*")}


# ---- values

HUGE = [2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, int("9" * 4300)]
numbers = st.one_of(
    st.integers(-3, 300),
    st.integers(),
    st.sampled_from(HUGE),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e308, 5e-324, math.inf, math.nan]),
)
words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "auto", "same", "adam", "hard", "replicate", "c51", "mlp:8", "mlp:99999999", "x" * 5000]),
    st.sampled_from(
        ["\x1b[2J", "a\nb", "\u202eabc", "no_such_module:thing", "object Torso", "../..", "-1", "nan", "1e9"]
    ),
    st.sampled_from(
        ["cnn16:128", "cnn0:1", "mlp:" + "8x" * 3000 + "8", "9" * 5000, "minatar/breakout", "atari/Pong,Pong"]
    ),
)
scalars = st.one_of(numbers, words, st.booleans(), st.none())
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3))
DEEP: Any = "[" * 3000 + "]" * 3000


def likely(kind: Any) -> st.SearchStrategy[Any]:
    """More often than not of the right type."""
    return {int: st.integers(-2, 10**7) | numbers, float: st.floats(-1, 2) | numbers, bool: st.booleans()}.get(
        kind, words
    ) | anything
