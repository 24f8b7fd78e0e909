"""Studies on this machine: stopped and killed anywhere, they end as if nothing had happened; no work is done twice."""

import dataclasses
import errno
import itertools
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from study_runs import POPULATIONS, completed, kill, rows, saved, start, wait_until, write_study

from lookrep import config as configs
from lookrep import playing
from lookrep.analysis import results, sources
from lookrep.cli import main
from lookrep.errors import UserError
from lookrep.runs import checkpoint
from lookrep.runs import folder as runs
from lookrep.studies import definition, folder, hardware, plan
from lookrep.studies.execute import growth, local, monitor, worker
from lookrep.studies.execute import run as execute

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, quick_compilation: dict[str, str]) -> Path:
    """A study that ran from its start to its end, films included."""
    out = tmp_path_factory.mktemp("whole") / "study"
    definition = write_study(out.parent)
    said = completed("run", definition, "--out", out, environment=quick_compilation)
    assert f"finished: all 2 populations of two-targets → {out}" in said
    assert f"look at it with: lookrep report {out}" in said
    return out


def same_metrics(found: Path, expected: Path) -> bool:
    return all(
        rows(found / "populations" / name) == rows(expected / "populations" / name)
        and rows(expected / "populations" / name)
        for name in POPULATIONS
    )


def test_everything_that_was_asked_for_is_finished(whole: Path) -> None:
    found = results.load(whole)
    assert [(m.env, m.variant, m.seed, m.status) for m in found.members] == [
        ("probes:Museum", variant, seed, "finished") for variant in ("hard", "learned") for seed in (0, 1)
    ]
    assert [len(m.columns["agent_steps"]) for m in found.members] == [30] * 4
    (sitting,) = found.sittings
    assert sitting["command"].startswith("lookrep study run ")
    assert sitting["finished"] == list(POPULATIONS)
    assert found.versions[0]["device"] == "1 × cpu"


def test_finished_work_is_not_repeated(whole: Path, quick_compilation: dict[str, str]) -> None:
    its_own = [whole / name for name in ("sittings.jsonl", "study.toml", ".lock")]
    files = [path for path in whole.rglob("*") if path.is_file() and path not in its_own]
    before = {path: path.stat().st_mtime_ns for path in files}
    said = completed("run", whole, environment=quick_compilation)
    assert "finished: all 2 populations" in said
    assert {path: path.stat().st_mtime_ns for path in files} == before


def test_what_a_killed_save_left_in_a_finished_population_goes_away(
    whole: Path, quick_compilation: dict[str, str]
) -> None:
    left = whole / "populations" / POPULATIONS[0] / "checkpoints/000000001600.replaced.old.tmp"
    left.mkdir()
    (left / "arrays.bin").write_bytes(b"0")
    completed("run", whole, "--no-film", environment=quick_compilation)
    assert not left.exists()


