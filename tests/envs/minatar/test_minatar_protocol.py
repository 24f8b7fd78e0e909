"""The games as environments: the protocol, batching, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.envs import Environment, minatar
from lookrep.errors import UserError

SHAPES = {"breakout": (4, 3), "asterix": (4, 5), "freeway": (7, 3), "seaquest": (10, 6), "space_invaders": (6, 4)}


@pytest.mark.parametrize("game", minatar.GAMES)
def test_a_game_is_an_environment_and_its_states_keep_their_types(game: str) -> None:
    env = minatar.make(game)
    assert isinstance(env, Environment)
    channels, actions = SHAPES[game]
    assert (env.observation_shape, env.num_actions) == ((10, 10, channels), actions)
    assert not env.can_truncate
    start, observation = jax.eval_shape(env.init, jax.random.key(0))
    after, timestep = jax.eval_shape(env.step, jax.random.key(0), start, jnp.int32(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), start) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), after
    )
    assert observation.shape == timestep.observation.shape == env.observation_shape
    assert observation.dtype == timestep.observation.dtype == env.observation_dtype
    assert (timestep.reward.dtype, timestep.reward.shape) == (jnp.float32, ())
    assert timestep.terminated.dtype == timestep.truncated.dtype == bool


@pytest.mark.parametrize("game", minatar.GAMES)
def test_a_batch_starts_and_draws_for_each_game_as_if_alone(game: str) -> None:
    """Transitions need no such test: against the original they run batched and, in lock-step, alone."""
    env = minatar.make(game)

    def randomness(key: jax.Array) -> tuple:
        return env.init(key), env.draw(key)

    keys = jax.random.split(jax.random.key(5), 16)
    together, alone = jax.jit(jax.vmap(randomness))(keys), jax.jit(randomness)
    for index in range(16):
        expected = jax.tree.map(lambda leaf: leaf[index], together)
        jax.tree.map(np.testing.assert_array_equal, alone(keys[index]), expected)


@pytest.mark.parametrize("game", minatar.GAMES)
def test_a_step_compiles_to_straight_code(game: str) -> None:
    """No loop, branch, sort, scatter or computed index: those become many kernels, or slow ones, on a device."""
    env = minatar.make(game)
    state, _ = jax.eval_shape(env.init, jax.random.key(0))
    program = str(
        jax.make_jaxpr(jax.vmap(env.transition, in_axes=(None, None, 0)))(
            *jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), (state, jax.ShapeDtypeStruct((), jnp.int32))),
            jax.vmap(env.draw)(jax.random.split(jax.random.key(0), 2)),
        )
    )
    for primitive in ("while", "scan", "cond", "sort", "scatter", "gather", "dynamic_slice", "cumsum", "dot_general"):
        assert f" {primitive}[" not in program, primitive
    assert program.count("reduce_") <= 1


@pytest.mark.parametrize(
    ("name", "sticky", "words"),
    [("pong", 0.1, ["'pong'", "breakout, asterix"]), ("breakout", 1.5, ["sticky_action_prob", "1.5", "0 and 1"])],
)
def test_bad_input_is_one_clear_line(name: str, sticky: float, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        minatar.make(name, sticky_action_prob=sticky)
    message = str(error.value)
    assert "\n" not in message
    assert all(word in message for word in words)
