"""Whether a run's target has fallen behind, and the flag that helps. Said once, while there is time to start again.

The mean gap is a bad gauge: a starved target keeps the states' level, and loses the differences between actions that
decide what is bootstrapped from. So the rows' agreement is looked at (`lookrep.agents.measures`), soon after a turn:
late in a period any target is old, a good hard copy as well. Where a target learns so slowly that it starved in every
study of ours, nobody has to wait for rows.
"""

from typing import Any

import numpy as np

from lookrep.config import AgentConfig

LEAST_R2, LEAST_AGREEMENT = 0.5, 0.5  # of the differences between actions, and of the best actions
ROWS = 3  # in a row: early on, networks change quickly
SOON = 0.1  # of a period, after a turn
# Target steps × step size, relative to those of the online network: at 0.1 targets starved, from 0.4 on it made no
# difference (docs/results/minatar.md, "What makes Replicate work").
LEAST_REACH = 0.4

FLAGS = {
    "replicate": "raise --replicate-updates or --replicate-learning-rate",
    "polyak": "raise --tau",
}


class Advice:
    """Looks at the rows of a program's agents one after the other."""

    def __init__(self, settings: AgentConfig) -> None:
        self._settings = settings
        self._behind = 0
        self._said = False

    def at_start(self) -> str | None:
        """A line of advice, if the settings alone say that the target will fall behind."""
        target, learning = self._settings.target, self._settings.learning
        ours = target.replicate_optimizer == learning.optimizer == "adam" and target.replicate_until_gap is None
        if self._said or target.target != "replicate" or not ours or target.replicate_start == "online":
            return None
        step = target.replicate_learning_rate or learning.learning_rate
        reach = target.replicate_updates * step / (target.target_period_updates * learning.learning_rate)
        if reach >= LEAST_REACH:
            return None
        self._said = True
        return (
            f"the target will fall behind: its steps add up to {reach:.2g} of the online network's, and below "
            f"{LEAST_REACH} targets starved; {FLAGS['replicate']} (docs/targets.md)"
        )

    def on(self, columns: dict[str, Any]) -> str | None:
        """A line of advice, once, if the targets of most agents have been behind for some rows."""
        flag = FLAGS.get(self._settings.target.target)
        if self._said or flag is None or "r2_advantages" not in columns or not np.any(columns["target_updates"]):
            return None
        if not self._soon_after_a_turn(int(np.max(columns["online_updates"]))):
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

    def _soon_after_a_turn(self, online_updates: int) -> bool:
        target = self._settings.target
        if target.target == "polyak":
            return True
        period = target.target_period_updates
        return target.target_period_growth == 1.0 and online_updates % period <= SOON * period
