"""The audit of Theorem 1: its constants by hand, its formulas, and the fact that it can never pass."""

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import Differentiable, audit, linear, problem
from lookrep.exact.builtin import random_chain, tsitsiklis_van_roy, two_state, two_state_two_spaces
from lookrep.exact.theory import audit_constants


def test_the_constants_of_w_to_2w_by_hand() -> None:
    # Φ = (1, 2): κ₁² = 5; 2ΦᵀDΦ = 5 = L = F_w; 2γΦᵀDPΦ = 2·0.99·½·(2 + 4) = 5.94.
    found = audit(tsitsiklis_van_roy(), lookahead_updates=1, replicate_updates=1)
    assert found.kappa1 == pytest.approx(np.sqrt(5))
    assert pytest.approx(5.0) == found.L
    assert found.F_w == pytest.approx(5.0)
    assert found.F_theta == pytest.approx(5.94)
    assert found.a == pytest.approx(0.0, abs=1e-12)
    assert found.eta == pytest.approx(1.188)
    assert found.zeta == pytest.approx(1.188**2)


def test_the_audit_says_which_requirement_fails_and_by_how_much() -> None:
    found = audit(tsitsiklis_van_roy(), 1, 1)
    shortfall = {requirement.name: requirement.shortfall for requirement in found.requirements}
    assert shortfall["F_w > 0"] == 0.0
    assert shortfall["F_w > F_θ"] == pytest.approx(0.94)
    assert shortfall["F_w > 7κ₁²"] == pytest.approx(30.0)
    assert shortfall["F_w > 4κ₁²/(1−ζ)"] is None  # ζ ≥ 1
    assert "7κ₁² = 35 (short by 30)" in found.why
    assert "\n" not in found.why


def test_the_papers_first_example_is_not_strongly_convex() -> None:
    found = audit(two_state(), 400, 1)
    assert found.F_w == 0.0
    assert found.eta is None
    assert found.zeta is None
    assert not found.holds
    assert found.why.startswith("H is not strongly convex in w")
    assert audit(two_state_two_spaces(), 400, 1).F_w > 0


def test_no_random_chain_has_strong_convexity_above_twice_the_squared_lipschitz_constant() -> None:
    draw = np.random.default_rng(0)
    closest = 0.0
    for seed in range(3000):
        states = int(draw.integers(1, 9))
        task = random_chain(
            states,
            seed,
            online_features=int(draw.integers(1, states + 2)),
            target_features=int(draw.integers(1, states + 2)),
            discount=float(draw.uniform(0, 0.999)),
            stationary=bool(draw.integers(2)),
        )
        found = audit(task, int(draw.integers(1, 100)), int(draw.integers(1, 10)))
        bound = 2 * task.weighting.max() * found.kappa1**2
        assert found.F_w <= bound * (1 + 1e-9)
        assert bound <= 2 * found.kappa1**2
        assert not found.holds
        # The consequence for the recipe: β_0's root is never real.
        assert found.steps.beta_first is None
        closest = max(closest, found.F_w / (2 * found.kappa1**2))
    assert closest > 0.9  # the search did come near the bound, so it could have crossed it


def test_a_single_state_reaches_the_bound() -> None:
    one = problem(random_chain(1, 0).process, online=linear([[3.0]]), target=linear([[3.0]]))
    found = audit(one, 1, 1)
    assert found.F_w == pytest.approx(18.0)
    assert found.kappa1 == pytest.approx(3.0)


def test_the_theorems_formulas_on_constants_that_no_problem_has() -> None:
    # κ₁ = 1, F_θ = 5, L = F_w = 10, K_L = 1: a = 0, η = ½, A = 1.25, B = 8.75, ζ = ¼, J = 13.
    found = audit_constants(1.0, 5.0, 10.0, 10.0, lookahead_updates=1, replicate_updates=2)
    assert found.holds
    assert found.why == "every requirement of Theorem 1 holds"
    assert found.zeta == pytest.approx(0.25)
    assert pytest.approx(13.0) == found.J
    assert found.steps.alpha == pytest.approx(0.1)
    assert found.steps.beta_first == pytest.approx(0.25 / (8.75 + 8.003905), rel=1e-6)
    assert found.steps.beta_later == pytest.approx((39 + 11.704700) / 32, rel=1e-6)
    x = (39 + 11.704700) / 32
    assert found.steps.sigma == pytest.approx(np.sqrt(1 - 13 * x + 8 * x**2), rel=1e-5)
    single = audit_constants(1.0, 5.0, 10.0, 10.0, 1, 1).steps
    x = 0.25 / (8.75 + 8.003905)
    assert single.sigma == pytest.approx(np.sqrt(10 * x**2 - 17.5 * x + 1.25), rel=1e-6)


def test_the_theorems_later_steps_always_flip_its_induction() -> None:
    # docs/theory.md: the proof multiplies a bound by 1 − 2β_k F_w, which the theorem's own conditions make negative.
    draw = np.random.default_rng(1)
    checked = 0
    for _ in range(2000):
        F_w = float(draw.uniform(7, 100))
        found = audit_constants(1.0, F_w * float(draw.uniform(0, 1)), F_w * float(draw.uniform(1, 3)), F_w, 3, 2)
        if found.holds:
            checked += 1
            assert found.steps.beta_later is not None
            assert 1 - 2 * found.steps.beta_later * F_w < -4
    assert checked > 500


def test_constants_too_far_apart_for_floating_point_are_infinite_and_no_error() -> None:
    tiny, huge = linear([[1e-90], [1e-90]]), linear([[1e99], [1e99]])
    found = audit(problem(two_state().process, online=tiny, target=huge), 3, 3)
    assert found.zeta == np.inf
    assert not found.holds


def test_the_audit_needs_the_linear_case() -> None:
    chain = two_state().process
    task = problem(chain, linear(np.eye(2)), Differentiable(lambda p: p**3), target_init=np.ones(2))
    with pytest.raises(UserError, match="linear value functions"):
        audit(task, 1, 1)
