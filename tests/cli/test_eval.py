"""`lookrep eval` on a real run: two agents that learned to press a button, so that their scores are known."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep import api
from lookrep import config as configs
from lookrep.cli import main
from lookrep.envs import Timestep
from lookrep.errors import UserError
from lookrep.runs import checkpoint
from lookrep.training.engines import make_engine

EPISODE_STEPS = 7


class Button:
    """Action 1 earns 1, action 0 nothing; after seven steps it is over."""

    observation_shape = (2,)
    observation_dtype = jnp.float32
    num_actions = 2
    can_truncate = True

    def init(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.int32(0), jnp.array([0.0, 1.0])

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> tuple[jax.Array, Timestep]:
        after = state + 1
        seen = jnp.stack([after / EPISODE_STEPS, 1.0]).astype(jnp.float32)
        return after, Timestep(seen, (action == 1).astype(jnp.float32), jnp.bool_(False), after >= EPISODE_STEPS)


TRAIN = """
train test_eval:Button --agent dqn --network mlp:16 --agents 2 --first-agent 4 --steps 1200 --warmup-steps 200
--log-interval-steps 1200 --replay-capacity-steps 1000 --learning-rate 0.01 --discount 0.5
--target-period-updates 5000 --quiet --out
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Path:
    folder: Path = tmp_path_factory.mktemp("eval") / "run"
    assert main([*TRAIN.split(), str(folder)]) == 0
    return folder


def evaluated(run: Path, *flags: str) -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["eval", "--trust", str(run), "--json", *flags]) == 0
    return json.loads(out.getvalue(), parse_constant=lambda token: pytest.fail(f"{token} is not JSON"))


def test_agents_that_learned_the_button_earn_all_there_is(run: Path) -> None:
    found = evaluated(run, "--episodes", "5", "--epsilon", "0")
    assert [agent["agent"] for agent in found["agents"]] == [4, 5]
    for agent in found["agents"]:
        assert agent["returns"] == [7.0] * 5
        assert (agent["return_mean"], agent["return_std"], agent["return_min"], agent["return_max"]) == (7, 0, 7, 7)
        assert (agent["episodes"], agent["length_mean"], agent["cut_episodes"], agent["diverged"]) == (5, 7, 0, False)
    assert (found["return_mean"], found["return_standard_error"]) == (7.0, 0.0)
    assert (found["agent_steps"], found["env"], found["preset"]) == (1200, "test_eval:Button", "dqn")


def test_epsilon_one_is_a_coin_and_every_episode_has_its_own(run: Path) -> None:
    found = evaluated(run, "--episodes", "400", "--epsilon", "1")
    for agent in found["agents"]:
        # binomial(7, 1/2): mean 3.5, standard deviation 1.323, so the mean of 400 lies within 4 · 0.066
        assert agent["return_mean"] == pytest.approx(3.5, abs=0.27)
        assert agent["return_std"] == pytest.approx(1.323, abs=0.2)
    one, other = (agent["returns"] for agent in found["agents"])
    assert one != other
    means = [np.mean(one), np.mean(other)]
    assert found["return_mean"] == pytest.approx(np.mean(means))
    assert found["return_standard_error"] == pytest.approx(abs(means[0] - means[1]) / 2)


def test_an_agents_episodes_depend_on_the_seed_and_its_number_alone(run: Path) -> None:
    everyone = evaluated(run, "--epsilon", "0.5", "--episodes", "20")["agents"]
    alone = evaluated(run, "--epsilon", "0.5", "--episodes", "30", "--agent", "5")
    assert [agent["agent"] for agent in alone["agents"]] == [5]
    assert alone["agents"][0]["returns"][:20] == everyone[1]["returns"]
    assert alone["return_standard_error"] is None
    assert evaluated(run, "--epsilon", "0.5", "--episodes", "20", "--seed", "1")["agents"] != everyone


def test_the_table_shows_the_agents_and_fits_in_80_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--trust", str(run), "--epsilon", "0", "--max-steps", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    table = [line.split() for line in lines]
    assert ["4", "10", "3.00", "0.00", "3.00", "3.00", "3.0"] in table
    assert ["5", "10", "3.00", "0.00", "3.00", "3.00", "3.0"] in table
    assert ["all", "20", "3.00", "±", "0.00", "3.0"] in table
    assert "20 of 20 episodes were cut after 3 steps" in lines


