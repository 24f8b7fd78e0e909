"""The certificate against the algorithm itself: rate, verdict and limit on many random chains and on the classics."""

from dataclasses import replace

import numpy as np
import pytest

from lookrep.exact import MarkovChain, Problem, Settings, certify, measured_rate, outer_map, solve, step_sizes
from lookrep.exact.builtin import SETTINGS, baird, random_chain, tsitsiklis_van_roy, two_state
from lookrep.exact.methods import METHODS
from lookrep.exact.problems import Linear

LARGEST = 8  # states
WIDEST = LARGEST + 2  # parameters
CHUNK = Settings(outer_iterations=256, lookahead_updates=100, replicate_updates=100)


def drawn_chain(index: int) -> Problem:
    """Chain `index` of 200: 2 to 8 states; wide and tall features on either side; on- and off-policy weightings."""
    states = 2 + index % 7
    wide, tall = states + 2, max(1, states // 2)
    online, target = [(wide, wide), (wide, tall), (tall, wide), (tall, tall)][index // 7 % 4]
    return random_chain(states, index, online, target, discount=0.99 if index % 2 else 0.7, stationary=index % 3 == 0)


def padded(task: Problem) -> Problem:
    """The same problem in a common shape, so that the loop compiles once: added states weigh nothing and are never
    reached, added parameters have no features."""

    def grow(array: np.ndarray, *shape: int) -> np.ndarray:
        return np.pad(array, [(0, size - have) for size, have in zip(shape, array.shape, strict=True)])

    states = task.states
    transition = grow(task.process.transition, LARGEST, LARGEST)
    transition[range(states, LARGEST), range(states, LARGEST)] = 1.0
    return Problem(
        process=MarkovChain(transition, grow(task.process.reward, LARGEST), task.process.discount),
        weighting=grow(task.weighting, LARGEST),
        online=Linear(grow(task.online.features, LARGEST, WIDEST)),
        target=Linear(grow(task.target.features, LARGEST, WIDEST)),
        online_init=grow(task.online_init, WIDEST),
        target_init=grow(task.target_init, WIDEST),
    )


def long_run(task: Problem, iterations: float) -> np.ndarray:
    """(θ, w) of at least so many outer iterations of the real loop, run in equal pieces."""
    rows, wide = [], padded(task)
    while sum(map(len, rows)) < iterations:
        trace = solve(wide, CHUNK)
        rows.append(np.hstack([trace.target, trace.online])[:-1])
        wide = replace(wide, target_init=trace.target[-1], online_init=trace.online[-1])
    states = np.concatenate(rows)
    return np.hstack([states[:, : len(task.target_init)], states[:, WIDEST : WIDEST + len(task.online_init)]])


def test_on_200_random_chains_the_loop_does_what_the_certificate_says() -> None:
    diverging = 0
    for index in range(200):
        task = drawn_chain(index)
        found = certify(task, CHUNK)
        path = long_run(task, np.log(1e10) / abs(np.log(found.rate)))
        if found.converges:
            limit = np.concatenate([found.limit_target, found.limit_online])
            np.testing.assert_allclose(path[-1], limit, atol=1e-6, err_msg=f"chain {index}")
        else:
            diverging += 1
            assert np.abs(path[-1]).max() > 1e6 * np.abs(path[0]).max(), f"chain {index}"
        measured = measured_rate(path)
        assert measured == pytest.approx(found.rate, rel=0.01), f"chain {index}"
        # 1 % of a rate near 1 says little; the logarithm (iterations per digit) must agree as well.
        assert np.log(measured) == pytest.approx(np.log(found.rate), rel=0.01), f"chain {index}"
    assert 5 <= diverging <= 50  # both verdicts were put to the test


def test_without_padding_the_loop_takes_the_same_path() -> None:
    for index in (5, 20):
        task, short = drawn_chain(index), replace(CHUNK, outer_iterations=10)
        plain, wide = solve(task, short), solve(padded(task), short)
        np.testing.assert_allclose(plain.target, wide.target[:, : len(task.target_init)], atol=1e-10)
        np.testing.assert_allclose(plain.online, wide.online[:, : len(task.online_init)], atol=1e-10)


def test_where_the_true_value_is_representable_the_limit_is_the_start_projected_onto_the_solutions() -> None:
    for seed in range(50):
        task = random_chain(2 + seed % 7, seed, 10, 11)
        found = certify(task, Settings(lookahead_updates=10_000, replicate_updates=10_000))
        assert found.converges
        truth = np.linalg.solve(
            np.eye(task.states) - task.process.discount * task.process.transition, task.process.reward
        )
        for limit, function, start in (
            (found.limit_target, task.target, task.target_init),
            (found.limit_online, task.online, task.online_init),
        ):
            inverse = np.linalg.pinv(function.features)
            expected = inverse @ truth + start - inverse @ (function.features @ start)
            np.testing.assert_allclose(limit, expected, atol=1e-6)


def test_the_limit_does_not_depend_on_step_sizes_or_update_counts() -> None:
    task = random_chain(5, 3, 7, 2)
    limits = [
        certify(task, Settings("lr", 1, lookahead, replicate_, alpha, beta)).limit_target
        for lookahead, replicate_, alpha, beta in (
            (400, 1, "auto", "auto"),
            (3, 7, 0.02, 0.03),
            (1, 3, 0.05, (0.1, 0.05, 0.01)),
        )
    ]
    np.testing.assert_allclose(limits[1], limits[0], atol=1e-8)
    np.testing.assert_allclose(limits[2], limits[0], atol=1e-8)


AFFINE = [name for name, parts in METHODS.items() if parts.affine]


@pytest.mark.parametrize("method", AFFINE)
def test_the_loop_of_every_method_is_its_map_and_ends_where_the_certificate_says(method: str) -> None:
    task = random_chain(3, 10, discount=0.5, stationary=False)
    settings = Settings(
        method,
        700,
        8,
        2,
        "auto",
        (0.08, 0.05),
        tau=0.1,
        kappa=0.3,
        networks=3,
        growth=1.5,
        longest_period=9,  # type: ignore[arg-type]
    )
    found, trace = certify(task, settings), solve(task, settings)
    # With a growing period, the map is the last one's: its first turn is of a period that does not grow.
    step = outer_map(task, replace(settings, growth=1.0))
    before, after = (np.concatenate([trace.target[row], trace.online[row]]) for row in (0, 1))
    both = len(before)
    np.testing.assert_allclose((step.matrix @ step.start + step.offset)[:both], after, rtol=1e-11, atol=1e-11)
    # What is called fixed stays put, and the two bases make up the whole space.
    basis = np.hstack([step.moving, step.fixed])
    np.testing.assert_allclose(basis.T @ basis, np.eye(len(step.start)), atol=1e-12)
    np.testing.assert_allclose(step.fixed.T @ (step.matrix @ step.start + step.offset - step.start), 0.0, atol=1e-11)
    assert found.converges
    np.testing.assert_allclose(trace.target[-1], found.limit_target, atol=1e-6)
    np.testing.assert_allclose(trace.online[-1], found.limit_online, atol=1e-6)
    assert measured_rate(np.hstack([trace.target, trace.online])) == pytest.approx(found.rate, rel=0.01)


@pytest.mark.parametrize(
    ("build", "method", "converges"),
    [
        (baird, "td", False),  # Baird 1995
        (baird, "lr", True),
        (baird, "hard", True),
        (baird, "polyak", True),
        (baird, "residual", True),
        (tsitsiklis_van_roy, "td", False),  # Tsitsiklis and Van Roy 1996
        (tsitsiklis_van_roy, "lr", False),
        (tsitsiklis_van_roy, "hard", False),
        (tsitsiklis_van_roy, "polyak", False),
        (tsitsiklis_van_roy, "residual", True),
    ],
)
def test_the_certificate_knows_the_classic_counterexamples(build, method, converges) -> None:  # type: ignore[no-untyped-def]
    task = build()
    settings = replace(
        SETTINGS["baird"], method=method, outer_iterations=400, lookahead_updates=60, replicate_updates=60
    )
    assert certify(task, settings).converges is converges
    size = np.abs(solve(task, settings).value_online).max(axis=1)
    if converges:
        assert size[-1] < 0.8 * size[0]
    else:
        assert not size[-1] < 1e6 * size[0]  # larger, infinite or NaN


@pytest.mark.parametrize(("discount", "converges"), [(0.83, True), (0.84, False)])
def test_tsitsiklis_and_van_roys_example_turns_at_five_sixths(discount: float, converges: bool) -> None:
    for method in ("td", "lr", "hard", "polyak"):
        found = certify(tsitsiklis_van_roy(discount), Settings(method, 1, 50, 50))
        assert found.converges is converges, method
    rate = certify(tsitsiklis_van_roy(discount), Settings("lr", 1, 50, 50)).rate
    assert rate == pytest.approx(6 * discount / 5, rel=1e-9)


def test_on_bairds_star_replicate_must_keep_up_with_lookahead() -> None:
    # With an exact lookahead, one Replicate update is one TD update of the target, so it inherits TD's divergence.
    one = certify(baird(), Settings(lookahead_updates=400, replicate_updates=1))
    td = certify(baird(), Settings("td", lookahead_updates=1))
    assert one.rate == pytest.approx(td.rate, rel=1e-9)
    assert not one.converges
    many = certify(baird(), Settings(lookahead_updates=400, replicate_updates=400))
    assert many.rate == pytest.approx(0.99, rel=1e-9)  # the discount: the iteration is the Bellman operator itself


def test_a_step_size_twice_too_large_is_certified_to_diverge_and_does() -> None:
    auto = step_sizes(two_state(), Settings()).lookahead
    settings = Settings(outer_iterations=40, lookahead_updates=5, lookahead_step_size=2.5 * auto)
    assert not certify(two_state(), settings).converges
    assert np.abs(solve(two_state(), settings).online[-1]).max() > 1e6
    huge = certify(two_state(), replace(settings, lookahead_step_size=1e3, lookahead_updates=400))
    assert not huge.converges
    assert huge.rate == np.inf  # the map itself overflows


def test_states_of_weight_zero_are_never_updated_but_still_bootstrap() -> None:
    task = replace(random_chain(3, 5, 4, 4), weighting=np.array([0.5, 0.5, 0.0]))
    settings = Settings(outer_iterations=2000, lookahead_updates=50, replicate_updates=50)
    found, trace = certify(task, settings), solve(task, settings)
    assert found.converges
    np.testing.assert_allclose(trace.target[-1], found.limit_target, atol=1e-8)


def test_a_rate_is_measured_in_spite_of_oscillation_and_not_when_nothing_moves() -> None:
    angle = 0.3
    turn = 0.97 * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    stretch = np.diag([1.0, 10.0])
    matrix = stretch @ turn @ np.linalg.inv(stretch)
    path = [np.array([1.0, 1.0])]
    for _ in range(300):
        path.append(matrix @ path[-1])
    assert measured_rate(np.array(path)) == pytest.approx(0.97, rel=1e-6)
    assert measured_rate(np.ones((50, 2))) is None
    assert measured_rate(np.array([[1.0], [np.nan]])) is None
