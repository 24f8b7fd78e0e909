"""One agent from its parts: acting, learning, what the target update is given, and what is measured."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep import agents
from lookrep import config as configs
from lookrep.agents.measures import agreement
from lookrep.config import AgentConfig, NetworkConfig, TargetConfig
from lookrep.errors import UserError
from lookrep.replay import Batch

pytestmark = pytest.mark.usefixtures("quick_compilation")

OBSERVATIONS, ACTIONS, SIZE = (3,), 4, 6
TARGETS = ("hard", "polyak", "replicate", "frozen")


def settings(preset: str, **groups: dict[str, Any]) -> AgentConfig:
    base = configs.preset(preset)
    groups = {"network": {"network": "mlp:8"}, "learning": {}} | groups
    groups["learning"] = {"atoms": 5, "quantiles": 3, "v_min": -1.0, "v_max": 1.0} | groups["learning"]
    return dataclasses.replace(
        base, **{name: dataclasses.replace(getattr(base, name), **fields) for name, fields in groups.items()}
    )


def batch(seed: int = 0, weight: float = 1.0) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch(
        observation=rng.normal(size=(SIZE, *OBSERVATIONS)).astype(np.float32),
        action=rng.integers(ACTIONS, size=SIZE).astype(np.int32),
        reward=rng.normal(size=SIZE).astype(np.float32),
        discount=np.array([0.9, 0.9, 0.0, 0.81, 0.9, 0.0], np.float32),
        next_observation=rng.normal(size=(SIZE, *OBSERVATIONS)).astype(np.float32),
        position=np.arange(SIZE),
        weight=np.full(SIZE, weight, np.float32),
    )


def build(config: AgentConfig) -> agents.Agent:
    agent = agents.Agent(config, OBSERVATIONS, ACTIONS)
    for method in ("init", "act", "learn", "measure"):
        setattr(agent, method, jax.jit(getattr(agent, method)))
    return agent


# Acting


def test_without_exploration_the_best_action_is_taken_and_with_it_all_are_equally_often() -> None:
    agent = build(settings("dqn"))
    params = jax.device_get(agent.init(jax.random.key(0)).online)
    params["q_out"]["bias"] = np.array([0.0, 0.0, 9.0, 0.0], np.float32)
    words = jax.random.bits(jax.random.key(1), (8000, 2))
    act = jax.jit(jax.vmap(lambda words, epsilon: agent.act(params, jnp.ones(3), None, words, epsilon), (0, None)))
    assert (np.asarray(act(words, 0.0)) == 2).all()
    counts = np.bincount(act(words, 1.0), minlength=ACTIONS)
    assert ((counts - 2000) ** 2 / 2000).sum() < 16.3  # χ² with 3 degrees of freedom, p = 0.001
    share = np.mean(np.asarray(act(words, 0.4)) != 2)
    assert share == pytest.approx(0.4 * 3 / 4, abs=0.02)


def test_noisy_nets_explore_by_themselves_and_only_by_the_network_key() -> None:
    agent = build(settings("full-rainbow", network={"network": "mlp:8", "dueling": True, "noisy": True}))
    params = agent.init(jax.random.key(0)).online
    keys, words = jax.random.split(jax.random.key(1), 200), jax.random.bits(jax.random.key(2), (200, 2))
    act = jax.jit(jax.vmap(lambda key, words: agent.act(params, jnp.ones(3), key, words, 0.0)))
    assert len(np.unique(act(keys, words))) > 1
    assert len(np.unique(act(jnp.broadcast_to(keys[0], keys.shape), words))) == 1


# Learning


def by_hand(params: dict, x: np.ndarray) -> np.ndarray:
    hidden = np.maximum(x @ params["q_0"]["kernel"] + params["q_0"]["bias"], 0)
    return hidden @ params["q_out"]["kernel"] + params["q_out"]["bias"]


@pytest.mark.parametrize("double", [False, True])
def test_dqns_loss_and_priorities_are_those_worked_out_by_hand(double: bool) -> None:
    agent = build(settings("dqn", learning={"double": double}, target={"target_init": "independent"}))
    state = jax.device_get(agent.init(jax.random.key(0)))
    data = batch(weight=0.5)
    _, learned = agent.learn(state, state.online, state.target.params, data, jax.random.key(1))
    at_s, at_next = by_hand(state.online, data.observation), by_hand(state.target.params, data.next_observation)
    chooser = by_hand(state.online, data.next_observation) if double else at_next
    assert (by_hand(state.online, data.next_observation).argmax(1) != at_next.argmax(1)).any()
    rows = np.arange(SIZE)
    error = data.reward + data.discount * at_next[rows, chooser.argmax(axis=1)] - at_s[rows, data.action]
    huber = np.where(np.abs(error) <= 1, 0.5 * error**2, np.abs(error) - 0.5)
    assert float(learned.loss) == pytest.approx(0.5 * huber.mean(), rel=1e-5)  # weighted
    np.testing.assert_allclose(learned.priority, np.sqrt(huber), rtol=1e-4, atol=1e-4)  # unweighted: Dopamine's


def test_the_first_step_is_adams_on_the_gradient_of_that_loss() -> None:
    """Adam's first step is the step size times g / (|g| + ε), whatever the gradient's size."""
    agent = build(settings("dqn", learning={"learning_rate": 0.01, "adam_epsilon": 1e-3}))
    state = jax.device_get(agent.init(jax.random.key(0)))
    data = batch()
    after, _ = agent.learn(state, state.online, state.target.params, data, jax.random.key(1))

    def loss(bias: np.ndarray) -> float:
        params = state.online | {"q_out": state.online["q_out"] | {"bias": bias}}
        q, rows = by_hand(params, data.observation.astype(np.float64)), np.arange(SIZE)
        bootstrap = by_hand(state.target.params, data.next_observation).max(axis=1)
        error = np.abs(data.reward + data.discount * bootstrap - q[rows, data.action])
        return float(np.where(error <= 1, 0.5 * error**2, error - 0.5).mean())

    bias = state.online["q_out"]["bias"].astype(np.float64)
    unit = 1e-5 * np.eye(ACTIONS)
    gradient = np.array([loss(bias + e) - loss(bias - e) for e in unit]) / 2e-5
    expected = -0.01 * gradient / (np.abs(gradient) + 1e-3)
    np.testing.assert_allclose(after.online["q_out"]["bias"] - bias, expected, rtol=1e-3, atol=1e-6)
    assert after.target is not None
    jax.tree.map(np.testing.assert_array_equal, after.target, state.target)  # Lookahead leaves the target alone


@pytest.mark.parametrize(("epsilon", "largest"), [(1e-12, 0.01), (None, 0.01 / 1001)])
def test_the_targets_adam_has_an_epsilon_of_its_own(epsilon: float | None, largest: float) -> None:
    """Of its first step, the size times g / (|g| + ε), gradients of at most 1 leave little where ε is 1000."""
    target = {
        "target": "replicate",
        "target_init": "independent",
        "replicate_updates": 1,
        "replicate_adam_epsilon": epsilon,
        "replicate_learning_rate": None,
    }
    agent = build(settings("dqn", learning={"learning_rate": 0.01, "adam_epsilon": 1e3}, target=target))
    before = agent.init(jax.random.key(0))
    inputs = agent.turn_inputs(batch(), jax.random.key(1))
    after = jax.jit(lambda state: agent.turn(state.target, state.online, lambda k: inputs))(before)
    moved = [
        np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (after.params, before.target.params)), strict=True)
    ]
    if epsilon is None:
        assert 0 < max(moved) < largest
    else:
        assert max(moved) == pytest.approx(largest, rel=1e-3)


def test_low_precision_computes_in_bfloat16_and_keeps_parameters_and_optimiser_in_float32() -> None:
    agent = build(settings("rainbow", network={"network": "mlp:8", "precision": "bf16"}))
    state = agent.init(jax.random.key(0))
    low = agent.compute(state.online)
    assert {x.dtype for x in jax.tree.leaves(low)} == {jnp.bfloat16.dtype}
    after, learned = agent.learn(state, low, agent.compute(state.target.params), batch(), jax.random.key(1))
    assert {x.dtype for x in jax.tree.leaves(after.online)} == {jnp.dtype("float32")}
    assert [x.dtype for x in jax.tree.leaves(after)] == [x.dtype for x in jax.tree.leaves(state)]
    exact = build(settings("rainbow"))
    _, reference = exact.learn(state, state.online, state.target.params, batch(), jax.random.key(1))
    assert float(learned.loss) == pytest.approx(float(reference.loss), rel=0.02)


# The target


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("start", ["copy", "independent"])
def test_the_target_starts_as_a_copy_or_on_its_own(target: str, start: str) -> None:
    agent = build(settings("dqn", target={"target": target, "target_init": start}))
    state = agent.init(jax.random.key(0))
    same = [
        np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (state.online, state.target.params)), strict=True)
    ]
    assert all(same) if start == "copy" else not all(same)
    assert int(state.target.updates) == 0


@pytest.mark.parametrize("other", ["mlp:16", "mlp:8x8"])
def test_only_replicate_follows_across_networks(other: str) -> None:
    networks = {"network": "mlp:8", "target_network": other}
    agent = build(settings("dqn", network=networks, target={"target": "replicate"}))
    state = agent.init(jax.random.key(0))
    assert [x.shape for x in jax.tree.leaves(state.online)] != [x.shape for x in jax.tree.leaves(state.target.params)]
    for target in ("hard", "polyak", "frozen"):
        with pytest.raises(UserError) as caught:
            build(settings("dqn", network=networks, target={"target": target}))
        assert str(caught.value) == (
            f"target network '{other}' differs from 'mlp:8': only --target replicate can follow across networks, "
            f"--target {target} needs the same"
        )


def test_the_same_network_by_another_name_is_the_same_network() -> None:
    config = NetworkConfig("auto", "mlp:128x128")
    agents.Agent(AgentConfig(network=config, target=TargetConfig("hard")), OBSERVATIONS, ACTIONS)


def test_replicate_cannot_start_each_turn_from_a_copy_of_another_network() -> None:
    config = settings(
        "dqn",
        network={"network": "mlp:8", "target_network": "mlp:4"},
        target={"target": "replicate", "replicate_start": "online"},
    )
    with pytest.raises(UserError, match="target network 'mlp:4' cannot copy 'mlp:8'"):
        build(config)


@pytest.mark.parametrize(
    ("preset", "actions"),
    [
        *((preset, "all") for preset in ("dqn", "c51", "qr-dqn", "iqn", "full-rainbow")),
        ("dqn", "one"),
        ("c51", "one"),
        ("c51", "all-summed"),
    ],
)
def test_a_turn_of_replicate_brings_the_functions_together(preset: str, actions: str) -> None:
    target = {
        "target": "replicate",
        "target_init": "independent",
        "replicate_actions": actions,
        "replicate_updates": 300,
        "replicate_learning_rate": 0.01,
    }
    agent = agents.Agent(settings(preset, target=target), OBSERVATIONS, ACTIONS)
    data = batch()

    @jax.jit
    def gaps(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        before = agent.init(key)

        def batches(k: jax.Array) -> Any:
            return agent.turn_inputs(data, jax.random.fold_in(key, k))

        after = before._replace(target=agent.turn(before.target, before.online, batches))
        return tuple(
            jnp.abs(
                agent.head.values(agent.online.apply(s.online, data.observation, None).per_action)
                - agent.head.values(agent.target.apply(s.target.params, data.observation, None).per_action)
            )
            for s in (before, after)
        )

    before, after = map(np.asarray, gaps(jax.random.key(0)))
    taken = np.zeros((SIZE, ACTIONS), bool)
    taken[np.arange(SIZE), data.action] = True
    counted = taken if actions == "one" else np.ones_like(taken)
    assert after[counted].mean() < 0.2 * before[counted].mean()
    if actions == "one":
        assert after[~taken].mean() > 2 * after[taken].mean()  # nothing was said about the others


# Measures


def test_measures_are_those_worked_out_by_hand() -> None:
    agent = build(settings("dqn", target={"target_init": "independent"}))
    state = jax.device_get(agent.init(jax.random.key(0)))
    data = batch()
    found = agent.measure(state, data)
    online, target = (by_hand(p, data.observation) for p in (state.online, state.target.params))
    following = by_hand(state.target.params, data.next_observation).max(axis=1)
    residual = data.reward + data.discount * following - online[np.arange(SIZE), data.action]
    w, theta = (np.concatenate([x.ravel() for x in jax.tree.leaves(p)]) for p in (state.online, state.target.params))
    level, level_t = online.mean(axis=1), target.mean(axis=1)
    advantages, advantages_t = online - level[:, None], target - level_t[:, None]
    expected = {
        "function_gap": np.abs(online - target).mean(),
        "bellman_residual": np.abs(residual).mean(),
        "norm_online": np.linalg.norm(w),
        "norm_target": np.linalg.norm(theta),
        "parameter_distance": np.linalg.norm(w - theta),
        "argmax_agreement": np.mean(online.argmax(axis=1) == target.argmax(axis=1)),
        "r2_state_values": 1 - np.mean((level - level_t) ** 2) / np.var(level),
        "r2_advantages": 1 - np.sum((advantages - advantages_t) ** 2) / np.sum(advantages**2),
    }
    assert {name: float(value) for name, value in found.items()} == pytest.approx(expected, rel=1e-4)


def test_the_norm_of_several_networks_is_their_root_mean_square() -> None:
    agent = build(settings("dqn", method={"averaged_networks": 3}))
    state = agent.init(jax.random.key(0))
    found = agent.measure(state, batch())
    assert float(found["norm_target"]) == pytest.approx(float(found["norm_online"]), rel=1e-5)  # three of the same
    twice = jax.tree.map(lambda stack: stack.at[0].multiply(2.0), state.target.params)
    found = agent.measure(state._replace(target=state.target._replace(params=twice)), batch())
    assert float(found["norm_target"]) == pytest.approx((6 / 3) ** 0.5 * float(found["norm_online"]), rel=1e-5)


def test_agreement_is_what_it_is_by_hand_and_minds_only_actions_that_exist() -> None:
    """Levels 2, 7 and 6 (mean 5, squares about it 14), advantages ∓1, ∓2, ±1 (squares 12)."""
    online, nothing = np.array([[1.0, 3.0], [5.0, 9.0], [7.0, 5.0]]), np.zeros((3, 2))
    targets = {
        "itself": (online, (1.0, 1.0, 1.0)),
        "nothing": (nothing, (1 / 3, 1 - 89 / 14, 0.0)),  # the first of equal actions counts as the best; 2² + 7² + 6²
        "levels alone": (np.array([[2.0, 2.0], [7.0, 7.0], [6.0, 6.0]]), (1 / 3, 1.0, 0.0)),
        "differences alone": (online - 4.0, (1.0, 1 - 48 / 14, 1.0)),
        "the wrong way round": (online[:, ::-1], (0.0, 1.0, 1 - 48 / 12)),  # twice each advantage
    }
    for name, (target, expected) in targets.items():
        for legal, spare in ((None, []), (jnp.int32(2), [99.0])):  # a third action that only the network has
            both = (jnp.asarray(np.hstack([q, np.tile(spare, (3, 1))])) for q in (online, target))
            found = agreement(*both, legal)
            assert list(found) == ["argmax_agreement", "r2_state_values", "r2_advantages"]
            assert [float(x) for x in found.values()] == pytest.approx(expected, abs=1e-6), name


@pytest.mark.parametrize("preset", ["iqn", "full-rainbow"])
def test_the_gap_of_a_copy_is_zero_whatever_noise_and_fractions_there_are(preset: str) -> None:
    agent = build(settings(preset))
    found = agent.measure(agent.init(jax.random.key(0)), batch())
    assert float(found["function_gap"]) == 0.0
    assert float(found["parameter_distance"]) == 0.0


# Agents with fewer actions than the network has outputs for


def with_a_favourite(state: agents.AgentState, action: int) -> Any:
    """The online parameters, changed so that one action is always thought best."""
    bias = np.array(state.online["q_out"]["bias"])
    bias[action] = 1e3
    return {**state.online, "q_out": {**state.online["q_out"], "bias": jnp.asarray(bias)}}


def test_an_action_that_does_not_exist_is_never_taken() -> None:
    agent = build(settings("dqn"))
    state = agent.init(jax.random.key(0))
    favourite = with_a_favourite(state, 3)
    words = jax.random.bits(jax.random.key(1), (300, 2))
    for epsilon, everything in ((0.0, {3}), (1.0, {0, 1, 2, 3})):
        taken = [
            {int(a) for a in jax.vmap(lambda w: agent.act(favourite, jnp.ones(3), None, w, epsilon, legal))(words)}
            for legal in (None, jnp.int32(4), jnp.int32(2))
        ]
        assert taken[0] == taken[1] == everything
        assert taken[2] <= {0, 1}
    assert taken[2] == {0, 1}


@pytest.mark.parametrize("double", [False, True])
def test_it_is_never_bootstrapped_from(double: bool) -> None:
    agent = build(settings("dqn", learning={"double": double}))
    state = agent.init(jax.random.key(0))
    favourite = with_a_favourite(state, 3)
    chosen = state._replace(online=favourite, target=state.target._replace(params=favourite))
    data = batch()._replace(action=np.zeros(SIZE, np.int32))
    key = jax.random.key(2)
    losses = [
        float(agent.learn(chosen, favourite, favourite, data, key, legal)[1].loss)
        for legal in (None, jnp.int32(4), jnp.int32(3))
    ]
    assert losses[0] == losses[1] > 100  # a value of 1000 comes in
    assert losses[2] < 10


@pytest.mark.parametrize("preset", ["dqn", "c51", "qr-dqn"])
def test_it_counts_neither_for_the_gap_nor_for_replicate(preset: str) -> None:
    replicate = {"target": "replicate", "target_init": "independent"}
    wide = build(settings(preset, target=replicate))
    state = wide.init(jax.random.key(0))
    spoilt = state._replace(online=with_a_favourite(state, 3))
    data = batch()
    gaps = [float(wide.measure(s, data, jnp.int32(3))["function_gap"]) for s in (state, spoilt)]
    if preset == "dqn":  # where the last bias belongs to the last action alone
        assert gaps[0] == gaps[1]
        assert float(wide.measure(spoilt, data)["function_gap"]) > 100
    inputs = wide.turn_inputs(data, jax.random.key(3), jnp.int32(3))
    turned = wide.turn(state.target, state.online, lambda k: inputs)
    for before, after in zip(
        jax.tree.leaves(state.target.params["q_out"]), jax.tree.leaves(turned.params["q_out"]), strict=True
    ):
        outputs = np.asarray(before != after).reshape(-1, ACTIONS, before.shape[-1] // ACTIONS)
        assert outputs[:, :3].any()
        assert not outputs[:, 3].any()
