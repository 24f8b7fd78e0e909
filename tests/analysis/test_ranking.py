"""What can be told apart: intervals that hold together are as wide as theory says; ranks say what they leave open."""

import numpy as np
import pytest
from scipy import stats

from lookrep.analysis import aggregate, bootstrap, ranking

GROUPS, RUNS = 5, 400


def normal(seed: int, shifts: list[float], runs: int = RUNS) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {f"v{i}": random.normal(shift, 1.0, (runs, 1)) for i, shift in enumerate(shifts)}


def widths(found: tuple[ranking.Comparison, ...]) -> np.ndarray:
    return np.array([(one.difference.high - one.difference.low) / 2 for one in found])


def test_all_pairs_of_means_have_tukeys_intervals() -> None:
    """Of normal runs with equal spread these are known: the studentized range's quantile, divided by √2."""
    found = ranking.differences(normal(0, GROUPS * [0.0]), aggregate.mean, resamples=20_000)
    tukey = stats.studentized_range.ppf(0.95, GROUPS, np.inf) / np.sqrt(2)
    assert tukey == pytest.approx(2.728, abs=1e-3)  # 3.858 / √2: the tables' q for five groups
    assert len(found) == GROUPS * (GROUPS - 1) // 2
    np.testing.assert_allclose(widths(found), tukey * np.sqrt(2 / RUNS), rtol=0.08)


def test_of_two_variants_alone_the_interval_is_the_usual_one() -> None:
    found = ranking.differences(normal(1, [0.0, 0.0]), aggregate.mean, resamples=20_000)
    np.testing.assert_allclose(widths(found), 1.96 * np.sqrt(2 / RUNS), rtol=0.08)


def test_equals_are_hardly_ever_told_apart_however_many_there_are() -> None:
    """At 95 % for each pair, 45 pairs of equals would be apart somewhere in most repetitions."""
    wrong = sum(
        any(one.apart for one in ranking.differences(normal(seed, 10 * [0.0], 20), resamples=400))
        for seed in range(100)
    )
    assert wrong <= 12


def test_a_run_of_the_better_half_beats_the_baseline_with_the_probability_that_is_known() -> None:
    shift = 1.0
    (found,) = ranking.improvements(normal(2, [0.0, shift]), "v0", resamples=2_000)
    assert (found.ours, found.theirs, found.apart) == ("v1", "v0", True)
    assert found.difference.low < stats.norm.cdf(shift / np.sqrt(2)) < found.difference.high
    alone = bootstrap.estimate(aggregate.probability_of_improvement, *normal(2, [shift, 0.0]).values(), resamples=2_000)
    assert found.difference.high - found.difference.low == pytest.approx(alone.high - alone.low, rel=0.1)


def test_ranks_say_what_cannot_be_told_apart() -> None:
    scores = normal(3, [0.0, 0.02, 2.0], 50)
    found = ranking.ranks(scores, ranking.differences(scores))
    assert [(one.variant, one.best, one.worst) for one in found[:1]] == [("v2", 1, 1)]
    assert {one.variant: (one.best, one.worst, one.level_with) for one in found[1:]} == {
        "v0": (2, 3, ("v1",)),
        "v1": (2, 3, ("v0",)),
    }


def test_runs_that_do_not_differ_are_apart_if_they_are_not_equal() -> None:
    scores = {"a": np.full((3, 2), 1.0), "b": np.full((3, 2), 1.0), "c": np.full((3, 2), 1.5)}
    found = {(one.ours, one.theirs): one.apart for one in ranking.differences(scores)}
    assert found == {("a", "b"): False, ("a", "c"): True, ("b", "c"): True}
