"""The paper's two numeric examples (App. B) come out as printed, and at the closed-form limit."""

import numpy as np
import pytest

from lookrep.exact.builtin import BUILDERS, SETTINGS
from lookrep.exact.certificate import certify
from lookrep.exact.membership import membership_of
from lookrep.exact.solver import solve

# As printed in the paper. Its 0.663 is cut off (0.66363…), its 1.264 rounded, so one unit of the last place is allowed.
PRINTED = {
    "two-state": ([0.663, 0.445, 0.445], [-0.236, 0.745, 0.745]),
    "two-state-two-spaces": ([1.264, 0.245, 0.245], [2 / 3, 2 / 3]),
}
# By hand: the null space of the target's features is spanned by (3, −1, −1), the smallest solution of Φx = (2, 2) is
# (4, 6, 6)/11, and a start keeps its null-space part.
CLOSED_FORM = {
    "two-state": (
        np.array([4, 6, 6]) / 11 + 0.1 * np.array([3, -1, -1]),
        np.array([4, 6, 6]) / 11 - 0.2 * np.array([3, -1, -1]),
    ),
    "two-state-two-spaces": (np.array([4, 6, 6]) / 11 + 0.3 * np.array([3, -1, -1]), np.array([2, 2]) / 3),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_run_ends_at_the_printed_numbers(name: str) -> None:
    trace = solve(BUILDERS[name](), SETTINGS[name])
    target, online = PRINTED[name]
    np.testing.assert_allclose(trace.target[-1], target, atol=1e-3)
    np.testing.assert_allclose(trace.online[-1], online, atol=1e-3)
    np.testing.assert_allclose(trace.value_target[-1], [2, 2], atol=1e-9)
    np.testing.assert_allclose(trace.value_online[-1], [2, 2], atol=1e-9)


@pytest.mark.parametrize("name", CLOSED_FORM)
def test_run_and_certificate_agree_with_the_limit_worked_out_by_hand(name: str) -> None:
    problem, settings = BUILDERS[name](), SETTINGS[name]
    trace, found = solve(problem, settings), certify(problem, settings)
    target, online = CLOSED_FORM[name]
    assert found.converges
    for measured, certified, by_hand in (
        (trace.target[-1], found.limit_target, target),
        (trace.online[-1], found.limit_online, online),
    ):
        np.testing.assert_allclose(measured, by_hand, atol=1e-9)
        np.testing.assert_allclose(certified, by_hand, atol=1e-9)


@pytest.mark.parametrize("name", PRINTED)
def test_the_settings_are_the_papers(name: str) -> None:
    settings = SETTINGS[name]
    assert (settings.outer_iterations, settings.lookahead_updates, settings.replicate_updates) == (800, 400, 1)


@pytest.mark.parametrize("name", PRINTED)
def test_lookahead_replicate_finds_one_value_with_two_parameters(name: str) -> None:
    problem = BUILDERS[name]()
    trace = solve(problem, SETTINGS[name])
    found = membership_of(problem, trace.target[-1], trace.online[-1])
    assert found.single
    assert found.value
    assert not found.pair
