"""Every block of docs/in-your-agent.md is complete: it runs on its own, and its target follows the online network."""

import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from test_docs import blocks

from lookrep import distances, targets

PAGE = Path(__file__).parents[1] / "docs/in-your-agent.md"
BLOCKS = blocks(PAGE, "python")
TITLES = [
    "three lines", "linen", "nnx", "equinox", "init and apply", "host", "host, stacked", "population", "devices",
    "mixed precision",
]  # fmt: skip


def test_the_page_starts_with_code_and_has_these_blocks() -> None:
    assert "```python" in PAGE.read_text().splitlines()[:10]
    assert len(BLOCKS) == len(TITLES)


@pytest.mark.parametrize(("title", "block"), list(zip(TITLES, BLOCKS, strict=True)), ids=TITLES)
def test_a_block_runs_on_its_own_and_its_target_follows(title: str, block: str) -> None:
    if "import equinox" in block:
        pytest.importorskip("equinox")
    names: dict[str, Any] = {}
    exec(compile(block, f"{PAGE.name}: {title}", "exec"), names)
    online, target, inputs = names["online"], names["target"], names.get("states", names.get("replay"))
    gap = distances.squared(names["apply"]).gap
    if title == "population":
        # Two turns of K_R steps each; with more steps a target comes closer.
        assert target.updates.tolist() == (2 * names["updates"]).tolist()
        gaps = jax.vmap(gap, in_axes=(0, 0, None))(target.params, online, inputs)
        assert gaps[-1] < 0.1 * gaps[0]
        return
    turns = 1 if title == "three lines" else 2
    per_turn = int(re.findall(r"replicate\(100, (\d+)", block)[0])
    assert int(target.updates) == turns * per_turn
    values = jnp.abs(names["apply"](online, inputs)).mean()
    assert gap(target.params, online, inputs) < 0.05 * values
    if turns > 1:
        assert gap(target.params, online, inputs) > 0  # learned, not copied
    if title == "mixed precision":
        assert names["copy"].params.dtype == jnp.bfloat16
        assert gap(names["copy"].params, online, inputs) < 0.02 * values


def test_a_small_step_vanishes_in_bfloat16_as_the_page_says() -> None:
    weight = jnp.array(1.0, jnp.bfloat16)
    assert weight + jnp.bfloat16(1 / 513) == weight
    assert weight + jnp.bfloat16(1 / 128) != weight
    rule, state = targets.polyak(0.001), targets.polyak(0.001).init(weight)
    for n in range(1, 11):
        state = rule.update(state, 2 * weight, n)
    assert state.params == weight
