"""Runs on disk: cut anywhere and resumed, they end with the metrics of one that never stopped; devices don't matter."""

import contextlib
import dataclasses
import errno
import itertools
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import probes
import pytest

from lookrep import api, envs, playing
from lookrep import config as configs
from lookrep.cli import main
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.runs import checkpoint, folder, lock, metrics
from lookrep.training import loop, opening
from lookrep.training import session as run
from lookrep.training.fused import FusedEngine

pytestmark = pytest.mark.usefixtures("quick_compilation")

TESTS = Path(__file__).parents[1]
SETTINGS = {
    "agent": "rainbow", "target": "replicate", "agents": 2, "steps": 6000, "seed": 3, "log-interval-steps": 400,
    "checkpoint-interval-steps": 1200, "warmup-steps": 1000, "network": "mlp:8", "atoms": 5, "v-min": -2, "v-max": 4,
    "batch-size": 8, "replay-capacity-steps": 2000, "target-period-updates": 30, "replicate-updates": 5,
    "replicate-batch-size": 8, "epsilon-decay-steps": 2000,
}  # fmt: skip


def train(**changes: Any) -> list[str]:
    return ["train", "probes:Museum", *(f"--{name}={value}" for name, value in (SETTINGS | changes).items()), "--quiet"]


TRAIN = train()


def trains_with(monkeypatch: pytest.MonkeyPatch, make_engine: Any) -> None:
    for module in (opening, loop):
        monkeypatch.setattr(module, "make_engine", make_engine)


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
        self.agent = engine.agent

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
    trains_with(monkeypatch, lambda *_: CutEngine(engine, at_steps, happening))
    with contextlib.suppress(Killed):
        assert not run.start(engine.config, out, quiet=True)
    trains_with(monkeypatch, lambda *_: engine)


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
    words = ["train", "--trust", "--config", str(whole / "config.json"), "--out", str(tmp_path / "again"), "--quiet"]
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
    never_saved = happening is killed and at_steps <= 1200
    assert run.resume(out, restart=never_saved, quiet=True)
    assert rows(out) == rows(whole)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
def test_a_closed_terminal_saves_and_stops(
    number: signal.Signals,
    stopped: Path,
    engine: FusedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "cut"
    cut(monkeypatch, engine, out, 3200, lambda: signal.raise_signal(number))
    assert rows(out) == rows(stopped)
    assert checkpoint.latest(out / "checkpoints") == out / "checkpoints/000000003200"


def test_a_run_whose_progress_nobody_reads_goes_on(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `lookrep train … 2>&1 | head -1`."""
    trains_with(monkeypatch, lambda *_: engine)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        monkeypatch.setattr(sys, "stderr", nobody)
        assert main(["train", "--trust", "--config", str(whole), "--out", str(tmp_path / "run")]) == 0
    assert rows(tmp_path / "run") == rows(whole)


def test_cut_several_times_and_torn_in_the_middle_of_a_row_it_still_does(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "cut"
    cut(monkeypatch, engine, out, 2000, ctrl_c)
    with open(out / "metrics.jsonl", "a") as file:
        file.write('{"agent": 0, "agent_steps": 24')
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 3200, ctrl_c))
    assert not run.resume(out, quiet=True)
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 5200, killed))
    with pytest.raises(Killed):
        run.resume(out, quiet=True)
    trains_with(monkeypatch, lambda *_: engine)
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
    trains_with(monkeypatch, lambda *_: engine)
    short = dataclasses.replace(engine.config, steps=2400)
    assert run.start(short, tmp_path / "short", quiet=True)
    assert run.resume(tmp_path / "short", 6000, quiet=True)
    assert rows(tmp_path / "short") == rows(whole)
    assert configs.load(tmp_path / "short").steps == 6000


def test_an_end_between_two_rows_adds_a_row_and_changes_no_later_one(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
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
    assert output.splitlines()[-1] == f"interrupted; go on with: lookrep train --resume {out} --trust"
    assert errors == ""
    assert len(rows(out)) < len(rows(whole))
    completed("train", "--trust", "--resume", str(out), "--quiet", environment=quick_compilation)
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
    assert not run.together(runs)
    newest = [checkpoint.latest(out / "checkpoints") for out, _ in runs]
    assert [path.name for path in newest if path is not None] == ["000000000800"] * 2


def test_asked_to_stop_what_comes_next_is_not_begun(
    engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was cut is at another step than a new one: they go on one after the other."""
    cut(monkeypatch, engine, tmp_path / "cut", 1600, killed)
    before = rows(tmp_path / "cut")
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 800, ctrl_c))
    assert not run.together([(tmp_path / "cut", None), (tmp_path / "new", engine.config)])
    assert rows(tmp_path / "new")[-1]["agent_steps"] == 800
    assert rows(tmp_path / "cut") == before
    assert before[-1]["agent_steps"] == 1200


