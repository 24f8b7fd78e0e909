"""Claims about every method, in one table: it learns known values, its target moves in its turn alone, and where its
number is 0, or its target is the online network, it is the method that it started from.

Every method is one compiled program of two agents, which differ in κ alone: the method's own, and 0.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import probes
import pytest

import lookrep
from lookrep import config as configs
from lookrep import methods
from lookrep.agents import Agent, AgentState, Numbers, Parts, numbers_of
from lookrep.config import AgentConfig
from lookrep.errors import UserError
from lookrep.methods import optimisers
from lookrep.replay import Batch

pytestmark = pytest.mark.usefixtures("quick_compilation")

DISCOUNT, PERIOD, UPDATES = 0.5, 20, 600
TRACED = 2 * PERIOD + 5  # the first so many updates are looked at one by one
KAPPA = {"dqn-pro": 1.0, "chain": 10.0}  # otherwise the method's own: these would take longer than we have
PLACES = [place for place in range(probes.PLACES) if place not in (probes.LOTTERY, probes.BEFORE_LOTTERY)]
ATOMS = {"atoms": 13, "v_min": -2.0, "v_max": 4.0, "quantiles": 5}


class Trial(NamedTuple):
    """What two agents came to; arrays have an axis of agents first, then one of updates where there is one."""

    config: AgentConfig
    agent: Agent
    first: AgentState
    trace: tuple[Any, Any, jax.Array]  # online, target's parameters, how often it has changed, after each update
    clock: jax.Array  # Adam's count of steps, after each update
    last: AgentState


def settings(method: str | methods.Method, preset: str = "dqn", **target: Any) -> AgentConfig:
    base = configs.preset(preset)
    base = dataclasses.replace(
        base,
        network=dataclasses.replace(base.network, network="mlp:32"),
        learning=dataclasses.replace(
            base.learning,
            discount=DISCOUNT,
            learning_rate=5e-3,
            adam_epsilon=1e-8,
            **ATOMS,
        ),
        target=dataclasses.replace(
            base.target, target_period_updates=PERIOD, replicate_updates=15, replicate_learning_rate=None, tau=0.1
        ),
    )
    config = configs.with_method(base, method)
    kappa = KAPPA.get(config.method.method, config.method.kappa)
    return dataclasses.replace(
        config,
        target=dataclasses.replace(config.target, **target),
        method=dataclasses.replace(config.method, kappa=kappa),
    )


def museum() -> Batch:
    """Every transition between places without chance, once."""
    steps = []
    for place in PLACES:
        for action in (0, 1):
            reward = (-1.0, 1.0)[action] if place == probes.CHOICE else probes.REWARD.get(place, 0.0)
            following = probes.NEXT.get(place)
            steps.append((place, action, reward, 0.0 if following is None else DISCOUNT, following or probes.END))
    place, action, reward, discount, following = map(np.array, zip(*steps, strict=True))
    eye, count = np.eye(probes.PLACES, dtype=np.float32), len(steps)
    return Batch(
        eye[place], action.astype(np.int32), reward.astype(np.float32), discount.astype(np.float32), eye[following],
        np.arange(count), np.ones(count, np.float32),
    )  # fmt: skip


MUSEUM = museum()


def worth() -> np.ndarray:
    """What every transition is worth: the fixed point of r + γ max q(s′, ·)."""
    q = np.zeros((probes.PLACES, 2))
    for _ in range(60):
        value = MUSEUM.reward + MUSEUM.discount * q[MUSEUM.next_observation.argmax(axis=1)].max(axis=1)
        q[MUSEUM.observation.argmax(axis=1), MUSEUM.action] = value
    return value


def values(agent: Agent, network: Any, params: Any) -> np.ndarray:
    """[agents, places, actions]"""
    seen = np.eye(probes.PLACES, dtype=np.float32)
    return np.asarray(jax.vmap(lambda p: agent.head.values(network.apply(p, seen, None).per_action))(params))


@functools.cache
def trial(method: str, preset: str = "dqn", updates: int = UPDATES, **target: Any) -> Trial:
    """Two agents that learn from all transitions at once, and whose targets have their turns by the public path."""
    return run(settings(method, preset, **target), updates)


def run(config: AgentConfig, updates: int = UPDATES) -> Trial:
    agent = Agent(config, (probes.PLACES,), 2)
    own = numbers_of(config)

    def learned(key: jax.Array, kappa: jax.Array) -> tuple[Any, ...]:
        numbers: Numbers = own._replace(kappa=kappa)

        def update(state: AgentState, n: jax.Array) -> tuple[AgentState, Any]:
            reference = MUSEUM if agent.wants_reference else None
            used = state.online, state.target.params
            state, _ = agent.learn(state, *used, MUSEUM, jax.random.fold_in(key, n), None, numbers, reference)

            def batches(k: jax.Array) -> Any:
                return agent.turn_inputs(MUSEUM, jax.random.fold_in(jax.random.fold_in(key, -n), k))

            state = state._replace(target=agent.rule(numbers).update(state.target, state.online, n, batches))
            seen = state.online, state.target.params, state.target.updates
            return state, (seen, state.optimizer[0].count)

        first = agent.init(key)
        last, (trace, clock) = jax.lax.scan(update, first, jnp.arange(1, updates + 1))
        return first, trace, clock, last

    kappas = jnp.array([config.method.kappa, 0.0])
    two = jax.jit(jax.vmap(learned, in_axes=(None, 0)))(jax.random.key(3), kappas)
    return Trial(config, agent, *jax.device_get(two))


def assert_same(found: Any, expected: Any, **tolerance: float) -> None:
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    for a, b in pairs:
        np.testing.assert_allclose(a, b, **({"rtol": 0, "atol": 0} | tolerance))


# `plain` is `hard` here, what `frozen` learns is its start's, and `renewed` is an engine's work.
METHODS = [name for name in methods.names() if name not in ("plain", "frozen", "renewed")]
LONG = ("paper-replicate", "recipe")  # replicate with numbers that take long: one head will do
TABLE = [("dqn", name) for name in METHODS]
TABLE += [(preset, name) for preset in ("c51", "qr-dqn") for name in METHODS if name not in LONG]
# IQN's head is QR-DQN's; where outputs of two networks meet, its fractions must be the same.
ALIKE = (*LONG, "growing", "dqn-pro", "reset-optimizer", "relative-adam")  # to hard or replicate, as far as heads go
TABLE += [("iqn", name) for name in METHODS if name not in ALIKE]
TABLE += [("double-dqn", name) for name in ("minto", "functional", "symmetric", "averaged")]
LONGER = dict.fromkeys(LONG, 5 * UPDATES)  # a target step in ten updates


@pytest.mark.parametrize(("preset", "method"), TABLE)
def test_every_method_learns_the_known_values_and_keeps_shapes_and_turns(preset: str, method: str) -> None:
    found = trial(method, preset, LONGER.get(method, UPDATES))
    # Shapes, types and structure are those of the start.
    described = [jax.tree.map(lambda x: (x.shape, x.dtype), state) for state in (found.first, found.last)]
    assert described[0] == described[1]

    # The target moves when its turn comes, and not in between.
    online, target, count = found.trace
    schedule = found.agent.schedule
    at = [n for n in range(2, TRACED + 1) if schedule.due(n)]
    for n in range(2, TRACED + 1):
        moved = any((x[0, n - 1] != x[0, n - 2]).any() for x in jax.tree.leaves(target))
        assert moved == (n in at), n
        assert (count[0, n - 1] > count[0, n - 2]) == (n in at)
        assert any((x[0, n - 1] != x[0, n - 2]).any() for x in jax.tree.leaves(online))
    assert len(at) == {"growing": 1}.get(method, TRACED - 1 if schedule.period == 1 else 2)

    # What was learned is known, of both networks.
    place, action, expected = MUSEUM.observation.argmax(axis=1), MUSEUM.action, worth()
    used = found.agent.target_params(found.last.online, found.last.target.params)
    for network, params in ((found.agent.online, found.last.online), (found.agent.target, used)):
        learned = values(found.agent, network, params)[0]
        np.testing.assert_allclose(learned[place, action], expected, atol=0.12)


# Limits


@pytest.mark.parametrize(
    ("method", "limit"),
    [
        ("value-proximal", "hard"),
        ("dqn-pro", "hard"),
        ("chain", "hard"),
        ("functional", "online"),
        ("symmetric", "without"),
    ],
)
def test_without_its_weight_a_regulariser_is_not_there(method: str, limit: str) -> None:
    found = trial(method)
    expected = {
        "hard": lambda: trial("hard"),
        "online": lambda: run(with_parts(settings("hard"), bootstrap="online"), TRACED),
        "without": lambda: run(with_parts(settings("symmetric"), regulariser="none", kappa=0.0), TRACED),
    }[limit]()
    for agents, same in ((1, True), (0, False)):
        ends = (jax.tree.map(lambda x: x[agents, TRACED - 1], run.trace[0]) for run in (found, expected))
        if same:
            assert_same(*ends, atol=1e-6)
        else:
            assert max(np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, ends), strict=True)) > 1e-3


def with_parts(config: AgentConfig, **parts: Any) -> AgentConfig:
    return dataclasses.replace(config, method=dataclasses.replace(config.method, **parts))


@pytest.mark.parametrize("parts", [{"bootstrap": "smaller"}, {"bootstrap": "online"}, {"shared_trunk": True}], ids=str)
def test_where_the_target_is_the_online_network_it_does_not_matter_which_is_read(parts: dict[str, Any]) -> None:
    found = run(with_parts(settings("hard", target_period_updates=1), **parts), TRACED)
    expected = trial("hard", updates=TRACED, target_period_updates=1)
    assert_same(found.trace, expected.trace, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "updates"),
    [("reset-optimizer", PERIOD), ("relative-adam", PERIOD), ("averaged", PERIOD), ("distilled", PERIOD),
     ("shared-trunk", 1), ("minto", 1)],
)  # fmt: skip
def test_until_it_has_something_to_do_a_method_is_hard_copy(method: str, updates: int) -> None:
    """Until the first turn, or for one update, after which trunks and values are no longer those of the target."""
    for n, same in ((updates, True), (TRACED, False)):
        ours, theirs = (jax.tree.map(lambda x: x[0, n - 1], trial(name).trace[0]) for name in (method, "hard"))
        largest = max(np.abs(a - b).max() for a, b in zip(*map(jax.tree.leaves, (ours, theirs)), strict=True))
        assert (largest < 1e-6) == same


def test_averages_of_one_network_and_periods_that_do_not_grow_are_hard_copies() -> None:
    """K = 1 is no average for the settings; here the rules that averages are made of are asked."""
    for method in (methods.averaged(1), methods.growing(PERIOD, 1.0)):
        assert settings(method).target.target == "hard"
        assert Agent(settings(method), (probes.PLACES,), 2).schedule.period == PERIOD
    several = [Agent(settings(methods.averaged(k)), (probes.PLACES,), 2) for k in (1, 2)]
    assert [agent.same_shape for agent in several] == [True, False]


def test_with_double_learning_each_network_of_a_symmetric_pair_chooses_for_itself() -> None:
    """One state, two actions: w has 0.1 and 0.2, θ 0.6 and 0. By itself each would learn from the other's best."""
    table = (lambda key: jnp.zeros((1, 2)), lambda w, x: (x @ w)[..., None])
    config = dataclasses.replace(settings("symmetric", "double-dqn"), network=configs.preset("dqn").network)
    agent = Agent(with_parts(config, kappa=0.0), (1,), 2, Parts(network=table))
    w, theta, one = jnp.array([[0.1, 0.2]]), jnp.array([[0.6, 0.0]]), jnp.ones((1, 1))
    batch = Batch(one, jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.full(1, DISCOUNT), one, jnp.zeros(1), jnp.ones(1))
    seen = agent.turn_inputs(batch, jax.random.key(0))
    for double, learned_from in ((True, 0.1), (False, 0.2)):
        learning = dataclasses.replace(agent.settings.learning, double=double)
        of = Agent(dataclasses.replace(agent.settings, learning=learning), (1,), 2, Parts(network=table))
        loss = of.rule(numbers_of(of.settings)).distance.loss(theta, w, seen)
        np.testing.assert_allclose(loss, 0.5 * (DISCOUNT * learned_from - 0.6) ** 2, atol=1e-6)


