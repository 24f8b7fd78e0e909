"""Every method against a loop written out by hand from its paper's equation, and its limits that are known methods.

The loops below know nothing of the package but the problem's numbers. Step sizes are theirs too, so that κ, τ and k
must stand where the papers have them.
"""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import Differentiable, Settings, certify, linear, markov_chain, outer_map, problem, solve
from lookrep.exact.builtin import baird, random_chain, two_state, two_state_two_spaces
from lookrep.exact.methods import METHODS

ALPHA, BETA, TAU, KAPPA, K_L, K_R, NETWORKS = 0.11, 0.07, 0.2, 0.6, 4, 3, 3
SETTINGS = Settings("lr", 1, K_L, K_R, ALPHA, BETA, TAU, KAPPA, NETWORKS, growth=1.0)

Vector = np.ndarray
Turn = Callable[["Hand", Vector, Vector, list[Vector]], tuple[Vector, Vector, list[Vector]]]


class Hand:
    """Gradients of squared D-norms, factor 2 included, for one shared space of features."""

    def __init__(self, task: Any) -> None:
        self.features, self.weights = task.online.features, np.diag(task.weighting)
        self.chain = task.process

    def bellman(self, x: Vector, y: Vector) -> Vector:
        """∇ₓ ‖v_x − T v_y‖²_D, y held fixed."""
        target = self.chain.reward + self.chain.discount * self.chain.transition @ (self.features @ y)
        return 2 * self.features.T @ self.weights @ (self.features @ x - target)

    def gap(self, x: Vector, y: Vector) -> Vector:
        """∇ₓ ‖v_x − v_y‖²_D."""
        return 2 * self.features.T @ self.weights @ (self.features @ (x - y))

    def residual(self, x: Vector) -> Vector:
        slope = self.features - self.chain.discount * self.chain.transition @ self.features
        return 2 * slope.T @ self.weights @ (slope @ x - self.chain.reward)


def online(
    gradient: Callable[[Hand, Vector, Vector], Vector], turn: Callable[..., tuple[Vector, list[Vector]]]
) -> Turn:
    """K_L updates of w alone, then a turn of θ."""

    def iterate(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, Vector, list[Vector]]:
        for _ in range(K_L):
            w = w - ALPHA * gradient(hand, theta, w)
        theta, last = turn(hand, theta, w, last)
        return theta, w, last

    return iterate


def copied(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, list[Vector]]:
    return w, last


def kept(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, list[Vector]]:
    return theta, last


def replicated(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, list[Vector]]:
    for _ in range(K_R):
        theta = theta - BETA * hand.gap(theta, w)
    return theta, last


def averaged(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, list[Vector]]:
    last = [w, *last[:-1]]
    return np.mean(last, axis=0), last


def distilled(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, list[Vector]]:
    last = [w, *last[:-1]]
    return replicated(hand, theta, np.mean(last, axis=0), last)


def polyak(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, Vector, list[Vector]]:
    for _ in range(K_L):
        w = w - ALPHA * hand.bellman(w, theta)
        theta = (1 - TAU) * theta + TAU * w
    return theta, w, last


def asymmetric(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, Vector, list[Vector]]:
    for _ in range(K_L):
        theta, w = theta - BETA * hand.gap(theta, w), w - ALPHA * hand.bellman(w, theta)
    return theta, w, last


def symmetric(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, Vector, list[Vector]]:
    for _ in range(K_L):
        theta, w = (
            theta - BETA * (hand.bellman(theta, w) + KAPPA * hand.gap(theta, w)),
            w - ALPHA * (hand.bellman(w, theta) + KAPPA * hand.gap(w, theta)),
        )
    return theta, w, last


def chain(hand: Hand, theta: Vector, w: Vector, last: list[Vector]) -> tuple[Vector, Vector, list[Vector]]:
    """`last[0]` is w one update ago."""
    for _ in range(K_L):
        w, last = w - ALPHA * (hand.bellman(w, theta) + KAPPA * hand.gap(w, last[0])), [w]
    return w, w, last


