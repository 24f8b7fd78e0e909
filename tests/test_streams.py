"""Readers that go away change nothing about what a command does; real pipes, a real terminal, a real full device."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

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


def closed(streams: str, *words: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """A command of which a shell has closed some streams."""
    command = ["sh", "-c", f'exec "$@" {streams}', "sh", *LOOKREP, *words]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=300)


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_never_open_change_no_answer(streams: str, quick_compilation: dict[str, str]) -> None:
    done = closed(streams, "study", "list", environment=quick_compilation)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (streams == "2>&-")
    assert closed(streams, "study", "lst", environment=quick_compilation).returncode == 2


def test_training_goes_on_where_both_streams_were_closed(tmp_path: Path, quick_compilation: dict[str, str]) -> None:
    """And no file gets the number of one of them: native code writes there."""
    flags = ["--agent=dqn", "--steps=400", "--warmup-steps=200", "--log-interval-steps=200", "--batch-size=4",
             "--network=mlp:8", "--replay-capacity-steps=400"]  # fmt: skip
    out = tmp_path / "run"
    done = closed(">&- 2>&-", "train", "minatar/breakout", *flags, f"--out={out}", environment=quick_compilation)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    assert [row["agent_steps"] for row in rows] == [200, 400]


def test_a_closed_streams_number_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = os.dup(2)
    monkeypatch.setattr(sys, "stderr", None)
    os.close(2)
    try:
        with outlets():
            print("a line", file=sys.stderr, flush=True)
            assert os.path.samestat(os.fstat(2), os.stat(os.devnull))
            assert os.get_inheritable(2)
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_a_list_cut_by_head_is_no_error() -> None:
    writer = closed_pipe()
    done = subprocess.run([*LOOKREP, "study", "list"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
