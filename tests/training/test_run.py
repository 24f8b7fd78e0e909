"""Runs on disk: cut anywhere and resumed, they end with the metrics of one that never stopped; devices don't matter."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import probes
import pytest

from lookrep import config as configs
from lookrep import envs
from lookrep.cli import main
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.training import checkpoint, metrics, run
from lookrep.training.fused import FusedEngine

pytestmark = pytest.mark.usefixtures("quick_compilation")

TESTS = Path(__file__).parents[1]
SETTINGS = {
    "agent": "rainbow", "target": "replicate", "agents": 2, "steps": 6000, "seed": 3, "log-interval-steps": 400,
    "checkpoint-interval-steps": 1200, "warmup-steps": 1000, "network": "mlp:8", "atoms": 5, "v-min": -2, "v-max": 4,
    "batch-size": 8, "replay-capacity-steps": 2000, "target-period-updates": 30, "replicate-updates": 5,
    "replicate-batch-size": 8, "epsilon-decay-steps": 2000,
}  # fmt: skip
TRAIN = ["train", "probes:Museum", *(f"--{name}={value}" for name, value in SETTINGS.items()), "--quiet"]


def rows(out: Path) -> list[dict[str, Any]]:
    """The metrics without the one column that says how fast the machine was."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "steps_per_second"} for line in lines]


