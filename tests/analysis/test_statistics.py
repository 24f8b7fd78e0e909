"""The statistics are rliable's, the intervals cover, and no run disappears without being named."""

import dataclasses
import importlib.util
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import study_results

from lookrep.analysis import aggregate, bootstrap, scores, statistics
from lookrep.analysis.results import StudyMember

rng = np.random.default_rng(0)
OURS, THEIRS = rng.lognormal(0.2, 0.8, (5, 55)), rng.lognormal(0.0, 0.8, (7, 55))
EDGES = {
    "55 games": OURS,
    "one run of one environment": np.array([[0.3]]),
    "ties": np.array([[1.0, 1.0, 2.0], [1.0, 3.0, 2.0]]),
    "negative": -OURS[:3, :4],
}
PAIRS = {"mean": "aggregate_mean", "median": "aggregate_median", "iqm": "aggregate_iqm",
         "optimality_gap": "aggregate_optimality_gap"}  # fmt: skip


def rliable(part: str) -> Any:
    """A module of rliable.

    It pins an arch whose models do not import under pandas 3. Its bootstrap does, and is all that rliable uses: so the
    package is entered past its own first file.
    """
    spec = importlib.util.find_spec("arch")
    if spec is None or importlib.util.find_spec("rliable") is None:
        pytest.skip("rliable is not installed (pip install lookrep[test])")
    if "arch" not in sys.modules:
        sys.modules["arch"] = importlib.util.module_from_spec(spec)  # made, but never executed
    return importlib.import_module(f"rliable.{part}")


# Estimators


@pytest.mark.parametrize("values", EDGES.values(), ids=EDGES)
@pytest.mark.parametrize(("ours", "theirs"), PAIRS.items())
def test_aggregates_are_rliables(ours: str, theirs: str, values: np.ndarray) -> None:
    assert float(getattr(aggregate, ours)(values)) == pytest.approx(
        getattr(rliable("metrics"), theirs)(values), abs=1e-12
    )


def test_probability_of_improvement_is_rliables_with_unequal_numbers_of_runs() -> None:
    oracle = rliable("metrics").probability_of_improvement
    assert float(aggregate.probability_of_improvement(OURS, THEIRS)) == pytest.approx(oracle(OURS, THEIRS))
    coarse = np.round(OURS), np.round(THEIRS)  # many ties
    assert float(aggregate.probability_of_improvement(*coarse)) == pytest.approx(oracle(*coarse))
    assert float(aggregate.probability_of_improvement(OURS, OURS)) == 0.5


def test_performance_profiles_are_rliables() -> None:
    library = rliable("library")
    levels = np.linspace(0, 8, 41)
    expected, _ = library.create_performance_profile({"x": OURS}, levels, reps=2)
    np.testing.assert_allclose(aggregate.performance_profile(OURS, levels), expected["x"])


def test_estimators_take_resamples_and_times_at_once() -> None:
    stack = np.stack([OURS, OURS * 2, np.where(OURS > 2, np.nan, OURS)])
    for name in PAIRS:
        estimator = getattr(aggregate, name)
        np.testing.assert_allclose(estimator(stack), [estimator(one) for one in stack])


def test_a_missing_run_leaves_the_others_of_its_environment() -> None:
    holed = np.array([[1.0, 10.0], [3.0, np.nan], [np.nan, np.nan]])
    assert float(aggregate.mean(holed)) == 6.0  # (2 + 10) / 2
    assert float(aggregate.median(holed)) == 6.0
    assert float(aggregate.iqm(holed)) == pytest.approx(14 / 3)  # three runs: a quarter of them is none
    assert float(aggregate.optimality_gap(holed, 2.0)) == pytest.approx(2.0 - (1.5 + 2.0) / 2)
    assert float(aggregate.probability_of_improvement(holed, np.array([[2.0, 20.0]]))) == 0.25  # (1/2 + 0) / 2
    np.testing.assert_allclose(aggregate.performance_profile(holed, [0, 2, 5]), [1.0, 0.75, 0.5])


