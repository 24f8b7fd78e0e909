"""Heads: what the K numbers of an action mean, against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.heads import Head, categorical_head, quantile_head, value_head

NO_TAUS = jnp.zeros(1)


def jitted(head: Head) -> Head:
    return Head(head.size, jax.jit(head.values), jax.jit(head.loss), jax.jit(head.distance))


def test_the_value_head_takes_its_one_number_and_learns_by_hubers_loss() -> None:
    head = jitted(value_head())
    out_tm1, out_t = jnp.array([[1.0], [2.0]]), jnp.array([[3.0], [5.0]])
    np.testing.assert_array_equal(head.values(out_tm1), [1.0, 2.0])
    # 0.5 + 0.9 · 3 − 2 = 1.2: beyond 1 the loss is |e| − ½
    assert float(head.loss(out_tm1, NO_TAUS, 1, 0.5, 0.9, out_t, 0)) == pytest.approx(0.7)
    # 0.5 + 0.1 · 5 − 1 = 0; and 0.6 below it: ½ · 0.36
    assert float(head.loss(out_tm1, NO_TAUS, 0, 0.5, 0.1, out_t, 1)) == pytest.approx(0.0)
    assert float(head.loss(out_tm1, NO_TAUS, 0, -0.1, 0.1, out_t, 1)) == pytest.approx(0.18)
    assert float(head.distance(jnp.array([1.0]), jnp.array([3.0]))) == pytest.approx(4.0)


def test_the_categorical_head_takes_the_mean_over_its_atoms_and_learns_by_cross_entropy() -> None:
    head = jitted(categorical_head(3, -1.0, 1.0))
    out_tm1 = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]]))
    out_t = jnp.log(jnp.array([[0.1, 0.1, 0.8], [0.0001, 0.9998, 0.0001]]))
    np.testing.assert_allclose(head.values(out_tm1), [-0.25, 0.4], atol=1e-6)
    # 0.5 + 0.5 · {−1, 0, 1} = {0, 0.5, 1}: projected {0, 0.1 + 0.05, 0.05 + 0.8}
    expected = -(0.15 * np.log(0.25) + 0.85 * np.log(0.25))
    assert float(head.loss(out_tm1, NO_TAUS, 0, 0.5, 0.5, out_t, 0)) == pytest.approx(expected, rel=1e-5)
    # the end, with a reward beyond the support: all mass at the last atom
    assert float(head.loss(out_tm1, NO_TAUS, 1, 7.0, 0.0, out_t, 1)) == pytest.approx(-np.log(0.6), rel=1e-5)
    distance = -(0.2 * np.log(0.5) + 0.8 * np.log(0.25))
    assert float(head.distance(out_tm1[0], out_tm1[1])) == pytest.approx(distance, rel=1e-5)


def test_the_quantile_head_takes_the_mean_of_its_quantiles_and_learns_by_quantile_regression() -> None:
    head = jitted(quantile_head(2))
    out_tm1, out_t = jnp.array([[0.0, 2.0], [1.0, 1.0]]), jnp.array([[0.0, 4.0], [9.0, 9.0]])
    np.testing.assert_allclose(head.values(out_tm1), [1.0, 1.0])
    # Targets 1 + 0.5 · {0, 4} = {1, 3}. Prediction 0 at τ = ¼: errors 1 and 3, Huber ½ and 2½, weight ¼: mean 0.375.
    # Prediction 2 at τ = ¾: errors −1 and 1, Huber ½ each, weights ¼ and ¾: mean 0.25.
    loss = head.loss(out_tm1, jnp.array([0.25, 0.75]), 0, 1.0, 0.5, out_t, 0)
    assert float(loss) == pytest.approx(0.625)
    assert float(head.distance(jnp.array([0.0, 2.0]), jnp.array([1.0, 5.0]))) == pytest.approx(5.0)


@pytest.mark.parametrize("head", [value_head(), categorical_head(5, -1, 1), quantile_head(5)], ids=["dqn", "c51", "qr"])
def test_no_gradient_flows_through_the_bootstrap_or_through_the_online_network_of_a_distance(head: Head) -> None:
    out_tm1, out_t = np.random.default_rng(0).normal(size=(2, 2, head.size)).astype(np.float32)
    taus = (np.arange(head.size) + 0.5) / head.size
    loss = jax.jit(jax.grad(lambda tm1, t: head.loss(tm1, taus, 0, 0.3, 0.9, t, 1), argnums=(0, 1)))
    of_tm1, of_t = jax.device_get(loss(out_tm1, out_t))
    assert np.abs(of_tm1[0]).max() > 0
    np.testing.assert_array_equal(of_tm1[1], 0)  # the action not taken
    np.testing.assert_array_equal(of_t, 0)
    of_target, of_online = jax.device_get(jax.jit(jax.grad(head.distance, argnums=(0, 1)))(out_tm1[0], out_t[0]))
    assert np.abs(of_target).max() > 0
    np.testing.assert_array_equal(of_online, 0)
