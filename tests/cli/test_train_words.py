"""What people type after `lookrep train`."""

from typing import Any

import pytest

from lookrep import config as configs
from lookrep.cli import main
from lookrep.cli.train import Arguments
from lookrep.cli.train_words import WHY_NOT, in_order, settings_given, without_effect
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
        ("--env minatar/breakout --env minatar/freeway", "--env is given twice, as minatar/breakout and as minatar/f"),
        ("minatar/breakout --agent dqn --agent=rainbow", "--agent is given twice, as dqn and as rainbow: give it once"),
        ("minatar/breakout --log-interval-steps 4 --log_interval_steps 4", "--log-interval-steps is given twice"),
        ("minatar/breakout --double --no-double", "--double is given twice: give it once"),
        ("minatar/breakout --double yes", "--double takes no value: write --double, or --no-double for no"),
        ("minatar/breakout --steps", "--steps needs a value"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_can(typed: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        in_order(typed.split(), Arguments)
    assert words in str(caught.value)


# Settings that always have an effect, or are refused: a new one belongs here, or has its reasons in WHY_NOT.
ALWAYS = """
    env agent agents first_agent steps seed log_interval_steps checkpoint_interval_steps devices
    network target_network dueling noisy layer_norm precision
    head n_steps clip_rewards discount batch_size steps_per_update updates_in_a_row optimizer
    replay_capacity_steps warmup_steps prioritised epsilon_start epsilon_end
    target method bootstrap regulariser averaged_networks shared_trunk symmetric reset_period_updates
"""


def test_of_every_setting_it_is_known_when_it_has_an_effect() -> None:
    assert sorted([*ALWAYS.split(), *WHY_NOT]) == sorted(configs.setting_groups())


@pytest.mark.parametrize("name", sorted(WHY_NOT))
def test_every_flag_that_may_have_no_effect_has_one_somewhere(name: str) -> None:
    """On Atari, with one target or another and all that goes with it."""
    apart = {"epsilon_start": 1.0, "prioritised": True, "regulariser": "values", "replicate_until_gap": None}
    somewhere = [
        {"target": "hard", "head": "c51", "target_period_growth": 2.0, "reset_period_updates": 100},
        {"target": "polyak", "head": "iqn"},
        {"target": "replicate"},
        {"target": "replicate", "replicate_until_gap": 0.1},
    ]
    runs = [configs.from_flat({"env": "atari/Pong", "agent": "dqn"} | apart | settings) for settings in somewhere]
    flag = f"--{name.replace('_', '-')}"
    assert [] in [without_effect([flag, "3"], run) for run in runs]


OWN = "own_parts:optimizer"


@pytest.mark.parametrize(
    ("settings", "flag", "why"),
    [
        ({}, "tau", "with --target hard"),
        ({}, "replicate_optimizer", "with --target hard"),
        ({}, "replicate_updates", "with --target hard"),
        ({"target": "polyak"}, "target_period_growth", "with --target polyak"),
        ({"target": "frozen"}, "optimizer_at_turn", "with --target frozen"),
        ({"target": "own_parts:rule"}, "tau", ""),  # who knows
        ({}, "target_period_most_updates", "without --target-period-growth"),
        ({"target": "replicate"}, "replicate_max_updates", "without --replicate-until-gap"),
        ({"target": "replicate", "replicate_until_gap": 0.1}, "replicate_updates", "with --replicate-until-gap"),
        ({"target": "replicate"}, "replicate_sampler", "without --prioritised"),
        ({"target": "replicate", "symmetric": True}, "replicate_actions", "with --symmetric, which takes the stored"),
        ({"target": "replicate", "symmetric": True}, "kappa", ""),
        ({"target": "replicate", "replicate_optimizer": OWN}, "replicate_learning_rate", "with --replicate-optimizer"),
        ({"reset_period_updates": 1000}, "replicate_batch_size", ""),  # a reset takes steps of Replicate
        ({"reset_period_updates": 1000}, "replicate_learning_rate", ""),
        ({"reset_period_updates": 1000}, "replicate_updates", "with --target hard"),
        ({"reset_period_updates": 1000, "reset_updates": 0}, "replicate_batch_size", "with --target hard"),
        ({}, "reset_updates", "without --reset-period-updates"),
        ({}, "kappa", "without --regulariser"),
        ({"optimizer": OWN}, "learning_rate", f"with --optimizer {OWN}"),
        ({"optimizer": OWN, "target": "replicate"}, "learning_rate", f"with --optimizer {OWN}"),
        ({"optimizer": OWN, "target": "replicate"}, "adam_epsilon", ""),  # the target's, too
        ({"optimizer": OWN, "regulariser": "parameters"}, "learning_rate", ""),  # of the pull to the target
        ({}, "atoms", "with --head dqn"),
        ({"head": "own_parts:head"}, "atoms", "with --head own_parts:head"),
        ({"head": "iqn"}, "quantiles", ""),
        ({"bootstrap": "online"}, "double", "with --bootstrap online"),
        ({"epsilon_end": 1.0}, "epsilon_decay_steps", "where --epsilon-start is --epsilon-end"),
        ({"target": "replicate", "network": "mlp:8", "target_network": "mlp:4"}, "target_init", "with --target-net"),
        ({}, "workers", "on minatar/breakout, only where environments run on the host (Atari, Gymnasium)"),
        ({"env": "gym/CartPole-v1"}, "groups", ""),
        ({"env": "gym/CartPole-v1"}, "replay_memory", "on gym/CartPole-v1, only on Atari"),
        ({}, "no_life_loss_terminal", "on minatar/breakout, only on Atari"),
    ],
)
def test_a_flag_without_effect_is_said_with_the_reason(settings: dict[str, Any], flag: str, why: str) -> None:
    run = configs.from_flat({"env": "minatar/breakout", "agent": "dqn"} | settings)
    said = without_effect([f"--{flag.replace('_', '-')}", "1"], run)
    assert len(said) == bool(why)
    if said:
        assert said[0].startswith(f"--{flag.removeprefix('no_').replace('_', '-')} has no effect {why}")


def test_only_flags_that_were_typed_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = configs.from_flat({"env": "minatar/breakout", "agent": "dqn"})
    assert without_effect(["--tau=0.1", "--batch-size", "8", "--atoms", "21"], run) == [
        "--atoms has no effect with --head dqn",
        "--tau has no effect with --target hard",
    ]
    assert main(["train", "minatar/breakout", "--trust", "--out", "no/run"]) == 2
    assert "--trust goes with --resume RUN or --config FILE" in capsys.readouterr().err


def test_settings_are_read_where_they_can_be() -> None:
    words = ["--env", "a:b", "--no-noisy", "--tau", "much", "--replicate-sampler", "", "--bootstrap=my:mix", "--double"]
    assert settings_given(
        [*words, "--reset-period-updates=None", "--replicate-start=online", "--steps", "9"], Arguments
    ) == {
        "network": {"noisy": False},
        "method": {"bootstrap": "my:mix", "reset_period_updates": None},
        "learning": {"double": True},
        "target": {"replicate_start": "online"},
    }
