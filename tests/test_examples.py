"""`examples/own_agent.py` runs with every target update, is short, and uses nothing of lookrep but `targets`."""

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

FILE = Path(__file__).parents[1] / "examples/own_agent.py"


@pytest.fixture
def own_agent(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example as a module, with a short warm-up so that a few hundred steps are enough to learn in."""
    spec = importlib.util.spec_from_file_location("own_agent", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "WARMUP", 100)
    monkeypatch.setattr(module, "CAPACITY", 200)
    return module


# 300 steps after a warm-up of 100 are 200 updates: hard and replicate have their turn at 100 and 200.
@pytest.mark.parametrize(("target", "target_updates"), [("hard", 2), ("polyak", 200), ("replicate", 200)])
def test_it_runs_with_every_target_update(
    own_agent: ModuleType, target: str, target_updates: int, capsys: pytest.CaptureFixture[str]
) -> None:
    last = own_agent.train(target, steps=300, seed=0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert [int(line.split()[0]) for line in lines] == list(range(30, 301, 30))
    assert lines[-1].endswith(f"target updates {target_updates}")
    assert 0 < last < own_agent.TIME_LIMIT


def test_its_cartpole_takes_the_step_worked_out_by_hand(own_agent: ModuleType) -> None:
    # From rest, pushed right: push = 10/1.1, pole −push/(0.5·(4/3 − 0.1/1.1)), cart push − 0.05·pole/1.1; times 0.02 s.
    push = 10 / 1.1
    pole = -push / (0.5 * (4 / 3 - 0.1 / 1.1))
    cart = push - 0.05 * pole / 1.1
    after, fell = own_agent.cartpole(jnp.zeros(4), jnp.int32(1))
    np.testing.assert_allclose(after, [0, 0.02 * cart, 0, 0.02 * pole], rtol=1e-6)
    assert not fell
    assert own_agent.cartpole(jnp.array([2.39, 2.0, 0.0, 0.0]), jnp.int32(1))[1]


def test_it_is_at_most_150_lines() -> None:
    assert len(FILE.read_text().splitlines()) <= 150


def test_of_lookrep_it_uses_the_target_updates_alone() -> None:
    used = set()
    for node in ast.walk(ast.parse(FILE.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lookrep":
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names if alias.name.split(".")[0] == "lookrep"}
    assert used == {"lookrep.targets"}


def test_the_lines_to_take_along_are_marked() -> None:
    marked = [line for line in FILE.read_text().splitlines() if re.search(r"# <-", line)]
    assert any("rule.init" in line for line in marked)
    assert any("rule.update" in line for line in marked)
