"""Random and human scores of the paper's 55 Atari games, by which scores are normalised: `human_scores.csv`.

The numbers are those of DQN Zoo's `atari_data.py` (google-deepmind/dqn_zoo; up to 30 no-op starts). The games are
Dopamine's 60 less the five that have no human score. Dopamine's own table agrees but for one number: VideoPinball's
random score is 16256.9 here and 0.0 there, which turns a score of 100 000 from 59 times human into 5.7 times. Means
move with it; medians and interquartile means hardly do.
"""

import csv
from importlib import resources
from typing import NamedTuple


class Reference(NamedTuple):
    random: float
    human: float


with (resources.files("lookrep.analysis") / "human_scores.csv").open() as _file:
    SCORES = {row["game"]: Reference(float(row["random"]), float(row["human"])) for row in csv.DictReader(_file)}


def reference(env: str) -> Reference | None:
    """The scores that go with an environment's name, if a human played it.

    >>> reference("atari/Breakout")
    Reference(random=1.7, human=30.5)
    >>> reference("minatar/breakout") is None
    True
    """
    suite, _, game = env.partition("/")
    return SCORES.get(game) if suite == "atari" else None
