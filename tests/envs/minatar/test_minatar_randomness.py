"""What our games draw at random has the original's distribution. Everything is seeded; a bound is five standard errors
of the right distribution wide, or the chi-square value exceeded by chance once in 10 000 times."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from minatar_oracle import Player

from lookrep.envs import minatar

COUNT = 40_000
CHI_SQUARE = {1: 15.14, 4: 23.51, 7: 29.88, 9: 33.72}  # the 0.9999 quantile, by degrees of freedom


def assert_frequency(happened: Any, probability: float) -> None:
    happened = np.asarray(happened)
    bound = 5 * np.sqrt(probability * (1 - probability) / happened.size)
    assert abs(happened.mean() - probability) < bound


def assert_uniform(values: Any, support: range) -> None:
    values = np.asarray(values).ravel()
    counts = np.array([(values == value).sum() for value in support])
    assert counts.sum() == values.size
    expected = values.size / len(support)
    assert ((counts - expected) ** 2 / expected).sum() < CHI_SQUARE[len(support) - 1]


def draws_of(game: str, sticky_action_prob: float = 0.1) -> Any:
    env = minatar.make(game, sticky_action_prob)
    return jax.jit(jax.vmap(env.draw))(jax.random.split(jax.random.key(7), COUNT))


def nibbles_of(words: Any) -> np.ndarray:
    return (np.asarray(words)[..., None] >> np.arange(0, 32, 4, dtype=np.uint32)) & 15


@pytest.mark.parametrize("game", minatar.GAMES)
def test_actions_stick_one_step_in_ten(game: str) -> None:
    assert_frequency(draws_of(game).sticky, 0.1)


def test_the_sticky_probability_is_what_was_asked_for() -> None:
    assert_frequency(draws_of("breakout", 0.25).sticky, 0.25)
    assert not draws_of("breakout", 0.0).sticky.any()
    assert draws_of("breakout", 1.0).sticky.all()


def test_sticking_repeats_the_action_last_executed_not_the_one_last_asked_for() -> None:
    env = minatar.make("freeway", sticky_action_prob=1.0)
    state, _ = env.init(jax.random.key(0))
    state = state._replace(last_action=jnp.int32(2))
    step = jax.jit(env.step)
    for action in (1, 0, 1):
        state, _ = step(jax.random.key(action), state, jnp.int32(action))
        assert state.last_action == 2


def test_asterix_newcomers_come_from_both_sides_and_are_gold_one_time_in_three() -> None:
    draws = draws_of("asterix").game
    assert_frequency(draws.rightward, 1 / 2)
    assert_frequency(draws.gold, 1 / 3)
    assert_frequency(draws.gold & draws.rightward, 1 / 6)


@pytest.mark.parametrize("free_rows", [[1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 7, 6, 8], [1, 8], [5]])
def test_asterix_newcomers_take_every_free_row_equally_often(free_rows: list[int]) -> None:
    env = minatar.make("asterix")
    start, _ = env.init(jax.random.key(0))
    taken = sum(5 << (4 * (row - 1)) for row in range(1, 9) if row not in free_rows)
    state = start._replace(
        game=start.game._replace(columns=jnp.uint32(taken), spawn_timer=jnp.int32(0), player_x=jnp.int32(1))
    )
    keys = jax.random.split(jax.random.key(1), COUNT)
    after, _ = jax.jit(jax.vmap(env.step, in_axes=(0, None, None)))(keys, state, jnp.int32(0))
    newcomer = (nibbles_of(after.game.columns) != 0) & (nibbles_of(taken) == 0)
    assert (newcomer.sum(-1) == 1).all()
    ranks = np.searchsorted(sorted(free_rows), newcomer.argmax(-1) + 1)
    if len(free_rows) > 1:
        assert_uniform(ranks, range(len(free_rows)))


def test_seaquest_newcomers_are_the_originals() -> None:
    draws = draws_of("seaquest").game
    assert_frequency(draws.enemy_rightward, 1 / 2)
    assert_frequency(draws.enemy_is_sub, 1 / 3)
    assert_frequency(draws.enemy_is_sub & draws.enemy_rightward, 1 / 6)
    assert_frequency(draws.diver_rightward, 1 / 2)
    assert_uniform(draws.enemy_row, range(1, 9))
    assert_uniform(draws.diver_row, range(1, 9))
    assert_frequency((draws.enemy_row == 3) & draws.enemy_is_sub, 1 / 24)
    assert_frequency((draws.enemy_row == 3) & (draws.diver_row == 5), 1 / 64)


def test_breakout_starts_left_or_right_equally_often() -> None:
    env = minatar.make("breakout")
    states, _ = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(2), COUNT))
    assert_frequency(states.game.ball_x == 0, 1 / 2)
    np.testing.assert_array_equal(states.game.ball_x, np.where(states.game.rightward, 0, 9))


def test_freeway_draws_each_cars_speed_and_direction_alike_at_the_start_and_on_arrival() -> None:
    env = minatar.make("freeway")
    states, _ = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(3), COUNT))
    for traffic in (states.game.traffic, draws_of("freeway").game):
        speeds, rightward = nibbles_of(traffic.speeds), nibbles_of(traffic.rightward)
        for lane in range(8):
            assert_uniform(speeds[:, lane], range(1, 6))
            assert_frequency(rightward[:, lane], 1 / 2)
        assert_uniform((5 * rightward + speeds - 1)[:, 0], range(10))
        assert_frequency((speeds[:, 0] == 1) & (speeds[:, 1] == 1), 1 / 25)


@pytest.mark.parametrize("game", ["asterix", "seaquest"])
def test_random_play_meets_as_much_as_in_the_original(game: str) -> None:
    """End to end: the mean number of things on the board over a first stretch of play at rest, ours and theirs."""
    steps, episodes = 100, 100
    env = minatar.make(game)
    channels = [1, 3] if game == "asterix" else [5, 6, 9]

    def episode(key: jax.Array) -> jax.Array:
        def body(state: Any, key: jax.Array) -> tuple:
            state, timestep = env.step(key, state, jnp.int32(0))
            return state, (timestep.observation[..., jnp.array(channels)].sum(), timestep.terminated)

        start_key, step_key = jax.random.split(key)
        _, (counts, ended) = jax.lax.scan(body, env.init(start_key)[0], jax.random.split(step_key, steps))
        alive = jnp.cumsum(ended) == 0
        return (counts * alive).sum() / alive.sum()

    ours = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(4), episodes)))
    theirs = []
    for seed in range(episodes):
        original = Player(game, seed).wrapper
        counts = []
        for _ in range(steps):
            _, ended = original.act(0)
            if ended:
                break
            counts.append(original.state()[..., channels].sum())
        theirs.append(np.mean(counts))
    error = np.sqrt(ours.var() / episodes + np.var(theirs) / episodes)
    assert abs(ours.mean() - np.mean(theirs)) < 4 * error
