"""Methods in the engines: a second batch, memories and resets, on the device and on the host."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import probes
import pytest

import lookrep
from lookrep import config as configs
from lookrep import methods
from lookrep.config import RunConfig
from lookrep.training.fused import FusedEngine

pytestmark = pytest.mark.usefixtures("quick_compilation")

WARMUP_STEPS, PERIOD = 256, 30


def engine(method: methods.Method, preset: str = "dqn") -> FusedEngine:
    base = configs.preset(preset, method=method)
    settings = dataclasses.replace(
        base,
        network=dataclasses.replace(base.network, network="mlp:32"),
        learning=dataclasses.replace(
            base.learning,
            learning_rate=5e-3,
            adam_epsilon=1e-8,
            batch_size=16,
            atoms=13,
            v_min=-2.0,
            v_max=4.0,
            quantiles=5,
        ),
        replay=dataclasses.replace(base.replay, replay_capacity_steps=1024, warmup_steps=WARMUP_STEPS),
        target=dataclasses.replace(base.target, target_period_updates=7, replicate_updates=3),
    )
    config = RunConfig("probes:Museum", preset, 2, steps=4_000, settings=settings)
    return FusedEngine(config, probes.Museum())


@pytest.mark.parametrize("preset", ["dqn", "c51", "qr-dqn"])
def test_a_renewed_network_is_a_new_one_that_knows_what_its_target_knew(preset: str) -> None:
    """With CHAIN, which remembers the network before the last update, and a clock that counts from the last turn."""
    trained = engine(methods.renewed(PERIOD, updates=300) + methods.chain(1.0) + methods.relative_adam(), preset)
    state = trained.advance(trained.init(), WARMUP_STEPS)
    state = trained.advance(state, WARMUP_STEPS + 4 * (PERIOD - 1))
    before = jax.device_get(state.agents)
    state = trained.advance(state, WARMUP_STEPS + 4 * PERIOD)
    after = jax.device_get(state.agents)
    # The target's last turn was after update 28; Adam has counted one update since, and none of its new network.
    assert before.optimizer[0].count.tolist() == [1, 1]
    assert after.optimizer[0].count.tolist() == [0, 0]
    for was, kept, new in zip(*map(jax.tree.leaves, (before.online, after.memory.before, after.online)), strict=True):
        np.testing.assert_array_equal(kept, new)  # what CHAIN compares with is the new network, not the last old one
        if was.ndim == 3:
            assert np.abs(new - was).max() > 0.1
            assert not np.isclose(new[0], new[1]).any()
    for target, same in zip(*map(jax.tree.leaves, (before.target, after.target)), strict=True):
        np.testing.assert_array_equal(target, same)
    places = np.eye(probes.PLACES, dtype=bool)
    q_new, q_old, q_target = (
        np.asarray(
            jax.vmap(lambda p: trained.agent.head.values(trained.agent.online.apply(p, places, None).per_action))(
                params
            )
        )
        for params in (after.online, before.online, after.target.params)
    )
    assert np.abs(q_new - q_target).max() < 0.05 < np.abs(q_old - q_target).max()


def test_a_network_whose_reset_is_yet_to_come_is_replicates_to_the_bit() -> None:
    states = []
    for method in (methods.replicate(), methods.renewed(10**6)):
        trained = engine(method)
        states.append(trained.advance(trained.advance(trained.init(), WARMUP_STEPS), WARMUP_STEPS + 4 * PERIOD))
    for one, other in zip(*(jax.tree.leaves(jax.device_get(state.agents)) for state in states), strict=True):
        np.testing.assert_array_equal(one, other)


COMPOSED = {
    "distilled+minto+chain+reset-optimizer": methods.distilled(3) + methods.minto() + methods.chain(1.0)
    + methods.reset_optimizer(),
    "averaged+functional+relative-adam": methods.averaged(3) + methods.functional(0.5) + methods.relative_adam(),
    "renewed+no-target+dqn-pro": methods.renewed(30, updates=5) + methods.no_target() + methods.dqn_pro(1.0),
}  # fmt: skip
CHANGED = {"distilled": 10, "averaged": 5, "renewed": 10}  # targets, by update 100


@pytest.mark.parametrize("name", COMPOSED)
def test_methods_train_and_resume_on_the_host(name: str, tmp_path: Path) -> None:
    """What they keep goes through checkpoints: a resumed run, which turns and resets come after, is the same as one
    that never stopped."""
    settings: dict[str, Any] = {
        "agent": "c51", "agents": 2, "warmup_steps": 200, "replay_capacity_steps": 800, "log_interval_steps": 200,
        "network": "mlp:8", "atoms": 5, "target_period_updates": 20, "replicate_updates": 2,
        "method": COMPOSED[name],
    }  # fmt: skip
    whole = lookrep.train("gym/CartPole-v1", steps=600, **settings)
    lookrep.train("gym/CartPole-v1", steps=400, out=tmp_path / "run", **settings)
    resumed = lookrep.load(tmp_path / "run").resume(steps=600)
    assert resumed.config.settings.method.method == name
    assert [row["target_updates"] for row in resumed.curves()[-2:]] == [CHANGED[name.partition("+")[0]]] * 2
    for column in ("loss", "function_gap", "norm_online", "norm_target"):
        assert [row[column] for row in resumed.curves()[-4:]] == [row[column] for row in whole.curves()[-4:]], column