BY_HAND: dict[str, Turn] = {
    "lr": online(lambda hand, theta, w: hand.bellman(w, theta), replicated),
    "td": online(lambda hand, theta, w: hand.bellman(w, w), copied),
    "hard": online(lambda hand, theta, w: hand.bellman(w, theta), copied),
    "growing": online(lambda hand, theta, w: hand.bellman(w, theta), copied),  # here by the factor 1
    "polyak": polyak,
    "frozen": online(lambda hand, theta, w: hand.bellman(w, theta), kept),
    "averaged": online(lambda hand, theta, w: hand.bellman(w, theta), averaged),
    "distilled": online(lambda hand, theta, w: hand.bellman(w, theta), distilled),
    "functional": online(lambda hand, theta, w: hand.bellman(w, w) + KAPPA * hand.gap(w, theta), copied),
    "dqn-pro": online(lambda hand, theta, w: hand.bellman(w, theta) + 2 * KAPPA * (w - theta), copied),
    "value-proximal": online(lambda hand, theta, w: hand.bellman(w, theta) + KAPPA * hand.gap(w, theta), copied),
    "chain": chain,
    "asymmetric": asymmetric,
    "symmetric": symmetric,
    "residual": online(lambda hand, theta, w: hand.residual(w), copied),
}
AFFINE = [name for name, parts in METHODS.items() if parts.affine]


def start(task: Any, method: str) -> tuple[Vector, Vector, list[Vector]]:
    theta, w = task.target_init, task.online_init
    if method in ("td", "residual"):
        theta = w
    return theta, w, [w if method in ("distilled", "chain") else theta] * NETWORKS


def test_every_method_with_a_certificate_is_written_out_here() -> None:
    assert sorted(BY_HAND) == sorted(AFFINE)


@pytest.mark.parametrize("build", [lambda: random_chain(3, 11, stationary=False), baird], ids=["random", "baird"])
@pytest.mark.parametrize("method", [name for name in AFFINE if name not in ("averaged", "distilled", "chain")])
def test_the_map_has_the_columns_and_eigenvalues_of_the_loop_by_hand(method: str, build: Callable[[], Any]) -> None:
    task = build()
    settings = replace(SETTINGS, method=method)
    hand, iterate, size = Hand(task), BY_HAND[method], len(task.target_init)
    zero = np.concatenate(iterate(hand, np.zeros(size), np.zeros(size), [])[:2])
    columns = [np.concatenate(iterate(hand, unit[:size], unit[size:], [])[:2]) - zero for unit in np.eye(2 * size)]
    step, found = outer_map(task, settings), certify(task, settings)
    np.testing.assert_allclose(step.matrix, np.array(columns).T, atol=1e-12)
    np.testing.assert_allclose(step.offset, zero, atol=1e-12)
    # The whole matrix has the eigenvalues of what moves, and 1 for each direction that never does.
    radii = np.sort(np.abs(np.linalg.eigvals(np.array(columns).T)))
    assert found.rate == pytest.approx(radii[radii < 1 - 1e-9].max() if found.converges else radii[-1], abs=1e-7)


