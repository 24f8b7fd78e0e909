"""The sampled version estimates both gradients without bias and gets near the same answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import Problem, Settings, Trace, markov_chain, mdp, outer_map, problem, solve_sampled, table
from lookrep.exact.builtin import random_chain, two_state
from lookrep.exact.methods import METHODS, Method
from lookrep.exact.sampled import sampled_errors
from lookrep.exact.sizes import step_sizes
from lookrep.exact.solver import EXACT, double_precision, run_loop


@pytest.mark.parametrize("which", ["lookahead", "replicate"])
def test_the_estimates_average_to_the_exact_errors(which: str) -> None:
    with double_precision():
        task = jax.tree.map(jnp.asarray, random_chain(3, 1))
        one, other = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.3, 4.0, -1.0])
        keys = jax.random.split(jax.random.key(0), 4000)
        estimate = getattr(sampled_errors(5), which)
        draws = np.asarray(jax.vmap(lambda key: estimate(task, one, other, key))(keys))
        exact = np.asarray(getattr(EXACT, which)(task, one, other, None))
    standard_error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (standard_error > 0).all()
    assert (np.abs(draws.mean(axis=0) - exact) < 4 * standard_error).all()


SEEDS = 2_000
ONE = np.array([0.0, 0.0, 1.0])
DRAWN = [name for name, parts in METHODS.items() if parts.affine and name != "residual"]


def draws(task: Problem, settings: Settings, batch_size: int) -> Trace:
    """The sampled loop with many seeds at once."""
    with double_precision():
        task = jax.tree.map(jnp.asarray, task)
        sizes = jax.tree.map(jnp.asarray, step_sizes(task, settings))
        keys = jax.random.split(jax.random.key(0), SEEDS)
        loop = jax.vmap(lambda key: run_loop(task, sizes, settings, sampled_errors(batch_size), key))
        trace: Trace = jax.tree.map(np.asarray, jax.jit(loop)(keys))
    return trace


@pytest.mark.parametrize("method", DRAWN)
def test_sampled_updates_of_every_method_are_right_on_average(method: Method) -> None:
    """Two online updates and what follows them: a map that is affine, and whose draws are independent, has the mean
    of the exact one."""
    task = random_chain(3, 1)
    settings = Settings(method, 1, 2, 2, 0.1, 0.1, tau=0.3, kappa=0.7, networks=2, growth=1.0)
    step, size = outer_map(task, settings), len(task.target_init)
    expected = (step.matrix @ step.start + step.offset)[: 2 * size]
    trace = draws(task, settings, 5)
    ends = np.concatenate([trace.target[:, 1], trace.online[:, 1]], axis=1)
    standard_error = ends.std(axis=0) / np.sqrt(SEEDS)
    assert (np.abs(ends.mean(axis=0) - expected) <= 4.5 * standard_error + 1e-12).all()
    assert (standard_error[size:] > 0).all()


@pytest.mark.parametrize("method", ["asymmetric", "symmetric"])
def test_both_networks_of_an_update_learn_from_draws_of_their_own(method: Method) -> None:
    task = problem(markov_chain(np.full((3, 3), 1 / 3), np.zeros(3), 0.9), table(3), table(3), None, np.zeros(3), ONE)
    trace = draws(task, Settings(method, 1, 1, 1, 0.1, 0.1, kappa=0.0), 1)
    # The online network moves where the successor is the last state; the target where that state is drawn.
    moved = [(np.abs(both[:, 1] - both[:, 0]) > 1e-9) for both in (trace.online, trace.target)]
    seen = np.array([moved[0].any(axis=1), moved[1][:, 2]], float)
    assert abs(np.corrcoef(seen)[0, 1]) < 4 / np.sqrt(SEEDS)


def test_a_sampled_run_ends_near_the_true_value_and_depends_on_its_seed() -> None:
    settings = Settings(
        outer_iterations=300,
        lookahead_updates=20,
        replicate_updates=5,
        lookahead_step_size=0.01,
        replicate_step_size=0.01,
    )
    first, again, other = (solve_sampled(two_state(), settings, batch_size=32, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_allclose(first.value_target[-1], [2.0, 2.0], atol=0.1)
    np.testing.assert_array_equal(first.target, again.target)
    assert not np.array_equal(first.target, other.target)


def test_what_one_drawn_successor_cannot_estimate_is_refused() -> None:
    control = problem(mdp([np.eye(2)] * 2, np.zeros((2, 2)), 0.5), table(2), table(2), weighting=[0.5, 0.5])
    with pytest.raises(UserError, match="biased maximum"):
        solve_sampled(control, Settings(), 1, 0)
    with pytest.raises(UserError, match="two independent successors"):
        solve_sampled(two_state(), Settings("residual"), 1, 0)
    with pytest.raises(UserError, match="batch_size: 0"):
        solve_sampled(two_state(), Settings(), 0, 0)
