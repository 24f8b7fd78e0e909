"""Gymnasium's environments, and a user's own, play as they do without us; what we cannot play is one clear line."""

import sys

import gymnasium
import numpy as np
import pytest

from lookrep.envs import host as host_envs
from lookrep.errors import UserError


def test_cart_pole_plays_as_in_gymnasium() -> None:
    ours, plain = host_envs.make("gym/CartPole-v1"), gymnasium.make("CartPole-v1")
    random = np.random.default_rng(0)
    for seed in (5, 6, 5):
        first, _ = plain.reset(seed=seed)
        assert np.array_equal(ours.reset(seed), first)
        over = False
        while not over:
            action = int(random.integers(2))
            observation, reward, terminated, truncated, _ = plain.step(action)
            outcome = ours.step(action)
            assert np.array_equal(outcome.observation, observation)
            assert outcome[1:] == (reward, terminated, truncated, False)
            over = terminated or truncated


def test_a_time_limit_truncates() -> None:
    env = host_envs.make("gym/MountainCar-v0")  # 200 steps, and standing still leads nowhere
    env.reset(0)
    outcomes = [env.step(1) for _ in range(200)]
    assert [outcome.truncated for outcome in outcomes] == [False] * 199 + [True]
    assert not any(outcome.terminated for outcome in outcomes)


def test_floats_become_float32_and_actions_may_start_anywhere() -> None:
    env = host_envs.make("toys:Walk")
    assert env.spec == ((3,), np.float32, 3, 1, True, 0)
    assert env.action_names() == ["-1", "0", "1"]
    places = []
    for action in range(3):
        first = env.reset(1)
        places.append(env.step(action).observation[0])
    assert first.dtype == places[0].dtype == np.float32
    assert np.allclose(np.diff(places), 1, atol=1e-6)  # −1, 0, 1, with the same noise


def test_bytes_stay_bytes_and_an_environment_may_say_that_it_never_truncates() -> None:
    assert host_envs.check("toys:Pixels") == ((2, 2), np.uint8, 3, 1, False, 0)


def test_an_environment_that_cannot_draw_has_no_screen() -> None:
    env = host_envs.make("toys:Walk")
    env.reset(0)
    assert env.screen() is None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gym/CartPol-v1", "environment 'gym/CartPol-v1' is unknown to Gymnasium: did you mean gym/CartPole-v1?"),
        ("gim/CartPole-v1", "environment 'gim/CartPole-v1' is unknown: did you mean gym/CartPole-v1?"),
        ("atri/Breakout", "environment 'atri/Breakout' is unknown: did you mean atari/Breakout?"),
        ("CartPole", "environment 'CartPole' is unknown: write atari/GAME, gym/NAME, or my_module:make_env"),
        ("nowhere:make", "cannot import nowhere"),
        ("toys:nothing", "toys has no class or function 'nothing'"),
        ("toys:not_an_environment", "it must give a gymnasium.Env, not str"),
        ("toys:Whole", "observations must be floats or uint8, not int64"),
        ("toys:Switches", "actions must be Discrete, not MultiBinary(3)"),
        ("toys:Keyboard", "at most 256 actions, not 257"),
        ("gym/Pendulum-v1", "actions must be Discrete, not Box"),
        ("gym/FrozenLake-v1", "observations must be a Box with at least one axis, not Discrete(16)"),
    ],
)
def test_what_cannot_be_played_is_one_clear_line(name: str, line: str) -> None:
    with pytest.raises(UserError) as error:
        host_envs.check(name)
    assert line in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_simulator_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(UserError, match=r"gym/LunarLander-v3' cannot be made .*pip install.*gymnasium\[box2d\]"):
        host_envs.check("gym/LunarLander-v3")


def test_an_environment_that_does_not_show_what_it_declares_is_caught() -> None:
    with pytest.raises(UserError, match=r"'toys:Liar' gives observations of \(3,\), but declares \(5,\)"):
        host_envs.make("toys:Liar").reset(0)
