"""Random and human scores of the paper's 55 Atari games, and the human-normalised score they define.

The numbers are those of DQN Zoo's `atari_data.py` (google-deepmind/dqn_zoo; up to 30 no-op starts). The games are
Dopamine's 60 less the five that have no human score. Dopamine's own table agrees but for one number: VideoPinball's
random score is 16256.9 here and 0.0 there, which turns a score of 100 000 from 59 times human into 5.7 times. Means
move with it; medians and interquartile means hardly do.
"""

from typing import NamedTuple


class Reference(NamedTuple):
    random: float
    human: float


SCORES: dict[str, Reference] = {
    "Alien": Reference(227.8, 7127.7),
    "Amidar": Reference(5.8, 1719.5),
    "Assault": Reference(222.4, 742.0),
    "Asterix": Reference(210.0, 8503.3),
    "Asteroids": Reference(719.1, 47388.7),
    "Atlantis": Reference(12850.0, 29028.1),
    "BankHeist": Reference(14.2, 753.1),
    "BattleZone": Reference(2360.0, 37187.5),
    "BeamRider": Reference(363.9, 16926.5),
    "Berzerk": Reference(123.7, 2630.4),
    "Bowling": Reference(23.1, 160.7),
    "Boxing": Reference(0.1, 12.1),
    "Breakout": Reference(1.7, 30.5),
    "Centipede": Reference(2090.9, 12017.0),
    "ChopperCommand": Reference(811.0, 7387.8),
    "CrazyClimber": Reference(10780.5, 35829.4),
    "DemonAttack": Reference(152.1, 1971.0),
    "DoubleDunk": Reference(-18.6, -16.4),
    "Enduro": Reference(0.0, 860.5),
    "FishingDerby": Reference(-91.7, -38.7),
    "Freeway": Reference(0.0, 29.6),
    "Frostbite": Reference(65.2, 4334.7),
    "Gopher": Reference(257.6, 2412.5),
    "Gravitar": Reference(173.0, 3351.4),
    "Hero": Reference(1027.0, 30826.4),
    "IceHockey": Reference(-11.2, 0.9),
    "Jamesbond": Reference(29.0, 302.8),
    "Kangaroo": Reference(52.0, 3035.0),
    "Krull": Reference(1598.0, 2665.5),
    "KungFuMaster": Reference(258.5, 22736.3),
    "MontezumaRevenge": Reference(0.0, 4753.3),
    "MsPacman": Reference(307.3, 6951.6),
    "NameThisGame": Reference(2292.3, 8049.0),
    "Phoenix": Reference(761.4, 7242.6),
    "Pitfall": Reference(-229.4, 6463.7),
    "Pong": Reference(-20.7, 14.6),
    "PrivateEye": Reference(24.9, 69571.3),
    "Qbert": Reference(163.9, 13455.0),
    "Riverraid": Reference(1338.5, 17118.0),
    "RoadRunner": Reference(11.5, 7845.0),
    "Robotank": Reference(2.2, 11.9),
    "Seaquest": Reference(68.4, 42054.7),
    "Skiing": Reference(-17098.1, -4336.9),
    "Solaris": Reference(1236.3, 12326.7),
    "SpaceInvaders": Reference(148.0, 1668.7),
    "StarGunner": Reference(664.0, 10250.0),
    "Tennis": Reference(-23.8, -8.3),
    "TimePilot": Reference(3568.0, 5229.2),
    "Tutankham": Reference(11.4, 167.6),
    "UpNDown": Reference(533.4, 11693.2),
    "Venture": Reference(0.0, 1187.5),
    "VideoPinball": Reference(16256.9, 17667.9),
    "WizardOfWor": Reference(563.5, 4756.5),
    "YarsRevenge": Reference(3092.9, 54576.9),
    "Zaxxon": Reference(32.5, 9173.3),
}


def reference(env: str) -> Reference | None:
    """The scores that go with an environment's name, if a human played it.

    >>> reference("atari/Breakout")
    Reference(random=1.7, human=30.5)
    >>> reference("minatar/breakout") is None
    True
    """
    suite, _, game = env.partition("/")
    return SCORES.get(game) if suite == "atari" else None


def human_normalised(env: str, score: float) -> float:
    """(score − random) / (human − random): 0 is random play, 1 is the human.

    >>> human_normalised("atari/Freeway", 14.8)
    0.5
    """
    scores = reference(env)
    if scores is None:
        raise KeyError(f"no human played {env}")
    return (score - scores.random) / (scores.human - scores.random)
