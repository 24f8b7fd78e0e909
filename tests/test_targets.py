"""Claims about every target update, in one table, and about Replicate in particular."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lookrep import losses, targets
from lookrep.errors import UserError


def value(params, x):
    """A linear value function with a bias; over-parameterised whenever there are fewer inputs than features."""
    return x @ params["w"] + params["b"]


def make(features=6, seed=0, dtype=jnp.float32):
    w = jax.random.normal(jax.random.key(seed), (features, 2), dtype)
    return {"w": w, "b": jnp.ones((2,), dtype)}


X = jax.random.normal(jax.random.key(9), (3, 6))  # 3 inputs, 6 features: many parameters give the same function


def batches(k):
    del k
    return X


DISTANCE = losses.squared_distance(value)


def replicate(every_updates=3, updates=4, **settings):
    return targets.replicate(every_updates, updates, optax.sgd(0.05), DISTANCE, **settings)


def until_gap(every_updates=3, **settings):
    settings = {"until_gap": 1e-3, "max_updates": 50} | settings
    return targets.replicate(every_updates, None, optax.sgd(0.05), DISTANCE, **settings)


EVERY_3 = {
    "hard": targets.hard(3),
    "polyak": targets.polyak(0.1, every_updates=3),
    "replicate": replicate(),
    "replicate, adam, reset": targets.replicate(3, 4, optax.adam(1e-2), DISTANCE, reset_optimizer=True),
    "replicate, start online": replicate(start="online"),
    "replicate, scaled steps": replicate(step_scale=optax.linear_schedule(1.0, 0.0, 4)),
    "replicate until gap": until_gap(),
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


@pytest.mark.parametrize("settings", [{}, {"until_gap": 0.2, "max_updates": 60, "updates": None}])
def test_population_mode_equals_vmap(settings):
    settings = {"every_updates": 1, "updates": 5} | settings
    one = targets.replicate(**settings, optimizer=optax.adam(0.05), distance=DISTANCE)
    many = targets.replicate(**settings, optimizer=optax.adam(0.05), distance=DISTANCE, population=True)
    online = jax.tree.map(lambda *x: jnp.stack(x), *[make(seed=s) for s in range(3)])
    state = jax.vmap(one.init)(online, jax.tree.map(lambda x: 0.1 * x, online))
    expected = jax.vmap(lambda s, w: one.update(s, w, 1, batches=batches))(state, online)
    got = many.update(state, online, 1, batches=lambda k: jnp.broadcast_to(X, (3, *X.shape)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, expected)


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


def test_replicate_reaches_the_online_function_while_the_parameters_stay_apart():
    online, start = make(seed=1), make(seed=2)
    rule = targets.replicate(1, 3000, optax.sgd(0.1), DISTANCE)
    state = rule.update(rule.init(online, start), online, 1, batches=batches)
    np.testing.assert_allclose(value(state.params, X), value(online, X), atol=1e-5)
    assert float(jnp.linalg.norm(state.params["w"] - online["w"])) > 1.0
    # what the data cannot see stays as it was: the component of θ⁰ outside the inputs' span
    inputs = jnp.concatenate([X, jnp.ones((3, 1))], axis=1)
    null = jnp.eye(7) - jnp.linalg.pinv(inputs) @ inputs
    stacked = lambda p: jnp.concatenate([p["w"], p["b"][None]])  # noqa: E731
    np.testing.assert_allclose(null @ stacked(state.params), null @ stacked(start), atol=1e-5)


def test_one_replicate_step_is_the_papers_equation():
    online = {"scale": jnp.array([2.0, 3.0])}
    distance = losses.squared_distance(lambda p, x: x * p["scale"])
    rule = targets.replicate(1, 1, optax.sgd(0.1), distance)
    state = rule.update(rule.init(online, {"scale": jnp.zeros(2)}), online, 1, batches=lambda k: jnp.array([1.0, 2.0]))
    # θ¹ = θ⁰ − β ∇G with G = mean (v_θ − v_w)²; each weight sees its own input x: ∇ = −2·x²·w / 2
    np.testing.assert_allclose(state.params["scale"], [0.2, 1.2], rtol=1e-6)


def test_step_scale_gives_each_step_of_a_turn_its_own_size():
    distance = losses.squared_distance(lambda p, x: x * p)
    scale = lambda k: jnp.array([1.0, 0.5, 0.0])[k]  # noqa: E731
    rule = targets.replicate(1, 3, optax.sgd(0.25), distance, step_scale=scale)
    state = rule.init(jnp.float32(1.0), jnp.float32(0.0))
    for expected in (0.625, 0.859375):  # gap × (1 − ½)(1 − ¼)(1 − 0) a turn; the schedule starts anew each turn
        state = rule.update(state, jnp.float32(1.0), 1, batches=lambda k: jnp.float32(1.0))
        np.testing.assert_allclose(state.params, expected)


def test_optimizer_state_is_kept_or_reset_as_asked():
    for reset, count in ((False, 8), (True, 4)):
        rule = targets.replicate(1, 4, optax.adam(1e-2), DISTANCE, reset_optimizer=reset)
        state = rule.init(make(seed=1), make(seed=2))
        for _ in range(2):
            state = rule.update(state, make(seed=1), 1, batches=batches)
        assert int(state.optimizer[0].count) == count
        assert int(state.updates) == 8


def test_until_gap_stops_when_close_enough_and_counts_what_it_used():
    online = make(seed=1)
    rule = until_gap(every_updates=1, until_gap=0.05, max_updates=10_000)
    state = rule.update(rule.init(online, make(seed=2)), online, 1, batches=batches)
    used = int(state.updates)
    assert 1 < used < 10_000
    assert float(DISTANCE.gap(state.params, online, X)) <= 0.05
    fewer = targets.replicate(1, used - 1, optax.sgd(0.05), DISTANCE)
    almost = fewer.update(fewer.init(online, make(seed=2)), online, 1, batches=batches)
    assert float(DISTANCE.gap(almost.params, online, X)) > 0.05  # not one step too many
    again = rule.update(state, online, 1, batches=batches)
    assert int(again.updates) == used
    capped = until_gap(every_updates=1, until_gap=0.0, max_updates=7)
    assert int(capped.update(capped.init(online, make(seed=2)), online, 1, batches=batches).updates) == 7


def test_online_and_target_may_be_different_networks_under_replicate_only():
    def small(params, x):
        return jnp.tanh(x @ params["a"]) @ params["b"]

    little = {"a": jax.random.normal(jax.random.key(3), (6, 4)), "b": jnp.zeros((4, 2))}
    distance = losses.squared_distance(small, value)
    rule = targets.replicate(1, 500, optax.adam(0.05), distance)
    online = make(seed=1)
    state = rule.update(rule.init(online, little), online, 1, batches=batches)
    assert float(distance.gap(state.params, online, X)) < 0.1 * float(distance.gap(little, online, X))
    for other in (targets.hard(1), targets.polyak(0.5), replicate(start="online")):
        with pytest.raises(UserError, match="same shape") as refusal:
            other.init(online, little)
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: targets.hard(0), "every_updates = 0"),
        (lambda: targets.hard(2.5), "every_updates = 2.5"),
        (lambda: targets.hard(True), "every_updates = True"),
        (lambda: targets.polyak(0.0), "tau = 0.0"),
        (lambda: targets.polyak(1.5), "tau = 1.5"),
        (lambda: targets.polyak(float("nan")), "tau = nan"),
        (lambda: targets.polyak(0.1, every_updates=-1), "every_updates = -1"),
        (lambda: replicate(every_updates=0), "every_updates = 0"),
        (lambda: replicate(updates=0), "updates = 0"),
        (lambda: replicate(updates="5"), "updates = '5'"),
        (lambda: replicate(start="here"), "start = 'here'"),
        (lambda: replicate(until_gap=0.1), "either updates"),
        (lambda: replicate(updates=None), "either updates"),
        (lambda: until_gap(max_updates=None), "needs max_updates"),
        (lambda: until_gap(until_gap=-1.0), "until_gap = -1.0"),
        (lambda: targets.replicate(1, 1), "optimizer and a distance"),
        (lambda: replicate().update(replicate().init(make()), make(), 3), "batches"),
        (lambda: losses.squared_distance(value, actions="some"), "actions = 'some'"),
    ],
)
def test_bad_values_are_refused_in_one_clear_line(build, named):
    with pytest.raises(UserError, match=named) as refusal:
        build()
    assert "\n" not in str(refusal.value)


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