def test_medians_skip_an_environment_that_has_no_run() -> None:
    values = np.array([[4.0, np.nan, 1.0, 2.0], [4.0, np.nan, 1.0, 2.0]])
    assert float(aggregate.median(values)) == 2.0
    assert np.isnan(aggregate.median(np.full((2, 3), np.nan)))
    assert np.isnan(aggregate.iqm(np.full((2, 3), np.nan)))


def test_relative_difference_is_wangs_formula_in_human_normalised_scores() -> None:
    human, random, ours, theirs = 30.0, 10.0, 50.0, 40.0  # the baseline is better than the human here
    normalise = [np.array([[(score - random) / (human - random)]]) for score in (ours, theirs)]
    expected = (ours - theirs) / (max(human, theirs) - random)
    np.testing.assert_allclose(aggregate.relative_difference(*normalise), [expected])


def test_area_under_a_straight_line_is_its_mean_height_whatever_the_grid() -> None:
    x = np.array([0.0, 0.1, 0.2, 1.0])
    assert float(aggregate.area_under_curve(x, 3 * x + 1)) == pytest.approx(2.5)


# Intervals


def test_with_the_same_draws_the_intervals_are_rliables() -> None:
    library = rliable("library")
    draws = np.random.default_rng(1).integers(0, 5, (200, *OURS.shape))
    with pytest.MonkeyPatch.context() as patch:
        feed = iter(draws)
        patch.setattr(np.random, "choice", lambda runs, shape, replace: next(feed))
        _, expected = library.get_interval_estimates(
            {"x": OURS}, lambda values: np.array([getattr(aggregate, name)(values) for name in PAIRS]), reps=200
        )
    for place, name in enumerate(PAIRS):
        found = bootstrap.band(getattr(aggregate, name), OURS, resamples=200, indices=[draws])
        np.testing.assert_allclose([found.low, found.high], expected["x"][:, place])


def test_with_draws_of_its_own_the_intervals_agree_with_rliables() -> None:
    library = rliable("library")
    np.random.seed(0)  # noqa: NPY002 (rliable draws from the global generator)
    metrics = rliable("metrics")
    _, expected = library.get_interval_estimates({"x": OURS}, lambda v: np.array([metrics.aggregate_iqm(v)]), reps=2000)
    found = bootstrap.estimate(aggregate.iqm, OURS)
    width = found.high - found.low
    np.testing.assert_allclose([found.low, found.high], expected["x"][:, 0], atol=0.08 * width)
    _, expected = library.get_interval_estimates(
        {"x": [OURS[:, :6], THEIRS[:, :6]]}, lambda a, b: np.array([metrics.probability_of_improvement(a, b)]), reps=300
    )
    found = bootstrap.estimate(aggregate.probability_of_improvement, OURS[:, :6], THEIRS[:, :6], resamples=5000)
    width = found.high - found.low
    np.testing.assert_allclose([found.low, found.high], expected["x"][:, 0], atol=0.2 * width)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    inside = 0
    for repetition in range(200):
        values = np.random.default_rng(repetition).normal(0.5, 1.0, (20, 4))
        found = bootstrap.estimate(aggregate.mean, values, resamples=500)
        inside += found.low <= 0.5 <= found.high
    assert 180 <= inside <= 199  # 95 % of 200 is 190; percentile intervals of 20 runs are a little short


def test_environments_are_never_mixed() -> None:
    """Without spread inside environments there is nothing to be uncertain about, however far they are apart."""
    values = np.tile([1.0, 100.0, -7.0], (4, 1))
    found = bootstrap.estimate(aggregate.mean, values)
    assert found.low == found.high == found.value


