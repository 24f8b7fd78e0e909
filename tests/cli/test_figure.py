"""`lookrep figure` as its users meet it: a picture, its numbers beside it, and one line for a mistake."""

import csv
from pathlib import Path

import pytest
import study_results

from lookrep.analysis import figures
from lookrep.cli import figure
from lookrep.errors import UserError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = study_results.study(("minatar/breakout",), seeds=2)
    level = lambda env, variant, seed: 10.0 + len(variant) + seed  # noqa: E731
    return study_results.write(study_results.results(asked, level, rows=10), tmp_path_factory.mktemp("study") / "s")


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_a_figure_and_its_numbers_land_side_by_side(
    kind: str, start: bytes, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "new" / f"fig2.{kind}"
    assert figure.main(["fig2", str(folder), "-o", str(path)]) == 0
    assert path.read_bytes().startswith(start)
    assert capsys.readouterr().out == f"{path} and fig2.csv\n"
    with path.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 10  # variants × intervals
    assert set(rows[0]) >= {"environment", "variant", "agent_steps", "mean", "low", "high", "runs"}
    last = [row for row in rows if row["variant"] == "hard"][-1]
    assert (float(last["agent_steps"]), float(last["mean"]), last["runs"]) == (100_000, 14.5, "2")


def test_the_axis_can_be_chosen(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "fig2.png"
    assert figure.main(["fig2", str(folder), "-o", str(path), "--axis", "gradient-steps"]) == 0
    with path.with_suffix(".csv").open(newline="") as file:
        ends = {row["variant"]: float(row["gradient_steps"]) for row in csv.DictReader(file)}
    assert ends == {"hard": 25_000, "polyak": 25_000, "replicate": 27_500}


def test_an_earlier_end_can_be_chosen(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "fig2.png"
    assert figure.main(["fig2", str(folder), "-o", str(path), "--steps", "50_000"]) == 0
    with path.with_suffix(".csv").open(newline="") as file:
        steps = [float(row["agent_steps"]) for row in csv.DictReader(file)]
    assert (len(steps), max(steps)) == (3 * 5, 50_000)


def test_the_exact_examples_need_no_study(tmp_path: Path) -> None:
    path = tmp_path / "fig1.svg"
    assert figure.main(["fig1", "-o", str(path)]) == 0
    assert path.stat().st_size > 5_000
    assert path.with_suffix(".csv").read_text().count("\n") == 802  # a heading, the start and 800 iterations


def test_the_list_says_what_each_shows_and_what_a_study_lacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert figure.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(figures.NAMES)
    assert figure.main(["--list", str(folder)]) == 0
    told = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "[not here: it has 1 environments" in told["fig10"]
    assert "[not here" not in told["fig2"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "which one"),
        (["fig11"], "did you mean 'fig1'"),
        (["fig2"], "give its folder"),
        (["fig2", "nowhere"], "there is no such folder"),
        (["fig2", "STUDY", "-o", "fig2.gif"], ".png, .pdf, .svg"),
        (["fig10", "STUDY", "-o", "OUT/f.png"], "cannot be drawn from this study"),
        (["fig2", "STUDY", "--axis", "hours"], "hours"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_writes_nothing(
    words: list[str], complaint: str, folder: Path, tmp_path: Path
) -> None:
    places = {"STUDY": str(folder), "OUT/f.png": str(tmp_path / "f.png")}
    with pytest.raises(UserError) as error:
        figure.main([places.get(word, word) for word in words])
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
