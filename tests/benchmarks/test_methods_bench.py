"""What a method costs beside hard copy, and a study's variant beside its baseline: which rows there are, and what is
counted. No timing is asserted."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from lookrep.benchmarks import apart, methods, minatar
from lookrep.cli import main
from lookrep.errors import UserError
from lookrep.studies import definition

pytestmark = pytest.mark.usefixtures("quick_compilation")
STUDY = """
name = "small"
environments = ["minatar/asterix"]
agent = "dqn"
baseline = "copy"

[overrides]
network = "mlp:8"
batch_size = 8
replay_capacity_steps = 1_000
warmup_steps = 200
log_interval_steps = 200
precision = "bf16"
target_period_updates = 20

[variants.copy]
target = "hard"

[variants.learned]
target = "replicate"
replicate_updates = 2
replicate_batch_size = 8
updates_in_a_row = 4

[variants.anew]
target = "replicate"
replicate_updates = 2
replicate_batch_size = 8
reset_period_updates = 400
reset_updates = 30

[sizes.gpu]
variants = ["copy", "learned"]
seeds = 3
steps = 2_000
[sizes.full]
seeds = 3
steps = 2_000
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minatar, "REPEATS", 2)
    monkeypatch.setattr(minatar, "SECONDS_A_REPEAT", 0.0)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(STUDY)
    return path


@pytest.mark.usefixtures("short")
def test_methods_stand_beside_hard_copy_with_what_they_keep() -> None:
    rows = list(methods.run([methods.of_case(minatar.Case(1, "dqn"), ("hard", "averaged", "asymmetric"))]))
    assert [row["method"] for row in rows] == ["hard", "averaged", "asymmetric"]
    # The target alone; five of them; the target and its Adam's two moments.
    assert [row["memory_times_hard"] for row in rows] == [1.0, 5.0, 3.0]
    for row in rows:
        low, high = row["times_hard_spread"]
        assert 0 < low <= row["times_hard"] <= high


def test_every_method_is_timed_and_no_setting_twice() -> None:
    names = methods.default_names()
    settings = {minatar.config_of(minatar.Case(1), name).settings for name in names}
    assert len(settings) == len(names) > 15


@pytest.mark.parametrize(
    ("numbers", "timed"), [((10_000, 1_000), (1_000, 100)), ((340_000, 0), (34_000, 0)), ((50, 4), (25, 2))]
)
def test_resets_keep_what_they_cost_and_come_round_earlier(numbers: tuple[int, int], timed: tuple[int, int]) -> None:
    config = minatar.config_of(minatar.Case(1))
    method = dataclasses.replace(config.settings.method, reset_period_updates=numbers[0], reset_updates=numbers[1])
    config = dataclasses.replace(config, settings=dataclasses.replace(config.settings, method=method))
    found = minatar.to_time(config).settings.method
    assert (found.reset_period_updates, found.reset_updates) == timed


def test_a_studys_variants_are_timed_as_the_study_runs_them_and_never_end(small: Path) -> None:
    study = definition.load(small, "full")
    found = methods.of_study(study, ["learned", "anew"], "breakout", 5)
    assert list(found.runs) == ["learned", "anew"]
    assert found.baseline.settings.target.target == "hard"
    for config in (*found.runs.values(), found.baseline):
        settings = config.settings
        assert (config.env, config.agents, config.agent, config.steps) == ("minatar/breakout", 5, "dqn", 10**9)
        assert (settings.network.precision, settings.learning.batch_size) == ("bf16", 8)
        assert (settings.target.target_period_updates, settings.replay.warmup_steps) == (20, 200)  # never lengthened
    assert found.runs["anew"].settings.method.reset_updates == 3
    long = dataclasses.replace(study, overrides=study.overrides | {"warmup_steps": 1_500})
    assert methods.of_study(long, [], "breakout", 1).baseline.settings.replay.warmup_steps == 1_000


@pytest.mark.usefixtures("short")
def test_every_variant_of_a_study_stands_beside_its_baseline(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "methods", "--study", str(small), "--json"]) == 0
    out, error = capsys.readouterr()
    rows = json.loads(out)["rows"]
    assert rows == [json.loads(line) for line in error.splitlines() if '"method"' in line]  # as the ranking reads them
    assert [row["method"] for row in rows] == ["copy", "learned"]
    about = {"study": "small", "size": "gpu", "agents": 3, "agent": "dqn", "precision": "bf16", "game": "breakout"}
    for row in rows:
        assert row.items() >= about.items()
        low, high = row["times_hard_spread"]
        assert 0 < low <= row["times_hard"] <= high
    # A target, and of one that learns its Adam's two moments; all without the replay, which is alike.
    assert [row["memory_times_hard"] > 1 for row in rows] == [False, True]


class Clock:
    """A trial whose updates take so many seconds each."""

    kept_bytes, first_seconds = 1, 0.0

    def __init__(self, seconds_an_update: float, period_updates: int) -> None:
        self.seconds_an_update, self.period_updates = seconds_an_update, period_updates

    def seconds(self, updates: int) -> float:
        assert updates % self.period_updates == 0
        return updates * self.seconds_an_update


@pytest.mark.parametrize("steps", [1, 4, 8])
@pytest.mark.parametrize("in_a_row", [1, 4])
def test_the_ratio_is_that_of_an_agent_step(steps: int, in_a_row: int) -> None:
    """An update takes twice as long, and by hand: times updates a step, beside one update for four steps."""

    def config(**changes: Any) -> Any:
        run = minatar.config_of(minatar.Case(1, "dqn"))
        learning = dataclasses.replace(run.settings.learning, **changes)
        return dataclasses.replace(run, settings=dataclasses.replace(run.settings, learning=learning))

    ours = config(steps_per_update=steps, updates_in_a_row=in_a_row)
    found = methods.compared(Clock(2e-3, 20), ours, Clock(1e-3, 50), config())  # type: ignore[arg-type]
    assert found["times_hard"] == pytest.approx(2 * (in_a_row / steps) / (1 / 4), abs=0.005)
    assert found["cycle_microseconds"] == pytest.approx(2e3 * in_a_row)


@pytest.mark.parametrize(
    ("study", "words"),
    [("paper-readings", "has atari/Breakout, and only studies of MinAtar are timed"), ("exact", "has two-state")],
)
def test_a_study_of_other_environments_is_refused(study: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        methods.of_study(definition.load(study, "gpu"), [], "breakout", 1)


def test_a_trial_in_a_process_of_its_own_is_that_of_this_one() -> None:
    config = minatar.config_of(minatar.Case(1, "dqn"))
    wrong = dataclasses.replace(config, env="minatar/pacman")
    here = minatar.Trial(config)
    with apart.started([config, wrong]) as (good, bad):
        good.ready()
        assert (good.period_updates, good.kept_bytes) == (here.period_updates, here.kept_bytes)
        assert good.seconds(4) > 0
        with pytest.raises(UserError, match="pacman"):
            bad.ready()
