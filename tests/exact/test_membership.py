"""Section 3: the solution sets of a problem small enough to list, and the paper's three claims about them."""

import itertools

import numpy as np
import pytest

from lookrep.exact import linear, markov_chain, membership_of, problem, solution_sets
from lookrep.exact.builtin import two_state, two_state_two_spaces

# One state of value 2 and v_θ = θ₁ + θ₂ over whole numbers −1…3: five parameters solve θ₁ + θ₂ = 2.
SMALL = problem(markov_chain([[1.0]], [1.0], 0.5), online=linear([[1.0, 1.0]]), target=linear([[1.0, 1.0]]))
GRID = list(itertools.product(range(-1, 4), repeat=2))
SETS = solution_sets(SMALL, GRID)


def test_the_sets_are_those_counted_by_hand() -> None:
    assert SETS.single == {(-1, 3), (0, 2), (1, 1), (2, 0), (3, -1)}
    assert len(SETS.pair) == 5
    assert len(SETS.value) == 25


def test_claim_1_single_and_the_diagonal_of_pair_are_the_same() -> None:
    for theta in GRID:
        assert (theta in SETS.single) == ((theta, theta) in SETS.pair)


def test_claim_2_pair_is_a_proper_subset_of_value() -> None:
    assert SETS.pair < SETS.value


def test_claim_3_bounds_the_size_of_value_and_one_fixed_point_reaches_the_upper_bound() -> None:
    assert len(SETS.pair) <= len(SETS.value) <= len(SETS.pair) ** 2
    assert len(SETS.value) == len(SETS.pair) ** 2


def test_the_tolerance_decides_the_borderline() -> None:
    nearly = np.array([1.0, 1.0 + 1e-4])
    assert not membership_of(SMALL, nearly, nearly).value
    assert membership_of(SMALL, nearly, nearly, tolerance=1e-3).value


def test_a_pair_needs_one_space_and_equal_parameters() -> None:
    theta = np.array([2 / 3, 4 / 9, 4 / 9])
    assert membership_of(two_state(), theta, theta) == (True, True, True)
    assert membership_of(two_state_two_spaces(), theta, np.array([2 / 3, 2 / 3])) == (True, False, True)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_diverged_run_is_in_no_set(bad: float) -> None:
    assert membership_of(SMALL, np.array([bad, 1.0]), np.array([bad, 1.0])) == (False, False, False)
