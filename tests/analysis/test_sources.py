"""A run and other software's logs as results: the same numbers and page as a study's, from CSV and TensorBoard."""

from pathlib import Path

import numpy as np
import pytest
import study_results
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

from lookrep.analysis import figures, report, sources, statistics
from lookrep.analysis.scores import final_score
from lookrep.cli import main
from lookrep.errors import UserError

STEPS = np.arange(500, 10_001, 500)


def events(folder: Path, tag: str, steps: np.ndarray, scores: np.ndarray) -> None:
    folder.mkdir(parents=True)
    with open(folder / "events.out.tfevents.1700000000.host.1.0", "wb") as file:
        writer = RecordWriter(file)
        for step, score in zip(steps.tolist(), scores.tolist(), strict=True):
            value = {"tag": tag, "simple_value": score}
            writer.write(Event(step=step, summary={"value": [value]}).SerializeToString())
        writer.write(
            Event(step=1, summary={"value": [{"tag": "losses/td_loss", "simple_value": 9.0}]}).SerializeToString()
        )
        file.write(b"\x05\x00")  # torn


@pytest.fixture
def run(tmp_path: Path) -> Path:
    asked = study_results.study(("minatar/breakout",), {"hard": {"target": "hard"}}, seeds=2)
    folder = study_results.write(study_results.results(asked), tmp_path / "study")
    return folder / "populations" / "minatar_breakout--hard"


def test_a_run_is_a_study_of_its_agents(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = sources.load(run)
    assert [(m.env, m.seed, m.status) for m in found.members] == [("minatar/breakout", s, "finished") for s in (0, 1)]
    assert final_score(found.members[1], 100_000) == pytest.approx(11 * 0.975)
    assert figures.suitable(found) == ("curve", "fig5", "gap", "agreement", "residual")
    assert main(["figure", "curve", str(run), "-o", str(tmp_path / "curve.svg"), "--steps", "50_000"]) == 0
    assert (tmp_path / "curve.csv").read_text().count("\n") == 1 + 2 * 10
    assert main(["report", str(run)]) == 0
    page = (run / "report.html").read_text()
    assert "Every setting of rainbow, hard (config.json)" in page
    assert 'id="figure-curve"' in page
    assert "nothing to compare it with" not in page
    assert "<dt>Agents finished</dt><dd>2 of 2</dd>" in page
    assert "interval over 2 agents." in page
    assert "Nothing: all 2 agents finished" in page
    assert "over seeds" not in page
    assert "2 seeds" not in page
    with pytest.raises(UserError, match="cannot be drawn from this run: it has no Replicate variants"):
        figures.draw("fig4", found)


def test_a_page_with_the_gap_draws_it_once(run: Path) -> None:
    found = sources.load(run)
    alone, with_gap = (figures.draw("curve", found, beside=beside)[0] for beside in ((), figures.suitable(found)))
    assert [axes.get_ylabel().partition(" $")[0] for axes in alone.axes] == ["return of an episode", "function gap"]
    assert [axes.get_ylabel() for axes in with_gap.axes] == ["return of an episode"]


def test_a_csv_of_others_has_the_same_statistics(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    rows = ["run,step,score,env,variant"]
    for variant, level in (("dqn", 10.0), ("lr", 20.0)):
        for run in range(2):
            rows += [f"{variant}{run},{step},{level + run},Pong,{variant}" for step in STEPS]
    rows += ["broken,500,1.0,Pong,lr"]
    path.write_text("\n".join(rows))
    found = sources.load(path)
    assert (found.study.steps, found.study.seeds, found.study.environments) == (10_000, 3, ("Pong",))
    assert [m.status for m in found.members] == ["finished"] * 2 + ["missing"] + ["finished"] * 2 + ["unfinished"]
    headline = statistics.headline(found, resamples=100)
    assert [score.iqm.value for score in headline.variants] == pytest.approx([1, 20.5 / 10.5])
    assert len(headline.excluded) == 2
    assert main(["report", str(path)]) == 0
    page = path.with_suffix(".html").read_text()
    assert {name for name in figures.NAMES if f'id="figure-{name}"' in page} == {
        "fig2", "fig7", "profiles", "improvement",
    }  # fmt: skip
    assert sources.load(path, steps=5_000).members[0].columns["agent_steps"][-1] == 5_000
    assert [v.name for v in sources.load(path, variants=["lr"]).study.variants] == ["lr"]


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("charts/episodic_return", ("CartPole-v1__dqn__1__17", "CartPole-v1__dqn__2__18", "CartPole-v1__lr__1__19")),
        ("rollout/ep_rew_mean", ("CartPole-v1/dqn_1", "CartPole-v1/dqn_10", "CartPole-v1/lr_1")),
    ],
    ids=["CleanRL", "Stable-Baselines3"],
)
def test_tensorboard_folders_of_others(tag: str, names: tuple[str, ...], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        events(tmp_path / name, tag, STEPS, np.full(len(STEPS), 10.0 + number))
    found = sources.load(tmp_path)
    assert found.study.environments == ("CartPole-v1",)
    assert [(m.variant, m.seed, m.status) for m in found.members] == [
        ("dqn", 0, "finished"), ("dqn", 1, "finished"), ("lr", 0, "finished"), ("lr", 1, "missing"),
    ]  # fmt: skip
    assert [final_score(m, 10_000) for m in found.members[:3]] == [10.0, 11.0, 12.0]
    assert "fig2" in figures.suitable(found)
    assert "<h1>" in report.build(found)


def test_what_is_no_log_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    events(tmp_path / "others", "train/loss", STEPS, STEPS)
    (tmp_path / "a.csv").write_text("run,step,reward\n0,1,1\n")
    (tmp_path / "b.csv").write_text("run,step,score\n0,1,high\n")
    for name, words in {
        "empty": "is no study: it has no study.toml",
        "nowhere": "there is no such folder",
        "others": "no scalar charts/episodic_return or rollout/ep_rew_mean",
        "a.csv": "the column 'score' is missing",
        "b.csv": "line 2: step and score must be numbers",
    }.items():
        with pytest.raises(UserError, match=words) as error:
            sources.load(tmp_path / name)
        assert "\n" not in str(error.value)
