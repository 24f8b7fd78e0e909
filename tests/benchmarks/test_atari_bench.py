"""The benchmark's arithmetic; how fast anything is, no test says."""

import dataclasses

import pytest

from lookrep.benchmarks import atari
from lookrep.benchmarks.atari import Case
from lookrep.config import preset
from lookrep.errors import UserError


class Steady:
    """A population that takes 1000 steps a second, by a clock that nothing else moves."""

    def __init__(self, case: Case) -> None:
        self.seconds = 0.0

    def __enter__(self) -> "Steady":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def spent(self) -> dict[str, int]:
        before, self.seconds = self.seconds, 0.0
        return {"playing": round(before)}

    def advance(self, steps: int) -> float:
        self.seconds += steps / 1000
        clock.now += steps / 1000
        return steps / 1000


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


clock = Clock()


def test_emulators_of_a_game_that_is_not_there_are_not_started() -> None:
    with pytest.raises(UserError, match="did you mean atari/Breakout"):
        atari.Emulators("Brekout", 2)


def test_emulators_alone_are_timed_in_the_seconds_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a machine that is twice as fast from some moment on does not change the ratio by much."""
    monkeypatch.setattr(atari, "Trainer", SlowAtFirst)
    row = atari.measure(Case(agents=2, target="hard"), emulators := Free())  # type: ignore[arg-type]
    assert row["agent_steps_per_second"] == 2000
    assert row["spread"] == [1000, 2000]
    assert (row["emulators_alone"], row["emulators_spread"]) == (4000, [2000, 4000])
    assert row["ratio_to_emulators"] == 0.5
    assert emulators.asked == atari.REPEATS


class Free:
    """Emulators that are as fast as the machine."""

    asked = 0

    def speed(self) -> float:
        self.asked += 1
        return 2000.0 if self.asked <= 2 else 4000.0


class SlowAtFirst(Steady):
    """Half as fast until it is warm, and in the first two intervals."""

    groups, calls = 1, 0

    def advance(self, steps: int) -> float:
        self.calls += 1
        return steps / (500 if self.calls <= 4 else 1000)


@pytest.mark.usefixtures("quick_compilation")
def test_the_first_turn_of_the_target_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is compiled then, which takes longer than what is timed."""
    rainbow = preset("dopamine-rainbow")
    network = dataclasses.replace(rainbow.network, network="mlp:2")
    target = dataclasses.replace(rainbow.target, replicate_updates=3)
    monkeypatch.setattr(atari, "preset", lambda _: dataclasses.replace(rainbow, network=network, target=target))
    with atari.Trainer(Case(agents=1, target="replicate", capacity_steps=1000)) as trainer:
        trainer.advance(atari.FIRST_STEPS)
        _, row = trainer._engine.measure(trainer._state)
    assert row["target_updates"].tolist() == [3]
    assert row["online_updates"].tolist() == [trainer.period_steps // 4 + 5]