def test_a_new_end_that_cannot_be_written_down_is_one_line(
    whole: Path, engine: FusedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    trains_with(monkeypatch, lambda *_: engine)
    monkeypatch.setattr(opening, "write_whole", refused)
    with pytest.raises(UserError, match=f"cannot write to {whole}: Permission denied"):
        run.resume(whole, 8000)


def test_kill_9_costs_what_came_after_the_last_checkpoint(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out = tmp_path / "cut"
    process = lookrep(*TRAIN, "--out", str(out), environment=quick_compilation)
    wait_for_rows(process, out, 16)
    process.kill()
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL
    completed("train", "--trust", "--resume", str(out), "--quiet", environment=quick_compilation)
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
    completed(*train(steps=3200, devices=2), "--out", str(out), environment=environment)
    assert_close(rows(out), rows(whole)[:16], 1e-4)
    completed("train", "--trust", "--resume", str(out), "--steps", "4000", "--quiet", environment=environment)
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

    def files() -> dict[Path, bytes]:
        return {p: p.read_bytes() for p in whole.rglob("*") if p.is_file() and p.name != ".lock"}

    before = files()
    with pytest.raises(UserError, match="already holds a run: lookrep train --resume"):
        run.start(engine.config, whole)
    with pytest.raises(UserError, match=r"is finished \(6,000 steps\): --steps with a larger number goes on"):
        run.resume(whole)
    with pytest.raises(UserError, match=r"is finished \(6,000 steps\): --steps with a larger number goes on"):
        run.resume(whole, 2000)
    with pytest.raises(UserError, match="must be a multiple of steps_per_update"):
        run.resume(whole, 7001)
    assert files() == before


NO_CHECKPOINT = "has rows of metrics, but no checkpoint to go on from: lookrep train --resume .* --restart begins anew"


def test_rows_without_a_checkpoint_are_never_thrown_away_by_resume(
    tmp_path: Path, engine: FusedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = tmp_path / "run"
    assert run.start(dataclasses.replace(engine.config, steps=1600, checkpoint_interval_steps=0), out, quiet=True)
    assert not (out / "checkpoints").exists()
    before = rows(out)
    with pytest.raises(UserError, match=NO_CHECKPOINT):
        run.resume(out)
    with pytest.raises(UserError, match=NO_CHECKPOINT):
        run.resume(out, 2400)
    assert rows(out) == before
    assert configs.load(out).steps == 1600
    assert run.resume(out, restart=True, quiet=True)
    assert rows(out) == rows(out / "before-restart-1") == before
    assert configs.load(out / "before-restart-1") == configs.load(out)


# Damage to a run that was stopped half-way, and what is said of it; nothing: it goes on from the older checkpoint.


def each(pattern: str, harm: Callable[[Path], Any]) -> Callable[[Path], None]:
    def harmed(out: Path) -> None:
        paths = sorted(out.glob(pattern))
        assert paths
        for path in paths:
            harm(path)

    return harmed


def halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def without_a_row(path: Path) -> None:
    """Of those that only the newest checkpoint has behind it."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:14] + lines[15:]))


def with_a_row_twice(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:15] + lines[14:]))


LOSSES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no checkpoints": (lambda out: shutil.rmtree(out / "checkpoints"), NO_CHECKPOINT),
    "empty checkpoints": (each("checkpoints/*", shutil.rmtree), NO_CHECKPOINT),
    "manifests": (each("checkpoints/*/manifest.json", Path.unlink), "manifest.json is missing; no intact checkpoint"),
    "arrays": (each("checkpoints/*/arrays.bin", Path.unlink), "cannot read .*/arrays.bin: .*; no intact checkpoint"),
    "metrics": (lambda out: (out / "metrics.jsonl").unlink(), "metrics.jsonl lacks rows from before checkpoint"),
    "metrics emptied": (each("metrics.jsonl", lambda path: path.write_text("")), "lacks rows from before checkpoint"),
    "metrics halved": (each("metrics.jsonl", halved), "lacks rows .*; no intact .* --restart begins anew"),
    "a row removed": (each("metrics.jsonl", without_a_row), ""),
    "a row doubled": (each("metrics.jsonl", with_a_row_twice), ""),
}


@pytest.fixture(scope="module")
def stopped(engine: FusedEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with checkpoints at 2400 and 3200 of 6000 steps."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        cut(patch, engine, out, 3200, ctrl_c)
    assert sorted(path.name for path in (out / "checkpoints").iterdir()) == ["000000002400", "000000003200"]
    return out


@pytest.mark.parametrize(("harm", "complaint"), LOSSES.values(), ids=LOSSES)
def test_a_resume_never_erases_and_says_what_is_missing(
    harm: Callable[[Path], Any],
    complaint: str,
    whole: Path,
    stopped: Path,
    engine: FusedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    harm(out)
    if not complaint:
        assert run.resume(out)
        said = capsys.readouterr().err
        assert f"metrics.jsonl lacks rows from before checkpoint {out}/checkpoints/000000003200; went back to" in said
        assert rows(out) == rows(whole)
        return
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file() and path.name != ".lock"}
    assert main(["train", "--trust", "--resume", str(out)]) == 2
    said = capsys.readouterr().err
    assert re.search(complaint, said)
    assert said.count("\n") == 1
    assert said.endswith(
        f"lookrep train --resume {out} --trust --restart begins anew, and keeps what is there beside it\n"
    )
    assert {path: path.read_bytes() for path in before} == before


def test_from_python_the_ways_out_are_pythons(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(UserError, match=r"no checkpoint to go on from: resume\(restart=True\) begins anew, and keeps"):
        api.load(out, trust=True).resume()
    again = api.load(out, trust=True).resume(restart=True)
    assert rows(out) == rows(whole)
    assert rows(out / "before-restart-1") == rows(stopped)
    with pytest.raises(UserError, match=r"is finished \(6,000 steps\): steps= with a larger number goes on"):
        again.resume()


def test_where_nothing_is_left_it_begins_again_and_says_so(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    shutil.rmtree(out / "checkpoints")
    (out / "metrics.jsonl").write_text("")
    assert run.resume(out)
    assert "has no checkpoint and no rows of metrics: it begins at step 0" in " ".join(capsys.readouterr().err.split())
    assert rows(out) == rows(whole)


def test_a_restart_keeps_what_there_was_as_a_run_to_look_at(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    assert run.resume(out, restart=True, quiet=True)
    assert rows(out) == rows(whole)
    aside = out / "before-restart-1"
    assert rows(aside) == rows(stopped)
    assert lookrep_agents(aside) == 3200


def lookrep_agents(out: Path) -> int:
    """How many steps the agents of a run have taken that can be looked at."""
    return playing.load(out).agent_steps


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ('"learning_rate": 0.00025', '"learning_rate": 0.00035', "learning_rate = 0.00035, but .* with 0.00025"),
        ('"seed": 3', '"seed": 2', "seed = 2, but it was trained with 3: put that back"),
        ('"v_max": 4.0', '"v_max": 5.0', "v_max = 5.0, but it was trained with 4.0"),
    ],
)
def test_settings_that_were_changed_behind_a_runs_back_are_named(
    before: str, after: str, complaint: str, stopped: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(stopped, tmp_path / "run")
    text = (out / "config.json").read_text()
    assert before in text
    (out / "config.json").write_text(text.replace(before, after))
    for use in (run.resume, playing.load):
        with pytest.raises(UserError, match=f"config.json says {complaint}"):
            use(out)


def test_an_end_that_nobody_asked_for_is_named(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    text = (out / "config.json").read_text()
    for steps in (6032, 5744, 1904):  # a bit each
        (out / "config.json").write_text(text.replace('"steps": 6000', f'"steps": {steps}'))
        with pytest.raises(
            UserError, match=f"says steps = {steps:,}, but it was trained to end at 6,000: put that back"
        ):
            run.resume(out)
        assert main(["train", "--trust", "--resume", str(out)]) == 2
        with pytest.raises(UserError, match=f"put that back, or say steps={steps} if you mean it"):
            api.load(out, trust=True).resume()
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 4000, killed))
    with pytest.raises(Killed):
        run.resume(out, 8000, quiet=True)  # asked for, and the next checkpoint was never made
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 6800, ctrl_c))
    assert not run.resume(out, quiet=True)
    assert configs.load(out).steps == 8000
    assert rows(out)[:30] == rows(whole)


def test_checkpoints_of_before_that_know_no_end_still_load(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    for path in out.glob("checkpoints/*/manifest.json"):
        manifest = json.loads(path.read_text())
        del manifest["crc32"], manifest["meta"]["length"]
        path.write_text(json.dumps({**manifest, "crc32": checkpoint._manifest_crc(manifest)}))
    assert run.resume(out, quiet=True)
    assert rows(out) == rows(whole)


def test_another_interval_between_checkpoints_is_said(
    whole: Path, stopped: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    trains_with(monkeypatch, lambda *_: engine)
    out = shutil.copytree(stopped, tmp_path / "run")
    text = (out / "config.json").read_text()
    (out / "config.json").write_text(
        text.replace('"checkpoint_interval_steps": 1200', '"checkpoint_interval_steps": 800')
    )
    assert run.resume(out)
    assert "config.json says checkpoint_interval_steps = 800, it was 1,200" in " ".join(capsys.readouterr().err.split())
    assert rows(out) == rows(whole)


def all_memory_taken() -> None:
    """As if another process had it: the system gives this one nothing more, which is more than enough to ask for."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (100 << 20), before[1]))
    try:
        jnp.zeros(1 << 30, jnp.uint8).block_until_ready()
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_out_of_memory_is_one_line_and_what_was_saved_is_good(
    whole: Path, engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 2000, all_memory_taken))
    with pytest.raises(UserError, match=r"^out of memory \(.*1073741824 bytes.*what was saved before is good$"):
        run.start(engine.config, out, quiet=True)
    trains_with(monkeypatch, lambda *_: engine)
    assert run.resume(out, quiet=True)
    assert rows(out) == rows(whole)


# Two writers


def test_a_run_that_is_being_trained_is_left_alone_and_can_be_read(
    stopped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(folder, "LOCK_SECONDS", 0.1)
    out = shutil.copytree(stopped, tmp_path / "run")
    with folder.claim(out):
        before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
        for words in (["--resume", str(out)], ["--resume", str(out), "--restart"]):
            assert main(["train", "--trust", *words]) == 2
            said = capsys.readouterr().err
            assert said.startswith(f"lookrep: {out} is being trained by process {os.getpid()} on ")
            assert said.count("\n") == 1
        with pytest.raises(folder.Busy):
            api.load(out, trust=True).resume()
        assert {path: path.read_bytes() for path in before} == before
        assert lookrep_agents(out) == 3200
        assert folder.is_running(out)
    assert not folder.is_running(out)


def test_two_starts_in_one_folder_make_one_run(whole: Path, tmp_path: Path, quick_compilation: dict[str, str]) -> None:
    out = tmp_path / "run"
    both = [lookrep(*train(seed=seed), "--out", str(out), environment=quick_compilation) for seed in (3, 4)]
    said = [process.communicate(timeout=300)[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
    (refusal,) = filter(None, said)
    assert "is being trained by process" in refusal or "already holds a run" in refusal
    seeds = {row["seed"] for row in rows(out)}
    assert seeds == {configs.load(out).seed}
    assert len(rows(out)) == 30


def test_a_file_system_without_locks_is_said_and_holds_nobody_up(
    whole: Path,
    engine: FusedEngine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def none(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(lock.fcntl, "flock", none)
    cut(monkeypatch, engine, tmp_path / "run", 1600, ctrl_c)
    assert run.resume(tmp_path / "run")
    said = (
        f"no lock on {tmp_path / 'run'}: its file system has none (Function not implemented); start nothing else there"
    )
    assert said in " ".join(capsys.readouterr().err.split())
    assert rows(tmp_path / "run") == rows(whole)


@pytest.mark.parametrize("happening", [shutil.rmtree, lambda out: out.rename(out.with_name("elsewhere"))])
def test_a_folder_that_goes_away_under_way_stops_the_run(
    happening: Callable[[Path], Any], engine: FusedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    trains_with(monkeypatch, lambda *_: CutEngine(engine, 2000, lambda: happening(out)))
    with pytest.raises(UserError, match=r"metrics.jsonl is gone: it was moved or deleted under way"):
        run.start(engine.config, out, quiet=True)
    assert not out.exists()
    if (tmp_path / "elsewhere").exists():
        trains_with(monkeypatch, lambda *_: engine)
        assert run.resume(tmp_path / "elsewhere", quiet=True)


def test_an_environment_of_ones_own_trains_by_its_name(whole: Path) -> None:
    assert isinstance(envs.make("probes:Museum"), probes.Museum)
    config: RunConfig = configs.load(whole)
    assert config.env == "probes:Museum"
