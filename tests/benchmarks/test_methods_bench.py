"""What a method costs beside hard copy: which rows there are, and what is counted. No timing is asserted."""

import pytest

from lookrep.benchmarks import methods, minatar

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
