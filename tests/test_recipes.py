"""docs/recipes.md and README.md: their commands, in the order of the page, with nothing but the steps made fewer."""

import re
import shlex
from pathlib import Path

import pages
import pytest
from test_docs import ROOT, unbroken

from lookrep.analysis import results
from lookrep.runs import metrics

RECIPES = ROOT / "docs/recipes.md"
TITLES = ["Look at a run", "Your own environment", "Your own network", "A smaller target", "More seeds"]


def shell(text: str) -> list[list[str]]:
    """The lines of a page's blocks without a language, as words."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for language, block in every if not language for line in unbroken(block)]


def recipe(title: str) -> str:
    """A section; the first is told by the block above the headings."""
    start, *sections = re.split(r"^## ", RECIPES.read_text(), flags=re.MULTILINE)
    found = {section.partition("\n")[0]: section for section in sections}
    assert list(found) == TITLES
    return start + found[title] if title == TITLES[0] else found[title]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_compilation: dict[str, str]) -> Path:
    """An empty folder, where a study's own processes compile quickly, too."""
    monkeypatch.chdir(tmp_path)
    for name, value in quick_compilation.items():
        monkeypatch.setenv(name, value)
    return tmp_path


def left_something(words: list[str], folder: Path) -> bool:
    """Whether a command made what it is there for."""
    at = {flag: folder / words[words.index(flag) + 1] for flag in ("--out", "--video", "-o") if flag in words}
    if words[1] == "report":
        return (folder / words[2] / "report.html").stat().st_size > 10_000
    return all(path.exists() for path in at.values())


@pytest.mark.parametrize("title", TITLES)
def test_a_recipe_works_as_written_in_at_most_three_commands(title: str, here: Path, kept: Path) -> None:
    text = recipe(title)
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        assert language == "python"
        name = re.match(r"# (\w+\.py)\n", block)
        assert name is not None
        (here / name[1]).write_text(block)
    commands = shell(text)
    assert 1 <= len(commands) <= 3
    for words in commands:
        pages.run(words, kept)
        assert left_something(words, here), words
    if title == "More seeds":
        found = [(member.seed, member.status) for member in results.load(here / "studies/seeds").members]
        assert sorted(found) == [(seed, "finished") for seed in range(5) for _ in ("hard", "replicate-all")]


def test_the_readme_works_from_top_to_bottom(here: Path, kept: Path) -> None:
    """`make demo`, and the steps in full, are left to `make readme`; Python runs in tests/test_docs.py."""
    commands = [words for words in shell((ROOT / "README.md").read_text()) if words[0] == "lookrep"]
    assert len(commands) > 8
    for words in commands:
        pages.run(words, kept)
        assert left_something(words, here), words
    assert metrics.read(here / "runs/first")["agent_steps"].max() == 600  # gone on with, after it had ended
