"""Targets from the online networks of several turns."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lookrep import distances, targets
from lookrep.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_compilation")

X = jax.random.normal(jax.random.key(9), (5, 3))


def network(i, dtype=jnp.float32):
    return {"w": jnp.full((3, 2), float(i), dtype)}


def apply(params, x):
    return x @ params["w"]


def mean(stack, x):
    return jax.vmap(apply, in_axes=(0, None))(stack, x).mean(axis=0)


def test_the_average_is_of_the_networks_at_the_last_turns() -> None:
    rule = targets.averaged(2, networks=3)
    for dtype in (jnp.float32, jnp.bfloat16):
        state = rule.init(network(0), jax.tree.map(lambda x: x.astype(dtype), targets.snapshots.stack(network(0), 3)))
        follow = jax.jit(rule.update)
        for n in range(1, 10):  # turns after 2, 4, 6 and 8
            state = follow(state, network(n), n)
        assert state.params["w"].dtype == dtype
        assert state.params["w"][:, 0, 0].tolist() == [4, 6, 8]
        assert int(state.updates) == 4


def test_of_one_network_they_are_hard_copy_and_replicate() -> None:
    steps = targets.replicate(2, 3, optax.adam(0.1), distances.squared(apply))
    learned = targets.replicate(2, 3, optax.adam(0.1), distances.squared(apply, online_apply=mean))
    pairs = ((targets.averaged(2, 1), targets.hard(2), 1), (targets.distilled(learned, 1), steps, None))
    for ours, theirs, stacked in pairs:
        theta = network(5)
        found = ours.init(network(1), targets.snapshots.stack(theta, 1) if stacked else theta)
        expected = theirs.init(network(1), theta)
        for n in range(1, 5):
            found, expected = (
                jax.jit(rule.update, static_argnums=3)(state, network(n), n, lambda k: X)
                for rule, state in ((ours, found), (theirs, expected))
            )
            params = found.params["w"][0] if stacked else found.params["w"]
            np.testing.assert_allclose(params, expected.params["w"], rtol=1e-6)
            assert int(found.updates) == int(expected.updates)


def test_a_distilled_target_learns_the_mean_function_of_the_last_turns() -> None:
    learned = targets.replicate(1, 400, optax.sgd(0.1), distances.squared(apply, online_apply=mean))
    rule = targets.distilled(learned, networks=3)
    many = jax.vmap(rule.init)(jax.tree.map(lambda *x: jnp.stack(x), network(0), network(1)))
    turn = jax.jit(jax.vmap(lambda state, online: rule.turn(state, online, lambda k: X)))
    for n in (6, 12, 18):
        many = turn(many, jax.tree.map(lambda *x: jnp.stack(x), network(n), network(2 * n)))
    np.testing.assert_allclose(many.params["w"][0], np.full((3, 2), 12.0), atol=0.05)
    np.testing.assert_allclose(many.params["w"][1], np.full((3, 2), 24.0), atol=0.05)
    assert many.optimizer[1]["w"][0, :, 0, 0].tolist() == [6, 12, 18]


def test_what_cannot_be_averaged_is_refused() -> None:
    with pytest.raises(UserError, match="networks = 0: must be a whole number of networks, at least 1"):
        targets.averaged(2, 0)
    with pytest.raises(UserError, match="averaged needs online and target networks of the same shape"):
        targets.averaged(2, 2).init(network(0), network(1))
    for rule in (targets.hard(2), targets.replicate(1, 1, optax.sgd(0.1), start="online")):
        with pytest.raises(UserError, match="starts at the target, not at a copy"):
            targets.distilled(rule, 2)
