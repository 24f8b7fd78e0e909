"""Finite problems without sampling noise: the algorithms of the paper, their solution sets and the theory, exactly.

>>> from lookrep import exact
>>> chain = exact.markov_chain([[0.6, 0.4], [0.2, 0.8]], reward=[1, 1], discount=0.5)
>>> features = exact.linear([[1, 2, 1], [1, 1, 2]])
>>> settings = exact.Settings(outer_iterations=800, lookahead_updates=400, replicate_updates=1)
>>> trace = exact.solve(exact.problem(chain, online=features, target=exact.table(2)), settings)
>>> trace.value_target[-1].round(6).tolist()
[2.0, 2.0]
"""

from lookrep.exact.certificate import Certificate, OuterMap, certify, outer_map
from lookrep.exact.membership import Membership, SolutionSets, membership_of, solution_sets
from lookrep.exact.problems import (
    MDP,
    Differentiable,
    Linear,
    MarkovChain,
    Problem,
    linear,
    markov_chain,
    mdp,
    problem,
    stationary_weighting,
    table,
    true_value,
)
from lookrep.exact.rates import measured_rate
from lookrep.exact.sampled import solve_sampled
from lookrep.exact.settings import Settings, StepSizes, step_sizes
from lookrep.exact.solver import Trace, solve, solve_many
from lookrep.exact.theory import Audit, audit

__all__ = [
    "MDP",
    "Audit",
    "Certificate",
    "Differentiable",
    "Linear",
    "MarkovChain",
    "Membership",
    "OuterMap",
    "Problem",
    "Settings",
    "SolutionSets",
    "StepSizes",
    "Trace",
    "audit",
    "certify",
    "linear",
    "markov_chain",
    "mdp",
    "measured_rate",
    "membership_of",
    "outer_map",
    "problem",
    "solution_sets",
    "solve",
    "solve_many",
    "solve_sampled",
    "stationary_weighting",
    "step_sizes",
    "table",
    "true_value",
]
