"""Numbers of an agent that others in its program may have otherwise: step sizes, exploration, τ, K_R and the like.

Where all agents agree, a number stays a Python number and is compiled in, as if it could not differ. Where they do not,
it is an array with an axis of agents. So a program of one configuration is the same, to the bit, as before.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from lookrep.config import NUMBERS, AgentConfig

Number = Any  # a Python number, or an array [agents]


class Numbers(NamedTuple):
    """The fields of `config.NUMBERS`, each a number or [agents]."""

    learning_rate: Number
    adam_epsilon: Number
    discount: Number
    epsilon_start: Number
    epsilon_end: Number
    epsilon_decay_steps: Number
    tau: Number
    replicate_updates: Number
    replicate_learning_rate: Number
    replicate_adam_epsilon: Number
    kappa: Number

    @property
    def axes(self) -> "Numbers":
        """For vmap over agents: 0 where they differ, None where not."""
        return Numbers(*(0 if isinstance(number, np.ndarray) else None for number in self))


def numbers_of(settings: AgentConfig) -> Numbers:
    """What one configuration says. The target's step size and ε are the online network's where they are not given."""
    found = {name: getattr(getattr(settings, group), name) for name, group in NUMBERS.items()}
    for name in ("learning_rate", "adam_epsilon"):
        if found[f"replicate_{name}"] is None:
            found[f"replicate_{name}"] = found[name]
    return Numbers(**found)


def together(each: Sequence[Numbers], agents: Sequence[int]) -> Numbers:
    """Of several configurations with so many agents each.

    >>> one = numbers_of(AgentConfig())
    >>> both = together([one, one._replace(tau=0.1)], [2, 1])
    >>> both.tau.tolist(), both.discount
    ([0.005, 0.005, 0.1], 0.99)
    """

    def joined(values: Sequence[Any]) -> Number:
        return values[0] if len(set(values)) == 1 else np.repeat(np.array(values), agents)

    return Numbers(*(joined(values) for values in zip(*each, strict=True)))
