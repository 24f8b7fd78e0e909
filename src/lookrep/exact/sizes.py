"""The step sizes α and β as numbers, "auto" ones included; and which methods a problem allows."""

from typing import Literal, NamedTuple

import numpy as np

from lookrep.errors import UserError
from lookrep.exact.checks import Floats
from lookrep.exact.methods import METHODS, Method
from lookrep.exact.problems import Linear, MarkovChain, Problem, same_class
from lookrep.exact.settings import Settings, check


class StepSizes(NamedTuple):
    lookahead: float  # α
    replicate: Floats  # β_0 … β_{K_R − 1}


def check_method(problem: Problem, method: Method) -> None:
    """Copying or comparing parameters is meaningless between different value functions."""
    if METHODS[method].one_class and not same_class(problem):
        others = ", ".join(f"'{name}'" for name, parts in METHODS.items() if not parts.one_class)
        raise UserError(
            f"method: '{method}' copies or compares parameters, but this problem gives the two networks different "
            f"value functions; choose from {others}"
        )


def step_sizes(problem: Problem, settings: Settings) -> StepSizes:
    """Numbers for every step. "auto" is 1 / (Lipschitz constant of the gradient that the step follows, its proximal
    term included), the largest step for which gradient descent on a quadratic does not overshoot. In all cases it is
    half of what makes such a descent diverge; so CHAIN's term, which pulls back from where w was, counts twice.

    >>> from lookrep.exact.builtin import tsitsiklis_van_roy
    >>> round(step_sizes(tsitsiklis_van_roy(), Settings()).lookahead, 6)
    0.2
    """
    check(settings)
    parts = METHODS[settings.method]
    stretch = 1.0 + {"values": 1.0, "churn": 2.0}.get(parts.proximal, 0.0) * settings.kappa
    alpha = settings.lookahead_step_size
    if alpha == "auto":
        curvature = stretch * _curvature(problem, "residual" if parts.bootstrap == "through" else "online")
        alpha = 1.0 / (curvature + (2.0 * settings.kappa if parts.proximal == "parameters" else 0.0))
    beta = settings.replicate_step_size
    if beta == "auto":
        # Methods without a β must not fail for lack of one.
        both = stretch if parts.update == "mirror" else 1.0
        beta = 1.0 / (both * _curvature(problem, "target")) if parts.descends_target else 0.0
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
