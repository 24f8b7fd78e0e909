"""What people type after `lookrep train`."""

import pytest

from lookrep.cli.train import Arguments
from lookrep.cli.train_words import in_order, settings_given, without_effect
from lookrep.config import preset
from lookrep.errors import UserError


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("minatar/breakout --agents 2", "--env minatar/breakout --agents 2"),
        ("--agents 2 minatar/breakout", "--env minatar/breakout --agents 2"),
        ("--double minatar/breakout --out runs/x", "--env minatar/breakout --double --out runs/x"),
        ("--no-double minatar/breakout", "--env minatar/breakout --no-double"),
        ("--steps=1e6 --env minatar/breakout", "--env minatar/breakout --steps 1000000"),
        ("gym/CartPole-v1 --steps 30_000 --tau 1e-3", "--env gym/CartPole-v1 --steps 30_000 --tau 1e-3"),
        ("minatar/breakout --steps 1.5", "--env minatar/breakout --steps 1.5"),
        ("minatar/breakout --v-min -5", "--env minatar/breakout --v-min -5"),
        ("--resume runs/first --steps 2e6 --quiet", "--resume runs/first --steps 2000000 --quiet"),
    ],
)
def test_words_in_any_order(typed: str, meant: str) -> None:
    assert in_order(typed.split(), Arguments) == meant.split()


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("minatar/breakout --agnets 2", "unknown option --agnets: did you mean '--agents'?"),
        ("minatar/breakout minatar/freeway", "train on one of minatar/breakout, minatar/freeway"),
        ("--env minatar/breakout --env minatar/freeway", "train on one of"),
        ("minatar/breakout --double yes", "--double takes no value: write --double, or --no-double for no"),
        ("minatar/breakout --steps", "--steps needs a value"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(typed: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        in_order(typed.split(), Arguments)
    assert words in str(caught.value)


def test_flags_that_nothing_looks_at_are_said() -> None:
    said = without_effect(
        ["--tau", "0.1", "--atoms", "21", "--replicate-updates=3", "--batch-size", "8"], preset("dqn")
    )
    assert said == [
        "--tau has no effect with --target hard",
        "--replicate-updates has no effect with --target hard",
        "--atoms has no effect with --head dqn",
    ]
    assert without_effect(["--atoms", "21", "--target-period-updates", "3"], preset("rainbow")) == []


def test_settings_are_read_where_they_can_be() -> None:
    words = ["--env", "a:b", "--no-noisy", "--tau", "much", "--replicate-sampler", "", "--bootstrap=my:mix", "--double"]
    assert settings_given([*words, "--reset-period-updates=None", "--replicate-start=online", "--steps", "9"]) == {
        "network": {"noisy": False},
        "method": {"bootstrap": "my:mix", "reset_period_updates": None},
        "learning": {"double": True},
        "target": {"replicate_start": "online"},
    }
