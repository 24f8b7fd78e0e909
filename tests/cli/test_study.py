"""`lookrep study`: plans for everything, one line for what is wrong, and a look at how far a study is."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from lookrep.analysis import results
from lookrep.cli import study as command
from lookrep.errors import UserError
from lookrep.studies import definition, hardware
from lookrep.studies.execute import monitor


@pytest.fixture(autouse=True)
def on_two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    here = hardware.Hardware("cpu", "cpu", 1, 2, 16 * hardware.GIGABYTE)
    monkeypatch.setattr(hardware, "detect", lambda: here)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert command.main(words) == 0
    return capsys.readouterr().out


def numbers(table: str, variant: str) -> list[str]:
    """A row of the plan's table."""
    line = next(line for line in table.splitlines() if line.split()[:1] == [variant])
    return line.replace("≈", "").split()[1:]


# list and plan


def test_list_names_every_study_with_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "list")
    assert [name for name in definition.names() if name not in text] == []
    assert "550 × 50,000,000" in text


@pytest.mark.parametrize("size", definition.SIZES)
@pytest.mark.parametrize("name", definition.names())
def test_every_built_in_study_plans_in_every_size(name: str, size: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "plan", name, "--size", size)
    assert f"(size {size})" in text
    if name != "exact":
        study = definition.load(name, size)
        runs = len(study.environments) * len(study.variants) * study.seeds
        assert numbers(text, "all")[1:3] == [f"{runs:,}", f"{runs * study.steps:,}"]
        assert "≈ An estimate" in text


def test_the_plan_of_paper_55_is_what_eight_gpus_do_in_days(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "plan", "paper-55", "--size", "full")
    populations, runs, steps, hours, memory, _ = numbers(text, "all")
    assert (populations, runs, steps) == ("38", "550", "27,500,000,000")
    # At 9 003 steps/s without Replicate's share: 848 hours. Populations of 10 and 15 agents are slower than of 16.
    assert 848 < int(hours.replace(",", "")) < 1100
    assert float(memory) < 111.2  # four fifths of 139 GB


def test_less_memory_means_more_populations_of_the_same_runs(capsys: pytest.CaptureFixture[str]) -> None:
    wide = numbers(said(capsys, "plan", "paper-ablation", "--size", "full"), "all")
    narrow = numbers(said(capsys, "plan", "paper-ablation", "--size", "full", "--memory-gb", "40"), "all")
    assert int(narrow[0]) > int(wide[0])
    assert narrow[1:3] == wide[1:3]


