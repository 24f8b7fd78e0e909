"""`lookrep bench`: flags that do not go together are one clear line, before anything is timed."""

import pytest

from lookrep.cli import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["atari", "--peer", "rejax"], "--peer rejax is for lookrep bench minatar, not atari"),
        (["minatar", "--peer", "dopamine"], "--peer dopamine is for lookrep bench atari, not minatar"),
        (["atari", "--peer", "dopamine"], "--peer dopamine and --peer-python go together"),
        (["atari", "--peer-python", "python3"], "--peer dopamine and --peer-python go together"),
        (["atari", "--agents", "0"], "every population needs at least 1 agent"),
        (["atari", "--processes", "0"], "--processes 0: at least 1"),
        (["minatar", "--processes", "2"], "--processes 2: at least 1, and more only for lookrep bench atari"),
        (["minatar", "--agent", "raimbow"], "agent 'raimbow' is unknown"),
    ],
)
def test_flags_that_make_no_sense_are_one_clear_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) != 0
    out, error = capsys.readouterr()
    assert out == ""
    assert words in error
    assert len(error.strip().splitlines()) == 1