def test_missing_runs_are_never_drawn_and_every_environment_keeps_its_number_of_runs() -> None:
    values = np.array([[np.nan, 1.0, np.nan], [2.0, 3.0, np.nan], [4.0, np.nan, np.nan]])
    seen = []

    def remember(resampled: np.ndarray) -> np.ndarray:
        seen.append(resampled)
        return aggregate.mean(resampled)

    bootstrap.band(remember, values, resamples=500)
    resampled = seen[-1]
    assert resampled.shape == (500, 3, 3)
    assert ((~np.isnan(resampled)).sum(axis=1) == [2, 2, 0]).all()
    assert set(np.unique(resampled[..., 0][~np.isnan(resampled[..., 0])])) == {2.0, 4.0}
    assert set(np.unique(resampled[..., 1][~np.isnan(resampled[..., 1])])) == {1.0, 3.0}


def test_a_run_is_drawn_with_its_whole_curve() -> None:
    curves = np.arange(12.0).reshape(4, 3, 1) * [1.0]  # [points, runs, environments]
    seen = []

    def remember(resampled: np.ndarray) -> np.ndarray:
        seen.append(resampled)
        return aggregate.mean(resampled)

    bootstrap.band(remember, curves, resamples=50)
    assert seen[-1].shape == (50, 4, 3, 1)
    np.testing.assert_array_equal(np.diff(seen[-1], axis=1), 3.0)


def test_equal_seeds_give_equal_intervals_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(1).integers(0, 5, (100, *OURS.shape))
    whole = bootstrap.band(aggregate.iqm, OURS, resamples=100, indices=[draws])
    monkeypatch.setattr(bootstrap, "CHUNK", 1000)
    assert bootstrap.band(aggregate.iqm, OURS, resamples=100, indices=[draws]) == whole
    once, again = (bootstrap.estimate(aggregate.iqm, OURS, resamples=100, seed=3) for _ in range(2))
    assert once == again != bootstrap.estimate(aggregate.iqm, OURS, resamples=100, seed=4)


def test_one_run_has_no_interval() -> None:
    found = bootstrap.estimate(aggregate.mean, np.array([[1.0, 2.0]]))
    assert not found.has_interval
    assert found.value == 1.5


# Scores of runs


def member(status: str = "finished", **columns: list[float]) -> StudyMember:
    given = {"agent_steps": np.arange(1, 11) * 100, "diverged": np.zeros(10, bool)}
    given |= {name: np.array(values) for name, values in columns.items()}
    return StudyMember("e", "v", 0, status, given)  # type: ignore[arg-type]


def test_a_final_score_is_the_mean_of_the_last_tenth_of_the_steps() -> None:
    run = StudyMember("e", "v", 0, "finished", {
        "agent_steps": np.arange(1, 41) * 25, "return_mean": np.arange(1.0, 41.0), "diverged": np.zeros(40, bool),
    })  # fmt: skip
    assert scores.final_score(run, steps=1000) == np.mean([37, 38, 39, 40])


def test_where_no_episode_ended_the_interval_before_counts() -> None:
    nan = float("nan")
    run = member(return_mean=[nan, 1, nan, nan, 2, 3, 4, 5, 6, nan])
    np.testing.assert_array_equal(scores.returns(run), [nan, 1, 1, 1, 2, 3, 4, 5, 6, 6])
    assert scores.final_score(run, 1000) == 6.0


def test_a_diverged_run_counts_with_what_its_broken_agent_collects() -> None:
    broken = [False] * 5 + [True] * 5
    played_on = member("diverged", return_mean=[1, 5, 9, 9, 9, 0.5, 0.5, 0.5, 0.5, 0.25], diverged=broken)
    assert scores.final_score(played_on, 1000) == 0.25
    nan = float("nan")
    silent = member("diverged", return_mean=[1, 5, 9, 9, 9, nan, nan, nan, nan, nan], diverged=broken)
    assert scores.final_score(silent, 1000) == 1.0  # an untrained agent's score, not the 9 it had reached
    stopped = StudyMember("e", "v", 0, "diverged", {name: values[:6] for name, values in silent.columns.items()})
    assert scores.final_score(stopped, 1000) == 1.0


