"""The `lookrep` command itself: help, version, and one line for a word it does not know."""

import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Any

import pytest

import lookrep
from lookrep import cli
from lookrep import cli as commands


def test_help_names_every_command_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, purpose in cli.COMMANDS.items():
        assert any(line.split() == [name, *purpose.split()] for line in shown.splitlines())


def test_without_a_command_the_help_is_shown_and_the_status_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    bare = capsys.readouterr()
    assert cli.main(["-h"]) == 0
    assert bare.out == capsys.readouterr().out
    assert bare.err == ""


def test_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{lookrep.__version__}\n"


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("trian", "did you mean 'train'?"),
        ("exat", "did you mean 'exact'?"),
        ("xyzzy", "choose from train, "),
        ("--verson", "choose from train, "),
    ],
)
def test_an_unknown_command_is_one_line_with_a_hint(word: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"lookrep: unknown command '{word}': {hint}")
    assert said.err.count("\n") == 1


def test_every_command_there_is_can_be_called() -> None:
    modules = {module.name for module in pkgutil.iter_modules(commands.__path__)}
    with_main = {
        name
        for name in modules
        if name != "__main__" and hasattr(importlib.import_module(f"lookrep.cli.{name}"), "main")
    }
    assert with_main == set(cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        status: Any = cli.main([name, "--help"])
    except SystemExit as stop:
        status = stop.code
    assert status == 0
    assert f"usage: lookrep {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_flag_that_no_command_has_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--no-such-flag"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("lookrep: ")
    assert said.err.count("\n") == 1


def test_an_interrupt_is_one_line_and_the_status_of_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(argv: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("lookrep.cli.report.main", interrupted)
    assert cli.main(["report"]) == 130
    assert capsys.readouterr().err == "lookrep: interrupted\n"


def test_the_core_alone_works_and_the_command_says_what_it_needs() -> None:
    code = """
import sys
for name in ("flax", "tyro", "rich", "matplotlib", "PIL", "tensorboard"):
    sys.modules[name] = None
import jax.numpy as jnp, lookrep
from lookrep import cli, distances, exact, heads, losses, targets
rule = targets.hard(every_updates=2)
assert rule.update(rule.init(jnp.zeros(2)), jnp.ones(2), 2).params.tolist() == [1, 1]
assert exact.markov_chain([[1.0]], reward=[1], discount=0.5)
assert cli.main(["--help"]) == 0
sys.exit(cli.main(["train", "minatar/breakout"]))
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 2, said.stderr
    assert said.stderr.startswith("lookrep: lookrep train needs more packages: pip install 'lookrep[train]' (")
    assert said.stderr.count("\n") == 1


def test_the_installed_script_is_this_function() -> None:
    (script,) = entry_points(group="console_scripts", name="lookrep")
    assert script.load() is cli.main


def test_a_process_ends_with_the_status(tmp_path) -> None:  # type: ignore[no-untyped-def]
    asked = subprocess.run(
        [sys.executable, "-m", "lookrep.cli", "nonsense"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 2
    assert "Traceback" not in asked.stderr
    assert list(tmp_path.iterdir()) == []
