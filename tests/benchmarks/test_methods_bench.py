"""What a method costs beside hard copy: which rows there are, and what is counted. No timing is asserted."""

import dataclasses

import pytest

from lookrep.benchmarks import apart, methods, minatar
from lookrep.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_methods_stand_beside_hard_copy_with_what_they_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minatar, "REPEATS", 2)
    monkeypatch.setattr(minatar, "SECONDS_A_REPEAT", 0.0)
    rows = list(methods.run([minatar.Case(1, "dqn")], ("hard", "averaged", "asymmetric")))
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
    scaled = minatar.config_of(minatar.Case(1), methods.SCALED["renewed"]).settings.method
    full = minatar.config_of(minatar.Case(1), "renewed").settings.method
    assert scaled.reset_updates * full.reset_period_updates == full.reset_updates * scaled.reset_period_updates


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
