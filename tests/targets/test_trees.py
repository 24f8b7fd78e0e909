"""Parameters of every kind: flax nnx, Equinox, other precisions, optimisers with numbers in their state, devices."""

import os
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from lookrep import distances, targets
from lookrep.errors import UserError

pytestmark = pytest.mark.usefixtures("quick_compilation")

X = jax.random.normal(jax.random.key(9), (8, 3))


def batches(k):
    del k
    return X


class Net(nnx.Module):
    """Two layers, a counter and a random key."""

    def __init__(self, seed, width=8):
        rngs = nnx.Rngs(seed)
        self.first, self.second = nnx.Linear(3, width, rngs=rngs), nnx.Linear(width, 2, rngs=rngs)
        self.drop = nnx.Dropout(0.0, rngs=rngs)
        self.seen = nnx.Variable(jnp.int32(seed))

    def __call__(self, x):
        return self.second(self.drop(jax.nn.relu(self.first(x))))


def nnx_net(seed, width=8):
    """Parameters as an `nnx.State`, and the function that applies them."""
    graph, state = nnx.split(Net(seed, width))
    return state, lambda params, x: nnx.merge(graph, params)(x)


class Scaled(eqx.Module):
    """An Equinox module with what is no parameter: a function, a whole number, a switch, an array of integers, None."""

    net: eqx.nn.MLP
    squash: object
    power: int
    on: bool
    seen: jax.Array
    nothing: None = None

    def __call__(self, x):
        out = jax.vmap(self.net)(x)
        return self.squash(out) ** self.power if self.on else out


def equinox_net(seed, width=8):
    net = eqx.nn.MLP(3, 2, width, 1, key=jax.random.key(seed))
    return Scaled(net, jnp.tanh, 1, True, jnp.int32(seed)), lambda params, x: params(x)


KINDS = pytest.mark.parametrize("make", [nnx_net, equinox_net])


def arrays(tree):
    keys = lambda x: jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x  # noqa: E731
    return [np.asarray(keys(leaf)) for leaf in jax.tree.leaves(tree) if eqx.is_array(leaf)]


