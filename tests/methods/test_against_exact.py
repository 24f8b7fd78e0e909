"""What trains networks and what solves problems exactly are the same methods: with a linear value function, plain
gradient descent and every state in the batch, an agent walks the path of `lookrep.exact`."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lookrep import config as configs
from lookrep.agents import Agent, AgentState, Parts
from lookrep.exact import Problem, Settings, linear, markov_chain, problem, solve
from lookrep.exact.settings import periods
from lookrep.replay import Batch

pytestmark = pytest.mark.usefixtures("quick_compilation")

STATES, FEATURES, DISCOUNT, STEP, KAPPA, TAU = 4, 3, 0.8, 0.15, 0.4, 0.2
TURNS, PERIOD, REPLICATED, NETWORKS = 6, 3, 2, 3
RNG = np.random.default_rng(0)
NEXT = RNG.integers(0, STATES, STATES)
REWARD = 0.1 * RNG.normal(size=STATES)
SEEN = RNG.normal(size=(STATES, FEATURES)).astype(np.float32)
START = 0.1 * RNG.normal(size=FEATURES)
BATCH = Batch(
    SEEN, np.zeros(STATES, np.int32), REWARD.astype(np.float32), np.full(STATES, DISCOUNT, np.float32), SEEN[NEXT],
    np.arange(STATES), np.ones(STATES, np.float32),
)  # fmt: skip


def trained(method: str, updates: int, target_step: float = STEP, **given: Any) -> tuple[np.ndarray, np.ndarray]:
    """The agent's own path: parameters of both networks after so many updates. Its squared errors have a factor ½."""
    flat: dict[str, Any] = {
        "discount": DISCOUNT, "learning_rate": 2 * STEP, "target_period_updates": PERIOD, "tau": TAU, "kappa": KAPPA,
        "replicate_updates": REPLICATED, "averaged_networks": NETWORKS,
    }  # fmt: skip
    if method not in ("averaged", "distilled"):
        del flat["averaged_networks"]
    settings = configs.from_flat({"env": "a:b", "agent": "dqn", "method": method, **flat, **given}).settings
    network = (lambda key: jnp.asarray(START, jnp.float32), lambda w, x: (x @ w)[:, None, None])
    parts = Parts(network=network, optimizer=optax.sgd(2 * STEP), replicate_optimizer=optax.sgd(target_step))
    agent = Agent(settings, (FEATURES,), 1, parts)

    def update(state: AgentState, n: jax.Array) -> tuple[AgentState, None]:
        key, reference = jax.random.key(n), BATCH if agent.wants_reference else None
        state, _ = agent.learn(state, state.online, state.target.params, BATCH, key, None, None, reference)
        rule = agent.rule(agent._numbers)
        target = rule.update(state.target, state.online, n, lambda k: agent.turn_inputs(BATCH, jax.random.key(k)))
        return state._replace(target=target), None

    first = agent.init(jax.random.key(0))
    last, _ = jax.jit(lambda state: jax.lax.scan(update, state, jnp.arange(1, updates + 1)))(first)
    theta = last.target.params
    return np.asarray(last.online), np.asarray(theta.mean(axis=0) if method == "averaged" else theta)


def same_problem() -> Problem:
    chain = markov_chain(np.eye(STATES)[NEXT], REWARD, DISCOUNT)
    return problem(chain, linear(SEEN), linear(SEEN), np.full(STATES, 1 / STATES), START, START)


EXACT = Settings("lr", TURNS, PERIOD, REPLICATED, STEP, STEP, TAU, KAPPA, NETWORKS, growth=1.0)


@pytest.mark.parametrize(
    ("method", "exact", "given", "settings"),
    [
        ("hard", "hard", {}, {}),
        ("reset-optimizer", "hard", {}, {}),  # plain descent has nothing to forget
        ("polyak", "polyak", {}, {}),
        ("frozen", "frozen", {}, {}),
        ("replicate", "lr", {}, {}),
        ("paper-replicate", "lr", {}, {}),
        ("plain", "td", {"bootstrap": "online"}, {}),
        ("growing", "growing",
         {"target_period_updates": 2, "target_period_growth": 1.4, "target_period_most_updates": 8},
         {"lookahead_updates": 2, "growth": 1.4, "longest_period": 8}),
        ("averaged", "averaged", {}, {}),
        ("distilled", "distilled", {}, {}),
        ("functional", "functional", {}, {}),
        ("value-proximal", "value-proximal", {}, {}),
        ("dqn-pro", "dqn-pro", {}, {}),  # its share is the setting's step size, whatever optimiser one brings
        ("chain", "chain", {}, {}),
        ("minto", "minto", {}, {}),
        # In turns, and not at once: that is LR with one step of each.
        ("asymmetric", "lr", {"target_period_updates": 1, "replicate_updates": 1},
         {"lookahead_updates": 1, "replicate_updates": 1}),
    ],
)  # fmt: skip
def test_an_agent_takes_the_path_of_the_exact_solver(
    method: str, exact: str, given: dict[str, Any], settings: dict[str, Any]
) -> None:
    settings_of = dataclasses.replace(EXACT, method=exact, **settings)
    trace = solve(same_problem(), settings_of)
    online, target = trained(method, sum(periods(settings_of)), **given)
    np.testing.assert_allclose(online, trace.online[-1], rtol=0, atol=1e-6)
    if exact != "td":  # there the target is the online network; here it follows as ever, to be looked at
        np.testing.assert_allclose(target, trace.target[-1], rtol=0, atol=1e-6)
    assert np.abs(trace.online[-1] - START).max() > 0.02


def test_symmetric_updates_are_each_others_mirror_in_turns() -> None:
    online, target = trained("symmetric", 20, 2 * STEP, target_period_updates=1, replicate_updates=1)
    w = theta = START

    def pulled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        error = SEEN @ x - REWARD - DISCOUNT * (SEEN @ y)[NEXT] + KAPPA * SEEN @ (x - y)
        return x - 2 * STEP * SEEN.T @ error / STATES

    for _ in range(20):
        w = pulled(w, theta)
        theta = pulled(theta, w)
    np.testing.assert_allclose(online, w, rtol=0, atol=1e-6)
    np.testing.assert_allclose(target, theta, rtol=0, atol=1e-6)
