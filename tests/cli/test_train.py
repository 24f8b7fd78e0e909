"""`lookrep train`: what can be said wrong is one line on stderr, status 2, and nothing is created."""

import json
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest

from lookrep import config as configs
from lookrep import methods
from lookrep.cli import main, train
from lookrep.cli.parsing import parse
from lookrep.config import RunConfig
from lookrep.envs import names
from lookrep.runs import names as names_of_files
from lookrep.training import memory


def parsed(*words: str) -> RunConfig:
    given = ["--env", *words]
    return parse(
        train.Arguments, given, "lookrep train", default=train.Arguments(run=train._base(given)), flat=True
    ).run


def assert_refused(words: Sequence[str], expected: str, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    assert main(["train", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("lookrep: ")
    assert expected in said.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "say what to train on: lookrep train minatar/breakout"),
        ("minatar/brekout", "environment 'minatar/brekout' is unknown: did you mean minatar/breakout?"),
        ("minatar/breakout --agent rainbo", "agent 'rainbo' is unknown: did you mean 'rainbow'?"),
        ("minatar/breakout --agent=sarsa", "agent 'sarsa' is unknown: choose from dqn, double-dqn"),
        ("minatar/breakout --stepps 100", "--stepps"),
        ("minatar/breakout --steps many", "many"),
        ("minatar/breakout --steps 1.5", "1.5"),
        ("minatar/breakout --steps", "--steps"),
        ("minatar/breakout --target soft", "soft"),
        ("minatar/breakout --agents 0", "agents = 0: must be at least 1"),
        ("minatar/breakout --agents -1", "agents = -1: must be at least 1"),
        ("minatar/breakout --agents 64 --devices 64", "devices = 64: this machine has 1 (cpu)"),
        ("minatar/breakout --agents 3 --devices 2", "agents = 3: must be a multiple of devices = 2"),
        ("minatar/breakout --tau 2", "tau = 2.0: must be in (0, 1]"),
        ("minatar/breakout --steps 10_001", "steps = 10001: must be a multiple of steps_per_update = 4"),
        ("minatar/breakout --steps 5000", "steps = 5000: all of it is warm-up"),
        ("minatar/breakout --seed 4294967296", "seed = 4294967296: must be below 4294967296"),
        ("minatar/breakout --discount nan", "discount = nan: must be between 0 and 1"),
        ("minatar/breakout --replay-capacity-steps 4", "replay_capacity_steps = 4: must be at least n_steps + "),
        ("minatar/breakout --network resnet", "network 'resnet': write cnn16:128"),
        ("minatar/breakout --network cnn8-8-8-8-8:8", "too many 3×3 convolutions"),
        ("minatar/breakout --target-network mlp:8", "only --target replicate can follow across networks"),
        ("minatar/breakout --target replicate --target-network mlp:8 --replicate-start online", "cannot copy 'auto'"),
        ("probes:Museum --network cnn16:128", "a CNN needs pictures, these observations have shape (12,)"),
        ("no_such_module:World", "cannot import no_such_module"),
        ("probes:Missing", "probes has no class or function 'Missing'"),
        ("probes:WrongStepObservation", "step gives observations of shape (12,) and type float32, but it declares"),
        ("probes:Raises", "step fails (RuntimeError: the floor is missing)"),
        ("minatar/breakout --config no/such/config.json", "no/such/config.json: no such file"),
        ("--resume nowhere", "nowhere: no such file"),
        ("--resume .", "config.json: no such file"),
        ("minatar/breakout minatar/freeway", "minatar/freeway"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_creates_nothing(
    words: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = [] if "--resume" in words else ["--out", "run"]
    assert_refused([*words.split(), *out], expected, capsys, tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "--agents 2000 --replay-capacity-steps 1_000_000",
            "agents = 2000 × 62.49 MB (replay_capacity_steps = 1,000,000: 60.07 MB, networks: the rest) = 125.0 GB, "
            "but there are 8.0 GB of free memory, a tenth of it for computing; 115 agents or --replay-capacity-steps "
            "16000 would fit",
        ),
        ("--agents 1_000_000", "agents = 1000000 × 8.45 MB ("),
        (
            "--replay-capacity-steps 2_000_000_000",
            "agents = 1 × 120.01 GB (replay_capacity_steps = 2,000",
        ),
        ("--network mlp:1000000x1000000", "networks: the rest) = 16,008.9 GB, but there are 8.0 GB"),
        ("--network cnn16:1000000000", "nothing would fit"),
        (
            "--agents 64 --batch-size 1_000_000",
            "a batch takes 1,207.04 GB, beside 540.55 MB for 64 agents",
        ),
        ("--batch-size 1_000_000_000", "batch_size = 1000000000: must be at most 1048576"),
        ("--atoms 1_000_000_000", "atoms = 1000000000: must be at most 4096"),
        ("--agents 9223372036854775808", "agents = 9223372036854775808: must be at most 1048576"),
        ("--agents 4 --first-agent 4294967293", "first_agent = 4294967293: with 4 agents, numbers go beyond 2³² − 1"),
    ],
)
def test_what_fits_no_memory_is_one_line_with_the_arithmetic_before_anything_is_made(
    words: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: (8_000_000_000, "of free memory"))
    out = str(tmp_path / "run")
    assert_refused(["minatar/breakout", *words.split(), "--out", out], expected, capsys, tmp_path)


def test_a_containers_limit_counts_as_well_as_the_machines_memory(tmp_path: Path) -> None:
    group = tmp_path / "jobs" / "mine"
    group.mkdir(parents=True)
    (tmp_path / "cgroup").write_text("0::/jobs/mine\n")
    for folder, limit in ((group, "max"), (group.parent, "1000000")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("300000\n")
        (folder / "memory.stat").write_text("anon 100000\ninactive_file 50000\n")
    assert memory._group_available(tmp_path, tmp_path / "cgroup") == 750_000
    assert memory._group_available(tmp_path, tmp_path / "nowhere") == 2**63
    assert 0 < memory.host_available() < 2**63


def test_a_run_needs_a_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert_refused(["minatar/breakout"], "say where the run should go: --out runs/first", capsys, tmp_path)


@pytest.mark.parametrize("taken", ["config.json", "metrics.jsonl"])
def test_a_folder_that_holds_a_run_is_left_alone(
    taken: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / taken).write_text("precious")
    words = ["minatar/breakout", "--out", str(tmp_path)]
    assert_refused(words, f"{tmp_path} already holds a run: lookrep train --resume {tmp_path}", capsys, tmp_path)
    assert (tmp_path / taken).read_text() == "precious"


@pytest.mark.parametrize("place", ["file/run", "file", "x" * 300])
def test_a_folder_that_cannot_be_written_is_one_line(
    place: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    assert_refused(["minatar/breakout", "--out", str(tmp_path / place)], "cannot write to", capsys, tmp_path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "not readable as JSON"),
        ("[]", "must hold one JSON object"),
        ('{"env": "minatar/breakout", "agnets": 2}', "unknown field 'agnets', did you mean 'agents'?"),
        ('{"env": "minatar/breakout", "steps": "many"}', "steps = 'many': must be int"),
        ('{"agents": 2}', "field 'env' is missing"),
    ],
)
@pytest.mark.parametrize("flag", ["--config", "--resume"])
def test_a_malformed_configuration_is_one_line_with_its_file(
    flag: str, content: str, expected: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(content)
    out = ["--out", str(tmp_path / "run")] if flag == "--config" else []
    assert_refused([flag, str(tmp_path), *out], f"{tmp_path / 'config.json'}: {expected}", capsys, tmp_path)


@pytest.mark.parametrize(
    "more", [["--agents", "3"], ["--learning-rate", "1"], ["--out", "there"], ["--config", "."], ["--agent", "dqn"]]
)
def test_resume_takes_nothing_but_steps(
    more: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on with the run's own settings: another one would be silently ignored."""
    monkeypatch.chdir(tmp_path)
    config = RunConfig("minatar/breakout", settings=configs.preset("rainbow"))
    Path("config.json").write_text(json.dumps(configs.to_json(config)))
    assert_refused(["--resume", ".", *more], "--quiet go with it", capsys, tmp_path)


@pytest.mark.parametrize("steps", ["10", "400_000", "1e3"])
def test_resume_to_an_end_that_is_behind_says_how_much_is_done(
    steps: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = RunConfig("minatar/breakout", settings=configs.preset("rainbow"))
    (tmp_path / "config.json").write_text(json.dumps(configs.to_json(config)))
    saved = tmp_path / "checkpoints" / names_of_files.of_step(500_000)
    saved.mkdir(parents=True)
    (saved / names_of_files.MANIFEST).write_text("{}")
    words = ["--resume", str(tmp_path), "--steps", steps]
    assert_refused(words, "has done 500,000 steps: --steps goes on to a larger number", capsys, tmp_path)


@pytest.mark.parametrize("command", ["train --resume", "eval"])
def test_a_study_is_no_run_and_its_runs_are_named(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "populations" / "hard--breakout"
    run.mkdir(parents=True)
    (tmp_path / "study.toml").touch()
    assert main([*command.split(), str(tmp_path)]) == 2
    assert f"{tmp_path} is a study: {run.parent} has no run yet" in capsys.readouterr().err
    (run / "config.json").touch()
    assert main([*command.split(), str(tmp_path)]) == 2
    assert f"{tmp_path} is a study: give one of its runs, as {run}" in capsys.readouterr().err


# Help, and names


def test_help_is_one_screen_with_all_names_and_flags_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "minatar/breakout", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 80  # none wraps on a terminal
    shown = " ".join(" ".join(lines).split())
    for name in (*configs.AGENTS, *methods.names(), *names.MINATAR_CHANNELS):
        assert name in shown
    every = {field.name for field in fields(train.Arguments)} | set(configs.setting_groups())
    assert {flag.replace("-", "_") for flag in re.findall(r"--([a-z-]+)", shown)} <= every


def test_all_of_the_help_has_a_sentence_for_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "minatar/breakout", "--agent", "iqn", "--help-all"])
    assert stop.value.code == 0
    shown = " ".join(line.strip("│ ") for line in capsys.readouterr().out.splitlines())
    for name in configs.setting_groups():
        assert re.search(rf" --{name.replace('_', '-')}(,| ) *(--no-\S+|\S+) +[^(\s]", shown), name
    assert "(default: iqn)" in shown


def test_a_name_from_elsewhere_is_understood_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from lookrep.training import session as run

    started: list[RunConfig] = []
    monkeypatch.setattr(run, "start", lambda config, out, quiet: started.append(config) or True)
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", *out, "ALE/Pong-v5"]) == 0
    assert capsys.readouterr().err == "note: ALE/Pong-v5 is atari/Pong here\n"
    assert main(["train", "minatar/Freeway", "--quiet", *out]) == 0
    assert capsys.readouterr().err == ""
    assert [config.env for config in started] == ["atari/Pong", "minatar/freeway"]
    assert started[0].settings == configs.preset("dopamine-rainbow")


# What flags mean


def test_flags_change_the_settings_of_the_agent_named() -> None:
    config = parsed("minatar/breakout", "--agent", "iqn", "--n-steps", "5", "--steps", "2_000_000", "--dueling")
    preset = configs.preset("iqn")
    assert config.agent == "iqn"
    assert config.steps == 2_000_000
    assert config.settings.learning.head == "iqn"
    assert config.settings.learning.n_steps == 5
    assert config.settings.network.dueling
    assert config.settings.target == preset.target
    assert parsed("minatar/breakout").settings == configs.preset("rainbow")


def test_any_part_of_an_agent_can_be_swapped() -> None:
    config = parsed("minatar/breakout", "--agent", "full-rainbow", "--head", "qr", "--no-noisy", "--no-prioritised")
    assert config.settings.learning.head == "qr"
    assert config.settings.learning.double
    assert not config.settings.network.noisy
    assert not config.settings.replay.prioritised


def test_flags_change_the_settings_of_a_file(tmp_path: Path) -> None:
    config = parsed("minatar/freeway", "--agent", "c51", "--seed", "9", "--atoms", "21")
    (tmp_path / "config.json").write_text(json.dumps(configs.to_json(config)))
    words = ["--config", str(tmp_path), "--seed", "10"]
    arguments = parse(
        train.Arguments, words, "lookrep train", default=train.Arguments(run=train._base(words)), flat=True
    )
    assert arguments.run == configs.replace(config, seed=10)


def test_another_number_of_agents_than_a_files_is_grouped_anew(tmp_path: Path) -> None:
    """A run of environments on the host records the groups that suited its agents."""
    config = configs.replace(parsed("atari/Pong", "--agents", "4"), groups=2)
    (tmp_path / "config.json").write_text(json.dumps(configs.to_json(config)))
    assert train._base(["--config", str(tmp_path)]) == config
    assert train._base(["--config", str(tmp_path), "--agents", "3"]).groups is None


def test_agents_can_be_counted_by_game(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lookrep.training import session as run

    started: list[RunConfig] = []
    monkeypatch.setattr(run, "start", lambda config, out, quiet: started.append(config) or True)
    out = ["--out", str(tmp_path / "run")]
    assert main(["train", "atari/Breakout,Freeway,RoadRunner", "--agents-per-game", "4", *out]) == 0
    assert main(["train", "atari/Breakout,Freeway", *out]) == 0
    assert main(["train", "atari/Breakout", "--agents", "3", *out]) == 0
    assert [config.agents for config in started] == [12, 2, 3]
    assert started[0].settings == configs.preset("dopamine-rainbow")


def test_agents_are_counted_in_one_way(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["atari/Breakout,Freeway", "--agents", "4", "--agents-per-game", "2", "--out", str(tmp_path / "run")]
    assert_refused(words, "give one of them", capsys, tmp_path)
    words = ["atari/Breakout,Freeway", "--agents", "3", "--out", str(tmp_path / "run")]
    assert_refused(words, "agents = 3: must be a multiple of the 2 games", capsys, tmp_path)
