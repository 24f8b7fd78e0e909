"""What surrounds the code says the same as the code: metadata, citation, workflow, Makefile, site.

The wheel itself is installed and used in empty environments by `make wheel`, which needs a package index.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import lookrep

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPTS = ("run", "wheel", "readme")


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;]", text)[0] for text in requirements}


def test_every_requirement_has_an_exact_version_to_install() -> None:
    pinned = names((ROOT / "constraints.txt").read_text().split())
    extras = PROJECT["optional-dependencies"]
    for extra in ("train", "test", "lint", "docs", "atari", "gym", "ray"):  # what `make` and the guides install
        missing = names(extras[extra]) - {"lookrep"} - {name.lower() for name in pinned} - pinned
        assert missing == set(), f"[{extra}]"
    assert names(PROJECT["dependencies"]) == {"jax", "optax", "numpy"} <= pinned


def test_the_citation_is_of_this_version_and_licence() -> None:
    lines = dict(re.findall(r"^(\S+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert lines["version"] == lookrep.__version__
    assert lines["license"] == PROJECT["license"]


def test_the_workflow_runs_what_must_pass_on_every_python_that_is_promised() -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    assert "- run: .ci/run" in text
    promised = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if "Python :: 3." in name}
    assert set(re.findall(r'"(3\.\d+)"', text)) == promised


def test_the_scripts_of_ci_are_sound_shell() -> None:
    for name in SCRIPTS:
        subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)
        assert (ROOT / ".ci" / name).stat().st_mode & 0o111


def test_make_says_what_each_of_its_targets_is_for() -> None:
    text = (ROOT / "Makefile").read_text()
    asked = re.search(r"^\.PHONY: help (.*)$", text, re.MULTILINE)
    assert asked is not None
    shown = "".join(re.findall(r"^\t@echo \"make .*$", text, re.MULTILINE))
    assert [name for name in asked[1].split() if f"make {name}" not in shown] == []
    assert [name for name in asked[1].split() if not re.search(rf"^{name}:", text, re.MULTILINE)] == []


def test_the_film_at_the_top_is_small() -> None:
    assert (ROOT / "docs/figures/breakout.gif").stat().st_size < 1.5e6