def test_one_episode_of_one_agent_has_no_spread(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--trust", str(run), "--epsilon", "0", "--episodes", "1", "--agent", "4"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["4", "1", "7.00", "–", "7.00", "7.00", "7.0"] in table


def altered(run: Path, folder: Path, change: Any) -> Path:
    """A copy of the run whose last checkpoint went through `change`."""
    shutil.copytree(run, folder)
    engine = make_engine(configs.load(folder))
    found = checkpoint.restore_latest(folder / "checkpoints", engine.shapes())
    checkpoint.save(folder / "checkpoints", found.meta["agent_steps"], change(found.tree), found.meta)
    return folder


def test_an_agent_that_turned_nan_is_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def break_one(state: Any) -> Any:
        online = jax.tree.map(lambda x: np.where(np.arange(2).reshape(2, *[1] * (x.ndim - 1)) == 1, np.nan, x).astype(
            x.dtype), state.agents.online)  # fmt: skip
        return state._replace(agents=state.agents._replace(online=online))

    broken = altered(run, tmp_path / "run", break_one)
    assert main(["eval", "--trust", str(broken)]) == 0
    notes = [line for line in capsys.readouterr().out.splitlines() if "NaN" in line]
    assert notes == ["agent 5 has turned NaN: its actions mean nothing"]
    assert main(["play", "--trust", str(broken), "--video", str(tmp_path / "a.gif"), "--agent", "5"]) == 2
    assert capsys.readouterr().err.endswith("has turned NaN: there are no values to draw\n")
    assert not (tmp_path / "a.gif").exists()


def test_the_replay_is_not_read(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run, folder)
    path = checkpoint.latest(folder / "checkpoints")
    assert path is not None
    leaf = next(
        x for x in json.loads((path / "manifest.json").read_text())["leaves"] if x["path"].startswith(".replay")
    )
    data = bytearray((path / "arrays.bin").read_bytes())
    data[leaf["offset"]] ^= 1
    (path / "arrays.bin").write_bytes(data)
    found = evaluated(folder, "--epsilon", "0")
    assert (found["return_mean"], found["warning"]) == (7.0, None)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--episodes", "0"], "episodes = 0: must be at least 1"),
        (["--max-steps", "-3"], "max_steps = -3: must be at least 1"),
        (["--max-steps", "3000000000"], "max_steps = 3000000000: must be at least 1 and below 2³¹"),
        (["--episodes", "2000000000"], "episodes = 2000000000: must be at most 524288, with 2 agents"),
        (["--epsilon", "1.5"], "epsilon = 1.5: must be between 0 and 1"),
        (["--epsilon", "nan"], "epsilon = nan: must be between 0 and 1"),
        (["--seed", "-1"], "seed = -1: must be from 0 to 2³² − 1"),
        (["--agent", "3"], "agent = 3: this run has agents 4 to 5"),
        (["--agent", "6"], "agent = 6: this run has agents 4 to 5"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    run: Path, flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "--trust", str(run), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"lookrep: {complaint}\n"
    assert captured.out == ""


def test_folders_without_a_run_or_a_checkpoint_are_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def complaint(folder: Path) -> str:
        assert main(["eval", "--trust", str(folder)]) == 2
        return capsys.readouterr().err

    assert complaint(tmp_path / "none") == f"lookrep: {tmp_path}/none: there is no such run folder\n"
    assert complaint(tmp_path) == f"lookrep: {tmp_path}/config.json: no such file\n"
    young = tmp_path / "young"
    young.mkdir()
    data = json.loads((run / "config.json").read_text())
    (young / "config.json").write_text(json.dumps(data))
    when = "this run saves one every 250,000 steps, at its end and when it is stopped"
    assert complaint(young) == f"lookrep: {young} has no checkpoint yet: {when}\n"
    (young / "config.json").write_text(json.dumps({**data, "checkpoint_interval_steps": 0}))
    assert complaint(young) == f"lookrep: {young} has no checkpoint: it was told to save none\n"


def test_a_strangers_run_runs_no_code_unless_it_is_trusted(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules are looked for in the folder one is in, too."""
    evil, proof = tmp_path / "evil.py", tmp_path / "proof"
    evil.write_text(f"open({str(proof)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    stranger = shutil.copytree(run, tmp_path / "run")
    config = json.loads((stranger / "config.json").read_text())
    for change in ({"env": "evil:Game"}, {"settings": config["settings"] | {"network": {"network": "evil:net"}}}):
        (stranger / "config.json").write_text(json.dumps(config | {"env": "minatar/breakout"} | change))
        film = str(tmp_path / "a.gif")
        for words in (
            ["eval", "run"],
            ["play", "run", "--video", film],
            ["train", "--resume", "run"],
            ["train", "--resume", "run", "--restart"],
            ["train", "--config", "run", "--out", "new"],
        ):
            assert main(words) == 2
            said = capsys.readouterr().err
            assert f"names code to be run: {'evil:Game' if 'env' in change else 'evil:net'}; if you know it" in said
            assert said.count("\n") == 1
        with pytest.raises(UserError, match="names code to be run: evil:"):
            api.load(stranger).evaluate(1)
        with pytest.raises(UserError, match="names code to be run: evil:"):
            api.load(stranger).resume()
        assert not proof.exists()
    assert main(["eval", "run", "--trust"]) == 2
    assert "evil has no class or function 'net'" in capsys.readouterr().err
    assert proof.exists()
