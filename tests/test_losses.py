"""Losses against numbers worked out by hand and against rlax."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep import losses

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # rlax's own dependencies warn on import
    import rlax

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # raised inside rlax
CASES = jnp.arange(20)


def draws(seed, *shapes):
    """So many cases of each shape."""
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return [jax.random.normal(k, (len(CASES), *shape)) for k, shape in zip(keys, shapes, strict=True)]


def each(function, *arguments):
    return jax.jit(jax.vmap(function))(*arguments)


def test_td_error_by_hand():
    q = jnp.array([1.0, -2.0, 0.5])
    assert float(losses.td_error(q, 1, 1.0, 0.5, jnp.float32(4.0))) == 5.0  # 1 + 0.5·4 − (−2)


def test_td_error_is_rlax_q_learning():
    q_tm1, q_t, selector, r = draws(1, (4,), (4,), (4,), ())
    ours = each(lambda q, a, r, q_t: losses.td_error(q, a, r, 0.9, q_t.max()), q_tm1, CASES % 4, r, q_t)
    theirs = each(lambda q, a, r, q_t: rlax.q_learning(q, a, r, 0.9, q_t), q_tm1, CASES % 4, r, q_t)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    double = (q_tm1, CASES % 4, r, q_t, selector)
    ours = each(lambda q, a, r, q_t, s: losses.td_error(q, a, r, 0.9, q_t[s.argmax()]), *double)
    theirs = each(lambda q, a, r, q_t, s: rlax.double_q_learning(q, a, r, 0.9, q_t, s), *double)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("error", "expected"), [(0.5, 0.125), (-0.5, 0.125), (2.0, 1.5), (-3.0, 2.5)])
def test_huber_by_hand(error, expected):
    np.testing.assert_allclose(losses.huber(jnp.float32(error)), expected)
    np.testing.assert_allclose(losses.huber(jnp.float32(error), 0.7), rlax.huber_loss(jnp.float32(error), 0.7))


def test_projection_by_hand():
    atoms = jnp.array([0.0, 1.0, 2.0])
    # a point at 0.25 splits 3 : 1 between 0 and 1; one beyond the end lands on the end
    np.testing.assert_allclose(
        losses.project(jnp.array([0.25, 5.0]), jnp.array([0.5, 0.5]), atoms), [0.375, 0.125, 0.5]
    )
    # projecting onto itself changes nothing
    np.testing.assert_allclose(losses.project(atoms, jnp.array([0.2, 0.3, 0.5]), atoms), [0.2, 0.3, 0.5])


def test_categorical_td_is_rlax():
    atoms = jnp.linspace(-10.0, 10.0, 51)
    logits_tm1, logits_t, r = draws(2, (3, 51), (3, 51), ())
    discount = jnp.where(CASES % 5 == 0, 0.0, 0.97)

    def projections(r, discount, logits_t):
        moved, p = 3 * r + discount * atoms, jax.nn.softmax(logits_t[0])
        return losses.project(moved, p, atoms), rlax.categorical_l2_project(moved, p, atoms)

    def both(logits_tm1, a, r, discount, logits_t):
        best = (jax.nn.softmax(logits_t) @ atoms).argmax()
        ours = losses.categorical_td(logits_tm1, a, 3 * r, discount, logits_t, best, atoms)
        return ours, rlax.categorical_q_learning(atoms, logits_tm1, a, 3 * r, discount, atoms, logits_t)

    np.testing.assert_allclose(*each(projections, r, discount, logits_t), atol=1e-5)
    np.testing.assert_allclose(*each(both, logits_tm1, CASES % 3, r, discount, logits_t), rtol=2e-5)


@pytest.mark.parametrize("delta", [1.0, 0.5])
def test_quantile_td_is_rlax(delta):
    taus = (jnp.arange(8) + 0.5) / 8

    def both(quantiles_tm1, a, r, quantiles_t, selector):
        a_t = selector.mean(axis=1).argmax()
        ours = losses.quantile_td(quantiles_tm1, taus, a, r, 0.9, quantiles_t, a_t, delta)
        theirs = rlax.quantile_q_learning(
            quantiles_tm1.T, taus, a, r, jnp.float32(0.9), selector.T, quantiles_t.T, delta
        )
        return ours * delta, theirs  # rlax leaves out the division by κ of IQN's eq. 3

    quantiles_tm1, quantiles_t, selector, r = draws(3, (3, 8), (3, 6), (3, 6), ())
    np.testing.assert_allclose(*each(both, quantiles_tm1, CASES % 3, r, quantiles_t, selector), rtol=1e-5)


def test_quantile_td_by_hand():
    # one prediction 0 at τ = 0.25 against targets 1 and −1 (Huber ½ each): (0.25·½ + 0.75·½) / 2
    loss = losses.quantile_td(jnp.zeros((1, 1)), jnp.array([0.25]), 0, 0.0, 1.0, jnp.array([[1.0, -1.0]]), 0, delta=1.0)
    np.testing.assert_allclose(loss, 0.25)


def test_no_loss_has_a_gradient_through_its_bootstrap():
    q, logits, quantiles = (jnp.ones(s) * 0.3 for s in ((2,), (2, 5), (2, 5)))
    atoms, taus = jnp.linspace(-1.0, 1.0, 5), (jnp.arange(5) + 0.5) / 5
    for gradient in (
        jax.grad(lambda x: losses.td_error(q, 0, 1.0, 0.9, x[0]))(q),
        jax.grad(lambda x: losses.categorical_td(logits, 0, 0.3, 0.9, x, 1, atoms))(logits),
        jax.grad(lambda x: losses.quantile_td(quantiles, taus, 0, 0.3, 0.9, x, 1))(quantiles),
    ):
        assert not gradient.any()
