"""Losses against numbers worked out by hand and against rlax; distances against their definitions."""

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
CASES = range(20)


def draws(seed, *shapes):
    keys = jax.random.split(jax.random.key(seed), len(shapes))
    return [jax.random.normal(k, shape) for k, shape in zip(keys, shapes, strict=True)]


def test_td_error_by_hand():
    q = jnp.array([1.0, -2.0, 0.5])
    assert float(losses.td_error(q, 1, 1.0, 0.5, jnp.float32(4.0))) == 5.0  # 1 + 0.5·4 − (−2)


@pytest.mark.parametrize("seed", CASES)
def test_td_error_is_rlax_q_learning(seed):
    q_tm1, q_t, r = draws(seed, (4,), (4,), ())
    ours = losses.td_error(q_tm1, seed % 4, r, 0.9, q_t.max())
    np.testing.assert_allclose(ours, rlax.q_learning(q_tm1, seed % 4, r, 0.9, q_t), rtol=1e-6)
    selector = draws(seed + 100, (4,))[0]
    ours = losses.td_error(q_tm1, seed % 4, r, 0.9, q_t[selector.argmax()])
    np.testing.assert_allclose(ours, rlax.double_q_learning(q_tm1, seed % 4, r, 0.9, q_t, selector), rtol=1e-6)


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


@pytest.mark.parametrize("seed", CASES)
def test_categorical_td_is_rlax(seed):
    atoms = jnp.linspace(-10.0, 10.0, 51)
    logits_tm1, logits_t, r = draws(seed, (3, 51), (3, 51), ())
    discount = jnp.float32(0.0 if seed % 5 == 0 else 0.97)
    np.testing.assert_allclose(
        losses.project(3 * r + discount * atoms, jax.nn.softmax(logits_t[0]), atoms),
        rlax.categorical_l2_project(3 * r + discount * atoms, jax.nn.softmax(logits_t[0]), atoms),
        atol=5e-6,
    )
    best = (jax.nn.softmax(logits_t) @ atoms).argmax()
    ours = losses.categorical_td(logits_tm1, seed % 3, 3 * r, discount, logits_t, best, atoms)
    theirs = rlax.categorical_q_learning(atoms, logits_tm1, seed % 3, 3 * r, discount, atoms, logits_t)
    np.testing.assert_allclose(ours, theirs, rtol=2e-5)


@pytest.mark.parametrize("seed", CASES)
@pytest.mark.parametrize("delta", [1.0, 0.5])
def test_quantile_td_is_rlax(seed, delta):
    quantiles_tm1, quantiles_t, selector, r = draws(seed, (3, 8), (3, 6), (3, 6), ())
    taus = (jnp.arange(8) + 0.5) / 8
    a_t = selector.mean(axis=1).argmax()
    ours = losses.quantile_td(quantiles_tm1, taus, seed % 3, r, 0.9, quantiles_t, a_t, delta)
    theirs = rlax.quantile_q_learning(
        quantiles_tm1.T, taus, seed % 3, r, jnp.float32(0.9), selector.T, quantiles_t.T, delta
    )
    np.testing.assert_allclose(ours * delta, theirs, rtol=1e-5)  # rlax leaves out the division by κ of IQN's eq. 3


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


def test_cross_entropy_has_the_papers_direction():
    online, target = jnp.log(jnp.array([0.75, 0.25])), jnp.log(jnp.array([0.5, 0.5]))
    np.testing.assert_allclose(losses.cross_entropy(target, online), np.log(2), rtol=1e-6)  # −Σ p(w) log p(θ)
    np.testing.assert_allclose(losses.cross_entropy(online, target), -0.5 * np.log(0.75 * 0.25), rtol=1e-6)
    # smallest, and stationary, where the two agree
    np.testing.assert_allclose(jax.grad(losses.cross_entropy)(online + 3.0, online), 0.0, atol=1e-6)
    assert not jax.grad(losses.cross_entropy, argnums=1)(target, online).any()


def apply(params, x):
    """Two actions, three outputs each."""
    return jnp.einsum("bi,iak->bak", x, params)


@pytest.fixture
def networks():
    return draws(5, (4, 2, 3), (4, 2, 3), (7, 4))


def test_all_actions_is_the_mean_and_one_action_counts_only_the_taken(networks):
    target, online, x = networks
    taken = jnp.array([0, 1, 1, 0, 0, 1, 0])
    atoms = jnp.array([-1.0, 0.0, 1.0])
    p_online, log_p_target = jax.nn.softmax(apply(online, x)), jax.nn.log_softmax(apply(target, x))
    per_action = -(p_online * log_p_target).sum(-1)
    value_gap = jnp.abs((p_online - jax.nn.softmax(apply(target, x))) @ atoms)
    every = losses.categorical_distance(atoms, apply)
    np.testing.assert_allclose(every.loss(target, online, x), per_action.mean(), rtol=1e-6)
    np.testing.assert_allclose(every.gap(target, online, x), value_gap.mean(), rtol=1e-5)
    one = losses.categorical_distance(atoms, apply, actions="one")
    rows = jnp.arange(7)
    np.testing.assert_allclose(one.loss(target, online, (x, taken)), per_action[rows, taken].mean(), rtol=1e-6)
    np.testing.assert_allclose(one.gap(target, online, (x, taken)), value_gap[rows, taken].mean(), rtol=1e-5)


@pytest.mark.parametrize("exist", [None, 1])
def test_summed_over_actions_the_loss_is_so_many_times_as_large_and_the_gap_the_same(networks, exist):
    target, online, x = networks
    values = lambda logits: logits.mean(axis=-1)  # noqa: E731
    mean, summed = (
        losses.between(
            losses.cross_entropy, values, 1, apply, actions=actions,
            legal=lambda x: None if exist is None else jnp.int32(exist),
        )
        for actions in ("all", "all-summed")
    )  # fmt: skip
    per_action = -(jax.nn.softmax(apply(online, x)) * jax.nn.log_softmax(apply(target, x))).sum(-1)
    np.testing.assert_allclose(summed.loss(target, online, x), per_action[:, :exist].sum(-1).mean(), rtol=1e-6)
    np.testing.assert_allclose(summed.gap(target, online, x), mean.gap(target, online, x), rtol=1e-6)


def test_summing_leaves_values_of_states_alone():
    theta, w, x = jnp.ones(3), jnp.zeros(3), jnp.eye(3)
    mean, summed = (losses.squared_distance(lambda p, x: x @ p, actions=actions) for actions in ("all", "all-summed"))
    assert float(summed.loss(theta, w, x)) == float(mean.loss(theta, w, x)) == 1.0


def test_quantile_distance_is_the_squared_wasserstein_distance(networks):
    target, online, x = networks
    sort = lambda params, x: jnp.sort(apply(params, x))  # noqa: E731
    distance = losses.quantile_distance(sort)
    expected = np.mean((np.sort(apply(target, x)) - np.sort(apply(online, x))) ** 2)  # W2² of equal-weight atoms
    np.testing.assert_allclose(distance.loss(target, online, x), expected, rtol=1e-5)
    assert float(distance.loss(online, online, x)) == 0.0


@pytest.mark.parametrize("build", [losses.squared_distance, losses.quantile_distance])
def test_a_distance_has_no_gradient_in_the_online_network(build, networks):
    target, online, x = networks
    assert not jax.grad(build(apply).loss, argnums=1)(target, online, x).any()
    assert jax.grad(build(apply).loss)(target, online, x).any()