def test_adams_clock_counts_from_the_last_turn() -> None:
    """A turn comes after update 20; update 21 is the first after it."""
    since = np.arange(1, TRACED + 1)
    np.testing.assert_array_equal(trial("hard").clock[0, :TRACED], since)
    for method in ("reset-optimizer", "relative-adam"):
        np.testing.assert_array_equal(trial(method).clock[0, :TRACED], (since - 1) % PERIOD + 1)


def test_a_new_optimiser_has_no_moments_and_relative_adam_keeps_them() -> None:
    adam = optax.adam(1e-3)
    _, aged = adam.update({"w": jnp.ones(2)}, adam.init({"w": jnp.zeros(2)}))
    for how, moment in (("reset", 0.0), ("relative", float(aged[0].mu["w"][0]))):
        state = optimisers.after_turn(how, adam, aged, {"w": jnp.zeros(2)}, jnp.array(True))
        assert (int(state[0].count), state[0].mu["w"].tolist()) == (0, [moment, moment])


def test_a_shared_trunk_is_not_pulled_to_a_copy_that_nobody_reads() -> None:
    config = settings("shared-trunk+dqn-pro")
    agent, own = Agent(config, (probes.PLACES,), 2), numbers_of(config)
    state = agent.init(jax.random.key(0))
    lagging = jax.tree.map(lambda x: x + 1.0, state.online)
    state = state._replace(target=state.target._replace(params=lagging))
    with_pull, without = (
        jax.jit(agent.learn)(state, state.online, lagging, MUSEUM, jax.random.key(1), None, numbers)[0].online
        for numbers in (own, own._replace(kappa=0.0))
    )
    for path, pull in jax.tree_util.tree_leaves_with_path(jax.tree.map(jnp.subtract, with_pull, without)):
        expected = own.learning_rate * own.kappa if "q_out" in jax.tree_util.keystr(path) else 0.0
        np.testing.assert_allclose(pull, expected, atol=1e-7)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shared_trunk": True}, "shared_trunk needs a last layer of ours"),
        ({"optimizer_at_turn": "relative"}, "sets back Adam's clock"),
        ({"layer_norm": True}, "layer_norm: normalises networks of ours"),
    ],
)
def test_parts_of_ones_own_that_a_method_cannot_work_with_are_refused(settings: dict[str, Any], words: str) -> None:
    def whole(key: jax.Array, observations: jax.Array) -> Any:
        return jnp.zeros((observations[0].size, 2))

    parts: dict[str, Any] = {"network": (whole, lambda w, x: (x @ w)[..., None]), "optimizer": optax.sgd(1e-3)}
    with pytest.raises(UserError, match=words):
        lookrep.train("probes:Museum", agent="dqn", steps=100_000, **parts, **settings)
