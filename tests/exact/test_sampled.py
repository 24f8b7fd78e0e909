"""The sampled version estimates both gradients without bias and gets near the same answer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import Settings, mdp, outer_map, problem, solve_sampled, table
from lookrep.exact.builtin import random_chain, two_state
from lookrep.exact.sampled import sampled_errors
from lookrep.exact.solver import EXACT, double_precision


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


@pytest.mark.parametrize("method", ["functional", "symmetric"])
def test_one_sampled_update_of_a_composed_method_is_right_on_average(method: str) -> None:
    task = random_chain(3, 1)
    settings = Settings(method, 1, 1, lookahead_step_size=0.1, replicate_step_size=0.1, kappa=0.7)  # type: ignore[arg-type]
    step = outer_map(task, settings)
    expected = step.matrix @ step.start + step.offset
    traces = [solve_sampled(task, settings, batch_size=20, seed=seed) for seed in range(300)]
    ends = np.array([np.concatenate([trace.target[1], trace.online[1]]) for trace in traces])
    standard_error = ends.std(axis=0) / np.sqrt(len(ends))
    assert (np.abs(ends.mean(axis=0) - expected) <= 4 * standard_error + 1e-12).all()
    assert (standard_error[len(task.target_init) :] > 0).all()


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
