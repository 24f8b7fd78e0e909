"""Replicate: the paper's equation, its options, its ways of stopping, and how it meets the outside world."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lookrep import distances, targets
from lookrep.errors import UserError
from lookrep.exact import solver
from lookrep.exact.builtin import two_state
from lookrep.exact.settings import Settings

pytestmark = pytest.mark.usefixtures("quick_compilation")


def value(params, x):
    """A linear value function with a bias; over-parameterised whenever there are fewer inputs than features."""
    return x @ params["w"] + params["b"]


def make(features=6, seed=0):
    return {"w": jax.random.normal(jax.random.key(seed), (features, 2)), "b": jnp.ones((2,))}


X = jax.random.normal(jax.random.key(9), (3, 6))  # 3 inputs, 6 features: many parameters give the same function
DISTANCE = distances.squared(value)


def batches(k):
    del k
    return X


def replicate(every_updates=1, updates=4, **settings):
    return targets.replicate(every_updates, updates, optax.sgd(0.05), DISTANCE, **settings)


def close(a, b, **tolerances):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, **tolerances), a, b)


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
    distance = distances.squared(lambda p, x: x * p["scale"])
    rule = targets.replicate(1, 1, optax.sgd(0.1), distance)
    state = rule.update(rule.init(online, {"scale": jnp.zeros(2)}), online, 1, batches=lambda k: jnp.array([1.0, 2.0]))
    # θ¹ = θ⁰ − β ∇G with G = mean (v_θ − v_w)²; each weight sees its own input x: ∇ = −2·x²·w / 2
    np.testing.assert_allclose(state.params["scale"], [0.2, 1.2], rtol=1e-6)


def test_step_scale_gives_each_step_of_a_turn_its_own_size():
    distance = distances.squared(lambda p, x: x * p)
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


def test_until_stops_when_close_enough_and_counts_what_it_used():
    online, other = make(seed=1), make(seed=2)
    rule = replicate(updates=targets.until(gap=0.05, most_updates=10_000))
    start = rule.init(online, other)
    state = jax.jit(lambda s: rule.turn(s, online, batches))(start)
    used = int(state.updates)
    assert 1 < used < 10_000
    assert float(DISTANCE.gap(state.params, online, X)) <= 0.05
    fewer = replicate(updates=used - 1)
    almost = fewer.turn(fewer.init(online, other), online, batches)
    assert float(DISTANCE.gap(almost.params, online, X)) > 0.05  # not one step too many
    assert int(rule.turn(state, online, batches).updates) == used
    assert int(rule.turn(start, online, batches).updates) == used  # outside of jit as inside
    capped = replicate(updates=targets.until(gap=0.0, most_updates=7))
    assert int(capped.turn(start, online, batches).updates) == 7


def test_agents_of_a_population_stop_each_by_its_own_gap_and_number():
    online = jax.tree.map(lambda *x: jnp.stack(x), *[make(seed=s) for s in range(3)])
    far = jnp.array([0.8, 0.5, 0.1])
    theta = jax.tree.map(lambda x: jax.vmap(jnp.multiply)(far, x), online)
    numbers = jnp.array([2, 5, 3])

    def turn(updates, state, online):
        return targets.replicate(1, updates, optax.adam(0.05), DISTANCE).turn(state, online, batches)

    def alone(rule, i):
        one = jax.tree.map(lambda x: x[i], (online, theta))
        return rule.turn(rule.init(*one), one[0], batches)

    rule = targets.replicate(1, targets.until(gap=0.2, most_updates=60), optax.adam(0.05), DISTANCE)
    states = jax.vmap(rule.init)(online, theta)
    by_gap = jax.jit(jax.vmap(lambda s, w: rule.turn(s, w, batches)))(states, online)
    by_number = jax.jit(jax.vmap(turn))(numbers, states, online)
    assert by_number.updates.tolist() == numbers.tolist()
    assert len(set(by_gap.updates.tolist())) == 3
    for i in range(3):
        expected = alone(rule, i)
        assert int(expected.updates) == int(by_gap.updates[i])
        close(jax.tree.map(lambda x: x[i], by_gap.params), expected.params, rtol=1e-5, atol=1e-6)
        expected = alone(targets.replicate(1, int(numbers[i]), optax.adam(0.05), DISTANCE), i)
        close(jax.tree.map(lambda x: x[i], by_number.params), expected.params, rtol=1e-5, atol=1e-6)


def test_under_vmap_a_fixed_number_of_steps_is_counted_once_for_all_agents():
    seen = []

    def batches_seen(k):
        seen.append(type(k).__name__)
        return X

    rule = replicate()
    online = jax.tree.map(lambda *x: jnp.stack(x), *[make(seed=s) for s in range(3)])
    states = jax.vmap(rule.init)(online)
    jaxpr = jax.make_jaxpr(jax.vmap(lambda s, w: rule.turn(s, w, batches_seen)))(states, online)
    (loop,) = [e for e in jaxpr.eqns if e.primitive.name == "scan"]
    assert loop.params["length"] == 4
    assert "BatchTracer" not in seen


def test_online_and_target_may_be_different_networks_under_replicate_only():
    def small(params, x):
        return jnp.tanh(x @ params["a"]) @ params["b"]

    little = {"a": jax.random.normal(jax.random.key(3), (6, 4)), "b": jnp.zeros((4, 2))}
    distance = distances.squared(small, value)
    rule = targets.replicate(1, 500, optax.adam(0.05), distance)
    online = make(seed=1)
    state = rule.update(rule.init(online, little), online, 1, batches=batches)
    assert float(distance.gap(state.params, online, X)) < 0.1 * float(distance.gap(little, online, X))
    for other in (targets.hard(1), targets.polyak(0.5), replicate(start="online")):
        with pytest.raises(UserError, match="same shape") as refusal:
            other.init(online, little)
        assert "\n" not in str(refusal.value)


# Outside of JAX


def test_a_host_sampler_is_asked_on_turns_alone_and_once_a_step():
    drawn = []

    def sample(k):
        drawn.append(k)
        return np.asarray(X)[np.random.default_rng(k).integers(0, 3, 2)]

    rule = replicate(every_updates=3, updates=4)
    state = rule.init(make(seed=1), make(seed=2))
    for n in range(1, 6):
        state = rule.update(state, make(seed=1), n, sample)
    assert drawn == [0, 1, 2, 3]
    # The same batches, drawn ahead, in one compiled turn.
    ahead = jax.jit(rule.turn)(rule.init(make(seed=1), make(seed=2)), make(seed=1), targets.stacked(sample, 4))
    close(state.params, ahead.params, rtol=1e-5)


def test_a_turn_outside_of_jit_compiles_one_step_once():
    traced = []

    def counting(target, online, batch):
        traced.append(1)
        return DISTANCE.loss(target, online, batch)

    rule = targets.replicate(2, 5, optax.adam(1e-3), counting)
    state = rule.init(make(seed=1), make(seed=2))
    for n in range(1, 7):
        state = rule.update(state, make(seed=1), n, batches)
    assert int(state.updates) == 15
    assert len(traced) == 1


def test_an_off_turn_call_outside_of_jit_runs_nothing(monkeypatch):
    rule = replicate(every_updates=100)
    state = rule.init(make(seed=1))
    monkeypatch.setattr(targets.Replicate, "turn", None)
    with jax.log_compiles(), jax.transfer_guard("disallow"):
        assert rule.update(state, make, 1, batches) == state


# The paper's problems


def test_a_turn_is_the_exact_solvers_replicate_on_a_linear_problem():
    """The same weighting, step sizes β_k and number of steps: the next θ from the same θ and w, at every iteration."""
    problem = two_state()
    sizes = (0.3, 0.2, 0.1)
    settings = Settings(outer_iterations=20, lookahead_updates=5, replicate_updates=3, replicate_step_size=sizes)
    trace = solver.solve(problem, settings)

    def loss_g(theta, w, weighting):
        return weighting @ (problem.target(theta) - problem.online(w)) ** 2

    with solver.double_precision():
        beta = jnp.asarray(sizes)
        rule = targets.replicate(5, 3, optax.sgd(1.0), loss_g, step_scale=lambda k: beta[k])
        turn = jax.jit(lambda state, w: rule.turn(state, w, lambda k: jnp.asarray(problem.weighting)))
        for t in range(settings.outer_iterations):
            state = rule.init(jnp.asarray(trace.online[t + 1]), jnp.asarray(trace.target[t]))
            after = turn(state, jnp.asarray(trace.online[t + 1])).params
            np.testing.assert_allclose(after, trace.target[t + 1], rtol=0, atol=1e-12)
    assert np.abs(np.diff(trace.target[:6], axis=0)).max() > 1e-3  # it moves


# Errors


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (lambda: targets.hard(0), "every_updates = 0"),
        (lambda: targets.hard(2.5), "every_updates = 2.5"),
        (lambda: targets.hard(True), "every_updates = True"),
        (lambda: targets.polyak(0.0), "tau = 0.0"),
        (lambda: targets.polyak(1.5), "tau = 1.5"),
        (lambda: targets.polyak(float("nan")), "tau = nan"),
        (lambda: targets.polyak("0.1"), "tau = '0.1'"),
        (lambda: targets.polyak(None), "tau = None"),
        (lambda: targets.polyak(jnp.array([0.1, 2.0])), "tau = Array"),
        (lambda: targets.polyak(0.1, every_updates=-1), "every_updates = -1"),
        (lambda: replicate(every_updates=0), "every_updates = 0"),
        (lambda: replicate(updates=0), "updates = 0"),
        (lambda: replicate(updates="5"), "updates = '5'"),
        (lambda: replicate(start="here"), "start = 'here'"),
        (lambda: replicate(updates=None), "updates = None"),
        (lambda: replicate(updates=jnp.array([3, 0])), "at least 1"),
        (lambda: targets.until(gap=0.1, most_updates=0), "most_updates = 0"),
        (lambda: targets.until(gap=-1.0, most_updates=5), "gap = -1.0"),
        (lambda: targets.until(gap="small", most_updates=5), "gap = 'small'"),
        (lambda: replicate(step_scale=0.1), "step_scale = 0.1: must be a function of k"),
        (lambda: distances.squared(make()), "needs functions apply"),
        (lambda: distances.categorical(51, value), "atoms = 51: must be the returns"),
        (lambda: targets.replicate(1, 1, "adam"), r"optimizer = 'adam': .* such as optax.adam\(1e-3\)"),
        (lambda: targets.replicate(1, 1, optax.adam), "optimizer = adam"),
        (
            lambda: targets.replicate(1, 1, optax.adam(1e-3), value),
            r"distance = value: .* f\(target_params",
        ),
        (lambda: replicate().with_distance(3), "distance = 3"),
        (lambda: targets.replicate(1, 1, optax.adam(1e-3)).init(make()), "distance=lookrep.distances.squared"),
        (lambda: replicate().with_distance(lambda t, w, x: x).turn(replicate().init(make()), make(), batches), "shape"),
        (lambda: targets.hard(1).init({"w": [1, 2]}), "no arrays of floating-point"),
        (lambda: targets.growing(10, 1.0, 20), "factor = 1.0"),
        (lambda: targets.growing(10, "2", 20), "factor = '2'"),
        (lambda: targets.growing(10, 1.0001, 1_000_000), "10000 turns"),
        (lambda: targets.Schedule(times=(5, 5)), "later"),
        (lambda: targets.Schedule(every=0), "every = 0"),
        (lambda: targets.stacked(batches, 0), "updates = 0"),
        (lambda: replicate().update(replicate().init(make()), make(), 3), "batches"),
        (lambda: targets.hard(2).update(make(), targets.hard(2).init(make()), 2), "state is a dict: must be what init"),
    ],
)
def test_bad_values_are_refused_in_one_clear_line(build, named):
    with pytest.raises(UserError, match=named) as refusal:
        build()
    assert "\n" not in str(refusal.value)
