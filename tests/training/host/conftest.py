"""Engines that tests share are those that runs on disk use, too."""

from collections.abc import Iterator

import host_runs
import pytest

from lookrep.training import loop, opening


@pytest.fixture(scope="module")
def shared_engines() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (opening, loop):
            patch.setattr(module, "make_engine", host_runs.engine_of)
        yield
    host_runs._engine_of.cache_clear()
