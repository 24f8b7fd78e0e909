"""The fused engine's claims: population, schedule, the target's turns, rows, members that turn NaN, other networks."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import probes
import pytest

from lookrep import config as configs
from lookrep.config import AgentConfig, ExplorationConfig, RunConfig, TargetConfig
from lookrep.errors import UserError
from lookrep.replay import TERMINATED, TRUNCATED, Batch
from lookrep.training.fused import FusedEngine, TrainState

pytestmark = pytest.mark.usefixtures("quick_compilation")

WARMUP_STEPS = 64
STEPS_PER_UPDATE = 4


def settings(agent: str, target: TargetConfig, network: str = "mlp:8", **learning: Any) -> AgentConfig:
    preset = configs.preset(agent)
    return dataclasses.replace(
        preset,
        network=dataclasses.replace(preset.network, network=network),
        learning=dataclasses.replace(preset.learning, batch_size=8, atoms=5, **learning),
        replay=dataclasses.replace(preset.replay, replay_capacity_steps=4096, warmup_steps=WARMUP_STEPS),
        exploration=dataclasses.replace(preset.exploration, epsilon_decay_steps=200),
        target=target,
    )


def population(agents: int = 3, first_agent: int = 0) -> FusedEngine:
    target = TargetConfig("replicate", target_period_updates=6, replicate_updates=2, replicate_batch_size=8)
    config = RunConfig(
        "probes:Museum", "rainbow", agents, first_agent, steps=4000, seed=7, settings=settings("rainbow", target)
    )
    return FusedEngine(config, probes.Museum())


@pytest.fixture(scope="module")
def three() -> FusedEngine:
    return population()


def after(updates: int) -> int:
    """Agent steps by which so many updates are made."""
    return WARMUP_STEPS + STEPS_PER_UPDATE * updates


def leaves(tree: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(jax.device_get(tree))]


def assert_same(found: Any, expected: Any, **tolerance: float) -> None:
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, **({"rtol": 0, "atol": 0} | tolerance))


def member(state: TrainState, i: int) -> tuple[Any, Any]:
    """Agent i's networks and optimisers, and its memory."""
    replay = state.replay._replace(priorities=None, cursor=None, filled_steps=None)
    return jax.tree.map(lambda x: x[i], state.agents), jax.tree.map(lambda x: x[:, i], replay)


# Population


def test_agents_differ_from_the_first_parameter_on(three: FusedEngine) -> None:
    state = three.init()
    for kernel in (x for x in leaves(state.agents.online) if x.ndim == 3):
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert not np.isclose(kernel[i], kernel[j]).any()
    state = three.advance(state, WARMUP_STEPS)
    actions = np.asarray(state.replay.action[:WARMUP_STEPS])
    assert (actions[:, 0] != actions[:, 1]).mean() > 0.25
    assert (actions[:, 1] != actions[:, 2]).mean() > 0.25


def test_an_agent_of_a_population_is_the_same_run_as_that_agent_alone(three: FusedEngine) -> None:
    alone = population(agents=1, first_agent=2)
    ours, theirs = alone.init(), three.init()
    assert_same(member(ours, 0), member(theirs, 2))
    ours, theirs = alone.advance(ours, WARMUP_STEPS), three.advance(theirs, WARMUP_STEPS)
    assert_same(member(ours, 0), member(theirs, 2))
    ours, theirs = alone.advance(ours, after(13)), three.advance(theirs, after(13))
    assert_same(member(ours, 0), member(theirs, 2), rtol=1e-4, atol=1e-5)


def test_a_run_is_a_function_of_its_seed(three: FusedEngine) -> None:
    one, same = (three.advance(three.init(), after(13)) for _ in range(2))
    assert_same(one, same)


# The schedule


def test_nothing_is_learned_in_the_warm_up_and_then_there_is_an_update_for_every_four_steps(three: FusedEngine) -> None:
    state = three.init()
    start = jax.device_get(state.agents)
    state, row = three.measure(three.advance(state, WARMUP_STEPS))
    assert_same(state.agents, start)
    assert (row["online_updates"] == 0).all()
    assert (row["target_updates"] == 0).all()
    assert np.isnan(row["loss"]).all()
    for updates in (1, 2, 3):
        before = jax.device_get(state.agents.online)
        state, row = three.measure(three.advance(state, after(updates)))
        assert (row["agent_steps"] == WARMUP_STEPS + 4 * updates).all()
        assert (row["online_updates"] == updates).all()
        assert all((a != b).any() for a, b in zip(leaves(before), leaves(state.agents.online), strict=True))


