"""Agents of runs on the host at play: their scores are known, their episodes repeat, and the film shows the game."""

import contextlib
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from PIL import Image

from lookrep import config as configs
from lookrep import playing
from lookrep.agents import Agent, AgentState
from lookrep.cli import main
from lookrep.config import AgentConfig, LearningConfig, NetworkConfig, ReplayConfig, RunConfig, TargetConfig
from lookrep.envs import host as host_envs
from lookrep.envs.host.serial import episode_seed
from lookrep.networks import Network
from lookrep.playing import host
from lookrep.runs import checkpoint
from lookrep.video.film import labels
from lookrep.video.frames import LEFT, TOP, Film

EPISODE_STEPS = 7


class Button(gymnasium.Env):
    """Action 1 earns 1, others nothing; after seven steps it is over. Its picture counts the steps in grey."""

    observation_space = Box(-1, 2, (3,), np.float32)
    action_space = Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.steps, self.luck = 0, float(self.np_random.uniform(-1, 1))
        return self.observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in range(self.action_space.n)
        self.steps += 1
        return self.observation(), float(action == 1), False, self.steps >= EPISODE_STEPS, {}

    def observation(self) -> np.ndarray:
        return np.array([self.steps / EPISODE_STEPS, 1.0, self.luck], np.float32)

    def render(self) -> np.ndarray:
        return np.full((20, 30, 3), self.steps, np.uint8)


class Buttons(Button):
    """Five of them, each of which earns its number and the episode's luck."""

    action_space = Discrete(5)

    def __init__(self, render_mode: str | None = None) -> None:
        pass

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        observation, _, *rest = super().step(action)
        return observation, action + self.luck, *rest


class Stuck(Button):
    """Cannot be stepped."""

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        raise ZeroDivisionError("the button\nis stuck")


class Few(Buttons):
    action_space = Discrete(2)


TRAIN = """
train test_playing_host:Button --agent dqn --network mlp:16 --agents 2 --first-agent 4 --groups 2 --steps 1200
--warmup-steps 200 --log-interval-steps 1200 --replay-capacity-steps 1000 --learning-rate 0.01 --discount 0.5
--target-period-updates 5000 --quiet --out
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Path:
    """Two agents, trained in two groups until they press the button."""
    folder: Path = tmp_path_factory.mktemp("button") / "run"
    assert main([*TRAIN.split(), str(folder)]) == 0
    return folder


class Saved(NamedTuple):
    """What playing reads of a checkpoint."""

    agents: AgentState


def fresh(folder: Path, config: RunConfig) -> Path:
    """A run of untrained networks: training takes long to compile."""
    spaces = [host_envs.check(game) for game in config.games]
    stack = (4,) if config.env.startswith("atari/") else ()
    shape = (*stack, *spaces[0].observation_shape)
    agent = Agent(config.settings, shape, max(s.num_actions for s in spaces))
    agents = jax.vmap(agent.init)(jax.random.split(jax.random.key(0), config.agents))
    checkpoint.save(folder / "checkpoints", 0, Saved(agents), {"agent_steps": 0})
    (folder / "config.json").write_text(json.dumps(configs.to_json(config)))
    return folder


def settings(network: str) -> AgentConfig:
    """Online and target network differ from the start."""
    return AgentConfig(
        network=NetworkConfig(network=network),
        learning=LearningConfig(head="c51", atoms=21, v_min=-1.0, v_max=9.0),
        replay=ReplayConfig(replay_capacity_steps=400),
        target=TargetConfig(target_init="independent"),
    )


@pytest.fixture(scope="module")
def two_games(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Iterator[Path]:
    """Three agents in a game of five actions, three in one of two."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
        gymnasium.register("Buttons-v0", f"{__name__}:Buttons")
        gymnasium.register("Few-v0", f"{__name__}:Few")
        folder: Path = tmp_path_factory.mktemp("two") / "run"
        config = RunConfig("gym/Buttons-v0,Few-v0", agents=6, first_agent=2, groups=3, settings=settings("mlp:16"))
        yield fresh(folder, config)


@pytest.fixture(scope="module")
def atari(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Path:
    config = RunConfig("atari/Breakout,Freeway", agents=2, workers=0, settings=settings("nature:8"))
    return fresh(tmp_path_factory.mktemp("atari") / "run", config)


def evaluated(run: Path, *flags: str) -> Any:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["eval", "--trust", str(run), "--json", *flags]) == 0
    return json.loads(out.getvalue())


def values(agent: Agent, network: Network, params: Any, observations: np.ndarray) -> np.ndarray:
    """What a network of the first agent says, of all its outputs."""
    first = jax.tree.map(lambda x: jnp.asarray(x[0]), params)
    return np.asarray(agent.head.values(network.apply(first, jnp.asarray(observations), None).per_action))