@pytest.mark.parametrize("status", ["unfinished", "missing"])
def test_an_unfinished_run_has_no_final_score(status: str) -> None:
    assert np.isnan(scores.final_score(member(status, return_mean=[1.0] * 10), 1000))


def test_gradient_steps_count_both_networks_but_copies_and_averages_are_no_gradient_steps() -> None:
    asked = study_results.study(seeds=1)
    found = study_results.results(asked)
    last = {
        name: scores.curves(found, name, "return_mean", asked.environments[:1], "gradient-steps").x[-1]
        for name in ("hard", "polyak", "replicate")
    }
    assert last == {"hard": 25_000, "polyak": 25_000, "replicate": 25_000 + 125 * 20}


def test_an_atari_step_is_four_frames_and_a_minatar_step_is_one() -> None:
    for env, frames in (("atari/Pong", 400_000), ("minatar/breakout", 100_000)):
        asked = study_results.study((env,))
        found = scores.curves(study_results.results(asked), "hard", "return_mean", (env,), "frames")
        assert found.x[-1] == frames


def test_long_curves_are_averaged_over_neighbours_and_say_so() -> None:
    asked = study_results.study(steps=1_000_000, seeds=1)
    found = study_results.results(asked, rows=1000)
    curve = scores.curves(found, "hard", "return_mean", asked.environments, "agent-steps")
    assert (len(curve.x), curve.intervals_per_point) == (100, 10)
    np.testing.assert_allclose(curve.y[0, 0, 0], found.members[0].columns["return_mean"][:10].mean())
    assert curve.x[0] == 10_000


def test_curves_show_unfinished_runs_only_where_there_are_no_others_and_never_beyond_their_end() -> None:
    asked = study_results.study(seeds=2)
    breakout, freeway = asked.environments
    found = study_results.results(asked, statuses={(breakout, "hard", 0): "unfinished",
                                                   (freeway, "hard", 0): "unfinished",
                                                   (freeway, "hard", 1): "unfinished"})  # fmt: skip
    curve = scores.curves(found, "hard", "return_mean", asked.environments, "agent-steps")
    assert np.isnan(curve.y[:, 0, 0]).all()
    assert not np.isnan(curve.y[:, 1, 0]).any()
    assert not np.isnan(curve.y[:10, :, 1]).any()
    assert np.isnan(curve.y[10:, :, 1]).all()
    assert {(m.env, m.seed) for m in curve.unfinished} == {(freeway, 0), (freeway, 1)}


# The headline


def test_scores_are_human_normalised_only_where_every_environment_has_a_human() -> None:
    atari = study_results.results(study_results.study(("atari/Breakout", "atari/Pong")))
    rule = scores.normalisation(atari)
    assert rule.kind == "human"
    np.testing.assert_allclose(rule.apply(np.array([[30.5, 14.6], [1.7, -20.7]])), [[1, 1], [0, 0]])
    mixed = study_results.results(study_results.study(("atari/Breakout", "minatar/breakout")))
    rule = scores.normalisation(mixed)
    assert rule.kind == "baseline"
    assert "divided by the mean final score of Hard target" in rule.rule


def test_relative_to_the_baseline_its_own_mean_is_one() -> None:
    asked = study_results.study()
    level = lambda env, variant, seed: 20.0 if variant == "polyak" else 10.0 + seed  # noqa: E731
    found = statistics.headline(study_results.results(asked, level), resamples=200)
    by_name = {variant.variant: variant for variant in found.variants}
    assert by_name["hard"].mean.value == pytest.approx(1.0)
    assert by_name["hard"].improvement is None
    assert by_name["polyak"].mean.value == pytest.approx(20 / 11)
    assert by_name["polyak"].improvement is not None
    assert by_name["polyak"].improvement.value == 1.0
    assert by_name["replicate"].improvement is not None
    assert by_name["replicate"].improvement.value == 0.5
    # The curve rises in a straight line from 5 % to 100 % of its end, whose last tenth is 97.5 %.
    assert by_name["hard"].area_under_curve.value == pytest.approx(0.525 / 0.975)
    assert (found.fewest_seeds, found.environments, found.left_out) == (3, asked.environments, ())