@pytest.mark.parametrize("method", AFFINE)
def test_the_loop_by_hand_takes_the_maps_path_and_ends_at_the_certified_limit(method: str) -> None:
    task = random_chain(3, 10, discount=0.5, stationary=False)
    settings = replace(SETTINGS, method=method)
    hand, iterate = Hand(task), BY_HAND[method]
    found, step = certify(task, settings), outer_map(task, settings)
    theta, w, last = start(task, method)
    z = step.start
    for turn in range(400):
        theta, w, last = iterate(hand, theta, w, last)
        if turn < 6:
            z = step.matrix @ z + step.offset
            np.testing.assert_allclose(z[: 2 * len(w)], np.concatenate([theta, w]), atol=1e-11)
    assert found.converges
    np.testing.assert_allclose(theta, found.limit_target, atol=1e-6)
    np.testing.assert_allclose(w, found.limit_online, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "change", "known"),
    [
        ("functional", {"kappa": 0.0}, "td"),
        ("value-proximal", {"kappa": 0.0}, "hard"),
        ("dqn-pro", {"kappa": 0.0}, "hard"),
        ("chain", {"kappa": 0.0}, "hard"),
        ("averaged", {"networks": 1}, "hard"),
        ("distilled", {"networks": 1}, "lr"),
        ("growing", {"longest_period": K_L, "growth": 2.0}, "hard"),
        ("polyak", {"tau": 1.0}, "td"),
    ],
)
def test_at_its_limit_a_method_is_a_known_one(method: str, change: dict[str, Any], known: str) -> None:
    for task in (random_chain(3, 11, stationary=False), baird()):
        # TD starts with one set of parameters, and takes α as the others do.
        task = replace(task, target_init=task.online_init)
        found = outer_map(task, replace(SETTINGS, method=method, **change))
        expected = outer_map(task, replace(SETTINGS, method=known))
        both = 2 * len(task.online_init)  # θ and w; some remember another network
        after, wanted = ((step.matrix @ step.start + step.offset)[:both] for step in (found, expected))
        np.testing.assert_allclose(after, wanted, atol=1e-13)
        rates = [
            certify(task, replace(SETTINGS, method=name, **extra)).rate
            for name, extra in ((method, change), (known, {}))
        ]
        assert rates[0] == pytest.approx(rates[1], rel=1e-9)


@pytest.mark.parametrize("kappa", [0.1, 1.0, 30.0])
def test_half_of_the_step_size_at_which_chain_diverges_is_its_automatic_one(kappa: float) -> None:
    """With a frozen bootstrap (γ = 0) an error follows e ← (1 − a − aκ)e + aκe⁻ in each direction, a = 2αλ: it dies
    out where a(1 + 2κ) < 2, as the two roots of z² − (1 − a − aκ)z − aκ say."""
    task = random_chain(4, 5, shared_features=3, discount=0.0)
    hand = Hand(task)
    for factor, converges in ((1.0, True), (1.99, True), (2.01, False)):
        largest = np.linalg.eigvalsh(hand.features.T @ hand.weights @ hand.features)
        alpha = factor / (2 * largest[-1] * (1 + 2 * kappa))
        found = certify(task, Settings("chain", 1, 1, lookahead_step_size=alpha, kappa=kappa))
        assert found.converges == converges
        a = 2 * alpha * largest
        roots = [np.abs(np.roots([1.0, -(1 - each - each * kappa), -each * kappa])).max() for each in a]
        assert found.rate == pytest.approx(max(roots), rel=1e-9)
    automatic = certify(task, Settings("chain", 1, 1, kappa=kappa)).rate
    by_hand = certify(task, Settings("chain", 1, 1, lookahead_step_size=alpha / 2.01, kappa=kappa)).rate
    assert automatic == pytest.approx(by_hand, rel=1e-12)


def test_functional_regularisation_has_the_spectrum_of_its_paper() -> None:
    # Piché et al.: with an exact fit between turns, θ ← κ (Φᵀ D ((1 + κ) − γP) Φ)⁻¹ Φᵀ D Φ θ + const.
    for seed in range(20):
        task = random_chain(6, seed, shared_features=3, stationary=seed % 2 == 0)
        hand, kappa = Hand(task), (0.1, 1.0, 5.0)[seed % 3]
        gram = hand.features.T @ hand.weights
        bootstrap = (1 + kappa) * np.eye(6) - hand.chain.discount * hand.chain.transition
        exact = kappa * np.linalg.solve(gram @ bootstrap @ hand.features, gram @ hand.features)
        inner = np.linalg.eigvals(gram @ bootstrap @ hand.features)
        if inner.real.min() <= 0:
            continue  # between turns it diverges
        alpha = 0.5 * (inner.real / np.abs(inner) ** 2).min()
        found = certify(task, Settings("functional", 1, 10**6, lookahead_step_size=alpha, kappa=kappa))
        assert found.rate == pytest.approx(np.abs(np.linalg.eigvals(exact)).max(), rel=1e-6)