# ---- scores


def test_agents_that_learned_the_button_earn_all_there_is(run: Path) -> None:
    found = evaluated(run, "--episodes", "5", "--epsilon", "0")
    assert [agent["agent"] for agent in found["agents"]] == [4, 5]
    for agent in found["agents"]:
        assert agent["returns"] == [7.0] * 5
        assert (agent["length_mean"], agent["cut_episodes"], agent["diverged"]) == (7, 0, False)
    assert (found["return_mean"], found["return_standard_error"]) == (7.0, 0.0)
    assert (found["agent_steps"], found["max_steps"]) == (1200, 10_000)


def test_epsilon_one_is_a_coin_in_every_wave_of_episodes(run: Path) -> None:
    found = evaluated(run, "--episodes", "300", "--epsilon", "1")
    for agent in found["agents"]:
        # binomial(7, 1/2): mean 3.5, standard deviation 1.323, so the mean of 300 lies within 4 · 0.076
        assert agent["return_mean"] == pytest.approx(3.5, abs=0.31)
        assert agent["return_std"] == pytest.approx(1.323, abs=0.22)
    one, other = (agent["returns"] for agent in found["agents"])
    assert one != other
    assert one[:32] != one[32:64]


def test_an_episode_depends_on_seed_agent_and_number_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--epsilon", "0.5", "--episodes", "7")
    everyone = evaluated(run, *flags)["agents"]
    for environments, parts in ((1, 64), (6, 64), (64, 3)):  # one wave per episode; waves of three; three in a part
        monkeypatch.setattr(host, "MOST_ENVIRONMENTS", environments)
        monkeypatch.setattr(host, "MOST_PARTS", parts)
        assert evaluated(run, *flags)["agents"] == everyone
    assert evaluated(run, *flags, "--agent", "5")["agents"] == everyone[1:]
    assert evaluated(run, *flags, "--seed", "1")["agents"] != everyone


def test_worker_processes_play_the_same_episodes(run: Path) -> None:
    trained = playing.load(run)
    in_processes = trained._replace(config=configs.replace(trained.config, workers=2))
    here, there = (playing.play_episodes(t, 4, epsilon=0.5, seed=0, max_steps=5) for t in (trained, in_processes))
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (here.lengths == 5).all()
    assert not here.ended.any()


