"""Readers that go away change nothing about what a command does; real pipes, a real terminal, a real full device."""

import os
import pty
import subprocess
import sys

import pytest

from lookrep.cli import main
from lookrep.streams import outlets

LOOKREP = [sys.executable, "-m", "lookrep.cli"]


def closed_pipe() -> int:
    """The end for writing of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def closed_terminal() -> int:
    ours, theirs = pty.openpty()
    os.close(ours)
    return theirs


@pytest.mark.parametrize("where", [closed_pipe, closed_terminal])
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_nobody_reads_is_dropped(where: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = os.fdopen(where(), "w")  # type: ignore[operator]
    monkeypatch.setattr(sys, name, stream)
    with outlets():
        for _ in range(3):
            print("a line", file=getattr(sys, name), flush=True)
        assert getattr(sys, name).isatty() in (True, False)  # all else is the stream's
    assert getattr(sys, name) is stream
    stream.close()  # with nothing left that could not be written


def test_results_on_a_full_disk_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["--help"]) == 2
    assert capfd.readouterr().err == "lookrep: cannot write the output: No space left on device\n"


def test_messages_on_a_full_disk_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["trian"]) == 2


def test_a_list_cut_by_head_is_no_error() -> None:
    writer = closed_pipe()
    done = subprocess.run([*LOOKREP, "study", "list"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
