"""The table of human scores is the one everybody uses, for exactly the paper's games."""

import numpy as np
import pytest

from lookrep.analysis.human_scores import SCORES, reference
from lookrep.studies import definition


def test_there_are_55_games_and_no_game_without_a_human_score() -> None:
    assert len(SCORES) == 55
    assert not {"AirRaid", "Carnival", "ElevatorAction", "JourneyEscape", "Pooyan", "Defender", "Surround"} & set(
        SCORES
    )
    assert all(scores.human > scores.random for scores in SCORES.values())


def test_the_games_are_those_of_the_study_of_55_games() -> None:
    study = definition.load("paper-55", "full")
    assert {f"atari/{game}" for game in SCORES} == set(study.environments)


# Published pairs, from google-deepmind/dqn_zoo's atari_data.py: a low, a high, a negative and the disputed one.
@pytest.mark.parametrize(
    ("game", "random", "human"),
    [
        ("Breakout", 1.7, 30.5),
        ("Pong", -20.7, 14.6),
        ("Skiing", -17098.1, -4336.9),
        ("PrivateEye", 24.9, 69571.3),
        ("VideoPinball", 16256.9, 17667.9),
        ("Zaxxon", 32.5, 9173.3),
    ],
)
def test_published_scores(game: str, random: float, human: float) -> None:
    assert reference(f"atari/{game}") == (random, human)


def test_the_whole_table_has_not_been_mistyped() -> None:
    """Sums over the published table, worked out from its CSV form with awk."""
    assert np.isclose(sum(scores.random for scores in SCORES.values()), 48000.4)
    assert np.isclose(sum(scores.human for scores in SCORES.values()), 587798.8)


def test_other_suites_have_no_human() -> None:
    assert reference("minatar/breakout") is None
    assert reference("Breakout") is None
