"""Whether a run's target has fallen behind, and the flag that helps. Said once, while there is time to start again.

The mean gap is a bad gauge: a starved target keeps the states' level, and loses the differences between actions that
decide what is bootstrapped from. So the rows' agreement is looked at (`lookrep.agents.agent.agreement`).
"""

from typing import Any

import numpy as np

from lookrep.config import AgentConfig

LEAST_R2, LEAST_AGREEMENT = 0.5, 0.5  # of the differences between actions, and of the best actions
ROWS = 3  # in a row: early on, networks change quickly

FLAGS = {
    "replicate": "raise --replicate-updates or --replicate-learning-rate",
    "polyak": "raise --tau",
    "hard": "lower --target-period-updates",
}


class Advice:
    """Looks at the rows of a program's agents one after the other."""

    def __init__(self, settings: AgentConfig) -> None:
        self._settings = settings
        self._behind = 0
        self._said = False

    def on(self, columns: dict[str, Any]) -> str | None:
        """A line of advice, once, if the targets of most agents have been behind for some rows."""
        flag = FLAGS.get(self._settings.target.target)
        if self._said or flag is None or "r2_advantages" not in columns or not np.any(columns["target_updates"]):
            return None
        # NaN, where an agent has diverged, is no reason to say anything.
        r2, agreement = (float(np.median(columns[name])) for name in ("r2_advantages", "argmax_agreement"))
        behind = r2 < LEAST_R2 or agreement < LEAST_AGREEMENT
        self._behind = self._behind + 1 if behind else 0
        if self._behind < ROWS:
            return None
        self._said = True
        return (
            f"the target falls behind: it has {max(r2, 0):.0%} of the differences between actions (R²), and the online "
            f"network's best action in {agreement:.0%} of the states; {flag} (docs/targets.md)"
        )