def lookrep(*words: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lookrep.cli", *words]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    return subprocess.Popen(
        command, cwd=TESTS, env=clean | environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def completed(*words: str, environment: dict[str, str]) -> None:
    process = lookrep(*words, environment=environment)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def assert_close(found: list[dict[str, Any]], expected: list[dict[str, Any]], tolerance: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert {k: v for k, v in ours.items() if v is not None} == pytest.approx(
            {k: v for k, v in theirs.items() if v is not None}, rel=tolerance, abs=tolerance
        )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, quick_compilation: dict[str, str]) -> Path:
    """A run that never stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    completed(*TRAIN, "--out", str(out), environment=quick_compilation)
    return out


@pytest.fixture(scope="module")
def engine(whole: Path) -> FusedEngine:
    """An engine is a pure function of its configuration, so all runs below can share its compiled programs."""
    return FusedEngine(configs.load(whole), probes.Museum())


class Killed(BaseException):
    """As sudden as SIGKILL: nothing that is meant for errors catches it."""


class CutEngine:
    """The engine, and something that happens when a step is reached."""

    def __init__(self, engine: FusedEngine, at_steps: int, happening: Callable[[], None]) -> None:
        self._engine, self._at_steps, self._happening = engine, at_steps, happening
        self.init, self.shapes, self.place, self.measure = engine.init, engine.shapes, engine.place, engine.measure
        self.part, self.saved, self.close, self.can_pause = engine.part, engine.saved, engine.close, engine.can_pause

    def advance(self, state: Any, until_steps: int) -> Any:
        if until_steps == self._at_steps:
            self._happening()
        return self._engine.advance(state, until_steps)


def killed() -> None:
    raise Killed


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def cut(
    monkeypatch: pytest.MonkeyPatch, engine: FusedEngine, out: Path, at_steps: int, happening: Callable[[], None]
) -> None:
    """Start the run and cut it in the interval that ends at `at_steps`."""
    monkeypatch.setattr(run, "make_engine", lambda config: CutEngine(engine, at_steps, happening))
    with contextlib.suppress(Killed):
        assert not run.start(engine.config, out, quiet=True)
    monkeypatch.setattr(run, "make_engine", lambda config: engine)


def test_a_run_ends_with_its_configuration_all_rows_and_the_last_two_checkpoints(whole: Path) -> None:
    found = metrics.read(whole)
    np.testing.assert_array_equal(found["agent_steps"], np.repeat(np.arange(400, 6001, 400), 2))
    np.testing.assert_array_equal(found["agent"], np.tile([0, 1], 15))
    np.testing.assert_array_equal(found["online_updates"], np.maximum(found["agent_steps"] - 1000, 0) // 4)
    np.testing.assert_array_equal(found["target_updates"], 5 * (found["online_updates"] // 30))
    assert sorted(p.name for p in (whole / "checkpoints").iterdir()) == ["000000004800", "000000006000"]
    assert list(whole.glob("events.out.tfevents.*"))


def test_its_configuration_gives_the_same_run_again(whole: Path, tmp_path: Path) -> None:
    config = configs.load(whole)
    assert (config.env, config.agents, config.settings.target.target) == ("probes:Museum", 2, "replicate")
    words = ["train", "--config", str(whole / "config.json"), "--out", str(tmp_path / "again"), "--quiet"]
    assert main(words) == 0
    assert configs.load(tmp_path / "again") == config
    assert rows(tmp_path / "again") == rows(whole)


@pytest.mark.parametrize(
    ("at_steps", "happening"),
    [*itertools.product((400, 1200, 1600, 3600, 4000), (ctrl_c, killed)), (6000, killed)],
)
def test_cut_anywhere_and_resumed_a_run_ends_with_the_same_metrics(
    at_steps: int,
    happening: Callable[[], None],
    whole: Path,
    engine: FusedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the warm-up, where it ends inside an interval, before and after a checkpoint, in the last interval."""
    out = tmp_path / "cut"
    cut(monkeypatch, engine, out, at_steps, happening)
    before = rows(out)
    assert before == rows(whole)[: len(before)]
    assert len(before) == 2 * (at_steps // 400 - (happening is killed))
    assert run.resume(out, quiet=True)
    assert rows(out) == rows(whole)


def test_cut_several_times_and_torn_in_the_middle_of_a_row_it_still_does(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cut"
    cut(monkeypatch, engine, out, 2000, ctrl_c)
    with open(out / "metrics.jsonl", "a") as file:
        file.write('{"agent": 0, "agent_steps": 24')
    monkeypatch.setattr(run, "make_engine", lambda config: CutEngine(engine, 3200, ctrl_c))
    assert not run.resume(out, quiet=True)
    monkeypatch.setattr(run, "make_engine", lambda config: CutEngine(engine, 5200, killed))
    with pytest.raises(Killed):
        run.resume(out, quiet=True)
    monkeypatch.setattr(run, "make_engine", lambda config: engine)
    assert run.resume(out, quiet=True)
    assert rows(out) == rows(whole)


def test_a_corrupt_newest_checkpoint_costs_time_and_nothing_else(
    whole: Path,
    engine: FusedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "cut"
    cut(monkeypatch, engine, out, 4000, ctrl_c)
    newest = checkpoint.latest(out / "checkpoints")
    assert newest is not None
    assert newest.name == "000000004000"
    arrays = bytearray((newest / "arrays.bin").read_bytes())
    arrays[len(arrays) // 2] ^= 1
    (newest / "arrays.bin").write_bytes(arrays)
    assert run.resume(out)
    said = capsys.readouterr().err
    assert "went back to checkpoint" in said
    assert rows(out) == rows(whole)


def test_resumed_with_more_steps_a_run_is_one_that_had_that_length_from_the_start(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "make_engine", lambda config: engine)
    short = dataclasses.replace(engine.config, steps=2400)
    assert run.start(short, tmp_path / "short", quiet=True)
    assert run.resume(tmp_path / "short", 6000, quiet=True)
    assert rows(tmp_path / "short") == rows(whole)
    assert configs.load(tmp_path / "short").steps == 6000


def test_an_end_between_two_rows_adds_a_row_and_changes_no_later_one(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "make_engine", lambda config: engine)
    assert run.start(dataclasses.replace(engine.config, steps=2600), tmp_path / "short", quiet=True)
    assert run.resume(tmp_path / "short", 6000, quiet=True)
    found, expected = rows(tmp_path / "short"), rows(whole)
    assert [r["agent_steps"] for r in found if r["agent"] == 0][:9] == [*range(400, 2401, 400), 2600, 2800, 3200]
    assert found[:12] == expected[:12]
    # The programs between 2600 and 2800 are cut differently, so that bits may differ; what happened may not.
    assert_close(found[16:], expected[14:], 1e-2)


def test_ctrl_c_saves_and_says_how_to_go_on(whole: Path, tmp_path: Path, quick_compilation: dict[str, str]) -> None:
    out = tmp_path / "cut"
    process = lookrep(*TRAIN, "--out", str(out), environment=quick_compilation)
    wait_for_rows(process, out, 4)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert output.splitlines()[-1] == f"interrupted; go on with: lookrep train --resume {out}"
    assert errors == ""
    assert len(rows(out)) < len(rows(whole))
    completed("train", "--resume", str(out), "--quiet", environment=quick_compilation)
    assert rows(out) == rows(whole)


def test_asked_to_stop_while_one_of_several_is_saved_all_are_saved_at_the_same_step(
    engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [
        (tmp_path / name, configs.replace(engine.config, seed=seed, checkpoint_interval_steps=every))
        for seed, (name, every) in enumerate((("often", 400), ("seldom", 6000)))
    ]
    save = checkpoint.save

    def asked_meanwhile(*arguments: Any) -> Path:
        signal.raise_signal(signal.SIGTERM)
        return save(*arguments)

    monkeypatch.setattr(checkpoint, "save", asked_meanwhile)
    assert not run.together(runs, quiet=True)
    newest = [checkpoint.latest(out / run.CHECKPOINTS) for out, _ in runs]
    assert [path.name for path in newest if path is not None] == ["000000000800"] * 2


def test_asked_to_stop_what_comes_next_is_not_begun(
    engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def trained(runs: list[Any], *_: Any) -> bool:
        begun.append(runs)
        signal.raise_signal(signal.SIGTERM)
        return True

    monkeypatch.setattr(run, "_trained", trained)
    monkeypatch.setattr(envs, "on_host", lambda env: True)  # each has a program of its own
    assert not run.together([(tmp_path / name, engine.config) for name in "ab"], quiet=True)
    assert len(begun) == 1


def test_a_new_end_that_cannot_be_written_down_is_one_line(
    whole: Path, engine: FusedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run, "make_engine", lambda config: engine)
    monkeypatch.setattr(run, "write_whole", refused)
    with pytest.raises(UserError, match=f"cannot write to {whole}: Permission denied"):
        run.resume(whole, 8000)


def test_kill_9_costs_what_came_after_the_last_checkpoint(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out = tmp_path / "cut"
    process = lookrep(*TRAIN, "--out", str(out), environment=quick_compilation)
    wait_for_rows(process, out, 8)
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    completed("train", "--resume", str(out), "--quiet", environment=quick_compilation)
    assert rows(out) == rows(whole)


def wait_for_rows(process: subprocess.Popen[str], out: Path, count: int) -> None:
    while not (out / "metrics.jsonl").exists() or len((out / "metrics.jsonl").read_text().splitlines()) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)


def test_two_devices_give_the_same_metrics_as_one(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    environment = quick_compilation | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    out = tmp_path / "two"
    completed(*TRAIN, "--steps=3200", "--devices=2", "--out", str(out), environment=environment)
    assert_close(rows(out), rows(whole)[:16], 1e-4)
    completed("train", "--resume", str(out), "--steps", "4000", "--quiet", environment=environment)
    assert_close(rows(out), rows(whole)[:20], 1e-4)


def test_a_member_that_turns_nan_is_reported_and_marked_and_the_run_goes_on(
    tmp_path: Path, engine: FusedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    config = dataclasses.replace(engine.config, env="probes:RareNaN", agents=4, steps=2400)
    assert run.start(config, tmp_path / "run")
    found = metrics.read(tmp_path / "run")
    diverged = found["diverged"].reshape(-1, 4)
    assert 0 < diverged[-1].sum() < 4  # by the seed
    said = capsys.readouterr()
    for agent in range(4):
        when = 400 * (np.flatnonzero(diverged[:, agent]) + 1)
        assert said.err.count(f"agent {agent} turned NaN") == min(len(when), 1)
        assert not len(when) or f"agent {agent} turned NaN by step {when[0]:,}" in said.err
    assert np.isfinite(found["loss"][~found["diverged"] & (found["online_updates"] > 0)]).all()
    assert "finished 2,400 steps × 4 agents" in said.out


# What a run refuses


def test_an_existing_run_is_never_written_over(whole: Path, engine: FusedEngine) -> None:
    before = {p: p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match="already holds a run: lookrep train --resume"):
        run.start(engine.config, whole)
    with pytest.raises(UserError, match=r"is finished \(6,000 steps\): --steps with a larger number goes on"):
        run.resume(whole)
    with pytest.raises(UserError, match=r"is finished \(6,000 steps\): --steps with a larger number goes on"):
        run.resume(whole, 2000)
    with pytest.raises(UserError, match="must be a multiple of steps_per_update"):
        run.resume(whole, 7001)
    assert {p: p.read_bytes() for p in whole.rglob("*") if p.is_file()} == before


def test_a_finished_run_without_checkpoints_is_not_thrown_away_by_resume(
    tmp_path: Path, engine: FusedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "make_engine", lambda config: engine)
    out = tmp_path / "run"
    assert run.start(dataclasses.replace(engine.config, steps=1600, checkpoint_interval_steps=0), out, quiet=True)
    assert not (out / "checkpoints").exists()
    before = rows(out)
    with pytest.raises(UserError, match="is finished and has no checkpoint to go on from"):
        run.resume(out)
    with pytest.raises(UserError, match="is finished and has no checkpoint to go on from"):
        run.resume(out, 2400)
    assert rows(out) == before
    assert configs.load(out).steps == 1600


def test_an_environment_of_ones_own_trains_by_its_name(whole: Path) -> None:
    assert isinstance(envs.make("probes:Museum"), probes.Museum)
    config: RunConfig = configs.load(whole)
    assert config.env == "probes:Museum"