def test_a_plan_of_a_part(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--env", "breakout", "--variant", "hard", "polyak", "--seeds", "5", "--steps", "100000")
    text = said(capsys, "plan", "minatar-targets", "--size", "gpu", *flags)
    assert numbers(text, "all")[:3] == ["2", "10", "1,000,000"]
    assert "replicate" not in text


# What can be wrong


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rnu x", "unknown command 'study rnu': did you mean 'run'?"),
        ("plan minatar-target", "study 'minatar-target' is unknown: did you mean 'minatar-targets'?"),
        ("plan minatar-targets --size tiny", "size 'tiny' is unknown: choose from smoke, laptop, gpu, full"),
        ("plan minatar-targets --env pong", "environment 'pong' is unknown"),
        ("plan minatar-targets --steps 10", "steps = 10: must be a multiple of steps_per_update = 4"),
        ("plan minatar-targets --memory-gb -1", "memory_gb = -1.0: must be a positive number"),
        ("plan minatar-targets --memory-gb 0.001", "one agent on minatar/breakout needs 0.01 GB, and 0.00 GB"),
        ("run minatar-targets", "say where the study should go: --out studies/minatar-targets"),
        ("run minatar-targets --out s --jobs 0", "jobs = 0: must be at least 1"),
        ("run minatar-targets --out s --minutes 0", "minutes = 0.0: must be a positive number"),
        (
            "run minatar-targets --out s --address auto",
            "--address is that of a Ray cluster: it goes with --backend ray",
        ),
        ("run minatar-targets --out s --backend slurm", "slurm"),
        ("run minatar-targets --out s --variant soft", "variant 'soft' is unknown"),
        ("run minatar-targets --out full", "full exists and is no study: choose another --out"),
        ("run no.toml --out s", "no.toml: no such file"),
        ("status s", "s: there is no such study folder"),
        ("status full", "full is no study: it has no study.toml"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_creates_nothing(
    words: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(UserError) as refused:
        command.main(words.split())
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["full", "thesis.txt"]


def test_a_folder_with_another_study_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(definition.to_toml(definition.load("minatar-kr", "smoke")))
    before = (tmp_path / "study.toml").read_text()
    with pytest.raises(UserError, match="holds a study with name = minatar-kr, not minatar-targets"):
        command.main(["run", "minatar-targets", "--size", "smoke", "--out", str(tmp_path)])
    assert (tmp_path / "study.toml").read_text() == before


def test_without_words_it_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 2
    assert command.main(["--help"]) == 0
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert first_words == ["list", "plan", "run", "status"] * 2


# The exact study


def test_the_exact_study_gives_the_papers_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "exact"
    assert f"2 problems solved → {out}" in said(capsys, "run", "exact", "--out", str(out))
    first = json.loads((out / "exact" / "two-state--lr.json").read_text())
    assert first["target"] == pytest.approx([0.6636, 0.4455, 0.4455], abs=1e-4)  # appendix B.1
    assert first["online"] == pytest.approx([-0.2364, 0.7455, 0.7455], abs=1e-4)
    second = json.loads((out / "exact" / "two-state-two-spaces--lr.json").read_text())
    assert second["online"] == pytest.approx([2 / 3, 2 / 3], abs=1e-4)  # appendix B.2
    header, *lines = (out / "exact" / "two-state--lr.csv").read_text().splitlines()
    assert header.split(",")[:3] == ["outer_iteration", "value_target_1", "value_target_2"]
    assert [float(x) for x in lines[-1].split(",")[1:5]] == pytest.approx([2.0] * 4, abs=1e-3)
    assert results.load(out).sittings[0]["command"] == f"lookrep study run exact --out {out}"
    assert "2 of 2 problems solved" in said(capsys, "status", str(out))


# status


def status_folder(out: Path) -> Path:
    study = definition.narrow(definition.load("minatar-targets", "gpu"), environments=["breakout"], steps=10_000)
    (out / "study.toml").write_text(definition.to_toml(study))
    for variant, steps in (("hard", 10_000), ("polyak", 4_000)):
        run = out / "populations" / f"minatar_breakout--{variant}--0-19"
        run.mkdir(parents=True)
        config = {"env": "minatar/breakout", "agents": 20, "first_agent": 0, "steps": 10_000}
        (run / "config.json").write_text(json.dumps(config | {"checkpoint_interval_steps": 0}))
        values = {"steps_per_second": 2000.0, "function_gap": 0.5, "diverged": False}
        rows = [{"agent": i, "agent_steps": steps, "return_mean": float(i % 2), **values} for i in range(20)]
        (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (out / "logs").mkdir()
    (out / "logs" / "minatar_breakout--polyak--0-19.failed").write_text("the disk is full\n")
    return out


def test_status_says_how_far_every_population_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys, "status", str(status_folder(tmp_path))).splitlines()
    assert lines[0] == (
        "Target updates on MinAtar (gpu): 1 of 5 populations finished, 1 failed: 280,000/1,000,000 agent steps (28%)"
    )
    assert [line.strip() for line in lines[1:]] == [
        "minatar_breakout--hard--0-19: finished, 10,000/10,000 steps × 20, return 0.5 ± 0.1, 2,000 steps/s",
        "minatar_breakout--polyak--0-19: failed, 4,000/10,000 steps × 20, return 0.5 ± 0.1, 2,000 steps/s: "
        "the disk is full",
        "minatar_breakout--replicate-all--0-19: waiting, 0/10,000 steps × 20",
        "minatar_breakout--replicate-one--0-19: waiting, 0/10,000 steps × 20",
        "minatar_breakout--recipe--0-19: waiting, 0/10,000 steps × 20",
    ]
    found = json.loads(said(capsys, "status", "--json", str(tmp_path)))
    assert found["populations"][1] == {
        "name": "minatar_breakout--polyak--0-19", "state": "failed", "agents": 20, "steps": 4_000,
        "total_steps": 10_000, "return_mean": 0.5, "steps_per_second": 2_000.0, "seconds_left": 60.0,
        "error": "the disk is full",
    }  # fmt: skip
    assert found["populations"][2]["seconds_left"] is None


def test_the_live_display_fits_a_narrow_terminal_and_shows_what_runs() -> None:
    summary = monitor.progress.Summary(500, 1000.0, 3.25, 0.1, 2, 0.01, 0)
    rows = [
        monitor.Row("minatar_breakout--hard--0-1", 2, 1000, 1000, "finished", summary),
        monitor.Row("minatar_breakout--learned--0-1", 2, 500, 1000, "running", summary),
    ]
    console = Console(width=90, force_terminal=True, color_system=None, file=None, record=True)
    with console.capture() as capture:
        console.print(monitor.StudyDisplay("A [study]", lambda: rows, console=console))
    text = capture.get()
    assert "A [study]" in text
    assert "1 of 2 populations finished, 1 running: 3,000/4,000 agent steps (75%)" in text
    assert "3.2 ± 0.1" in text
    assert "1s" in text  # 500 steps of 2 agents at 1000 a second
    assert max(map(len, text.splitlines())) <= 90