def test_more_steps_go_on_where_the_replay_was_kept(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    study, out = write_study(tmp_path), tmp_path / "grown"
    part = ("--variant", "hard", "--no-film")
    completed("run", study, "--out", out, "--steps", "3_000", "--keep-replay", *part, environment=quick_compilation)
    said = completed("run", study, "--out", out, *part, environment=quick_compilation)
    assert f"{POPULATIONS[0]}: goes on from 3,000 to 6,000 steps" in said
    assert rows(out / "populations" / POPULATIONS[0]) == rows(whole / "populations" / POPULATIONS[0])
    assert {m.status for m in results.load(out).members} == {"finished"}


def test_more_steps_train_again_where_the_replay_was_dropped(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "copy")
    asked = dataclasses.replace(definition.load(whole), steps=8_000)
    seen = [monitor.survey(tmp_path / "copy", steps, plan.every(tmp_path / "copy", asked)) for steps in (6_000, 8_000)]
    assert [{row.state for row in rows} for rows in seen] == [{"finished"}, {"stopped"}]
    ways = growth.needed(tmp_path / "copy", [*POPULATIONS, "another--hard--0-1"], 8_000)
    assert ways == dict.fromkeys(POPULATIONS, "again")
    todo, jobs = execute.work(asked, tmp_path / "copy", execute.Options(), hardware.detect())
    assert [list(job.populations) for job in jobs] == [[name] for name in POPULATIONS]
    (tmp_path / "copy" / "videos").mkdir(exist_ok=True)
    said = growth.apply(tmp_path / "copy", ways, 8_000)
    assert said[0] == (
        f"{POPULATIONS[0]}: trained again, 6,000 to 8,000 steps: its replay was not kept "
        "(what there was is in before-restart-1)"
    )
    run = tmp_path / "copy" / "populations" / POPULATIONS[0]
    assert (configs.load(run).steps, configs.load(run / "before-restart-1").steps) == (8_000, 6_000)
    assert not list((tmp_path / "copy" / "videos").iterdir())
    assert growth.needed(tmp_path / "copy", todo, 8_000) == {}


def test_the_first_environment_is_filmed_with_every_variant(whole: Path) -> None:
    names = sorted(path.name for path in (whole / "videos").iterdir())
    assert names == ["probes_Museum--hard.gif", "probes_Museum--learned.gif"]
    assert all((whole / "videos" / name).read_bytes()[:3] == b"GIF" for name in names)


def test_of_a_finished_population_the_networks_are_kept_without_the_replay(whole: Path) -> None:
    run = whole / "populations" / POPULATIONS[1]
    assert saved(run) == ["000000006000"]
    manifest = json.loads((run / "checkpoints/000000006000/manifest.json").read_text())
    assert not [leaf["path"] for leaf in manifest["leaves"] if "replay" in leaf["path"] or "optimizer" in leaf["path"]]
    trained = playing.load(run)
    assert trained.agent_steps == 6000
    assert trained.numbers.tolist() == [0, 1]


def test_a_study_that_is_interrupted_goes_on_where_it_was(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out, definition = tmp_path / "study", write_study(tmp_path)
    process = start("run", definition, "--out", out, "--no-film", environment=quick_compilation)
    wait_until(lambda: bool(saved(out / "populations" / POPULATIONS[0])), process)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert f"interrupted, go on with: lookrep study run {out}" in said
    assert not (out / "populations" / POPULATIONS[1]).exists()
    # Then killed, with the process that trains; then in one go, both at once.
    process = start("run", out, "--jobs", "2", "--no-film", environment=quick_compilation)
    wait_until(lambda: bool(saved(out / "populations" / POPULATIONS[1])), process)
    kill(out / "populations" / POPULATIONS[1])
    said, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert f"failed: {POPULATIONS[1]}: ended by SIGKILL (out of memory?)" in said
    assert folder.failure(out, POPULATIONS[1]) == "ended by SIGKILL (out of memory?)"
    assert runs.finished(out / "populations" / POPULATIONS[0])
    completed("run", out, "--no-film", environment=quick_compilation)
    assert same_metrics(out, whole)
    assert [len(s.get("finished", [])) for s in results.load(out).sittings] == [0, 1, 1]


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory, quick_compilation: dict[str, str]) -> Path:
    """The same study with both variants in one program."""
    out = tmp_path_factory.mktemp("joint") / "uncut"
    definition = write_study(out.parent)
    completed("run", definition, "--out", out, "--together", "4", "--no-film", environment=quick_compilation)
    return out


def test_variants_trained_in_one_program_are_killed_and_resumed_without_a_trace(
    whole: Path, joint: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    definition = write_study(tmp_path)
    flags = ("--together", "4", "--no-film")
    for name in POPULATIONS:  # the same run as alone, but for rounding
        ours, theirs = (rows(out / "populations" / name) for out in (joint, whole))
        assert [row["agent_steps"] for row in ours] == [row["agent_steps"] for row in theirs]
        assert [row["target_updates"] for row in ours] == [row["target_updates"] for row in theirs]
        assert ours[:10] == theirs[:10]  # the warm-up
        assert saved(joint / "populations" / name) == ["000000006000"]
    out = tmp_path / "cut"
    process = start("run", definition, "--out", out, *flags, environment=quick_compilation)
    wait_until(lambda: bool(saved(out / "populations" / POPULATIONS[1])), process)
    assert kill(out / "populations" / POPULATIONS[0])
    said, _ = process.communicate(timeout=120)
    for name in POPULATIONS:
        assert f"failed: {name}: ended by SIGKILL" in said
    completed("run", out, *flags, environment=quick_compilation)
    assert same_metrics(out, joint)


class Killed(BaseException):
    """As sudden as SIGKILL: nothing that is meant for errors catches it."""


@pytest.mark.parametrize("saves", [1, 3])
def test_killed_between_the_saves_of_a_program_its_variants_go_on_together(
    saves: int, joint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two has a checkpoint that the second lacks: the very first one, and a later one."""
    asked, out = definition.load(joint), tmp_path / "study"
    folder.prepare(out, asked)
    options, save, made = execute.Options(together=4), checkpoint.save, itertools.count(1)

    def killed(*arguments: Any) -> Path:
        if next(made) > saves:
            raise Killed
        return save(*arguments)

    _, (job,) = execute.work(asked, out, options, hardware.detect())
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", killed)
        with pytest.raises(Killed):
            worker.train(job)
    first, second = (out / "populations" / name for name in POPULATIONS)
    assert len(saved(first)) == len(saved(second)) + 1
    _, (job,) = execute.work(asked, out, options, hardware.detect())
    assert list(job.populations) == list(POPULATIONS)
    assert worker.train(job)
    assert same_metrics(out, joint)


def without_line(path: Path, number: int) -> None:
    lines = path.read_text().splitlines(keepends=True)
    del lines[number]
    path.write_text("".join(lines))


@pytest.mark.parametrize("line", [2, 31, -1])
def test_a_finished_population_that_has_lost_a_row_is_said_with_the_way_out(
    line: int, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "study"))
    run = out / "populations" / POPULATIONS[0]
    assert runs.finished(run)
    without_line(run / "metrics.jsonl", line)
    assert not runs.finished(run)
    lost = f"has lost rows, .*: lookrep train --resume {run} --restart trains it again"
    assert main(["study", "status", str(out)]) == 0
    said = capsys.readouterr().out
    assert re.search(rf"{POPULATIONS[0]}: failed, .*{lost}", said)
    assert f"{POPULATIONS[1]}: finished" in said
    for read in (lambda: results.load(out), lambda: sources.load(run)):
        with pytest.raises(UserError, match=lost):
            read()
    _, (job,) = execute.work(definition.load(out), out, execute.Options(), hardware.detect())
    with pytest.raises(UserError, match=r"lacks rows from before checkpoint .* --restart begins anew"):
        worker.train(job)
    before = (run / "metrics.jsonl").read_bytes()
    shutil.copyfile(whole / "populations" / run.name / "metrics.jsonl", run / "metrics.jsonl")
    assert runs.finished(run)
    (run / "metrics.jsonl").write_bytes(before)
    shutil.rmtree(run / "checkpoints")  # copied for its numbers alone: nobody knows
    assert runs.finished(run)


def test_a_population_whose_end_has_changed_by_itself_is_not_trained_again(whole: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(whole, tmp_path / "study"))
    run, config = out / "populations" / POPULATIONS[0], out / "populations" / POPULATIONS[0] / "config.json"
    config.write_text(config.read_text().replace('"steps": 6000', '"steps": 5744'))
    assert growth.needed(out, POPULATIONS, 6_000) == {}
    _, (job,) = execute.work(definition.load(out), out, execute.Options(), hardware.detect())
    with pytest.raises(UserError, match=r"says steps = 5,744, but it was trained to end at 6,000: put that back"):
        worker.train(job)
    assert rows(run) == rows(whole / "populations" / run.name)


@pytest.fixture
def begun(whole: Path, tmp_path: Path) -> Callable[[int], tuple[worker.TrainingJob, Path]]:
    """A population whose process was killed inside its first save, which came after so many intervals."""

    def made(intervals: int) -> tuple[worker.TrainingJob, Path]:
        run = tmp_path / "populations" / POPULATIONS[0]
        shutil.copytree(whole / "populations" / POPULATIONS[0], run)
        lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
        (run / "metrics.jsonl").write_text("".join(lines[: 2 * intervals]))
        for path in (run / "checkpoints").iterdir():
            path.rename(run / "checkpoints" / "000000000400.tmp")
        return worker.TrainingJob(str(tmp_path), {run.name: {}}, False), run

    return made


def test_a_population_killed_inside_its_first_save_starts_again(
    whole: Path, begun: Callable[[int], tuple[worker.TrainingJob, Path]]
) -> None:
    job, run = begun(2)  # 400 steps, when the first was due
    before = rows(run)
    assert worker.train(job)
    assert rows(run) == rows(whole / "populations" / POPULATIONS[0])
    assert rows(run / "before-restart-1") == before
    assert saved(run) == ["000000006000"]


def test_a_population_that_has_lost_its_checkpoints_is_not_trained_again_in_silence(
    begun: Callable[[int], tuple[worker.TrainingJob, Path]],
) -> None:
    job, run = begun(3)
    before = rows(run)
    with pytest.raises(UserError, match=r"no checkpoint to go on from: lookrep train --resume .* --restart begins"):
        worker.train(job)
    assert rows(run) == before


def test_the_minutes_are_kept_and_what_was_running_goes_on_later(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out, definition = tmp_path / "study", write_study(tmp_path)
    flags = ("--out", out, "--variant", "hard", "--no-film")
    said = completed("run", definition, *flags, "--minutes", "0.001", environment=quick_compilation)
    assert f"go on with: lookrep study run {out}" in said
    assert "finished: all" not in said
    completed("run", definition, "--out", out, "--no-film", "--keep-replay", environment=quick_compilation)
    assert same_metrics(out, whole)
    assert len(saved(out / "populations" / POPULATIONS[0])) == 2


def test_without_checkpoints_nobody_waits_for_an_interval_to_end(
    tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out, definition = tmp_path / "study", write_study(tmp_path, **{"log_interval_steps = 200": ""})
    flags = ("--out", out, "--variant", "hard", "--steps", "2_000_000", "--no-checkpoints", "--minutes", "0.001")
    said = completed("run", definition, *flags, environment=quick_compilation)
    assert "stopping: without checkpoints there is nothing to save" in said
    assert f"go on with: lookrep study run {out}" in said
    assert folder.failure(out, POPULATIONS[0]) is None


def test_a_population_that_fails_does_not_keep_the_others_from_finishing(
    tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    broken = '[variants.broken]\ntarget = "hard"\ntarget_network = "mlp:4"\n\n[variants.learned]'
    definition = write_study(tmp_path, **{"[variants.learned]": broken})
    out = tmp_path / "study"
    flags = ("--out", out, "--variant", "broken", "learned", "--steps", "2000", "--no-checkpoints")
    said = completed("run", definition, *flags, environment=quick_compilation, status=1)
    assert "failed: probes_Museum--broken--0-1: " in said
    assert "only --target replicate can follow across networks" in said
    assert "1 of 2 populations finished, 1 failed: 4,000/8,000 agent steps (50%)" in said
    assert [m.status for m in results.load(out).members] == ["missing", "missing", "finished", "finished"]
    assert "broken--0-1: failed, 0/2,000 steps" in completed("status", out, environment=quick_compilation)
    assert not (out / "videos").exists()


def test_what_shares_a_program_with_a_failure_finishes_the_next_time(
    tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    other = '[variants.broken]\ntarget = "hard"\n\n[variants.learned]'
    smaller = 'network = "mlp:8"\ntarget_network = "mlp:4"'
    definition = write_study(tmp_path, **{"[variants.learned]": other, 'network = "mlp:8"': smaller})
    out = tmp_path / "study"
    flags = ("--variant", "broken", "learned", "--steps", "2000", "--no-checkpoints", "--together", "4")
    said = completed("run", definition, "--out", out, *flags, environment=quick_compilation, status=1)
    assert said.count("failed: probes_Museum--") == 2
    assert [m.status for m in results.load(out).members] == ["missing"] * 4
    said = completed("run", definition, "--out", out, *flags, environment=quick_compilation, status=1)
    assert said.count("failed: probes_Museum--") == 1
    assert [m.status for m in results.load(out).members] == ["missing", "missing", "finished", "finished"]


def test_two_processes_do_not_train_the_same_population(tmp_path: Path) -> None:
    run = tmp_path / "populations" / "a--b--0-1"
    job = worker.TrainingJob(str(tmp_path), {"a--b--0-1": {}}, False)
    with runs.claim(run):
        assert runs.is_running(run)
        with pytest.raises(runs.Busy, match=f"is being trained by process {os.getpid()} on .*: wait for it"):
            worker.train(job)
    assert not runs.is_running(run)


# Asked to stop, it saves.
POPULATION = """
import signal, sys, time
from pathlib import Path
def save(*_):
    Path(sys.argv[1]).write_text("saved")
    sys.exit()
signal.signal(signal.SIGTERM, save)
Path(sys.argv[1]).write_text("running")
time.sleep(60)
"""


def test_when_a_study_cannot_go_on_what_is_running_saves_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its disk is full, or its folder gone, when the first population ends."""
    out, state = tmp_path / "study", tmp_path / "state"
    asked = definition.load(write_study(tmp_path))
    folder.prepare(out, asked)
    log = out / "logs" / "log"
    ending = local.Task("a", (sys.executable, "-c", "import sys; sys.exit(1)"), log, populations=("a",))
    long = local.Task("b", (sys.executable, "-c", POPULATION, str(state)), log, populations=("b",))

    def disk_full(*_: Any) -> None:
        wait_for(state)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real_run = local.run
    monkeypatch.setattr(folder, "set_failure", lambda *a: disk_full() if a[2] is not None else None)
    monkeypatch.setattr(local, "run", lambda sitting, _, **options: real_run(sitting, [long, ending], **options))
    with pytest.raises(UserError, match=f"study '{out}' cannot be written: No space left on device"):
        execute.run(asked, out, execute.Options(jobs=2, quiet=True), "lookrep study run")
    assert state.read_text() == "saved"


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def test_seeds_that_another_population_has_are_not_trained_again(tmp_path: Path) -> None:
    other = tmp_path / "populations" / "minatar_breakout--hard--0-3"
    other.mkdir(parents=True)
    config = {"env": "minatar/breakout", "agents": 4, "first_agent": 0, "steps": 8}
    (other / "config.json").write_text(json.dumps(config))
    job = worker.TrainingJob(
        str(tmp_path), {"minatar_breakout--hard--3-4": config | {"agents": 2, "first_agent": 3}}, False
    )
    with pytest.raises(runs.Busy, match="some of its seeds are already being trained in minatar_breakout--hard--0-3"):
        worker.train(job)


def test_a_folder_that_workers_cannot_see_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be seen from here: workers need a path that all machines share"):
        worker.train(worker.TrainingJob(str(tmp_path / "elsewhere"), {"a--b--0-1": {}}, False))


def test_processes_that_share_gpus_get_their_share_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    two = hardware.Hardware("gpu", "GPU", 2, 16, 80 * hardware.GIGABYTE)
    found = [local._device_settings(slot, 4, two) for slot in range(4)]
    assert [settings["CUDA_VISIBLE_DEVICES"] for settings in found] == ["0", "1", "0", "1"]
    assert {settings["XLA_PYTHON_CLIENT_MEM_FRACTION"] for settings in found} == {"0.450"}
    assert local._device_settings(0, 1, two) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.900"}
    assert local._device_settings(0, 4, hardware.Hardware("cpu", "cpu", 1, 16, 80 * hardware.GIGABYTE)) == {}
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.2")  # the rest of the GPU is somebody else's
    assert local._device_settings(0, 8, two)["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.050"
