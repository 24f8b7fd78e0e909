"""`lookrep bench`: flags that do not go together are one clear line, before anything is timed."""

import json
import re
import sys
from typing import Any

import pytest

from lookrep.benchmarks import minatar
from lookrep.cli import main
from lookrep.cli.bench import Arguments
from lookrep.cli.parsing import flags
from lookrep.envs.host import atari_roms


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["minatar", "--peer", "rejax"], "--peer"),
        (["atari", "--agents", "0"], "every population needs at least 1 agent"),
        (["minatar", "--agent", "raimbow"], "agent 'raimbow' is unknown"),
        (["methods", "--method", "mint0"], "method 'mint0' is unknown: did you mean 'minto'?"),
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


def test_help_has_a_sentence_for_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["bench", "--help"])
    assert stop.value.code == 0
    shown = " ".join(" ".join(line.strip("│ ") for line in capsys.readouterr().out.splitlines()).split())
    for name, flag in flags(Arguments).items():
        value = "" if flag.switch else r"(\[.*?\]\]|\S+) "  # [INT [INT ...]] or {f32,bf16}
        assert re.search(rf" {name} {value}\w", shown), name


def test_what_is_missing_is_said_before_anything_is_timed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    atari_roms.libraries.cache_clear()
    assert main(["bench", "atari"]) == 2
    assert capsys.readouterr().err.startswith("lookrep: an atari/ environment needs more packages: pip install")


def test_people_get_a_table_and_programs_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row: dict[str, Any] = {"agents": 16, "agent": "dqn", "env_steps_per_second": 51_234, "spread": [50_000, 52_000]}
    about = {"device": "cpu", "backend": "cpu", "jax": "0.10.2", "lookrep": "0.1.0"}
    monkeypatch.setattr(minatar, "machine", lambda: about)
    monkeypatch.setattr(minatar, "run", lambda cases: iter([row]))
    assert main(["bench", "minatar"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table if "16" in line] == [["16", "dqn", "51,234", "50,000", "–", "52,000"]]
    assert main(["bench", "minatar", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"machine": about, "rows": [row]}