def test_epsilon_falls_by_dopamines_formula(three: FusedEngine) -> None:
    # Dopamine, linearly_decaying_epsilon: ε + clip((1 − ε)(decay + warm-up − step)/decay, 0, 1 − ε)
    exploration = ExplorationConfig(epsilon_start=1.0, epsilon_end=0.01, epsilon_decay_steps=250_000)
    agent = dataclasses.replace(three.config.settings, exploration=exploration)
    replay = dataclasses.replace(agent.replay, warmup_steps=20_000)
    config = dataclasses.replace(
        three.config, steps=10**6, settings=dataclasses.replace(agent, replay=replay)
    )  # Dopamine's own numbers
    epsilon = FusedEngine(config, probes.Museum()).population.epsilon
    steps = jnp.array([0, 19_999, 20_000, 20_001, 145_000, 269_999, 270_000, 900_000])
    expected = [1, 1, 1, 1 - 0.99 / 250_000, 0.505, 0.01 + 0.99 / 250_000, 0.01, 0.01]
    np.testing.assert_allclose(epsilon(steps), expected, rtol=1e-5)


TARGETS = {
    "hard, 7": TargetConfig("hard", target_period_updates=7),
    "spread": TargetConfig(
        "replicate", target_period_updates=10, replicate_updates=8, replicate_spread_updates=4, replicate_batch_size=8
    ),
    "hard, 10": TargetConfig("hard", target_period_updates=10),
    "polyak": TargetConfig("polyak", tau=0.1),
    "polyak, 3": TargetConfig("polyak", tau=0.3, polyak_period_updates=3),
    "replicate": TargetConfig("replicate", target_period_updates=7, replicate_updates=3, replicate_batch_size=8),
    "frozen": TargetConfig("frozen", target_init="independent"),
    "growing": TargetConfig("hard", target_period_updates=3, target_period_growth=1.5, target_period_most_updates=40),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_online_and_target_are_those_of_a_slow_loop_of_one_update_at_a_time(target: TargetConfig) -> None:
    check_against_a_slow_loop(target)


@pytest.mark.parametrize("name", ["hard, 10", "polyak, 2", "replicate, 6"])
def test_so_they_are_with_two_updates_in_a_row(name: str) -> None:
    targets = {
        "polyak, 2": TargetConfig("polyak", tau=0.3, polyak_period_updates=2),
        "replicate, 6": TargetConfig("replicate", target_period_updates=6, replicate_updates=3, replicate_batch_size=8),
    }
    check_against_a_slow_loop((TARGETS | targets)[name], in_a_row=2)


def test_a_turn_cannot_come_within_a_row_of_updates() -> None:
    for target in (TARGETS["hard, 7"], TARGETS["polyak"], TARGETS["growing"], TARGETS["spread"]):
        run = RunConfig("probes:Endless", "dqn", steps=4000, settings=settings("dqn", target, updates_in_a_row=2))
        with pytest.raises(UserError, match="updates_in_a_row = 2: a target's turns come after such a row"):
            FusedEngine(run, probes.Endless())


def check_against_a_slow_loop(target: TargetConfig, in_a_row: int = 1) -> None:
    """Rows come after 10, 20, 30, 280 updates: some fall on the target's turns and some between them."""
    agent_settings = settings("dqn", target, updates_in_a_row=in_a_row)
    config = RunConfig("probes:Endless", "dqn", agents=2, steps=4000, settings=agent_settings)
    engine = FusedEngine(config, probes.Endless())
    agent = engine.agent
    rule = agent.rule(engine.population.numbers)
    observation = jnp.broadcast_to(jnp.array([1.0, -0.5]), (2, 8, 2))
    ones = jnp.ones((2, 8))
    batch = Batch(observation, jnp.zeros((2, 8), jnp.int32), ones, 0.99 * ones, observation, ones, ones)
    keys = jax.random.split(jax.random.key(0), 2)

    @jax.jit
    def slow(agents: Any, updates: jax.Array) -> Any:
        agents, _ = jax.vmap(agent.learn)(agents, agents.online, agents.target.params, batch, keys)

        def follow(target: Any, online: Any, batch: Batch, key: jax.Array) -> Any:
            return rule.update(target, online, updates, lambda k: agent.turn_inputs(batch, key))

        following = jax.vmap(follow)(agents.target, agents.online, batch, keys)
        return agents._replace(target=following)

    state = engine.init()
    expected, updates = jax.tree.map(jnp.copy, state.agents), 0
    for until in (10, 20, 30, 280):
        state = engine.advance(state, after(until // in_a_row))
        while updates < until:
            updates += 1
            expected = slow(expected, updates)
        assert int(state.online_updates) == until
        assert_same(state.agents.target.updates, expected.target.updates)
        assert_same(state.agents, expected, rtol=1e-3, atol=1e-4)


# Rows


def test_rows_count_what_happened_since_the_last_one(three: FusedEngine) -> None:
    """Episodes and returns are recounted from the replay, which holds every step so far."""
    state = three.init()
    begun, returns = 0, np.zeros(3)
    for until_updates in (0, 5, 40):  # the target's period is 6, and every turn has 2 updates
        until = after(until_updates)
        state, row = three.measure(three.advance(state, until))
        rewards, flags = np.asarray(state.replay.reward), np.asarray(state.replay.flags)
        finished: list[list[float]] = [[], [], []]
        for t in range(begun, until):
            returns += rewards[t]
            for i in np.flatnonzero(flags[t] & (TERMINATED | TRUNCATED)):
                finished[i].append(returns[i])
                returns[i] = 0
        begun = until
        np.testing.assert_array_equal(row["agent_steps"], [until] * 3)
        np.testing.assert_array_equal(row["online_updates"], [until_updates] * 3)
        np.testing.assert_array_equal(row["target_updates"], [2 * (until_updates // 6)] * 3)
        np.testing.assert_array_equal(row["episodes"], [len(r) for r in finished])
        np.testing.assert_allclose(row["return_mean"], [np.mean(r) for r in finished], rtol=1e-5)
        np.testing.assert_allclose(row["return_max"], [np.max(r) for r in finished])
        np.testing.assert_allclose(
            row["norm_online"],
            np.sqrt(sum((x**2).reshape(3, -1).sum(axis=1) for x in leaves(state.agents.online))),
            rtol=1e-5,
        )
        assert not row["diverged"].any()


def test_a_member_that_turns_nan_is_marked_and_the_others_do_not_notice(three: FusedEngine) -> None:
    healthy, poisoned = (three.advance(three.init(), after(3)) for _ in range(2))
    online = jax.tree.map(lambda x: x.at[1].set(jnp.nan), poisoned.agents.online)
    poisoned = poisoned._replace(agents=poisoned.agents._replace(online=online))
    rows = []
    for state in (healthy, poisoned):
        state, row = three.measure(three.advance(state, after(30)))
        rows.append((state, row))
    (healthy, good), (poisoned, bad) = rows
    assert bad["diverged"].tolist() == [False, True, False]
    assert good["diverged"].tolist() == [False, False, False]
    for i in (0, 2):
        assert_same(member(poisoned, i), member(healthy, i))
        for name in good:
            assert bad[name][i] == good[name][i]
    assert np.isnan(bad["loss"][1])
    assert bad["episodes"][1] > 0  # it goes on acting, to no purpose


# Several runs in one program

REPLICATE = TargetConfig("replicate", target_period_updates=6, replicate_updates=2, replicate_batch_size=8)
# What follows by the same code has its turns in one piece: τ, K_R and step sizes may differ there.
SHARED = (
    TargetConfig("hard", target_period_updates=4),
    TargetConfig("polyak", tau=0.1),
    TargetConfig("polyak", tau=0.3),
    REPLICATE,
    dataclasses.replace(REPLICATE, replicate_updates=3, replicate_learning_rate=1e-2, replicate_adam_epsilon=1e-6),
    dataclasses.replace(
        REPLICATE,
        replicate_until_gap=0.1,
        replicate_max_updates=3,
        replicate_batch_size=4,
        target_init="independent",
    ),
    TargetConfig("frozen"),
)
GROWING = TargetConfig("hard", target_period_updates=2, target_period_growth=2.0, target_period_most_updates=20)
AGENT_NUMBERS = {  # of run i
    "learning": lambda i: {"learning_rate": 1e-3 * (i + 1), "adam_epsilon": 1e-5 * (i + 1), "discount": 0.9 + 0.01 * i},
    "exploration": lambda i: {
        "epsilon_start": 1 - 0.02 * i,
        "epsilon_end": 0.1 * i,
        "epsilon_decay_steps": 50 + 50 * i,
    },
    "method": lambda i: {"regulariser": "values", "kappa": 0.2 * i},
}


@pytest.mark.parametrize(
    ("precision", "targets", "target_updates"),
    [("f32", SHARED, [7, 30, 30, 30, 10, 10, 15]), ("bf16", (GROWING, SHARED[1]), [4, 30, 30])],
)
def test_runs_that_share_a_program_are_the_same_as_alone(
    precision: str, targets: tuple[TargetConfig, ...], target_updates: list[int]
) -> None:
    """Each with its own seed, numbers and number of agents, and with its targets' turns at its own times."""
    runs = []
    for i, target in enumerate(targets):
        agent = settings("rainbow", target)
        agent = dataclasses.replace(agent, network=dataclasses.replace(agent.network, precision=precision))
        groups = {name: dataclasses.replace(getattr(agent, name), **of(i)) for name, of in AGENT_NUMBERS.items()}
        agent = dataclasses.replace(agent, **groups)
        runs.append(RunConfig("probes:Museum", "rainbow", 1 + i % 2, i, steps=4000, seed=7 + i, settings=agent))
    env = probes.Museum()
    joint = FusedEngine(runs[0], env, runs[1:])
    state = joint.init()
    assert [len(runs[group.runs]) for group in joint.sharing.groups] == ([1, 2, 2, 1, 1] if len(runs) > 2 else [1, 1])
    alone = [FusedEngine(run, env) for run in runs]
    theirs = [engine.init() for engine in alone]
    for until in (after(13), after(30)):
        state = joint.advance(state, until)
        theirs = [engine.advance(its, until) for engine, its in zip(alone, theirs, strict=True)]
        parts = [joint.part(state, i) for i in range(len(runs))]
        for part, its in zip(parts, theirs, strict=True):
            assert jax.tree.structure(part) == jax.tree.structure(its)
            assert_same(part, its, rtol=1e-3, atol=1e-4)
        assert_same(joint.joined(parts), state)
    state, row = joint.measure(state)
    rows = [engine.measure(its)[1] for engine, its in zip(alone, theirs, strict=True)]
    assert row["target_updates"].tolist() == np.concatenate([r["target_updates"] for r in rows]).tolist()
    assert row["target_updates"].tolist()[: len(target_updates)] == target_updates
    assert (row["target_updates"].tolist()[-1] == 0) == (targets[-1].target == "frozen")
    for name in ("return_mean", "loss", "function_gap", "parameter_distance"):
        np.testing.assert_allclose(row[name], np.concatenate([r[name] for r in rows]), rtol=1e-3, atol=1e-4)


def test_runs_with_other_networks_cannot_share_a_program() -> None:
    small, large = (
        RunConfig("probes:Museum", settings=settings("rainbow", SHARED[0], network=network))
        for network in ("mlp:8", "mlp:9")
    )
    with pytest.raises(UserError, match="may differ in their target update and in numbers"):
        FusedEngine(small, probes.Museum(), [large])


# Networks of different kinds


def test_replicate_brings_a_target_of_another_kind_to_the_online_networks_function() -> None:
    """A wide CNN online, a narrow, deeper MLP as its target: no parameters to copy, and yet the functions meet."""
    target = TargetConfig(
        "replicate",
        target_period_updates=50,
        replicate_updates=50,
        replicate_batch_size=32,
        replicate_learning_rate=0.01,
    )
    agent = settings("c51", target, network="cnn4:32", learning_rate=2e-3, v_min=0.0, v_max=4.0, adam_epsilon=1e-8)
    agent = dataclasses.replace(agent, network=dataclasses.replace(agent.network, target_network="mlp:16x16"))
    config = RunConfig("probes:Picture", "c51", 2, steps=4000, settings=agent)
    engine = FusedEngine(config, probes.Picture())
    state, first = engine.measure(engine.advance(engine.init(), after(49)))  # the target has not moved yet
    state, last = engine.measure(engine.advance(state, after(450)))
    assert jax.tree.structure(state.agents.online) != jax.tree.structure(state.agents.target.params)
    assert np.isnan(last["parameter_distance"]).all()
    assert (last["function_gap"] < 0.05).all()
    assert (first["function_gap"] > 0.5).all()
    assert (last["target_updates"] == 450).all()
    # They agree on what is right: a mean of 0.5 over the picture, times action + 1.
    pictures = np.full((1, 5, 5, 2), 0.5, np.float32)
    for network, params in (
        (engine.agent.online, state.agents.online),
        (engine.agent.target, state.agents.target.params),
    ):
        one = jax.tree.map(lambda x: x[0], params)
        values = engine.agent.head.values(network.apply(one, pictures, None).per_action)
        np.testing.assert_allclose(values[0], [0.5, 1.0, 1.5], atol=0.15)
