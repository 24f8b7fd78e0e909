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
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes_commands_flags_and_values() -> None:
    script = completion.script("bash") + ASK
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["study", "status", "--keep-replay", "--replicate-until-gap", "minto"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_commands_and_flags(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    said = capsys.readouterr().out
    names = (*cli.COMMANDS, *study.COMMANDS, "replicate-until-gap", "keep-replay", "episodes")
    assert [name for name in names if name not in said] == []
