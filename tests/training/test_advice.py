"""A target that falls behind is told once, with the flag that helps, and only when it has been so for some rows."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from lookrep.config import preset
from lookrep.training.advice import ROWS, Advice


def settings(target: str) -> Any:
    base = preset("rainbow")
    return dataclasses.replace(base, target=dataclasses.replace(base.target, target=target))


def row(r2: float, agreement: float = 0.9, target_updates: int = 5, online_updates: int = 500) -> dict[str, Any]:
    values = {"r2_advantages": r2, "argmax_agreement": agreement, "target_updates": target_updates}
    values |= {"online_updates": online_updates}
    return {name: np.full(3, value) for name, value in values.items()}


@pytest.mark.parametrize(("target", "flag"), [("replicate", "--replicate-updates"), ("polyak", "--tau")])
def test_a_target_that_stays_behind_is_told_once_with_its_flag(target: str, flag: str) -> None:
    advice = Advice(settings(target))
    said = [advice.on(row(0.2)) for _ in range(3 * ROWS)]
    assert [line is not None for line in said] == [i == ROWS - 1 for i in range(3 * ROWS)]
    line = said[ROWS - 1] or ""
    assert flag in line
    assert "20% of the differences" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("given", "reach"),
    [
        ({"replicate_updates": 25, "replicate_learning_rate": None}, "0.1"),  # the paper's ratio
        ({"replicate_updates": 3}, "0.12"),
        ({"target_period_updates": 10_000}, "0.1"),
    ],
)
def test_a_replicate_that_is_too_slow_is_told_before_it_starts_and_not_again(given: dict[str, Any], reach: str) -> None:
    base = settings("replicate")
    advice = Advice(dataclasses.replace(base, target=dataclasses.replace(base.target, **given)))
    line = advice.at_start() or ""
    assert f"add up to {reach} of the online network's" in line
    assert "--replicate-updates" in line
    assert not any(advice.on(row(0.1)) for _ in range(2 * ROWS))


def test_nothing_is_said_at_the_start_of_what_keeps_up_or_cannot_be_known() -> None:
    slow = {"replicate_updates": 1}
    for base, given in (
        (settings("replicate"), {}),
        (preset("rainbow-lr"), {}),
        (settings("polyak"), slow),
        (settings("replicate"), slow | {"replicate_until_gap": 0.1}),
        (settings("replicate"), slow | {"replicate_start": "online"}),
        (settings("replicate"), slow | {"replicate_optimizer": "my_optimizers:make"}),
    ):
        assert Advice(dataclasses.replace(base, target=dataclasses.replace(base.target, **given))).at_start() is None


def test_nothing_is_said_of_a_target_that_catches_up_has_had_no_turn_or_is_not_ours() -> None:
    late = Advice(settings("replicate"))
    rows = [row(0.2), row(0.2), row(0.9), row(0.2), row(0.2), row(0.99, agreement=0.8)]
    assert [late.on(each) for each in rows] == [None] * len(rows)
    assert not any(Advice(settings("frozen")).on(row(-3.0)) for _ in range(9))
    assert not any(Advice(settings("hard")).on(row(0.1)) for _ in range(9))  # a copy is old until the next
    late_in_a_period = Advice(settings("replicate"))
    assert not any(late_in_a_period.on(row(0.1, online_updates=250 * i + 100)) for i in range(9))
    early = Advice(settings("replicate"))
    assert not any(early.on(row(0.1, target_updates=0)) for _ in range(9))
    diverged = Advice(settings("replicate"))
    assert not any(diverged.on(row(float("nan"))) for _ in range(9))
