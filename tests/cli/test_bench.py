"""`lookrep bench`: flags that do not go together are one clear line, before anything is timed."""

import json
import re
import sys
from typing import Any

import pytest

from lookrep.benchmarks import methods, minatar
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
        (["methods", "--size", "smoke"], "--size is that of a study: it goes with --study NAME"),
        (["minatar", "--study", "minatar-methods"], "timed by lookrep bench methods, not lookrep bench minatar"),
        (["atari", "--study", "minatar-methods"], "timed by lookrep bench methods, not lookrep bench atari"),
        (["methods", "--study", "minatar-methods", "--agent", "c51"], "--agent does not go with --study"),
        (["methods", "--study", "minatar-methods", "--precision=f32"], "--precision does not go with --study"),
        (["methods", "--study", "minatar-methods", "--target", "hard"], "--target does not go with --study"),
        (["methods", "--study", "minatar-methods", "--workers", "1"], "--workers does not go with --study"),
        (
            ["methods", "--study", "minatar-method"],
            "study 'minatar-method' is unknown: did you mean 'minatar-methods'?",
        ),
        (["methods", "--study", "minatar-methods", "--method", "mint0"], "variant 'mint0' is unknown: did you mean"),
        (["methods", "--study", "minatar-methods", "--size", "laptop", "--method", "chain"], "--size gpu has it"),
        (["methods", "--study", "paper-readings"], "has atari/Breakout, and only studies of MinAtar are timed"),
        (["methods", "--study", "minatar-methods", "--game", "Pong"], "environment 'minatar/Pong' is unknown"),
    ],
)
def test_flags_that_make_no_sense_are_one_clear_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
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


def test_of_a_study_the_variants_that_are_named_are_timed_with_as_many_agents_as_it_has_seeds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[methods.Comparison] = []
    monkeypatch.setattr(minatar, "machine", lambda: {"device": "cpu", "jax": "0.10.2", "lookrep": "0.1.0"})
    monkeypatch.setattr(methods, "run", lambda comparisons: asked.extend(comparisons) or [{"method": "minto"}])
    study = ["bench", "methods", "--study", "minatar-methods"]
    assert main([*study, "--method", "renewed", "minto"]) == 0
    assert main([*study, "--size", "smoke", "--agents", "7", "8", "--game", "asterix"]) == 0
    found = [(list(one.runs), one.baseline.env, one.baseline.agents) for one in asked]
    assert found == [
        (["renewed", "minto"], "minatar/breakout", 20),
        (["hard", "minto", "asymmetric"], "minatar/asterix", 7),
        (["hard", "minto", "asymmetric"], "minatar/asterix", 8),
    ]
    assert asked[0].baseline.settings.target.target == "hard"
    capsys.readouterr()
