"""Claims about every rule, in one table."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lookrep import distances, targets

pytestmark = pytest.mark.usefixtures("quick_compilation")


def value(params, x):
    """A linear value function with a bias; over-parameterised whenever there are fewer inputs than features."""
    return x @ params["w"] + params["b"]


def mean_value(stack, x):
    return jax.vmap(value, in_axes=(0, None))(stack, x).mean(axis=0)


def make(features=6, seed=0, dtype=jnp.float32):
    w = jax.random.normal(jax.random.key(seed), (features, 2), dtype)
    return {"w": w, "b": jnp.ones((2,), dtype)}


X = jax.random.normal(jax.random.key(9), (3, 6))  # 3 inputs, 6 features: many parameters give the same function


def batches(k):
    del k
    return X


DISTANCE = distances.squared(value)


def replicate(every_updates=3, updates=4, **settings):
    return targets.replicate(every_updates, updates, optax.sgd(0.05), DISTANCE, **settings)


EVERY_3 = {
    "hard": targets.hard(3),
    "polyak": targets.polyak(0.1, every_updates=3),
    "replicate": replicate(),
    "replicate, adam, reset": targets.replicate(3, 4, optax.adam(1e-2), DISTANCE, reset_optimizer=True),
    "replicate, start online": replicate(start="online"),
    "replicate, scaled steps": replicate(step_scale=optax.linear_schedule(1.0, 0.0, 4)),
    "replicate until gap": replicate(updates=targets.until(gap=1e-3, most_updates=50)),
    "distilled": targets.distilled(
        targets.replicate(3, 4, optax.sgd(0.05), distances.squared(value, online_apply=mean_value)), networks=2
    ),
}
ALL = EVERY_3 | {"frozen": targets.frozen()}
table = pytest.mark.parametrize("rule", ALL.values(), ids=ALL.keys())
table_every_3 = pytest.mark.parametrize("rule", EVERY_3.values(), ids=EVERY_3.keys())


def same(a, b):
    return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool(jnp.array_equal(x, y)), a, b)))


@table
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_keeps_shapes_dtypes_and_structure_on_and_off_its_turn(rule, dtype):
    state = rule.init(make(seed=1, dtype=dtype), make(seed=2, dtype=dtype))
    for online_updates in (1, 3):
        after = rule.update(state, make(seed=1, dtype=dtype), online_updates, batches=lambda k: X.astype(dtype))
        assert jax.tree.structure(after) == jax.tree.structure(state)
        assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)


@table_every_3
def test_acts_exactly_when_its_period_comes_round(rule):
    update = jax.jit(rule.update, static_argnames="batches")
    online, state = make(seed=1), rule.init(make(seed=1), make(seed=2))
    for online_updates in range(1, 10):
        after = update(state, online, online_updates, batches=batches)
        if online_updates % 3:
            assert same(after, state)
        else:
            assert not same(after.params, state.params)
            assert int(after.updates) > int(state.updates)
        state = after._replace(params=make(seed=2))  # pull it away again, so that each turn has something to do


@table_every_3
def test_a_period_crossed_between_two_calls_counts_as_reached(rule):
    online, state = make(seed=1), rule.init(make(seed=1), make(seed=2))
    assert same(rule.update(state, online, 0, batches=batches), state)  # none yet: 0 is no multiple of the period
    assert same(rule.update(state, online, 5, batches=batches, new_updates=2), state)  # updates 4 and 5
    assert not same(rule.update(state, online, 7, batches=batches, new_updates=2).params, state.params)  # 6 and 7


@table
def test_runs_inside_scan_as_outside(rule):
    online = make(seed=1)

    def body(state, online_updates):
        return rule.update(state, online, online_updates, batches=batches), None

    inside, _ = jax.jit(lambda s: jax.lax.scan(body, s, jnp.arange(1, 8)))(rule.init(online, make(seed=2)))
    outside = rule.init(online, make(seed=2))
    for online_updates in range(1, 8):
        outside, _ = body(outside, online_updates)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), inside, outside)


@table
def test_no_gradient_flows_into_the_online_parameters(rule):
    def total(online):
        state = rule.init(make(seed=2), make(seed=2))
        return jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, rule.update(state, online, 3, batches=batches).params))

    gradient = jax.grad(total)(make(seed=1))
    assert all(not x.any() for x in jax.tree.leaves(gradient))


@table
def test_a_population_under_vmap_equals_its_members_alone(rule):
    members = [make(seed=s) for s in range(4)]
    stack = lambda trees: jax.tree.map(lambda *x: jnp.stack(x), *trees)  # noqa: E731
    states = jax.vmap(rule.init)(stack(members), stack(members[::-1]))
    together = jax.vmap(lambda s, w: rule.update(s, w, 3, batches=batches))(states, stack(members))
    for i, online in enumerate(members):
        alone = rule.update(rule.init(online, members[3 - i]), online, 3, batches=batches)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a[i], b, rtol=1e-5, atol=1e-6), together.params, alone.params
        )
        assert int(together.updates[i]) == int(alone.updates)


def test_polyak_moves_by_tau_towards_online():
    state = targets.polyak(0.25).init({"w": jnp.array([0.0, 8.0])})
    for expected in ([1.0, 6.0], [1.75, 4.5]):
        state = targets.polyak(0.25).update(state, {"w": jnp.array([4.0, 0.0])}, online_updates=1)
        np.testing.assert_allclose(state.params["w"], expected)
    copied = targets.polyak(1.0).update(state, {"w": jnp.array([4.0, 0.0])}, online_updates=1)
    np.testing.assert_allclose(copied.params["w"], [4.0, 0.0])


def test_tau_may_differ_between_the_members_of_a_population():
    def step(tau):
        rule = targets.polyak(tau)
        return rule.update(rule.init(jnp.float32(0.0)), jnp.float32(1.0), 1).params

    np.testing.assert_allclose(jax.vmap(step)(jnp.array([0.1, 0.5])), [0.1, 0.5])


def test_a_population_keeps_the_schedule_a_branch():
    rule = replicate(every_updates=2000, updates=200)
    online = jax.tree.map(lambda *x: jnp.stack(x), *[make(seed=s) for s in range(8)])
    state = jax.vmap(rule.init)(online)
    update = jax.vmap(lambda s, w, t: rule.update(s, w, t, batches=batches), in_axes=(0, 0, None))
    equations = jax.make_jaxpr(update)(state, online, 1).eqns
    branches = [e for e in equations if e.primitive.name == "cond"]
    assert len(branches) == 1
    assert branches[0].invars[0].aval.shape == ()  # one decision for the whole population
    assert not any(e.primitive.name in ("while", "scan", "dot_general") for e in equations)  # no step outside of it


def test_an_update_off_turn_costs_the_same_whatever_k_r_is():
    """Counted, not timed: off-turn, the compiled program never enters the branch with the gradient steps."""
    entered = []

    def batches_seen(k):
        jax.debug.callback(lambda _: entered.append(1), k)
        return X

    rule = replicate(every_updates=4, updates=5)
    online = jax.tree.map(lambda *x: jnp.stack(x), *[make(seed=s) for s in range(8)])
    state = jax.vmap(rule.init)(online)

    @jax.jit
    def update(state, t):
        return jax.vmap(lambda s, w: rule.update(s, w, t, batches=batches_seen))(state, online)

    for t, expected in ((1, 0), (2, 0), (3, 0), (4, 5)):
        jax.block_until_ready(update(state, t))
        jax.effects_barrier()
        assert len(entered) == expected
