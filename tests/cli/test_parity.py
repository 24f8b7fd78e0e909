"""`lookrep parity`: scores by iteration, against a reference that is made here."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from lookrep import config as configs
from lookrep.analysis import parity
from lookrep.cli import main
from lookrep.config import RunConfig
from lookrep.runs import metrics


def made_run(
    folder: Path, env: str, returns: dict[str, list[list[tuple[int, float]]]], interval: int = 125_000
) -> Path:
    """A run whose agents ended so many episodes with such a mean return in each interval."""
    games = list(returns)
    agents = sum(len(of_game) for of_game in returns.values())
    config = RunConfig(env, "rainbow", agents, steps=500_000, log_interval_steps=interval)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(configs.to_json(config)))
    numbers = [(game, i) for game in games for i in range(len(returns[game]))]
    with metrics.MetricsWriter(folder) as writer:
        for k in range(len(returns[games[0]][0])):
            here = [returns[game][i][k] for game, i in numbers]
            columns = {name: np.zeros(agents) for name in metrics.MEASURES} | {
                name: np.zeros(agents, int) for name in metrics.COUNTERS
            }
            columns |= {
                "agent": np.array([i for _, i in numbers]),
                "agent_steps": np.full(agents, (k + 1) * interval),
                "episodes": np.array([count for count, _ in here]),
                "return_mean": np.array([mean if count else np.nan for count, mean in here]),
                "diverged": np.zeros(agents, bool),
            }
            if len(games) > 1:
                columns["env"] = np.array([game for game, _ in numbers])
            writer.write(columns)
    return folder


def made_reference(path: Path, rows: list[tuple[str, str, int, int, float]]) -> Path:
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["variant", "game", "run", "iteration", "avg_return"])
        writer.writerows(rows)
    return path


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    breakout = [("tf", "breakout", run, 0, score) for run, score in enumerate((1.0, 2.0, 3.0))]
    later = [("tf", "breakout", run, 1, score) for run, score in enumerate((10.0, 12.0))]
    other = [("jax", "breakout", 0, 0, 100.0), ("tf", "roadrunner", 0, 0, 5.0), ("tf", "roadrunner", 1, 0, 6.0)]
    return made_reference(tmp_path / "published.csv.gz", breakout + later + other)


def test_a_score_is_the_sum_of_returns_over_the_number_of_episodes(tmp_path: Path) -> None:
    # (10 · 1 + 30 · 5) / 40 in the first iteration; nothing ended in one interval of the second
    run = made_run(tmp_path / "run", "atari/Breakout", {"atari/Breakout": [[(10, 1.0), (30, 5.0), (0, 0.0), (4, 7.0)]]})
    found = parity.scores(run)
    assert found == {("atari/Breakout", 0): [4.0], ("atari/Breakout", 1): [7.0]}


def test_an_unfinished_iteration_does_not_count(tmp_path: Path) -> None:
    run = made_run(tmp_path / "run", "atari/Breakout", {"atari/Breakout": [[(1, 1.0), (1, 1.0), (1, 50.0)]]})
    assert list(parity.scores(run)) == [("atari/Breakout", 0)]


def test_means_are_inside_below_or_above_the_published_range(
    tmp_path: Path, reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(
        tmp_path / "run",
        "atari/Breakout,RoadRunner",
        {
            "atari/Breakout": [[(1, 2.0), (1, 2.0), (1, 5.0), (1, 5.0)], [(1, 4.0), (1, 3.0), (1, 6.0), (1, 6.0)]],
            "atari/RoadRunner": [[(1, 9.0)] * 4, [(1, 9.0)] * 4],
        },
    )
    words = ["parity", str(run), "--reference", str(reference), "--variant", "tf"]
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(r["game"], r["iteration"], r["ours"], r["verdict"]) for r in rows] == [
        ("Breakout", 0, 2.75, "inside"),
        ("Breakout", 1, 5.5, "below"),
        ("RoadRunner", 0, 9.0, "above"),
        ("RoadRunner", 1, 9.0, "no reference"),
    ]
    assert (rows[0]["ours_low"], rows[0]["ours_high"], rows[0]["theirs_low"], rows[0]["theirs_high"]) == (2, 3.5, 1, 3)
    assert main([*words, "--figure", str(tmp_path / "parity.png")]) == 0
    said = capsys.readouterr().out
    assert "1 of 3 means lie inside" in said
    assert (tmp_path / "parity.png").stat().st_size > 5000


def test_several_runs_of_a_game_are_taken_together(tmp_path: Path, reference: Path) -> None:
    runs = [
        made_run(tmp_path / name, "atari/Breakout", {"atari/Breakout": [[(1, score), (1, score)]]})
        for name, score in (("a", 1.0), ("b", 3.0))
    ]
    (found,) = parity.compare(runs, reference, "tf")
    np.testing.assert_array_equal(found.ours, [1.0, 3.0])
    assert found.verdict == "inside"


def test_variants_are_compared_one_by_one(tmp_path: Path, reference: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path / "run", "atari/Breakout", {"atari/Breakout": [[(1, 2.0), (1, 2.0)]]})
    found = parity.compare([run], reference)
    assert [(c.variant, len(c.theirs), c.verdict) for c in found] == [("tf", 3, "inside"), ("jax", 1, "below")]
    assert main(["parity", str(run), "--reference", str(reference), "--figure", str(tmp_path / "both.png")]) == 0
    said = capsys.readouterr().out
    assert "1 of 1 means lie inside the published range of tf." in said
    assert "0 of 1 means lie inside the published range of jax." in said
    assert (tmp_path / "both.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--reference", "missing.csv"], "missing.csv: no such file"),
        (["--reference", "wrong.csv"], "column 'run' is missing"),
        (["--reference", "bad.csv"], "bad.csv line 2: not a score"),
        (["--reference", "good.csv", "--variant", "torch"], "has no scores of variant 'torch'"),
        (["--reference", "plain.csv", "--variant", "tf"], "has no scores of variant 'tf'"),
        (["--reference", "good.csv", "--figure", "out.txt"], "out.txt"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made_run(tmp_path / "run", "atari/Breakout", {"atari/Breakout": [[(1, 1.0), (1, 1.0)]]})
    (tmp_path / "wrong.csv").write_text("game,iteration,avg_return\nbreakout,0,1\n")
    (tmp_path / "bad.csv").write_text("game,run,iteration,avg_return\nbreakout,0,zero,1\n")
    (tmp_path / "plain.csv").write_text("game,run,iteration,avg_return\nbreakout,0,0,1\n")
    (tmp_path / "good.csv").write_text("variant,game,run,iteration,avg_return\ntf,breakout,0,0,1\n")
    assert main(["parity", "run", *words]) == 2
    said = capsys.readouterr().err
    assert said.startswith("lookrep: ")
    assert said.count("\n") == 1
    assert expected in said


def test_intervals_must_fill_an_iteration(tmp_path: Path, reference: Path) -> None:
    run = made_run(tmp_path / "run", "atari/Breakout", {"atari/Breakout": [[(1, 1.0)] * 3]}, interval=100_000)
    with pytest.raises(parity.UserError, match="does not divide an iteration"):
        parity.compare([run], reference)
