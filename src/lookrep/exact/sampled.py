"""Algorithm 1 from sampled transitions: the same loop as `solver.py`, with both gradients estimated from draws.

A batch of states s ~ D with successors s' ~ P(s, ·) replaces the expectations in ∇_w H and ∇_θ G. Both estimates are
unbiased for a Markov chain. The optimality operator's maximum and the residual gradient would need more than one
successor per state, so those are refused.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.errors import UserError
from lookrep.exact.problems import MarkovChain, Problem
from lookrep.exact.settings import Settings
from lookrep.exact.sizes import check_method, step_sizes
from lookrep.exact.solver import Errors, Trace, check_trace_size, double_precision, run_loop


def solve_sampled(problem: Problem, settings: Settings, batch_size: int, seed: int) -> Trace:
    """Like `solver.solve`, but every update draws `batch_size` fresh transitions. H and G in the trace are exact."""
    if not isinstance(problem.process, MarkovChain):
        raise UserError("sampling needs a Markov chain: one drawn successor is a biased maximum for a decision process")
    if settings.method == "residual":
        raise UserError("method: 'residual' needs two independent successors per state; sampling draws one")
    sizes = step_sizes(problem, replace(settings, batch_size=batch_size, seed=seed))
    settings = replace(settings, batch_size=None, seed=0)  # compiled once for all seeds
    check_method(problem, settings.method)
    check_trace_size(problem, settings)
    with double_precision():
        trace = _jitted(problem, sizes, settings, sampled_errors(batch_size), jax.random.key(seed))
        return jax.tree.map(np.asarray, trace)


_jitted = jax.jit(run_loop, static_argnums=(2, 3))


@cache  # one object per batch size, so that JAX compiles once per batch size
def sampled_errors(batch_size: int) -> Errors:
    """Estimates of the D-weighted errors behind ∇_w H and ∇_θ G from `batch_size` draws each."""

    def lookahead(problem: Problem, value_online: Any, value_target: Any, key: Any) -> Any:
        state_key, next_key = jax.random.split(key)
        state = _draw_states(problem, state_key, batch_size)
        following = jax.random.categorical(next_key, jnp.log(problem.process.transition)[state])
        bootstrap = problem.process.reward[state] + problem.process.discount * value_target[following]
        return _scatter(problem, state, value_online[state] - bootstrap)

    def replicate(problem: Problem, value_target: Any, value_online: Any, key: Any) -> Any:
        state = _draw_states(problem, key, batch_size)
        return _scatter(problem, state, value_target[state] - value_online[state])

    return Errors(lookahead, replicate)


def _draw_states(problem: Problem, key: Any, batch_size: int) -> Any:
    return jax.random.categorical(key, jnp.log(problem.weighting), shape=(batch_size,))


def _scatter(problem: Problem, state: Any, error: Any) -> Any:
    return jnp.zeros(problem.states).at[state].add(error) / state.shape[0]
