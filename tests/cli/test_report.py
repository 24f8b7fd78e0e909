"""`lookrep report` turns a study's folder into a page, says where it is and how large, and complains in one line."""

import json
import shutil
from pathlib import Path

import pytest

from lookrep.analysis import report
from lookrep.cli.report import main
from lookrep.errors import UserError
from lookrep.studies import definition, exact_study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("report") / "study"
    exact_study.run(definition.load("exact", "smoke"), folder, "lookrep study run exact")
    return folder


def test_the_page_is_in_the_studys_folder_unless_told_otherwise(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(study)]) == 0
    assert main([str(study), "-o", str(tmp_path / "deep" / "page.html")]) == 0
    said = capsys.readouterr()
    first, second = said.out.splitlines()
    assert first.startswith(f"{study / 'report.html'}: 0.")
    assert second.startswith(f"{tmp_path / 'deep' / 'page.html'}: 0.")
    assert said.err == ""
    page = (study / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page == (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")


def test_a_large_page_is_called_large(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LARGE_BYTES", 10_000)
    assert main([str(study), "-o", str(tmp_path / "page.html")]) == 0
    assert "larger than" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[" * 3000 + "]" * 3000, "not readable as JSON (nested too deeply)"),
        ("", "not readable as JSON"),
        ("[]", "must hold one JSON object"),
        ("{}", "not what a study of kind 'exact' writes"),
        ('{"value_true": [1' + "0" * 400 + "]}", "not what a study of kind 'exact' writes"),
    ],
)
def test_a_damaged_solution_is_named_in_one_line(study: Path, tmp_path: Path, text: str, complaint: str) -> None:
    folder = tmp_path / "study"
    shutil.copytree(study, folder)
    path = min((folder / "exact").glob("*.json"))
    solved = json.loads(path.read_text())
    path.write_text(json.dumps(solved | json.loads(text)) if "value_true" in text else text)
    with pytest.raises(UserError) as caught:
        main([str(folder)])
    assert str(caught.value).startswith(f"{path}: {complaint}")


def test_complaints_are_one_line(study: Path, tmp_path: Path) -> None:
    for words, complaint in (
        ([str(tmp_path)], "is no study: it has no study.toml"),
        ([str(tmp_path / "nowhere")], "there is no such folder"),
        ([str(study), "-o", "report.pdf"], "the name should end in .html"),
        ([str(study), "--figure", "fig2"], "lookrep report --help"),
    ):
        with pytest.raises(UserError) as caught:
            main(words)
        assert complaint in str(caught.value)
        assert "\n" not in str(caught.value)
