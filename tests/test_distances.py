"""Distances between networks against their definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep import distances
from lookrep.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_cross_entropy_has_the_papers_direction():
    online, target = jnp.log(jnp.array([0.75, 0.25])), jnp.log(jnp.array([0.5, 0.5]))
    np.testing.assert_allclose(distances.cross_entropy(target, online), np.log(2), rtol=1e-6)  # −Σ p(w) log p(θ)
    np.testing.assert_allclose(distances.cross_entropy(online, target), -0.5 * np.log(0.75 * 0.25), rtol=1e-6)
    # smallest, and stationary, where the two agree
    np.testing.assert_allclose(jax.grad(distances.cross_entropy)(online + 3.0, online), 0.0, atol=1e-6)
    assert not jax.grad(distances.cross_entropy, argnums=1)(target, online).any()


def apply(params, x):
    """Two actions, three outputs each."""
    return jnp.einsum("bi,iak->bak", x, params)


@pytest.fixture
def networks():
    keys = jax.random.split(jax.random.key(5), 3)
    return [jax.random.normal(key, shape) for key, shape in zip(keys, ((4, 2, 3), (4, 2, 3), (7, 4)), strict=True)]


def test_all_actions_is_the_mean_and_one_action_counts_only_the_taken(networks):
    target, online, x = networks
    taken = jnp.array([0, 1, 1, 0, 0, 1, 0])
    atoms = jnp.array([-1.0, 0.0, 1.0])
    p_online, log_p_target = jax.nn.softmax(apply(online, x)), jax.nn.log_softmax(apply(target, x))
    per_action = -(p_online * log_p_target).sum(-1)
    value_gap = jnp.abs((p_online - jax.nn.softmax(apply(target, x))) @ atoms)
    every = distances.categorical(atoms, apply)
    np.testing.assert_allclose(every.loss(target, online, x), per_action.mean(), rtol=1e-6)
    np.testing.assert_allclose(every.gap(target, online, x), value_gap.mean(), rtol=1e-5)
    one = distances.categorical(atoms, apply, actions="one")
    rows = jnp.arange(7)
    np.testing.assert_allclose(one.loss(target, online, (x, taken)), per_action[rows, taken].mean(), rtol=1e-6)
    np.testing.assert_allclose(one.gap(target, online, (x, taken)), value_gap[rows, taken].mean(), rtol=1e-5)


@pytest.mark.parametrize("exist", [None, 1])
def test_summed_over_actions_the_loss_is_so_many_times_as_large_and_the_gap_the_same(networks, exist):
    target, online, x = networks
    values = lambda logits: logits.mean(axis=-1)  # noqa: E731
    mean, summed = (
        distances.build(
            distances.cross_entropy, values, apply, actions=actions,
            legal=lambda x: None if exist is None else jnp.int32(exist),
        )
        for actions in ("all", "all-summed")
    )  # fmt: skip
    per_action = -(jax.nn.softmax(apply(online, x)) * jax.nn.log_softmax(apply(target, x))).sum(-1)
    np.testing.assert_allclose(summed.loss(target, online, x), per_action[:, :exist].sum(-1).mean(), rtol=1e-6)
    np.testing.assert_allclose(summed.gap(target, online, x), mean.gap(target, online, x), rtol=1e-6)


def test_summing_leaves_values_of_states_alone():
    theta, w, x = jnp.ones(3), jnp.zeros(3), jnp.eye(3)
    mean, summed = (distances.squared(lambda p, x: x @ p, actions=actions) for actions in ("all", "all-summed"))
    assert float(summed.loss(theta, w, x)) == float(mean.loss(theta, w, x)) == 1.0


def test_quantile_distance_is_the_squared_wasserstein_distance(networks):
    target, online, x = networks
    sort = lambda params, x: jnp.sort(apply(params, x))  # noqa: E731
    distance = distances.quantile(sort)
    expected = np.mean((np.sort(apply(target, x)) - np.sort(apply(online, x))) ** 2)  # W2² of equal-weight atoms
    np.testing.assert_allclose(distance.loss(target, online, x), expected, rtol=1e-5)
    assert float(distance.loss(online, online, x)) == 0.0


@pytest.mark.parametrize("build", [distances.squared, distances.quantile])
def test_a_distance_has_no_gradient_in_the_online_network(build, networks):
    target, online, x = networks
    assert not jax.grad(build(apply).loss, argnums=1)(target, online, x).any()
    assert jax.grad(build(apply).loss)(target, online, x).any()


def q(params, x):
    """Two actions, one value each."""
    return x @ params


W, INPUTS = jnp.ones((4, 2)), jnp.ones((7, 4))


@pytest.mark.parametrize(
    ("use", "named"),
    [
        (lambda: distances.squared(q, actions="some"), "actions = 'some'"),
        (lambda: distances.squared(q, actions="one").loss(W, W, INPUTS), "pair"),
        (lambda: distances.squared(q, actions="one").gap(W, W, (INPUTS, INPUTS)), "pair"),
        (lambda: distances.squared(q).loss(W, jnp.ones((4, 3)), INPUTS), r"\(7, 2, 1\)"),
    ],
)
def test_bad_values_are_refused_in_one_clear_line(use, named):
    with pytest.raises(UserError, match=named) as refusal:
        use()
    assert "\n" not in str(refusal.value)


def test_two_networks_are_known_as_such():
    assert not distances.squared(q).two_networks
    assert distances.squared(q, lambda params, x: x @ params["w"]).two_networks