@KINDS
def test_flax_and_equinox_networks_follow_inside_and_outside_of_jit(make):
    (online, apply), (other, _) = make(1), make(2)
    distance = distances.squared(apply)
    rules = {
        "hard": targets.hard(2),
        "polyak": targets.polyak(0.25, 2),
        "replicate": targets.replicate(2, 40, optax.adam(0.02), distance),
        "from online": targets.replicate(2, 1, optax.adam(0.02), distance, start="online"),
        "until": targets.replicate(2, targets.until(gap=0.15, most_updates=40), optax.adam(0.02), distance),
    }
    for name, rule in rules.items():
        start = rule.init(online, other)
        update = eqx.filter_jit(lambda s, w, n, rule=rule: rule.update(s, w, n, batches))
        inside = update(update(start, online, jnp.int32(1)), online, jnp.int32(2))
        outside = rule.update(rule.update(start, online, 1, batches), online, 2, batches)
        assert jax.tree.structure(inside) == jax.tree.structure(start) == jax.tree.structure(outside)
        for a, b in zip(arrays(inside), arrays(outside), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        assert float(distance.gap(inside.params, online, X)) < 0.9 * float(distance.gap(other, online, X)), name
        if name == "hard":  # counters and random keys too
            jax.tree.map(np.testing.assert_array_equal, arrays(inside.params), arrays(online))


@KINDS
def test_replicate_leaves_alone_what_is_no_parameter(make):
    (online, apply), (other, _) = make(1), make(2)
    rule = targets.replicate(1, 3, optax.adam(0.02), distances.squared(apply))
    state = rule.turn(rule.init(online, other), online, batches)
    before, after = arrays(other), arrays(state.params)
    for a, b in zip(before, after, strict=True):
        assert np.array_equal(a, b) != np.issubdtype(a.dtype, np.floating)


@KINDS
def test_a_target_of_another_architecture_must_bring_its_parameters(make):
    (online, apply), (wide, wide_apply) = make(1), make(2, width=16)
    across = distances.squared(wide_apply, apply)
    rule = targets.replicate(1, 60, optax.adam(0.02), across)
    with pytest.raises(UserError, match=r"init\(online, target=…\)"):
        rule.init(online)
    state = rule.turn(rule.init(online, wide), online, batches)
    assert float(across.gap(state.params, online, X)) < 0.6 * float(across.gap(wide, online, X))


def test_a_distance_that_fails_is_told_in_one_line():
    def distance(target, online, x):
        return ((x @ target["first"] @ target["second"] - x @ online["w"]) ** 2).mean()

    rule = targets.replicate(1, 2, optax.sgd(0.1), distance)
    state = rule.init({"w": jnp.ones((3, 2))})  # its own parameters were forgotten
    with pytest.raises(UserError, match=r"KeyError: 'first'.*init\(online, target=…\)") as refusal:
        jax.jit(lambda s: rule.turn(s, {"w": jnp.ones((3, 2))}, batches))(state)
    assert "\n" not in str(refusal.value)


def half(tree):
    return jax.tree.map(lambda x: x.astype(jnp.bfloat16), tree)


def test_a_bfloat16_target_of_a_float32_online_network_stays_bfloat16():
    online = {"w": jax.random.normal(jax.random.key(0), (3, 2))}
    distance = distances.squared(lambda params, x: x.astype(params["w"].dtype) @ params["w"])
    for rule in (
        targets.hard(1),
        targets.polyak(0.5),
        targets.replicate(1, 200, optax.adam(0.05), distance),
        targets.replicate(1, 1, optax.adam(1e-3), distance, start="online", reset_optimizer=True),
    ):
        start = rule.init(online, half({"w": jnp.zeros((3, 2))}))
        for turn in (rule.turn, jax.jit(lambda s, w, rule=rule: rule.turn(s, w, batches))):
            state = turn(start, online, batches) if turn == rule.turn else turn(start, online)
            assert jax.tree.map(lambda x: x.dtype, state) == jax.tree.map(lambda x: x.dtype, start)
            assert state.params["w"].dtype == jnp.bfloat16
            far = jnp.abs(state.params["w"] - online["w"]).max()
            assert float(far) < (0.05 if rule != targets.polyak(0.5) else 0.6 * float(jnp.abs(online["w"]).max()))


def test_an_optimiser_whose_numbers_are_in_its_state():
    optimizer = optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(0.1, 0.01, 10))
    distance = distances.squared(lambda params, x: x @ params)
    rule = targets.replicate(2, 20, optimizer, distance)
    online = jnp.ones((3, 2))
    start = rule.init(online, jnp.zeros((3, 2)))
    update = jax.jit(lambda s, n: rule.update(s, online, n, batches))
    state = update(update(start, 1), 2)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), state) == jax.tree.map(lambda x: (x.shape, x.dtype), start)
    assert float(state.optimizer.hyperparams["learning_rate"]) == pytest.approx(0.01)
    assert float(distance.gap(state.params, online, X)) < 0.5 * float(distance.gap(start.params, online, X))
    outside = rule.update(start, online, 2, batches)
    np.testing.assert_allclose(state.params, outside.params, rtol=1e-5)


ON_TWO_DEVICES = """
import jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import Mesh, PartitionSpec as P
from lookrep import distances, targets

x = jax.random.normal(jax.random.key(0), (50, 8, 3)) * jnp.arange(1, 9)[:, None]  # the halves have different gradients
distance = distances.squared(lambda w, x: x @ w)
online, theta = jnp.ones((3, 2)), jnp.zeros((3, 2))
mesh = Mesh(np.array(jax.devices()), ("data",))
for updates in (5, targets.until(gap=0.5, most_updates=50)):
    def turn(state, online, x, axis_name=None):
        rule = targets.replicate(1, updates, optax.sgd(0.01), distance, axis_name=axis_name)
        return rule.turn(state, online, lambda k: x[k])
    state = targets.replicate(1, updates, optax.sgd(0.01), distance).init(online, theta)
    whole = jax.jit(turn)(state, online, x)
    for check_vma in (True, False):
        spread = jax.jit(jax.shard_map(
            lambda s, w, x: turn(s, w, x, "data"),
            mesh=mesh, in_specs=(P(), P(), P(None, "data")), out_specs=P(), check_vma=check_vma,
        ))(state, online, x)
        assert len(spread.params.devices()) == 2
        assert int(spread.updates) == int(whole.updates) < 50, (spread.updates, whole.updates)
        np.testing.assert_allclose(spread.params, whole.params, rtol=1e-5)
"""


def test_batches_spread_over_two_devices_give_the_turn_of_one():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", ON_TWO_DEVICES], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