def test_a_growing_period_ends_at_the_rate_of_projected_value_iteration() -> None:
    task = random_chain(6, 1, shared_features=3, discount=0.95)
    hand = Hand(task)
    gram = hand.features.T @ hand.weights
    exact = 0.95 * np.linalg.solve(gram @ hand.features, gram @ hand.chain.transition @ hand.features)
    wanted = np.abs(np.linalg.eigvals(exact)).max()
    rates = [certify(task, Settings("growing", 1, 10, longest_period=most)).rate for most in (10, 100, 10_000)]
    assert rates[2] == pytest.approx(wanted, rel=1e-6)
    assert abs(rates[1] - wanted) < abs(rates[0] - wanted)


def test_dqn_pro_keeps_what_no_gradient_reaches() -> None:
    # Two parameters of one state count only by their sum; their difference, pulled to θ's, ends between both starts.
    task = problem(
        markov_chain([[1.0]], [1.0], 0.5), linear([[1.0, 1.0]]), linear([[1.0, 1.0]]), None, [3.0, 0.0], [0.0, 1.0]
    )
    pull = (1 - 2 * ALPHA * KAPPA) ** K_L
    found = certify(task, replace(SETTINGS, method="dqn-pro"))
    assert found.converges
    assert found.limit_online is not None
    assert found.limit_online.sum() == pytest.approx(2.0)
    assert found.limit_online[0] - found.limit_online[1] == pytest.approx(pull * 3.0 + (1 - pull) * -1.0)


def test_the_smaller_of_both_values_has_no_certificate_and_is_run_all_the_same() -> None:
    settings = replace(SETTINGS, method="minto", outer_iterations=300)
    with pytest.raises(UserError, match="'minto' reads the smaller of two values"):
        certify(two_state(), settings)
    task = random_chain(3, 10, discount=0.5)
    trace, hand = solve(task, settings), Hand(task)
    theta, w = task.target_init, task.online_init
    for _ in range(300):
        for _ in range(K_L):
            smaller = np.minimum(hand.features @ theta, hand.features @ w)
            target = hand.chain.reward + hand.chain.discount * hand.chain.transition @ smaller
            w = w - ALPHA * 2 * hand.features.T @ hand.weights @ (hand.features @ w - target)
        theta = w
    np.testing.assert_allclose(trace.online[-1], w, atol=1e-9)
    truth = np.linalg.solve(np.eye(3) - hand.chain.discount * hand.chain.transition, hand.chain.reward)
    np.testing.assert_allclose(trace.value_target[-1], truth, atol=1e-6)


def test_methods_that_copy_nothing_solve_different_spaces_too() -> None:
    for name, parts in METHODS.items():
        settings = Settings(name, 1, 50, 50)
        if parts.one_class:
            with pytest.raises(UserError, match="choose from 'lr', 'frozen', 'distilled', 'asymmetric', 'symmetric'"):
                certify(two_state_two_spaces(), settings)
        elif name != "frozen":
            found = certify(two_state_two_spaces(), settings)
            assert found.converges
            np.testing.assert_allclose(two_state_two_spaces().target.features @ found.limit_target, [2, 2], atol=1e-9)


def test_an_averaged_target_is_the_mean_of_values_which_no_parameters_need_have() -> None:
    bent = Differentiable(lambda params: params**3)
    task = problem(two_state().process, bent, bent, None, np.array([0.5, 1.0]), np.array([1.0, 1.2]))
    trace = solve(task, replace(SETTINGS, method="averaged", outer_iterations=3, lookahead_step_size=0.02))
    expected = np.mean([bent(trace.online[row]) for row in (1, 2, 3)], axis=0)
    np.testing.assert_allclose(trace.value_target[3], expected, rtol=1e-12)
    assert np.abs(trace.value_target[3] - bent(trace.target[3])).max() > 1e-6


def test_too_many_networks_for_a_certificate_are_refused_in_one_line() -> None:
    with pytest.raises(UserError, match="networks: all of them have 2121 parameters"):
        certify(random_chain(100, 0), Settings("averaged", networks=20))


def test_the_solver_needs_neither_flax_nor_optax() -> None:
    names = "certify, solve, solve_sampled, audit"
    program = f"import sys; from lookrep.exact import {names}; import lookrep.exact.solution, lookrep.exact.figures; "
    program += "print([name for name in ('flax', 'optax') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
