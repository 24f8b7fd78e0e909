"""`lookrep play` on a real run: the film shows what the networks say, of the episodes that `lookrep eval` plays."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from lookrep import config as configs
from lookrep import playing
from lookrep.cli import main
from lookrep.config import AgentConfig, LearningConfig, NetworkConfig, ReplayConfig, RunConfig, TargetConfig
from lookrep.envs import minatar
from lookrep.runs import checkpoint
from lookrep.training.engines import make_engine
from lookrep.training.fused import FusedEngine
from lookrep.video.film import MOVES, labels
from lookrep.video.frames import HEIGHT, WIDTH, Film

# Networks of different sizes, so that they differ from the start.
CONFIG = RunConfig(
    env="minatar/breakout",
    agent="c51",
    agents=2,
    settings=AgentConfig(
        network=NetworkConfig(network="cnn4:16", target_network="cnn2:8"),
        learning=LearningConfig(head="c51", atoms=21, v_min=-1.0, v_max=9.0),
        replay=ReplayConfig(replay_capacity_steps=400),
        target=TargetConfig(target="replicate"),
    ),
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, quick_compilation: None) -> Path:
    """A run at its first step: what is claimed here is true of fresh networks too, and training is slow to compile."""
    folder: Path = tmp_path_factory.mktemp("play") / "run"
    checkpoint.save(folder / "checkpoints", 0, make_engine(CONFIG).init(), {"agent_steps": 0})
    (folder / "config.json").write_text(json.dumps(configs.to_json(CONFIG)))
    return folder


@pytest.fixture(scope="module")
def recorded(run: Path) -> tuple[playing.Trained, playing.Recording]:
    trained = playing.choose(playing.load(run), 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(playing.device, "CHUNK_STEPS", 7)  # episodes run over the end of a chunk
        return trained, playing.record(trained, max_episodes=None, max_steps=40, epsilon=0.25, seed=3)


def test_what_is_drawn_is_what_both_networks_say(
    run: Path, recorded: tuple[playing.Trained, playing.Recording]
) -> None:
    trained, recording = recorded
    engine = make_engine(configs.load(run))
    assert isinstance(engine, FusedEngine)
    state = checkpoint.restore_latest(run / "checkpoints", engine.shapes()).tree
    agent = jax.tree.map(lambda x: jnp.asarray(x[1]), state.agents)
    film = Film(recording, labels(trained))
    support = np.linspace(-1, 9, 21)
    assert film.rows.edges is not None
    first = round((film.rows.edges[0] + 0.25 + 1) / 0.5)  # atoms are 0.5 apart, edges half-way between them
    shown = slice(first, first + len(film.rows.edges) - 1)
    for network, params, values, weights in (
        (engine.agent.online, agent.online, film.rows.online_values, film.rows.online_weights),
        (engine.agent.target, agent.target.params, film.rows.target_values, film.rows.target_weights),
    ):
        logits = np.asarray(network.apply(params, jnp.asarray(recording.observations), None).per_action, np.float64)
        chance = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        assert weights is not None
        np.testing.assert_allclose(weights, chance[..., shown], atol=1e-5)
        np.testing.assert_allclose(values, chance @ support, atol=1e-4)
    assert recording.function_gap.min() > 1e-3, "the two networks should differ in this test"


def test_the_action_taken_is_the_greedy_one_unless_chance_has_it(
    recorded: tuple[playing.Trained, playing.Recording],
) -> None:
    _, recording = recorded
    greedy = recording.actions == recording.online_values.argmax(axis=1)
    assert 0.6 < greedy.mean() < 1  # epsilon 0.25 with three actions: 5 in 6 on average, of 40


def test_the_frames_are_the_game_that_these_actions_play(recorded: tuple[playing.Trained, playing.Recording]) -> None:
    _, recording = recorded
    channels = minatar.make("breakout").rules.channels
    starts = np.flatnonzero(np.diff(recording.episodes, prepend=-1))
    assert len(starts) > 1
    assert recording.ends.sum() in (len(starts) - 1, len(starts))
    for t in range(len(recording.actions)):
        board = recording.observations[t]
        assert board[9, :, channels.index("paddle")].sum() == 1
        bricks = board[..., channels.index("brick")].sum()
        if t in starts:
            assert bricks == 30
            assert board[9, 4, channels.index("paddle")]
        else:
            lost = recording.observations[t - 1][..., channels.index("brick")].sum() - bricks
            assert lost == recording.rewards[t - 1]


def test_the_film_shows_the_episodes_that_eval_counts(
    recorded: tuple[playing.Trained, playing.Recording],
) -> None:
    trained, recording = recorded
    played = playing.play_episodes(trained, 8, epsilon=0.25, seed=3, max_steps=1000)
    over = int(recording.ends.sum())
    assert np.bincount(recording.episodes, recording.rewards)[:over].tolist() == played.returns[0, :over].tolist()
    assert np.bincount(recording.episodes)[:over].tolist() == played.lengths[0, :over].tolist()


def test_the_gif_has_a_frame_per_step_and_the_summary_says_so(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "films" / "a.gif"
    assert main(["play", str(run), "--video", str(path), "--max-steps", "12", "--fps", "20", "--epsilon", "0"]) == 0
    with Image.open(path) as gif:
        assert (gif.n_frames, gif.size, gif.info["duration"]) == (12, (WIDTH, HEIGHT), 50)
    assert list(path.parent.iterdir()) == [path]
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith(f"{path}: agent 0, 12 frames, ")


def test_one_episode_is_played_to_its_end(
    run: Path,
    recorded: tuple[playing.Trained, playing.Recording],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "a.gif"
    assert main(["play", str(run), "--video", str(path), "--epsilon", "0.25", "--agent", "1", "--seed", "3"]) == 0
    first = recorded[1].episodes == 0
    with Image.open(path) as gif:
        assert gif.n_frames == first.sum()
    assert capsys.readouterr().out.endswith(f"return {recorded[1].rewards[first].sum():g}\n")


def test_minatar_actions_carry_the_originals_names_in_its_order() -> None:
    original = pytest.importorskip("minatar")
    for game in minatar.GAMES:
        env = original.Environment(game)
        letters = [env.env.action_map[i] for i in env.minimal_action_set()]
        assert list(minatar.make(game).rules.actions) == letters
        assert all(MOVES[letter][0] == letter for letter in letters)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--video", "a.avi"], "video 'a.avi': the name should end in .gif or .mp4"),
        (["--video", "config.json/a.gif"], "video 'config.json/a.gif' cannot be written: "),
        (["--video", "a.gif", "--agent", "2"], "agent = 2: this run has agents 0 to 1"),
        (["--video", "a.gif", "--fps", "0"], "fps = 0: must be from 1 to 50"),
        (["--video", "a.gif", "--episodes", "0"], "episodes = 0: must be at least 1"),
        (["--video", "a.gif", "--max-steps", "0"], "max_steps = 0: must be at least 1"),
        (["--video", "a.gif", "--max-steps", "60000"], "max_steps = 60000: must be at most 50000 for a film"),
        (["--video", "a.gif", "--epsilon", "-1"], "epsilon = -1.0: must be between 0 and 1"),
    ],
)
def test_a_mistake_is_one_line_status_2_and_no_file(
    run: Path, flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    before = sorted(run.iterdir())
    assert main(["play", str(run), *flags]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"lookrep: {complaint}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(run.iterdir()) == before
