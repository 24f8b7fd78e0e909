"""Finite problems without sampling noise: the algorithms of the paper, their solution sets and the theory, exactly.

>>> from lookrep import exact
>>> chain = exact.markov_chain([[0.6, 0.4], [0.2, 0.8]], reward=[1, 1], discount=0.5)
>>> features = exact.linear([[1, 2, 1], [1, 1, 2]])
>>> settings = exact.Settings(outer_iterations=800, lookahead_updates=400, replicate_updates=1)
>>> trace = exact.solve(exact.problem(chain, online=features, target=exact.table(2)), settings)
>>> trace.value_target[-1].round(6).tolist()
[2.0, 2.0]

Names are imported when they are asked for: `lookrep.exact.settings` must not bring JAX along.
"""

# ruff: noqa: F401
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from lookrep.exact.settings import Settings
    from lookrep.exact.sizes import StepSizes, step_sizes
    from lookrep.exact.solver import Trace, solve, solve_many
    from lookrep.exact.theory import Audit, audit

_FROM = {
    "certificate": ("Certificate", "OuterMap", "certify", "outer_map"),
    "membership": ("Membership", "SolutionSets", "membership_of", "solution_sets"),
    "problems": (
        "MDP", "Differentiable", "Linear", "MarkovChain", "Problem",
        "linear", "markov_chain", "mdp", "problem", "stationary_weighting", "table", "true_value",
    ),
    "rates": ("measured_rate",),
    "sampled": ("solve_sampled",),
    "settings": ("Settings",),
    "solver": ("Trace", "solve", "solve_many"),
    "sizes": ("StepSizes", "step_sizes"),
    "theory": ("Audit", "audit"),
}  # fmt: skip
_HOME = {name: module for module, names in _FROM.items() for name in names}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"lookrep.exact.{_HOME[name]}"), name)
    raise AttributeError(f"module 'lookrep.exact' has no attribute '{name}'")
