"""metrics.jsonl is the truth: valid JSON, whole lines, and after a resume the file of a run that never stopped."""

import builtins
import json
import math
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.runs import metrics
from lookrep.runs.metrics import MetricsWriter

ORDER = [
    "agent",
    "seed",
    "agent_steps",
    "online_updates",
    "target_updates",
    "episodes",
    "return_mean",
    "return_max",
    "loss",
    "function_gap",
    "bellman_residual",
    "norm_online",
    "norm_target",
    "parameter_distance",
    "steps_per_second",
    "diverged",
]


def interval(agent_steps: int, agents: int = 3, **changes: Any) -> dict[str, Any]:
    """Made-up numbers that depend on the step alone; agent i has i more than agent 0."""
    more = np.arange(agents)
    columns = {
        "diverged": np.zeros(agents, bool),
        "agent": more,
        "seed": 7,
        "agent_steps": agent_steps,
        "online_updates": agent_steps // 4,
        "target_updates": agent_steps // 40,
        "episodes": more + 1,
        "steps_per_second": 1234.5,
        **{
            name: (agent_steps / 1000 + more).astype(np.float32)
            for name in metrics.MEASURES
            if name != "steps_per_second"
        },
    }
    return {**columns, **changes}


def write(run: Path, steps: list[int], resume_at_steps: int | None = None, **changes: Any) -> None:
    with MetricsWriter(run, resume_at_steps) as writer:
        for agent_steps in steps:
            writer.write(interval(agent_steps, **changes))


def text(run: Path) -> str:
    return (run / "metrics.jsonl").read_text()


# ---- the file


def test_one_row_per_agent_and_interval_with_the_columns_in_order(tmp_path: Path) -> None:
    write(tmp_path / "run", [100, 200], env=["a", "b", "c"], epsilon=0.5)
    rows = [json.loads(line) for line in text(tmp_path / "run").splitlines()]
    assert [list(row) for row in rows] == [["env", *ORDER, "epsilon"]] * 6
    assert [(row["agent_steps"], row["agent"], row["env"]) for row in rows] == [
        (100, 0, "a"), (100, 1, "b"), (100, 2, "c"), (200, 0, "a"), (200, 1, "b"), (200, 2, "c"),
    ]  # fmt: skip
    assert rows[4] == {
        "agent": 1, "seed": 7, "agent_steps": 200, "online_updates": 50, "target_updates": 5, "episodes": 2,
        "return_mean": 1.2, "return_max": 1.2, "loss": 1.2, "function_gap": 1.2, "bellman_residual": 1.2,
        "norm_online": 1.2, "norm_target": 1.2, "parameter_distance": 1.2, "steps_per_second": 1234.5,
        "diverged": False, "env": "b", "epsilon": 0.5,
    }  # fmt: skip


def test_what_is_not_finite_is_null_and_the_file_stays_strict_json(tmp_path: Path) -> None:
    strange = np.array([np.nan, np.inf, -np.inf], np.float32)
    write(tmp_path, [100], loss=strange, return_max=math.nan, diverged=[True, False, True], extra=[None, math.nan, 2.0])

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in text(tmp_path).splitlines()]
    assert [row["loss"] for row in rows] == [None] * 3
    assert [row["diverged"] for row in rows] == [True, False, True]
    columns = metrics.read(tmp_path)
    assert np.isnan(columns["loss"]).all()
    assert np.isnan(columns["return_max"]).all()
    assert columns["extra"][2] == 2.0


def test_numbers_survive_bit_for_bit(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    singles = (random.normal(size=2000) * 10.0 ** random.integers(-40, 38, 2000)).astype(np.float32)
    doubles = random.normal(size=2000)
    halves = jnp.asarray(random.normal(size=2000), jnp.bfloat16)
    write(tmp_path, [1], agents=2000, loss=singles, norm_online=doubles, norm_target=halves)
    columns = metrics.read(tmp_path)
    assert columns["loss"].astype(np.float32).tobytes() == singles.tobytes()
    assert columns["norm_online"].tobytes() == doubles.tobytes()
    assert columns["norm_target"].astype(np.asarray(halves).dtype).tobytes() == np.asarray(halves).tobytes()


def test_device_arrays_are_welcome(tmp_path: Path) -> None:
    write(tmp_path, [100], loss=jnp.array([0.1, 0.2, 0.3]), episodes=jnp.array([1, 2, 3]), diverged=jnp.zeros(3, bool))
    assert '"loss": 0.1, ' in text(tmp_path)
    assert list(metrics.read(tmp_path)["episodes"]) == [1, 2, 3]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [({"loss": np.zeros(4)}, r"column loss has shape \(4,\), expected \(\) or \(3,\)"), ({}, "lack the column loss")],
)
def test_a_trainer_that_forgets_a_column_is_told(tmp_path: Path, changes: dict[str, Any], complaint: str) -> None:
    columns = {key: value for key, value in interval(1).items() if key != "loss"} | changes
    with MetricsWriter(tmp_path) as writer, pytest.raises(ValueError, match=complaint):
        writer.write(columns)
    assert text(tmp_path) == ""