def test_every_run_that_is_not_as_it_should_be_is_named() -> None:
    asked = study_results.study(seeds=2)
    breakout, freeway = asked.environments
    odd = {
        (breakout, "hard", 1): "unfinished",
        (freeway, "polyak", 0): "missing",
        (freeway, "replicate", 1): "diverged",
    }
    found = statistics.headline(study_results.results(asked, statuses=odd), resamples=100)  # type: ignore[arg-type]
    assert [(m.env, m.variant, m.seed, m.status) for m in found.excluded] == [
        (breakout, "hard", 1, "unfinished"),
        (freeway, "polyak", 0, "missing"),
    ]
    assert [(m.env, m.variant, m.seed) for m in found.diverged] == [(freeway, "replicate", 1)]
    assert [variant.runs for variant in found.variants] == [3, 3, 4]
    assert found.fewest_seeds == 1
    runs = {(score.env, score.variant): score.runs for score in found.by_environment}
    assert runs[breakout, "hard"] == 1
    single = next(s for s in found.by_environment if (s.env, s.variant) == (breakout, "hard"))
    assert not single.score.has_interval


def test_an_environment_some_variant_has_not_finished_is_left_out_of_all_and_named() -> None:
    asked = study_results.study(seeds=2)
    freeway = asked.environments[1]
    odd = {(freeway, "polyak", 0): "unfinished", (freeway, "polyak", 1): "unfinished"}
    found = statistics.headline(study_results.results(asked, statuses=odd), resamples=100)  # type: ignore[arg-type]
    assert found.environments == asked.environments[:1]
    assert found.left_out == ((freeway, "no finished run of polyak"),)
    assert [variant.runs for variant in found.variants] == [2, 2, 2]
    assert ("minatar/freeway", "hard") in {(score.env, score.variant) for score in found.by_environment}


def test_a_baseline_that_scores_nothing_cannot_be_divided_by() -> None:
    asked = study_results.study()
    level = lambda env, variant, seed: 0.0 if "freeway" in env else 1.0  # noqa: E731
    found = statistics.headline(study_results.results(asked, level), resamples=100)
    assert found.left_out[0].env == "minatar/freeway"
    assert "positive" in found.left_out[0].reason


def test_nothing_finished_is_no_headline_and_no_error() -> None:
    asked = study_results.study(seeds=1)
    odd = {(env, v.name, 0): "missing" for env in asked.environments for v in asked.variants}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = statistics.headline(study_results.results(asked, statuses=odd), resamples=100)  # type: ignore[arg-type]
    assert found.variants == found.by_environment == ()
    assert len(found.excluded) == 6
    assert found.fewest_seeds == 0


def test_per_environment_comparison_has_the_difference_and_its_interval() -> None:
    asked = study_results.study(("minatar/breakout",), seeds=4)
    level = lambda env, v, seed: (10.0, 15.0)[v == "replicate"] * (1 + 0.01 * seed)  # noqa: E731
    found = statistics.headline(study_results.results(asked, level), resamples=500)
    score = next(s for s in found.by_environment if s.variant == "replicate")
    assert score.score.value == pytest.approx(15 * 1.015 * 0.975)  # the last tenth of the steps is 95 and 100 %
    assert score.relative is not None
    assert score.relative.value == pytest.approx(0.5)
    assert 0.45 < score.relative.low < 0.5 < score.relative.high < 0.55
    assert score.improvement is not None
    assert score.improvement.value == 1.0
    assert dataclasses.asdict(found)["baseline"] == "hard"
