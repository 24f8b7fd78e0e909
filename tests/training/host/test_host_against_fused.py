"""Both engines train the same agents: on the same environment every metric is the same. And what they learn is right.

The engines differ in one thing: on the host, the first action after an update is chosen before it, so that acting never
waits for learning. So agents here choose for themselves as long as nothing is learnt, and act at random from then on.
The environment is a corridor without chance: Gymnasium's draw other random numbers than environments in JAX.
"""

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
import twins
from host_runs import assert_same

from lookrep.config import ExplorationConfig, RunConfig, TargetConfig, preset
from lookrep.training.fused import FusedEngine
from lookrep.training.host.engine import HostEngine

pytestmark = pytest.mark.usefixtures("quick_compilation")

DISCOUNT, WARMUP_STEPS, STEPS, ROW_STEPS = 0.9, 400, 2800, 700
# Of the cells between pit and goal, for both actions: by hand, from the rewards and the discount.
VALUES = {1: (-1.0, DISCOUNT * 1.0), 2: (DISCOUNT * DISCOUNT * 1.0, 1.0)}


TARGETS = {
    "hard": TargetConfig("hard", target_period_updates=25),
    "replicate": TargetConfig(
        "replicate", target_period_updates=25, replicate_updates=10, replicate_batch_size=16,
        replicate_learning_rate=1e-2,
    ),
}  # fmt: skip


def config(env: str, target: str, **fields: Any) -> RunConfig:
    """Noisy layers, prioritised replay, exploration: whatever draws random numbers."""
    base = preset("full-rainbow")
    settings = dataclasses.replace(
        base,
        network=dataclasses.replace(base.network, network="mlp:32", dueling=False),
        learning=dataclasses.replace(
            base.learning, discount=DISCOUNT, n_steps=1, batch_size=32, learning_rate=5e-3, adam_epsilon=1e-8, atoms=21,
            v_min=-1.0, v_max=1.0, double=False,
        ),
        replay=dataclasses.replace(base.replay, replay_capacity_steps=2000, warmup_steps=WARMUP_STEPS),
        exploration=ExplorationConfig(epsilon_start=0.3, epsilon_end=1.0, epsilon_decay_steps=1),
        target=TARGETS[target],
    )  # fmt: skip
    return RunConfig(env, "full-rainbow", agents=2, steps=STEPS, seed=2, settings=settings, **fields)


def trained(engine: Any) -> tuple[dict[str, Any], Any]:
    """Every metric [rows, agents], and the agents at the end."""
    state, rows = engine.init(), []
    for until in range(ROW_STEPS, STEPS + 1, ROW_STEPS):
        state, row = engine.measure(engine.advance(state, until))
        rows.append(row)
    agents = jax.device_get(engine.agents(state))
    engine.close(state)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, agents


@pytest.fixture(scope="module", params=TARGETS)
def on_host(request: pytest.FixtureRequest, quick_compilation: None) -> tuple[HostEngine, dict[str, Any], Any]:
    engine = HostEngine(config("twins:Corridor", request.param, workers=0, groups=1))
    return engine, *trained(engine)


def test_the_engine_on_the_host_does_what_the_fused_engine_does(
    on_host: tuple[HostEngine, dict[str, Any], Any],
) -> None:
    engine, rows, agents = on_host
    target = engine.config.settings.target.target
    expected, fused = trained(FusedEngine(config("twins:DeviceCorridor", target), twins.DeviceCorridor()))
    assert (rows["episodes"] > 0).all()
    assert_same(rows, expected)
    jax.tree.map(np.testing.assert_array_equal, agents, fused)


def test_the_engine_on_the_host_learns_the_values_of_a_corridor(
    on_host: tuple[HostEngine, dict[str, Any], Any],
) -> None:
    engine, _, agents = on_host
    network, cells = engine.agent.online, np.eye(twins.CELLS, dtype=np.float32)
    outputs = jax.vmap(lambda params: network.apply(params, cells, None).per_action)(agents.online)
    found = np.asarray(engine.agent.head.values(outputs))
    for cell, values in VALUES.items():
        np.testing.assert_allclose(found[:, cell], np.tile(values, (2, 1)), atol=0.1, err_msg=f"cell {cell}")
