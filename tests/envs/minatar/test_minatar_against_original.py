"""Our five games take the same steps as the original `minatar` package when both get the same random draws."""

from typing import Any

import jax
import minatar_oracle as oracle
import minatar_policies as policies
import numpy as np
import pytest
from minatar_oracle import Player, Transition
from minatar_scrambles import SCRAMBLES

from lookrep.envs import minatar

COMPETENT = {
    "breakout": (policies.breakout,),
    "asterix": (policies.asterix,),
    "freeway": (policies.freeway,),
    "seaquest": (policies.seaquest, policies.bobbing_seaquest),
    "space_invaders": (policies.space_invaders,),
}
STEPS = 3000  # more than a whole episode of Freeway, which lasts 2501 steps


def recordings(game: str) -> list[Transition]:
    """Random and competent play, with and without sticky actions."""
    random = policies.uniform(oracle.RULES[game].actions)
    runs = [oracle.record(Player(game, seed=0), random, STEPS, seed=0)]
    for policy in COMPETENT[game]:
        runs.append(oracle.record(Player(game, seed=1), policy, STEPS, seed=1))
        runs.append(oracle.record(Player(game, seed=2, sticky_action_prob=0.0), policy, STEPS, seed=2))
    return runs


@pytest.fixture(scope="module", params=minatar.GAMES)
def game_and_runs(request: pytest.FixtureRequest) -> tuple[str, list[Transition]]:
    return request.param, recordings(request.param)


def nibble_count(words: np.ndarray) -> np.ndarray:
    """How many nibbles of each word are in use."""
    return sum(((words >> np.uint32(4 * i)) & np.uint32(15) != 0).astype(int) for i in range(8))


def assert_same(ours: tuple, run: Transition) -> None:
    state, timestep = jax.tree.map(np.asarray, ours)
    np.testing.assert_array_equal(timestep.observation, run.observation)
    np.testing.assert_array_equal(timestep.reward, run.reward)
    np.testing.assert_array_equal(timestep.terminated, run.terminated)
    assert not timestep.truncated.any()
    jax.tree.map(np.testing.assert_array_equal, oracle.canonical(state), oracle.canonical(run.after))


def test_one_step_from_every_recorded_state_is_the_originals(game_and_runs: tuple[str, list[Transition]]) -> None:
    game, runs = game_and_runs
    transition = jax.jit(jax.vmap(minatar.make(game).transition))
    for run in runs:
        assert_same(transition(run.before, run.action, run.draws), run)


def test_whole_runs_stay_in_lock_step(game_and_runs: tuple[str, list[Transition]]) -> None:
    """Ours goes on from its own states, for thousands of steps over many episodes."""
    game, runs = game_and_runs
    env = minatar.make(game)

    @jax.jit
    def replay(run: Transition) -> tuple:
        def body(state: Any, row: Transition) -> tuple:
            state = jax.tree.map(lambda ours, start: jax.numpy.where(row.first, start, ours), state, row.before)
            state, timestep = env.transition(state, row.action, row.draws)
            return state, (state, timestep)

        return jax.lax.scan(body, jax.tree.map(lambda leaf: leaf[0], run.before), run)[1]

    for run in runs:
        assert_same(replay(run), run)


@pytest.mark.parametrize("game", SCRAMBLES)
def test_one_step_from_arbitrary_positions_is_the_originals(game: str) -> None:
    rng = np.random.RandomState(4)
    player, transitions = Player(game, seed=4), []
    for _ in range(STEPS):
        player.reset()
        SCRAMBLES[game](player, rng)
        letter = rng.choice(list(oracle.RULES[game].actions))
        transitions.append(player.step(oracle.ACTIONS.index(letter)))
    run = oracle.stack(game, transitions)
    assert_same(jax.jit(jax.vmap(minatar.make(game).transition))(run.before, run.action, run.draws), run)


@pytest.mark.parametrize("game", ["asterix", "seaquest", "space_invaders"])
def test_without_ramping_the_game_stays_the_originals_easy_one(game: str) -> None:
    run = oracle.record(Player(game, seed=3, ramping=False), COMPETENT[game][0], STEPS, seed=3)
    assert (run.after.game.ramp_index == 0).all()
    transition = jax.jit(jax.vmap(minatar.make(game, difficulty_ramping=False).transition))
    assert_same(transition(run.before, run.action, run.draws), run)


def test_the_recordings_hold_the_late_states_they_are_meant_for(game_and_runs: tuple[str, list[Transition]]) -> None:
    """The comparison above is worth as much as the states it was made from."""
    game, runs = game_and_runs
    together = jax.tree.map(lambda *leaves: np.concatenate(leaves), *runs)
    before, after = together.before.game, together.after.game
    assert together.terminated.sum() >= (3 if game == "freeway" else 5)
    if game == "breakout":
        assert ((before.bricks == 0) & (after.bricks == 2**30 - 1)).sum() >= 3  # cleared, and a new wall
    if game == "asterix":
        full = nibble_count(before.columns) == 8
        assert (full & (before.spawn_timer == 0)).sum() >= 5  # a newcomer finds no row
        assert (before.ramp_index == 9).sum() >= 500
        assert together.reward.max() == 1
    if game == "freeway":
        assert together.reward.sum() >= 50
        assert ((before.chicken_y < 9) & (after.chicken_y == 9) & (together.reward == 0)).sum() >= 50  # run over
    if game == "seaquest":
        enemies = nibble_count(before.enemies)
        assert (enemies.sum((1, 2)) >= 20).sum() >= 100
        assert (enemies.max((1, 2)) >= 2).sum() >= 100  # several in one cell
        assert (before.ramp_index == 19).sum() >= 500
        assert (before.divers_aboard < 0).any()
        assert together.reward.max() >= 5  # surfaced with six
        assert ((before.divers_aboard > 0) & (before.oxygen < 40) & (after.oxygen == 200)).any()
        assert (before.oxygen <= 0).any()  # drowned
        assert ((before.enemy_bullets & 1).any((1, 2)) & (before.enemy_bullets & 2).any((1, 2))).any()
    if game == "space_invaders":
        assert {0, 1, 2, 3, 4} <= set(before.ramp_index)
        assert (np.bitwise_count(before.aliens.alive) == 1).any()


def test_episodes_start_as_the_originals_do() -> None:
    for game in minatar.GAMES:
        env = minatar.make(game)
        states, observations = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.key(0), 64))
        player = Player(game, seed=0)
        if game == "freeway":  # cars at the left edge, everything but their speed and direction fixed
            start = player.encode().game
            for name in ("chicken_y", "move_timer", "time_left", "columns"):
                np.testing.assert_array_equal(getattr(states.game, name), getattr(start, name))
            np.testing.assert_array_equal(states.game.timers, states.game.traffic.speeds)
        else:
            starts = set()
            for _ in range(20):
                starts.add(player.wrapper.state().astype(bool).tobytes())
                player.reset()
            assert {observation.tobytes() for observation in np.asarray(observations)} == starts
        np.testing.assert_array_equal(states.last_action, 0)


def test_action_sets_and_channels_are_the_originals() -> None:
    for game in minatar.GAMES:
        env, original = minatar.make(game), Player(game, seed=0).wrapper
        assert [oracle.ACTIONS.index(letter) for letter in env.rules.actions] == original.minimal_action_set()
        assert env.num_actions == len(original.minimal_action_set())
        assert list(env.observation_shape) == original.state_shape()
