"""The inputs T, K_L, K_R, α, β of Algorithm 1, their checks, and what "auto" step sizes mean.

Not here: the algorithm (`solver.py`) and the theorem's own step sizes (`theory.py`).
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from lookrep.errors import UserError
from lookrep.exact.problems import Floats, Linear, MarkovChain, Problem

Method = Literal["lr", "td", "td-hard", "td-polyak", "residual"]
METHODS: tuple[Method, ...] = get_args(Method)
Auto = Literal["auto"]
LARGEST_COUNT = 10**7  # of iterations or updates; more is a typing mistake, and would exhaust memory before time


@dataclass(frozen=True)
class Settings:
    """`lookahead_updates` (K_L) is also the period of a hard copy. `tau` is Polyak's, after every online update."""

    method: Method = "lr"
    outer_iterations: int = 800
    lookahead_updates: int = 400
    replicate_updates: int = 1
    lookahead_step_size: float | Auto = "auto"
    replicate_step_size: float | tuple[float, ...] | Auto = "auto"
    tau: float = 0.005


class StepSizes(NamedTuple):
    lookahead: float  # α
    replicate: Floats  # β_0 … β_{K_R − 1}


def check(settings: Settings) -> Settings:
    """Refuse what cannot run, with the field's name."""
    if settings.method not in METHODS:
        raise UserError(f"method: {settings.method!r} is unknown; choose from {', '.join(METHODS)}")
    for name in ("outer_iterations", "lookahead_updates", "replicate_updates"):
        count = getattr(settings, name)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= LARGEST_COUNT:
            raise UserError(f"{name}: {count!r} is not a whole number from 1 to {LARGEST_COUNT}")
    _check_step("lookahead_step_size", settings.lookahead_step_size)
    steps = settings.replicate_step_size
    if isinstance(steps, tuple):
        if len(steps) != settings.replicate_updates:
            raise UserError(
                f"replicate_step_size: {len(steps)} entries for replicate_updates = {settings.replicate_updates}; "
                "give one per update"
            )
        for step in steps:
            _check_step("replicate_step_size", step)
    else:
        _check_step("replicate_step_size", steps)
    if isinstance(settings.tau, bool) or not isinstance(settings.tau, (int, float)) or not 0.0 < settings.tau <= 1.0:
        raise UserError(f"tau: {settings.tau!r} is outside (0, 1]")
    return settings


def step_sizes(problem: Problem, settings: Settings) -> StepSizes:
    """Numbers for every step. "auto" is 1 / (Lipschitz constant of the gradient that the step follows), the
    largest step for which gradient descent on a quadratic does not overshoot.

    >>> from lookrep.exact.builtin import tsitsiklis_van_roy
    >>> round(step_sizes(tsitsiklis_van_roy(), Settings()).lookahead, 6)
    0.2
    """
    check(settings)
    alpha = settings.lookahead_step_size
    if alpha == "auto":
        alpha = 1.0 / _curvature(problem, "residual" if settings.method == "residual" else "online")
    beta = settings.replicate_step_size
    if beta == "auto":
        # Only Replicate has a β; the baselines must not fail for lack of one.
        beta = 1.0 / _curvature(problem, "target") if settings.method == "lr" else 0.0
    if isinstance(beta, tuple):
        return StepSizes(float(alpha), np.asarray(beta, np.float64))
    return StepSizes(float(alpha), np.full(settings.replicate_updates, beta, np.float64))


def _curvature(problem: Problem, which: Literal["online", "target", "residual"]) -> float:
    """The largest eigenvalue of 2 Φᵀ D Φ; with (I − γP)Φ in place of Φ for the residual gradient."""
    function = problem.target if which == "target" else problem.online
    field = "replicate_step_size" if which == "target" else "lookahead_step_size"
    if not isinstance(function, Linear):
        raise UserError(f'{field}: "auto" needs a linear value function; give a number')
    features = function.features
    if which == "residual":
        if not isinstance(problem.process, MarkovChain):
            raise UserError(f'{field}: "auto" with the residual gradient needs a Markov chain; give a number')
        features = features - problem.process.discount * (problem.process.transition @ features)
    largest = float(np.linalg.norm(np.sqrt(problem.weighting)[:, None] * features, 2)) ** 2
    if largest == 0.0:
        raise UserError(f'{field}: "auto" is undefined because the weighted features are all zero')
    return 2.0 * largest


def _check_step(name: str, step: float | str) -> None:
    if step == "auto":
        return
    if isinstance(step, bool) or not isinstance(step, (int, float)) or not np.isfinite(step) or step <= 0.0:
        raise UserError(f'{name}: {step!r} is not a positive number or "auto"')
