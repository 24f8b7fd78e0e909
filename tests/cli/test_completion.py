"""Shell completion knows every command, its real flags, names and files; bash runs the script, typed at and called."""

import dataclasses
import importlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
import tyro

from lookrep import cli
from lookrep.cli import completion, study

NEEDS_BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
ASK = """
try() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
  _tyro_lookrep
  echo "${COMPREPLY[*]}"
}
try lookrep st
try lookrep study st
try lookrep study run --keep
try lookrep train --replicate-until
try lookrep exact --method minto
try lookrep train --agent full
try lookrep train --target repl
try lookrep train --env minatar/s
try lookrep train --env atari/Road
try lookrep train --agents 2 --method renew
try lookrep bench methods --method minto dist
try lookrep study plan minatar-kr --size la
"""


@NEEDS_BASH
def test_bash_completes_commands_flags_and_values() -> None:
    script = completion.script("bash") + ASK
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    commands = ["study", "status", "--keep-replay", "--replicate-until-gap", "minto"]
    names = ["full-rainbow", "replicate", "minatar/seaquest minatar/space_invaders", "atari/RoadRunner", "renewed"]
    assert said.stdout.splitlines() == [*commands, *names, "distilled", "laptop"]


# What is typed, where <TAB> is a key → the words that the command gets.
TYPED = {
    "report studies/mi<TAB>": "report studies/minatar/",
    "report studies/no-such<TAB>": "report studies/no-such",
    "report sco<TAB>": "report scores.csv",
    "eval runs/cp-h<TAB>": "eval runs/cp-hard/",
    "eval runs/cp-hard --game ru<TAB>": "eval runs/cp-hard --game runs/",
    "train minatar/bre<TAB>--out=ru<TAB>": "train minatar/breakout --out=runs/",
    "train --agents 2 minatar/bre<TAB>--target=rep<TAB>": "train --agents 2 minatar/breakout --target=replicate",
    "train --replicate-le<TAB>1": "train --replicate-learning-rate 1",
    "study plan paper-5<TAB>": "study plan paper-55",
    "study run minatar-mi<TAB>": "study run minatar-mine/",
    "study run stu<TAB>": "study run studies/",
    "figure prof<TAB>stu<TAB>": "figure profiles studies/",
    "completion fi<TAB>": "completion fish",
}


@NEEDS_BASH
def test_at_a_prompt_of_bash_names_files_and_folders_are_completed(tmp_path: Path) -> None:
    for folder in ("studies/minatar", "runs/cp-hard", "minatar-mine"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "scores.csv").touch()
    typed = [f"lookrep {line.replace('<TAB>', chr(9))}" for line in TYPED]
    assert at_a_prompt(typed, tmp_path) == list(TYPED.values())


def at_a_prompt(typed: list[str], folder: Path) -> list[str]:
    """The words behind `lookrep` of each line, as bash has understood it on a terminal."""
    start = folder / ".start"
    start.write_text(completion.script("bash") + "lookrep() { echo \"$*\" >> .said; }\nPS1='ready> '\n")
    ours, theirs = pty.openpty()
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "INPUTRC": os.devnull}
    bash = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", str(start), "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=variables, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    for line in [*typed, "exit"]:
        screen = b""
        while not screen.endswith(b"ready> "):
            screen += read(ours)
        os.write(ours, f"{line}\r".encode())
    while read(ours):
        pass
    assert bash.wait(10) == 0
    os.close(ours)
    return (folder / ".said").read_text().splitlines()


def read(terminal: int) -> bytes:
    """Nothing where the other side has closed it."""
    assert select.select([terminal], [], [], 20)[0], "bash says nothing more"
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""


# The script's Python, as each shell runs it.


@pytest.fixture(scope="module", params=completion.SHELLS)
def python(request: pytest.FixtureRequest) -> str:
    text = completion.script(request.param)
    if request.param == "fish":  # which takes the backslash from these three, between double quotes
        return re.sub(r'\\([\\"$])', r"\1", text.partition('pycode "')[2].partition('main()"')[0] + "main()")
    return text.partition("<< 'PYTHON_EOF'")[2].partition("\n")[2].partition("\nPYTHON_EOF")[0]


def offered(python: str, *words: str) -> list[str]:
    command = [sys.executable, "-", *words, str(len(words) - 1)]
    return subprocess.run(command, input=python, capture_output=True, text=True, check=True).stdout.splitlines()


def test_every_word_that_is_offered_is_on_one_line_with_its_sentence(python: str) -> None:
    words = [line.partition("\t") for line in offered(python, "lookrep", "train", "--")]
    assert {word for word, _, _ in words} >= {f"--{name}" for name in ("network", "head", "bootstrap", "regulariser")}
    assert [word for word, _, sentence in words if not word.startswith("--") or not sentence] == []
    (learning_rate,) = offered(python, "lookrep", "train", "--replicate-le")
    assert "as large as the online network's" in learning_rate


def test_every_shell_is_told_where_names_and_files_go(python: str) -> None:
    asked = {
        "train minatar/bre": ["minatar/breakout"],
        "train --agents 2 minatar/bre": ["minatar/breakout"],
        "study plan paper-5": ["paper-55", completion.FILES],
        "study run studies/": [completion.FILES],
        "study status ": [completion.FILES],
        "figure prof": ["profiles"],
        "figure curve ": [completion.FILES],
        "exact two-state-": ["two-state-two-spaces", completion.FILES],
        "bench m": ["minatar", "methods"],
        "completion ": [*completion.SHELLS],
        "study run x --memory-gb ": [],
        "study run --env a b": [],
        "report studies/x more": [completion.FILES],
    }
    assert {line: offered(python, "lookrep", *line.split(" ")) for line in asked} == asked


def test_every_word_without_a_flag_has_a_place() -> None:
    modules = {name: importlib.import_module(f"lookrep.cli.{name}") for name in cli.COMMANDS if name != "study"}
    kinds = {name: module.Arguments for name, module in modules.items()}
    kinds |= {f"study {name}": getattr(study, f"{name.title()}Arguments") for name in study.COMMANDS}
    counts = {name: len(positionals(kind)) for name, kind in kinds.items()} | {"train": 1}  # it finds its own
    assert {name: len(places) for name, places in completion.places().items()} == {n: c for n, c in counts.items() if c}


def positionals(kind: Any) -> list[str]:
    hints = get_type_hints(kind, include_extras=True)
    marks = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in dataclasses.fields(kind)}
    return [name for name, found in marks.items() if tyro.conf.Positional in found]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_what_tyro_writes_is_what_is_mended(shell: str) -> None:
    assert [mended for mended in completion.MENDED[shell].values() if mended not in completion.script(shell)] == []
    assert not set('"$\\') & set(completion.added())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_commands_and_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    said = capsys.readouterr().out
    names = (*cli.COMMANDS, *study.COMMANDS, "replicate-until-gap", "keep-replay", "episodes", "full-rainbow")
    assert [name for name in names if name not in said] == []
