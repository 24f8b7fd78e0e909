"""Tuned by one rule, compared at equal budgets: the scripts between a tuning study and a page of results."""

import importlib
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import study_results

from lookrep import targets
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.studies import definition, plan, sweep

ROOT = Path(__file__).parents[2]
GAMES = ("minatar/breakout", "minatar/asterix")
TUNED = {
    "hard.target_period_updates-100": {"target_period_updates": 100},
    "hard.target_period_updates-200": {"target_period_updates": 200},
    "polyak.tau-0.1": {"target": "polyak", "tau": 0.1},
    "polyak.tau-0.2": {"target": "polyak", "tau": 0.2},
}
# Of two settings one is better on breakout, one on asterix: by hand, shares of the games' best (100 and 20).
LEVELS = {
    "hard.target_period_updates-100": (100.0, 10.0),  # (1 + 0.5) / 2 = 0.75
    "hard.target_period_updates-200": (60.0, 20.0),  # (0.6 + 1) / 2 = 0.8
    "polyak.tau-0.1": (90.0, 6.0),  # (0.9 + 0.3) / 2 = 0.6
    "polyak.tau-0.2": (40.0, 14.0),  # (0.4 + 0.7) / 2 = 0.55
}
DEFINITION = """environments = ["minatar/breakout"]
# winners
# Not tuned yet.

[variants.hard]

# end of winners

[sizes.smoke]
steps = 12_000
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module


def level(env: str, variant: str, seed: int) -> float:
    return LEVELS[variant][GAMES.index(env)]


def test_the_best_mean_share_of_the_games_best_wins_and_goes_into_the_definition(script: Any, tmp_path: Path) -> None:
    tuned = study_results.results(study_results.study(GAMES, TUNED, seeds=2), level)
    folder, file = study_results.write(tuned, tmp_path / "tuning"), tmp_path / "comparison.toml"
    file.write_text(DEFINITION)
    winners = script("minatar_winners")
    winners.main(folder, file)
    assert {name: round(share, 6) for name, share in winners.shares(tuned).items()} == {
        "hard.target_period_updates-100": 0.75,
        "hard.target_period_updates-200": 0.8,
        "polyak.tau-0.1": 0.6,
        "polyak.tau-0.2": 0.55,
    }
    found = definition.load(file, "smoke")
    assert {variant.name: variant.changes for variant in found.variants} == {
        "hard": {"target_period_updates": 200},
        "polyak": {"target": "polyak", "tau": 0.1},
    }
    again = file.read_text()
    winners.main(folder, file)
    assert file.read_text() == again


def test_a_family_with_more_settings_than_another_is_no_fair_tuning(script: Any) -> None:
    tuned = study_results.results(study_results.study(GAMES, dict(list(TUNED.items())[:3]), seeds=2), level)
    with pytest.raises(UserError, match=r"not every family has as many settings: \{'hard': 2, 'polyak': 1\}"):
        script("minatar_winners").winners(tuned)


def test_an_unfinished_tuning_chooses_nothing(script: Any) -> None:
    statuses = {(GAMES[0], "polyak.tau-0.1", seed): "missing" for seed in range(2)}
    tuned = study_results.results(study_results.study(GAMES, TUNED, seeds=2), level, statuses=statuses)
    with pytest.raises(UserError, match=r"polyak\.tau-0\.1 has no finished run on some game"):
        script("minatar_winners").winners(tuned)


@pytest.mark.parametrize("name", ["minatar-methods", "minatar-scaling"])
@pytest.mark.parametrize("size", ["gpu", "full"])
def test_every_variant_of_a_comparison_was_tuned_with_as_many_settings_and_other_seeds(name: str, size: str) -> None:
    compared, tuned = definition.load(name, size), definition.load(f"{name}-tuning", size)
    families = Counter(sweep.family(variant.name) for variant in tuned.variants)
    assert list(families) == [variant.name for variant in compared.variants]
    assert len(set(families.values())) == 1
    assert set(tuned.environments) < set(compared.environments)
    seeds = {
        plan.run_config(study, plan.PlannedPopulation((study.environments[0],), study.variants[0].name, 0, 1)).seed
        for study in (compared, tuned)
    }
    assert len(seeds) == 2


def first_run(study: definition.Study, variant: str) -> RunConfig:
    return plan.run_config(study, plan.PlannedPopulation((study.environments[0],), variant, 0, 1))


@pytest.mark.parametrize("size", ["gpu", "full"])
def test_the_settings_of_a_growing_period_differ_in_the_updates_there_are(size: str) -> None:
    study = definition.load("minatar-methods-tuning", size)
    runs = [first_run(study, v.name) for v in study.variants if sweep.family(v.name) == "growing"]
    counts = []
    for run in runs:
        target = run.settings.target
        updates = (run.steps - run.settings.replay.warmup_steps) // run.settings.learning.steps_per_update
        schedule = targets.growing(
            target.target_period_updates, target.target_period_growth, target.target_period_most_updates
        )
        counts.append([schedule.turns_by(by) for by in (updates // 8, updates)])
    assert len(counts) == 6
    for one, other in itertools.combinations(np.array(counts), 2):
        assert (abs(np.log(one / other)) > np.log(1.04)).any()  # turns at the start, or in all


def test_the_targets_steps_are_ten_times_the_online_networks_at_every_width_and_size() -> None:
    for name in ("minatar-scaling", "minatar-scaling-tuning"):
        study = definition.load(name, "gpu")
        recipes = [variant.name for variant in study.variants if variant.name.startswith("recipe")]
        assert len(recipes) == (4 if name == "minatar-scaling" else 20)
        for recipe in recipes:
            settings = first_run(study, recipe).settings
            assert settings.target.replicate_learning_rate == pytest.approx(10 * settings.learning.learning_rate)
            assert settings.network == first_run(study, f"hard{recipe[6:]}").settings.network


def test_with_times_a_slow_variant_is_read_earlier(script: Any, tmp_path: Path) -> None:
    """Returns rise evenly, so half the steps are half the score."""
    ranking = script("minatar_ranking")
    variants = {"hard": {"target": "hard"}, "slow": {"target": "polyak"}}
    found = study_results.results(study_results.study(GAMES, variants), lambda env, variant, seed: 10.0, rows=100)
    by_steps = ranking.scores(found, "agent-steps")
    by_seconds = ranking.scores(found, "agent-steps", {"hard": 1.0, "slow": 2.0})
    np.testing.assert_allclose(by_steps["slow"], 1.0)
    np.testing.assert_allclose(by_seconds["slow"], 0.5, rtol=0.02)
    times = tmp_path / "times.jsonl"
    times.write_text("".join(json.dumps({"method": n, "times_hard": t}) + "\n" for n, t in (("hard", 1), ("slow", 2))))
    text = "\n".join(ranking.table(found, "Seconds", by_seconds, resamples=200))
    assert "| 1 | Hard target | 1.00" in text
    assert "1 of 1 pairs are told apart" in text
    times.write_text('{"method": "hard", "times_hard": 1}\n')
    with pytest.raises(UserError, match="has no time of slow"):
        ranking._times(times, found)


def test_gradient_steps_of_a_learned_target_count(script: Any) -> None:
    variants = {
        "hard": {"target": "hard", "target_period_updates": 200},
        "learned": {"target": "replicate", "target_period_updates": 200, "replicate_updates": 200},
    }
    found = study_results.results(study_results.study(GAMES, variants), lambda env, variant, seed: 10.0, rows=100)
    scores = script("minatar_ranking").scores(found, "gradient-steps")
    np.testing.assert_allclose(scores["learned"], 0.5, rtol=0.03)
