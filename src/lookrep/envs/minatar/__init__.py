"""The five MinAtar games on the device, after Young & Tian (2019), "MinAtar": the same rules, random draws and
observations as the original package (version 1.0.15), one state machine per file.

One difference: the original's wrapper lets a sticky action reach back into the previous episode; here an episode
starts from the no-op, since `init` knows no past.
"""

from lookrep.envs.minatar import asterix, breakout, freeway, seaquest, space_invaders
from lookrep.envs.minatar.engine import MinAtar
from lookrep.errors import UserError

GAMES = ("breakout", "asterix", "freeway", "seaquest", "space_invaders")


def make(name: str, sticky_action_prob: float = 0.1, difficulty_ramping: bool = True) -> MinAtar:
    """The game `name` with MinAtar's protocol: sticky actions, the minimal action set, no added time limit.

    >>> env = make("breakout")
    >>> env.observation_shape, env.num_actions
    ((10, 10, 4), 3)
    """
    rules = {
        "breakout": breakout.RULES,
        "asterix": asterix.RULES,
        "freeway": freeway.RULES,
        "seaquest": seaquest.RULES,
        "space_invaders": space_invaders.RULES,
    }
    if name not in rules:
        raise UserError(f"unknown MinAtar game {name!r}: choose one of {', '.join(GAMES)}")
    if not 0 <= sticky_action_prob <= 1:
        raise UserError(f"sticky_action_prob is {sticky_action_prob}: it must lie between 0 and 1")
    return MinAtar(rules[name], sticky_action_prob, difficulty_ramping)
