"""Environments by name: those that come along, those of users, and one clear line for what does not fit."""

import inspect
from pathlib import Path

import jax
import numpy as np
import probes
import pytest

from lookrep import envs
from lookrep.errors import UserError


def complaint(name: str) -> str:
    with pytest.raises(UserError) as caught:
        envs.make(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "actions", "channels"),
    # the original's minimal action sets and channels
    [("breakout", 3, 4), ("asterix", 5, 4), ("freeway", 3, 7), ("seaquest", 6, 10), ("space_invaders", 4, 6)],
)
def test_the_five_games_come_along(name: str, actions: int, channels: int) -> None:
    env = envs.make(f"minatar/{name}")
    assert isinstance(env, envs.Environment)
    assert env.num_actions == actions
    assert env.observation_shape == (10, 10, channels)
    assert not env.can_truncate
    assert f"minatar/{name}" in envs.names.MINATAR


def test_an_environment_of_ones_own_goes_by_module_and_class() -> None:
    env = envs.make("probes:Museum")
    assert isinstance(env, probes.Museum)
    assert isinstance(env, envs.Environment)


def test_it_is_found_beside_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(probes.Endless)
    header = "from typing import Any\nimport jax\nimport jax.numpy as jnp\nfrom lookrep.envs import Timestep\n"
    (tmp_path / "my_own_world.py").write_text(f"{header}\n{source}\n\ndef make():\n    return Endless()\n")
    monkeypatch.chdir(tmp_path)
    for name in ("my_own_world:Endless", "my_own_world:make"):  # a class, or a function
        env = envs.make(name)
        state, observation = env.init(jax.random.key(0))
        _, seen = env.step(jax.random.key(1), state, 0)
        np.testing.assert_array_equal(observation, seen.observation)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("minatar/brekout", "environment 'minatar/brekout' is unknown: did you mean minatar/breakout?"),
        ("breakout", "may mean two: write minatar/breakout or atari/Breakout"),
        ("chess", "choose from minatar/breakout, "),
        ("", "environment '' is unknown: choose from"),
        ("no_such_module:Env", "cannot import no_such_module (ModuleNotFoundError: No module named 'no_such_module')"),
        (":Env", "cannot import"),
        ("probes:Missing", "probes has no class or function 'Missing'"),
        ("probes:not_callable", "probes has no class or function 'not_callable'"),
        ("probes:NeedsAnArgument", "NeedsAnArgument() must work without arguments"),
        ("probes:NoActions", "lacks 'observation_dtype'"),
        ("probes:TooManyActions", "num_actions = 257 must be from 1 to 256"),
        ("probes:WrongObservation", "init gives observations of shape (12,) and type bool, but it declares (13,)"),
        ("probes:WrongStepObservation", "step gives observations of shape (12,) and type float32, but it declares"),
        ("probes:WrongReward", "reward must be a float32 scalar, not int32[]"),
        ("probes:ChangingState", "step changes the structure, shapes or types of the state"),
        ("probes:NotATimestep", "step must give (state, lookrep.envs.Timestep), not tuple"),
        ("probes:Raises", "step fails (RuntimeError: the floor is missing)"),
        ("probes:BranchesOnValues", "step fails (TracerBoolConversionError: "),
    ],
)
def test_what_does_not_fit_is_one_clear_line(name: str, words: str) -> None:
    said = complaint(name)
    assert said.startswith(f"environment '{name}'")
    assert words in said


@pytest.mark.parametrize("text", ["def broken(:", "1 / 0", "import no_such_thing"])
def test_a_file_that_cannot_be_imported_is_one_clear_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{abs(hash(text))}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert f"cannot import {name} (" in complaint(f"{name}:Env")
