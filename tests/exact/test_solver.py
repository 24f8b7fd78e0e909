"""Algorithm 1 and its rivals, step by step against arithmetic done by hand."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import (
    Differentiable,
    Problem,
    Settings,
    linear,
    markov_chain,
    mdp,
    problem,
    solve,
    solve_many,
    table,
    true_value,
)
from lookrep.exact.builtin import boyan, random_chain, two_state, two_state_two_spaces

ONE = Settings(
    outer_iterations=1,
    lookahead_updates=2,
    replicate_updates=1,
    lookahead_step_size=0.1,
    replicate_step_size=0.05,
    tau=0.5,
)


def one_state(online_feature: float, target_feature: float) -> Problem:
    """A single state with reward 1 and discount 1/2: everything is a number."""
    return problem(
        markov_chain([[1.0]], [1.0], 0.5),
        online=linear([[online_feature]]),
        target=linear([[target_feature]]),
        online_init=[0.0],
        target_init=[1.0],
    )


def test_one_iteration_of_algorithm_1_by_hand() -> None:
    # Lookahead: y = 1 + 0.5·2 = 2; w = 0.1·2·2 = 0.4, then 0.4 + 0.2·1.6 = 0.72.
    # Replicate: ∇G = 2·2·(2 − 0.72) = 5.12; θ = 1 − 0.05·5.12 = 0.744.
    trace = solve(one_state(1.0, 2.0), ONE)
    np.testing.assert_allclose(trace.online[:, 0], [0.0, 0.72], rtol=1e-14)
    np.testing.assert_allclose(trace.target[:, 0], [1.0, 0.744], rtol=1e-14)
    np.testing.assert_allclose(trace.value_target[:, 0], [2.0, 1.488], rtol=1e-14)
    np.testing.assert_allclose(trace.lookahead_loss, [4.0, (0.72 - 1.744) ** 2], rtol=1e-14)
    np.testing.assert_allclose(trace.replicate_loss, [4.0, (1.488 - 0.72) ** 2], rtol=1e-14)


def test_each_replicate_update_uses_its_own_step_size_in_order() -> None:
    # After θ = 0.744 the gradient is 4·(1.488 − 0.72) = 3.072; the second step size is 0.1.
    settings = replace(ONE, replicate_updates=2, replicate_step_size=(0.05, 0.1))
    np.testing.assert_allclose(solve(one_state(1.0, 2.0), settings).target[-1], [0.744 - 0.3072], rtol=1e-14)


@pytest.mark.parametrize(
    ("method", "online", "target"),
    [
        ("td", 0.38, 0.38),  # 0.2·1 = 0.2, then 0.2 + 0.2·(1.1 − 0.2)
        ("hard", 0.54, 0.54),  # y = 1.5 twice: 0.3, then 0.3 + 0.2·1.2
        ("polyak", 0.505, 0.5775),  # w = 0.3, θ = 0.65; then y = 1.325
        ("residual", 0.195, 0.195),  # error 0.5w − 1 with slope 0.5: 0.1, then 0.1 + 0.1·0.95
    ],
)
def test_one_iteration_of_each_rival_by_hand(method: str, online: float, target: float) -> None:
    trace = solve(one_state(1.0, 1.0), replace(ONE, method=method))  # type: ignore[arg-type]
    np.testing.assert_allclose(trace.online[-1], [online], rtol=1e-14)
    np.testing.assert_allclose(trace.target[-1], [target], rtol=1e-14)


def test_the_trace_has_every_iteration_and_the_start() -> None:
    trace = solve(two_state_two_spaces(), Settings(outer_iterations=7))
    assert trace.target.shape == (8, 3)
    assert trace.online.shape == (8, 2)
    assert trace.value_target.shape == trace.value_online.shape == (8, 2)
    assert trace.lookahead_loss.shape == trace.replicate_loss.shape == (8,)
    np.testing.assert_array_equal(trace.target[0], [1.2, 0.0, 0.3])
    assert trace.target.dtype == np.float64


def test_double_precision_stays_inside_the_solver() -> None:
    solve(two_state(), Settings(outer_iterations=2))
    assert jnp.ones(1).dtype == jnp.float32


def test_solving_together_is_solving_one_by_one() -> None:
    problems = [random_chain(4, seed, 5, 3) for seed in range(3)]
    settings = Settings(outer_iterations=20, lookahead_updates=5, replicate_updates=2)
    together = solve_many(problems, settings)
    for index, each in enumerate(problems):
        np.testing.assert_allclose(together.target[index], solve(each, settings).target, atol=1e-12)
    with pytest.raises(UserError, match="one shape"):
        solve_many([random_chain(3, 0), random_chain(4, 0)], settings)


def test_control_finds_the_optimal_value_worked_out_by_hand() -> None:
    # Action 1 stays, action 2 moves to state 2. Staying in state 2 pays 1 for ever: 1/(1 − 1/2) = 2; from state 1 go
    # there first: 0.5 · 2 = 1.
    stay, move = np.eye(2), np.array([[0.0, 1.0], [0.0, 1.0]])
    process = mdp([stay, move], [[0.0, 1.0], [0.0, 0.0]], 0.5)
    np.testing.assert_allclose(true_value(process), [1.0, 2.0], rtol=1e-12)
    control = problem(process, online=table(2), target=table(2), weighting=[0.5, 0.5])
    trace = solve(control, Settings(outer_iterations=60, lookahead_updates=50, replicate_updates=50))
    np.testing.assert_allclose(trace.value_target[-1], [1.0, 2.0], atol=1e-9)


def test_any_differentiable_value_function_of_any_tree_will_do() -> None:
    def bent(params: dict[str, jnp.ndarray]) -> jnp.ndarray:
        return jnp.exp(params["log"]) + params["shift"] ** 3

    nonlinear = Differentiable(bent)
    chain = two_state().process
    task = problem(
        chain,
        online=table(2),
        target=nonlinear,
        target_init={"log": np.zeros(2, np.float32), "shift": np.array([0.1, 0.2])},
    )
    settings = Settings(outer_iterations=300, lookahead_updates=50, replicate_updates=50, replicate_step_size=0.02)
    trace = solve(task, settings)
    assert set(trace.target) == {"log", "shift"}
    np.testing.assert_allclose(trace.value_target[-1], [2.0, 2.0], atol=1e-8)
    with pytest.raises(UserError, match='replicate_step_size: "auto" needs a linear'):
        solve(task, replace(settings, replicate_step_size="auto"))


def test_the_rivals_agree_on_boyans_chain_except_the_residual_gradient() -> None:
    # TD's fixed point is projected: Φᵀ D (Φw − r − γPΦw) = 0, solved here directly.
    chain, features, weights = boyan().process, boyan().online.features, np.diag(boyan().weighting)
    matrix = features.T @ weights @ (np.eye(13) - chain.discount * chain.transition) @ features
    expected = np.linalg.solve(matrix, features.T @ weights @ chain.reward)
    methods = ("lr", "td", "hard", "polyak", "residual")
    runs = {method: solve(boyan(), Settings(method, 800, 50, 50, tau=0.05)) for method in methods}
    for method in methods[:-1]:
        np.testing.assert_allclose(runs[method].online[-1], expected, atol=1e-6, err_msg=method)
    assert np.abs(runs["residual"].online[-1] - expected).max() > 0.1
    # It minimises the Bellman error itself, so nobody ends lower.
    assert runs["residual"].lookahead_loss[-1] < runs["td"].lookahead_loss[-1]


@pytest.mark.parametrize("method", ["td", "hard", "polyak", "residual"])
def test_copying_parameters_between_different_value_functions_is_refused(method: str) -> None:
    with pytest.raises(UserError, match=f"'{method}' copies or compares parameters"):
        solve(two_state_two_spaces(), Settings(method))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"outer_iterations": 0}, "outer_iterations: 0 is not a whole number from 1"),
        ({"outer_iterations": 10**7}, "outer_iterations: the trace"),
        ({"lookahead_updates": 2.5}, "lookahead_updates: 2.5"),
        ({"replicate_updates": True}, "replicate_updates: True"),
        ({"lookahead_step_size": -1.0}, "lookahead_step_size: -1.0 is not a positive number"),
        ({"replicate_step_size": float("nan")}, "replicate_step_size: nan"),
        ({"replicate_step_size": (0.1, 0.2)}, "replicate_step_size: 2 entries for replicate_updates = 1"),
        ({"tau": 0.0}, r"tau: 0.0 is outside \(0, 1\]"),
        ({"kappa": -1.0}, "kappa: -1.0 is not a number of at least 0"),
        ({"networks": 0}, "networks: 0 is not a whole number from 1 to 100"),
        ({"growth": 0.9}, "growth: 0.9 is not a number of at least 1"),
        ({"method": "growing", "longest_period": 9}, "longest_period: 9 is below the first period"),
        ({"batch_size": 8}, "batch_size: solve takes expectations; use solve_sampled"),
        ({"seed": -1}, "seed: -1 is not a whole number"),
        ({"method": "sarsa"}, "method: 'sarsa' is unknown"),
    ],
)
def test_settings_that_cannot_run_are_refused_by_name(change: dict[str, object], complaint: str) -> None:
    task = random_chain(20, 0)
    with pytest.raises(UserError, match=complaint):
        solve(task, replace(Settings(), **change))  # type: ignore[arg-type]