def test_a_fresh_run_never_overwrites_the_metrics_of_another(tmp_path: Path) -> None:
    write(tmp_path, [100])
    before = text(tmp_path)
    with pytest.raises(UserError, match=r"metrics.jsonl already exists: resume that run or choose another folder"):
        MetricsWriter(tmp_path)
    assert text(tmp_path) == before


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricsWriter(tmp_path) as writer:
        writer.write(interval(100))
        before = text(tmp_path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
        try:
            with pytest.raises(UserError, match=r"cannot write .*metrics.jsonl: File too large"):
                writer.write(interval(200))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert text(tmp_path) == before
        writer.write(interval(200))
        writer.synced()
    assert len(text(tmp_path).splitlines()) == 6


# ---- resuming


@pytest.mark.parametrize("torn_bytes", [0, 1, 2, 150])
@pytest.mark.parametrize("cut", [0, 100, 150, 300, 500])
def test_a_resumed_file_equals_that_of_a_run_that_never_stopped(tmp_path: Path, cut: int, torn_bytes: int) -> None:
    """The run was killed at step 500, inside a write; its last checkpoint is at `cut`."""
    steps = [100, 200, 300, 400, 500]
    write(tmp_path / "whole", [*steps, 600])
    write(tmp_path / "killed", steps)
    if cut < 500:
        os.truncate(tmp_path / "killed" / "metrics.jsonl", len(text(tmp_path / "killed")) - torn_bytes)
    write(tmp_path / "killed", [s for s in [*steps, 600] if s > cut], resume_at_steps=cut)
    assert text(tmp_path / "killed") == text(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("*.tmp"))


def test_resuming_at_the_end_does_not_touch_the_file(tmp_path: Path) -> None:
    write(tmp_path, [100, 200])
    before = (tmp_path / "metrics.jsonl").stat()
    write(tmp_path, [], resume_at_steps=200)
    after = (tmp_path / "metrics.jsonl").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_mark_says_whether_the_rows_before_a_checkpoint_are_all_there(tmp_path: Path) -> None:
    with MetricsWriter(tmp_path) as writer:
        writer.write(interval(100))
        writer.write(interval(200))
        mark = writer.synced()
        writer.write(interval(300))
    whole = text(tmp_path)
    assert metrics.holds(tmp_path, mark)
    lines = whole.splitlines(keepends=True)
    for damaged in (
        "",
        lines[0],
        "".join(lines[1:]),
        "".join([*lines[:2], *lines[1:]]),
        whole.replace("1.1", "1.2", 1),
    ):
        (tmp_path / "metrics.jsonl").write_text(damaged)
        assert not metrics.holds(tmp_path, mark)
    (tmp_path / "metrics.jsonl").unlink()
    assert not metrics.holds(tmp_path, mark)
    (tmp_path / "metrics.jsonl").write_text("".join(lines[:6]) + "what is behind the mark\ndoes not matter")
    with MetricsWriter(tmp_path, 200, mark) as writer:
        assert writer.synced() == mark
        writer.write(interval(300))
    assert text(tmp_path) == whole


def moved(run: Path) -> None:
    run.rename(run.with_name("elsewhere"))


def replaced(run: Path) -> None:
    moved(run)
    write(run, [100])


def half_cut_away(run: Path) -> None:
    os.truncate(run / "metrics.jsonl", 10)


def written_by_another(run: Path) -> None:
    with open(run / "metrics.jsonl", "a") as file:
        file.write("{}\n")


@pytest.mark.parametrize(
    ("happening", "complaint"),
    [
        (lambda run: (run / "metrics.jsonl").unlink(), "metrics.jsonl is gone: it was moved or deleted under way"),
        (shutil.rmtree, "metrics.jsonl is gone: it was moved or deleted under way, or its folder was"),
        (moved, "metrics.jsonl is gone"),
        (replaced, "metrics.jsonl is gone"),
        (half_cut_away, "has 10 bytes instead of .*: someone else has written to it"),
        (written_by_another, "someone else has written to it; training stops here"),
    ],
)
def test_rows_are_never_written_where_nobody_would_find_them(
    tmp_path: Path, happening: Callable[[Path], Any], complaint: str
) -> None:
    with MetricsWriter(tmp_path / "run") as writer:
        writer.write(interval(100))
        happening(tmp_path / "run")
        left = {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")}
        with pytest.raises(UserError, match=complaint):
            writer.write(interval(200))
        with pytest.raises(UserError, match=complaint):
            writer.synced()
    assert {path: path.read_bytes() for path in tmp_path.rglob("metrics.jsonl")} == left


def test_rows_on_disk_after_each_interval_survive_a_kill(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path\n"
        "from test_metrics import MetricsWriter, interval\n"
        "writer = MetricsWriter(Path(sys.argv[1]))\n"
        "for steps in (100, 200): writer.write(interval(steps))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path), str(Path(__file__).parent)], check=False)
    assert done.returncode == -9
    assert list(metrics.read(tmp_path)["agent_steps"]) == [100] * 3 + [200] * 3


# ---- reading


def test_reading_gives_columns_with_their_types(tmp_path: Path) -> None:
    write(tmp_path, [100, 200], env="breakout", width=64, return_mean=[1.0, math.nan, 2.0])
    columns = metrics.read(tmp_path)
    assert list(columns) == ["env", *ORDER, "width"]
    assert {len(column) for column in columns.values()} == {6}
    assert {name: column.dtype.kind for name, column in columns.items()} == {
        **dict.fromkeys(ORDER[:6], "i"), **dict.fromkeys(ORDER[6:15], "f"), "diverged": "b", "env": "O", "width": "i",
    }  # fmt: skip
    assert np.array_equal(columns["return_mean"], [1.0, np.nan, 2.0] * 2, equal_nan=True)
    assert list(columns["agent_steps"]) == [100, 100, 100, 200, 200, 200]


def test_agents_of_several_games_may_share_their_numbers(tmp_path: Path) -> None:
    games = ["breakout", "breakout", "freeway", "freeway"]
    with metrics.MetricsWriter(tmp_path) as writer:
        for steps in (100, 200):
            writer.write(interval(steps, agents=4, env=games, agent=[0, 1, 0, 1]))
    columns = metrics.read(tmp_path)
    assert list(columns["env"]) == games * 2
    assert list(columns["agent"]) == [0, 1, 0, 1] * 2
    os.truncate(tmp_path / "metrics.jsonl", len(text(tmp_path)) - 1)
    assert list(metrics.read(tmp_path)["agent_steps"]) == [100] * 4


@pytest.mark.parametrize("torn_bytes", [1, 100, 450, 800])
def test_an_interval_that_is_still_being_written_is_left_out(tmp_path: Path, torn_bytes: int) -> None:
    write(tmp_path, [100, 200])
    os.truncate(tmp_path / "metrics.jsonl", len(text(tmp_path)) - torn_bytes)
    assert list(metrics.read(tmp_path)["agent_steps"]) == [100] * 3


def test_an_empty_file_has_columns_without_rows(tmp_path: Path) -> None:
    write(tmp_path, [])
    assert {name: len(column) for name, column in metrics.read(tmp_path).items()} == dict.fromkeys(
        [name for name in ORDER if name != "seed"], 0
    )


def test_errors_of_reading_are_for_people(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no metrics in .*: metrics.jsonl is missing"):
        metrics.read(tmp_path)
    write(tmp_path, [100])
    (tmp_path / "metrics.jsonl").write_text("{}\n" + text(tmp_path))
    for read in (lambda: metrics.read(tmp_path), lambda: MetricsWriter(tmp_path, 100)):
        with pytest.raises(UserError, match=r"metrics.jsonl line 1 is not a row of metrics"):
            read()


# ---- TensorBoard, read back with its own reader


def scalars(run: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_shows_means_over_agents_and_the_spread_of_the_return(tmp_path: Path) -> None:
    write(tmp_path, [100, 200], return_mean=[1.0, 3.0, math.nan], diverged=[False, False, True], env="x", epsilon=0.25)
    found = scalars(tmp_path)
    assert found["return_mean"] == [(100, 2.0), (200, 2.0)]
    assert found["across_agents/return_mean_min"] == [(100, 1.0), (200, 1.0)]
    assert found["across_agents/return_mean_max"] == [(100, 3.0), (200, 3.0)]
    assert found["across_agents/return_mean_std"] == [(100, 1.0), (200, 1.0)]
    assert found["across_agents/diverged"] == [(100, 1.0), (200, 1.0)]
    assert found["loss"] == [(100, pytest.approx(1.1)), (200, pytest.approx(1.2))]
    assert found["epsilon"] == [(100, 0.25), (200, 0.25)]
    assert set(found) == {
        *metrics.MEASURES, "online_updates", "target_updates", "episodes", "epsilon",
        "across_agents/return_mean_min", "across_agents/return_mean_max", "across_agents/return_mean_std",
        "across_agents/diverged",
    }  # fmt: skip


def test_a_number_no_agent_has_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, [100], return_mean=math.nan)
    assert "return_mean" not in scalars(tmp_path)


def test_on_resume_tensorboard_forgets_what_was_cut_away(tmp_path: Path) -> None:
    write(tmp_path, [100, 200, 300, 400])
    write(tmp_path, [300], resume_at_steps=200, loss=9.0)
    assert scalars(tmp_path)["return_mean"] == [(s, pytest.approx(s / 1000 + 1)) for s in (100, 200, 300)]
    write(tmp_path, [], resume_at_steps=100)
    assert scalars(tmp_path)["loss"] == [(100, pytest.approx(1.1))]
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 3


@pytest.mark.parametrize("name", ["{second} (1)", "x", "²"])
def test_on_resume_files_with_other_names_are_let_be(tmp_path: Path, name: str) -> None:
    write(tmp_path, [100])
    (file,) = tmp_path.glob("events.out.tfevents.*")
    copy = tmp_path / f"events.out.tfevents.{name.format(second=file.name.split('.')[3])}.lookrep"
    copy.write_bytes(file.read_bytes())
    write(tmp_path, [200], resume_at_steps=100)
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 3
    assert copy.read_bytes() == file.read_bytes()


def test_without_tensorboard_the_run_goes_on_with_one_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_import = builtins.__import__

    def no_tensorboard(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith("tensorboard"):
            raise ImportError(name)
        return real_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", no_tensorboard)
    notes: list[str] = []
    with MetricsWriter(tmp_path, note=notes.append) as writer:
        writer.write(interval(100))
    assert notes == ["no TensorBoard events: tensorboard is not installed; metrics.jsonl holds everything"]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
    assert len(text(tmp_path).splitlines()) == 3


def test_rows_go_to_a_project_of_weights_and_biases_where_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[dict[str, Any]] = []
    logged: list[tuple[int, dict[str, float]]] = []

    def log(numbers: dict[str, float], step: int) -> None:
        if step == 400:
            raise OSError("no network")
        logged.append((step, numbers))

    def init(**settings: Any) -> Any:
        begun.append(settings)
        return SimpleNamespace(log=log, finish=lambda: begun.append({"finished": True}))

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    write(tmp_path / "quiet", [100])
    assert begun == []
    monkeypatch.setenv("LOOKREP_WANDB", "mine")
    write(tmp_path / "run", [100, 200])
    write(tmp_path / "run", [200, 300], resume_at_steps=100)
    assert [step for step, _ in logged] == [100, 200, 200, 300]
    assert logged[0][1]["loss"] == pytest.approx(1.1)
    first, finished, second, _ = begun
    assert (first["project"], first["name"], finished) == ("mine", "run", {"finished": True})
    assert first["id"] == second["id"]
    notes: list[str] = []
    with MetricsWriter(tmp_path / "cut", note=notes.append) as writer:
        writer.write(interval(400))
        writer.write(interval(500))
    assert notes == ["no more goes to Weights & Biases: OSError: no network"]
    monkeypatch.setitem(sys.modules, "wandb", None)
    with MetricsWriter(tmp_path / "without", note=notes.append) as writer:
        writer.write(interval(100))
    assert notes[1:] == ["nothing goes to Weights & Biases: pip install 'lookrep[wandb]'"]


def test_importing_the_module_imports_neither_tensorboard_nor_tensorflow() -> None:
    script = "import sys, lookrep.runs.metrics; print([m for m in sys.modules if m.startswith('tensor')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