def test_one_can_watch_how_far_the_episodes_are(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two agents, three episodes of seven steps each, two environments at a time."""
    monkeypatch.setattr(host, "MOST_ENVIRONMENTS", 2)
    seen: list[playing.Standing] = []
    playing.play_episodes(playing.load(run), 3, epsilon=0.0, seed=0, max_steps=100, watch=seen.append)
    assert [now.steps for now in seen] == 3 * [1, 2, 3, 4, 5, 6, 7]
    assert [now.over for now in seen] == 6 * [0] + 7 * [2] + 7 * [4] + [6]
    assert {now.of for now in seen} == {6}


def test_episodes_are_not_those_of_the_training(run: Path) -> None:
    trained = playing.choose(playing.load(run), 4)
    seen = playing.record(trained, max_episodes=1, max_steps=1, epsilon=0, seed=trained.config.seed).observations[0]
    env = host_envs.make("test_playing_host:Button")
    assert env.reset(episode_seed(trained.config.seed, 4, 0))[2] != seen[2]


def test_agents_are_read_in_their_order_whatever_groups_they_were_trained_in(run: Path) -> None:
    path = checkpoint.latest(run / "checkpoints")
    assert path is not None
    leaves = json.loads((path / "manifest.json").read_text())["leaves"]
    data = (path / "arrays.bin").read_bytes()
    trained = playing.load(run)
    for name, params in ((".online", trained.online), (".target.params", trained.target)):
        both = jax.tree.leaves(params)[0]  # agent 4 is group 0, agent 5 is group 1
        leaf = next(x for x in leaves if x["path"].startswith(f".agents{name}"))
        stored = np.frombuffer(data, np.float32, both.size, leaf["offset"])
        np.testing.assert_array_equal(both, stored.reshape(both.shape))


# ---- several games


def test_scores_of_different_games_are_never_averaged(two_games: Path) -> None:
    found = evaluated(two_games, "--episodes", "2")
    assert [(a["game"], a["agent"]) for a in found["agents"]] == [
        (game, number) for game in ("gym/Buttons-v0", "gym/Few-v0") for number in (2, 3, 4)
    ]
    assert [(game["game"], game["agents"]) for game in found["games"]] == [("gym/Buttons-v0", 3), ("gym/Few-v0", 3)]
    for game in found["games"]:
        means = [agent["return_mean"] for agent in found["agents"] if agent["game"] == game["game"]]
        assert game["return_mean"] == pytest.approx(np.mean(means))
        assert game["return_standard_error"] == pytest.approx(np.std(means, ddof=1) / np.sqrt(3))
    assert (found["return_mean"], found["return_standard_error"]) == (None, None)
    few = evaluated(two_games, "--episodes", "2", "--game", "few-V0")
    assert few["agents"] == found["agents"][3:]
    assert few["return_mean"] == found["games"][1]["return_mean"]
    both = evaluated(two_games, "--episodes", "2", "--agent", "3")
    assert both["agents"] == found["agents"][1::3]


def test_the_table_has_a_part_for_each_game(two_games: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--trust", str(two_games), "--episodes", "3", "--epsilon", "1", "--max-steps", "4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    firsts = [line.split()[0] for line in lines if line.strip()]
    start = firsts.index("Buttons-v0")
    assert firsts[start : start + 8] == ["Buttons-v0", "3", "4", "all", "Few-v0", "3", "4", "all"]
    assert lines[-2].startswith("3 episodes each, online network, epsilon 1, seed 0; ± is the standard error over")
    assert lines[-1] == "18 of 18 episodes were cut after 4 steps"


def test_agents_never_choose_an_action_that_their_game_lacks(two_games: Path) -> None:
    trained = playing.load(two_games)
    tempted = 0
    for number in (2, 3, 4):
        one = playing.choose(trained, number, "Few-v0")
        greedy = playing.record(one, max_episodes=3, max_steps=100, epsilon=0.0, seed=0)
        assert greedy.online_values.shape[1] == greedy.target_values.shape[1] == 2
        np.testing.assert_array_equal(greedy.actions, greedy.online_values.argmax(axis=1))
        unmasked = values(one.agent, one.agent.online, one.online, greedy.observations)
        tempted += int((unmasked.argmax(axis=1) > 1).sum())
        chance = playing.record(one, max_episodes=3, max_steps=100, epsilon=1.0, seed=0)
        assert set(chance.actions.tolist()) == {0, 1}
    assert tempted > 0, "some network should like an action best that does not exist"
    playing.play_episodes(trained, 2, epsilon=0.5, seed=0, max_steps=100)  # the games refuse what they do not know


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--game", "Botton-v0"], "game 'Botton-v0' is not in this run: did you mean Buttons-v0?"),
        (["--game", "pong"], "game 'pong' is not in this run: this run has Buttons-v0, Few-v0"),
        (["--agent", "5"], "agent = 5: this run has agents 2 to 4"),
    ],
)
def test_a_mistake_is_one_line(
    two_games: Path, flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for command in (
        ["eval", "--trust", str(two_games)],
        ["play", "--trust", str(two_games), "--video", str(tmp_path / "a.gif")],
    ):
        assert main([*command, *flags]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", f"lookrep: {complaint}\n")
    assert list(tmp_path.iterdir()) == []


# ---- films


def test_the_film_shows_the_episodes_that_eval_counts(run: Path) -> None:
    trained = playing.choose(playing.load(run), 5)
    recording = playing.record(trained, max_episodes=None, max_steps=25, epsilon=0.5, seed=3)
    played = playing.play_episodes(trained, 3, epsilon=0.5, seed=3, max_steps=100)
    assert np.bincount(recording.episodes).tolist() == [7, 7, 7, 4]
    assert np.flatnonzero(recording.ends).tolist() == [6, 13, 20]
    assert np.bincount(recording.episodes, recording.rewards)[:3].tolist() == played.returns[0].tolist()
    assert played.lengths[0].tolist() == [7, 7, 7]
    steps = np.arange(25) % EPISODE_STEPS
    np.testing.assert_allclose(recording.observations[:, 0], steps / EPISODE_STEPS, atol=1e-6)
    assert recording.screens is not None
    assert [recording.screens[t].tolist() for t in range(25)] == [np.full((20, 30, 3), k).tolist() for k in steps]
    assert len(set(recording.observations[:, 2].tolist())) == 4, "every episode has its own luck"


def test_the_film_has_the_luck_that_eval_had(two_games: Path) -> None:
    trained = playing.choose(playing.load(two_games), 3, "Few-v0")
    recording = playing.record(trained, max_episodes=3, max_steps=100, epsilon=0.5, seed=3)
    everyone = playing.play_episodes(playing.load(two_games), 3, epsilon=0.5, seed=3, max_steps=100)
    np.testing.assert_allclose(np.bincount(recording.episodes, recording.rewards), everyone.returns[4], rtol=1e-5)
    assert len(set(everyone.returns.reshape(-1).tolist())) == 18


def test_an_environment_that_fails_is_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The agents were trained in another one, which would be refused first.
    monkeypatch.setattr("lookrep.runs.versions.check_settings", lambda *_: None)
    (tmp_path / "run").mkdir()
    saved = shutil.copytree(run / "checkpoints", tmp_path / "run" / "checkpoints")
    for file in saved.glob("*/manifest.json"):  # otherwise it would be noticed that this is another environment
        body = json.loads(file.read_text())
        del body["crc32"], body["meta"]["settings"]["env"]
        file.write_text(json.dumps({**body, "crc32": checkpoint._manifest_crc(body)}))
    config = json.loads((run / "config.json").read_text()) | {"env": "test_playing_host:Stuck"}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    for command in (
        ["eval", "--trust", str(tmp_path / "run")],
        ["play", "--trust", str(tmp_path / "run"), "--video", str(tmp_path / "a.gif")],
    ):
        assert main(command) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert error.startswith("lookrep: test_playing_host:Stuck failed for agent 4 in episode 0 (ZeroDivisionError")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_run_without_a_checkpoint_is_named(
    two_games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text((two_games / "config.json").read_text())
    assert main(["eval", "--trust", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"lookrep: {tmp_path} has no checkpoint yet: this run saves one every")


# ---- Atari


@pytest.fixture(scope="module")
def breakout(atari: Path) -> tuple[playing.Trained, playing.Recording]:
    """More than an episode of random play: five balls are soon lost."""
    trained = playing.choose(playing.load(atari), 0, "breakout")
    return trained, playing.record(trained, max_episodes=None, max_steps=330, epsilon=1.0, seed=1)


def test_the_recording_is_the_game_that_these_actions_play(
    breakout: tuple[playing.Trained, playing.Recording],
) -> None:
    trained, recording = breakout
    assert recording.ends.any()
    assert recording.screens is not None
    env = host_envs.make("atari/Breakout")
    stacks = []
    for t, action in enumerate(recording.actions):
        if t == 0 or recording.ends[t - 1]:
            stack = np.zeros((4, 84, 84), np.uint8)
            frame = env.reset(episode_seed(host._environment_seed(1), 0, int(recording.episodes[t])))
        np.testing.assert_array_equal(recording.observations[t], frame)
        np.testing.assert_array_equal(recording.screens[t], env.screen())
        stack = np.concatenate([stack[1:], frame[None]])
        stacks.append(stack)
        frame, reward, terminated, truncated, _ = env.step(int(action))
        assert (recording.rewards[t], recording.ends[t]) == (reward, terminated or truncated)
    # Both networks saw the last four frames of the episode, with zeros before its first.
    last = int(np.flatnonzero(recording.ends)[0])
    rows = [0, 1, 50, last, last + 1, last + 2]
    seen = np.stack([stacks[t] for t in rows])
    for network, params, said in (
        (trained.agent.online, trained.online, recording.online_values),
        (trained.agent.target, trained.target, recording.target_values),
    ):
        np.testing.assert_allclose(said[rows], values(trained.agent, network, params, seen), atol=1e-4)
    assert recording.function_gap.min() > 1e-3, "the two networks should differ in this test"


def test_eval_counts_the_same_atari_episode(breakout: tuple[playing.Trained, playing.Recording]) -> None:
    trained, recording = breakout
    played = playing.play_episodes(trained, 1, epsilon=1.0, seed=1, max_steps=27_000)
    first = recording.episodes == 0
    assert played.returns[0, 0] == recording.rewards[first].sum()
    assert (played.lengths[0, 0], played.ended[0, 0]) == (first.sum(), True)


def test_the_film_shows_the_screen_and_names_the_moves(breakout: tuple[playing.Trained, playing.Recording]) -> None:
    trained, recording = breakout
    words = labels(trained)
    assert words.title == "atari/Breakout · rainbow · target: hard"
    assert words.actions == ("no-op", "fire", "right", "left")
    film = Film(recording, words)
    assert recording.screens is not None
    view = np.asarray(film.frame(40))[TOP : TOP + 420, LEFT : LEFT + 320]
    np.testing.assert_array_equal(view, recording.screens[40].repeat(2, axis=0).repeat(2, axis=1))


def test_the_second_game_is_filmed_on_request(atari: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.gif"
    assert main(["play", "--trust", str(atari), "--video", str(path), "--game", "Freeway", "--max-steps", "5"]) == 0
    with Image.open(path) as gif:
        assert (gif.n_frames, gif.size) == (5, (800, 570))
    assert capsys.readouterr().out.startswith(f"{path}: agent 0 in atari/Freeway, 5 frames, ")
