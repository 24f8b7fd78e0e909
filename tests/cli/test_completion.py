"""Shell completion knows every command and its real flags; bash runs the script, as it would at a prompt."""

import shutil
import subprocess

import pytest

from lookrep import cli
from lookrep.cli import completion, study

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


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_flags_and_values() -> None:
    script = completion.script("bash") + ASK
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    commands = ["study", "status", "--keep-replay", "--replicate-until-gap", "minto"]
    names = ["full-rainbow", "replicate", "minatar/seaquest minatar/space_invaders", "atari/RoadRunner", "renewed"]
    assert said.stdout.splitlines() == [*commands, *names, "distilled", "laptop"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_commands_and_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    said = capsys.readouterr().out
    names = (*cli.COMMANDS, *study.COMMANDS, "replicate-until-gap", "keep-replay", "episodes", "full-rainbow")
    assert [name for name in names if name not in said] == []
    assert not set('"$\\') & set(completion.ADD_NAMES)
