"""Frames, which checkpoints leave out: logged as they come, put together again for any number of groups."""

import dataclasses
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from host_runs import assert_goes_on_as_if_nothing_had_happened, cut, engine_of, rows, small

from lookrep.cli import main
from lookrep.errors import UserError
from lookrep.runs import checkpoint, frame_log
from lookrep.runs import folder as runs
from lookrep.training import session

pytestmark = pytest.mark.usefixtures("quick_compilation", "shared_engines")

SEEN = {
    "network": {"network": "mlp:8"},
    "learning": {"batch_size": 4},
    "replay": {"replay_capacity_steps": 120, "warmup_steps": 40},
    "target": {"target_period_updates": 4, "replicate_batch_size": 4, "replicate_updates": 1},
}
FREEWAY = small(
    "atari/Freeway", SEEN, agents=2, groups=2, workers=1, steps=320, log_interval_steps=40, checkpoint_interval_steps=80
)


@pytest.fixture(scope="module")
def freeway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole run, in segments of 20 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_log, "CHUNK_BYTES", 20 * 84 * 84)
        out = tmp_path_factory.mktemp("runs") / "freeway"
        assert session.start(FREEWAY, out, quiet=True)
        yield out


def stopped_at(until: int, freeway: Path, folder: Path) -> Path:
    """A run as if it had been killed just after its checkpoint of that step, the next ones not yet made."""
    out = folder / "run"
    assert session.start(dataclasses.replace(FREEWAY, steps=until), out, quiet=True)
    change(out, steps=FREEWAY.steps, versions=runs.end_at(FREEWAY.steps))
    assert rows(out) == rows(freeway)[: 2 * until // 40]
    return out


def change(out: Path, **fields: Any) -> None:
    configuration = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(configuration | fields))


def segments(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "replay").iterdir())


def test_a_checkpoint_holds_no_frame_and_the_log_just_those_of_the_last_two(freeway: Path) -> None:
    """They are of steps 240 and 320, and look back 120 steps: the frames from 120 on, in segments of 20."""
    tree, meta = checkpoint.restore(freeway / "checkpoints" / "000000000320", engine_of(FREEWAY).shapes())
    assert tree.replay.observation is None
    first_layers = 2 * 6 * 4 * 28_224 * 8  # two agents; two networks, each with Adam's two moments; float32
    frames = 2 * 120 * 84 * 84
    size = (freeway / "checkpoints" / "000000000320" / "arrays.bin").stat().st_size
    assert first_layers < size < first_layers + frames // 10
    expected = [f"{step:012d}-{agent:06d}" for step in range(120, 320, 20) for agent in (0, 1)]
    assert [name.rpartition("-")[0] for name in segments(freeway)] == expected
    assert {name for name, *_ in meta["frames"]} < set(segments(freeway))


def test_a_replay_from_the_log_is_the_replay_that_was(freeway: Path, tmp_path: Path) -> None:
    engine = engine_of(FREEWAY)
    state = engine.advance(engine.place(None, {}, tmp_path), 200)
    tree, meta = engine.saved(state, tmp_path)
    checkpoint.save(tmp_path / "checkpoints", 200, tree, meta)
    again = engine.place(*checkpoint.restore(tmp_path / "checkpoints" / "000000000200", engine.shapes()), tmp_path)
    for ours, theirs in zip(again.groups, state.groups, strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours.snapshot(), theirs.snapshot())
        assert len(np.unique(ours.snapshot().replay.observation)) > 10
    engine.close(state)
    engine.close(again)


def test_killed_in_the_middle_of_an_episode_a_run_ends_with_the_same_metrics(
    freeway: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    """After the replay has been written over."""
    cut(FREEWAY, tmp_path / "cut", quick_compilation, signal.SIGKILL, after_rows=10)
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", freeway)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_replay_comes_back_for_any_number_of_groups(groups: int, freeway: Path) -> None:
    engine = engine_of(dataclasses.replace(FREEWAY, groups=groups))
    path = freeway / "checkpoints" / "000000000320"
    state = engine.place(*checkpoint.restore(path, engine.shapes()), freeway)
    agents = [group.snapshot().replay.observation for group in state.groups]
    found = np.concatenate(agents, axis=1)
    engine.close(state)
    assert len(agents) == groups
    segments = [frame_log.Segment(*one) for one in checkpoint.metas(freeway / "checkpoints")[-1]["frames"]]
    expected = np.zeros_like(found)
    for position, agent, frames in frame_log.read(freeway / "replay", segments, 320, 120, 2):
        expected[position : position + len(frames), agent : agent + 1] = frames
    np.testing.assert_array_equal(found, expected)


def test_where_frames_are_kept_makes_no_difference(freeway: Path, tmp_path: Path) -> None:
    """Batches, Replicate's and those behind the metrics included; nor does a stop on the way."""
    replay = dataclasses.replace(FREEWAY.settings.replay, replay_memory="host")
    on_host = dataclasses.replace(FREEWAY, settings=dataclasses.replace(FREEWAY.settings, replay=replay))
    assert session.start(dataclasses.replace(on_host, steps=200), tmp_path / "run", quiet=True)
    assert rows(tmp_path / "run") == rows(freeway)[: 2 * 200 // 40]
    assert session.resume(tmp_path / "run", on_host.steps, quiet=True)
    assert rows(tmp_path / "run") == rows(freeway)


def test_after_a_kill_leftovers_are_ignored_and_then_cleared(freeway: Path, tmp_path: Path) -> None:
    out = stopped_at(160, freeway, tmp_path)
    for name in ("000000000160-000000-00000000.seg", "000000000180-000000-00000000.seg.tmp"):
        (out / "replay" / name).write_bytes(b"of a life that is over")
    assert session.resume(out, quiet=True)
    assert rows(out) == rows(freeway)
    assert segments(out) == segments(freeway)


def test_a_damaged_segment_costs_time_and_nothing_else(
    freeway: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = stopped_at(240, freeway, tmp_path)
    newest = next((out / "replay").glob("000000000220-000001-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert session.resume(out)
    said = capsys.readouterr().err
    assert f"replay file {newest} is damaged: it does not match its checksum; went back to checkpoint" in said
    assert rows(out) == rows(freeway)


def test_without_any_whole_replay_nothing_is_started(freeway: Path, tmp_path: Path) -> None:
    out = stopped_at(160, freeway, tmp_path)
    for file in (out / "replay").glob("*-000000-*.seg"):
        file.unlink()
    with pytest.raises(UserError, match=r"cannot read replay file .* no intact checkpoint is left"):
        session.resume(out, quiet=True)


def test_a_run_whose_frames_are_damaged_goes_on_without_them_if_it_is_told_to(
    freeway: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = stopped_at(160, freeway, tmp_path)
    for file in (out / "replay").glob("*-000000-*.seg"):
        file.write_bytes(file.read_bytes()[:-1])
    assert main(["train", "--resume", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"lookrep train --resume {out} --refill-replay goes on and fills the replay again, " in said
    before = rows(out)
    twin = shutil.copytree(out, tmp_path / "twin")

    assert main(["train", "--resume", str(out), "--refill-replay"]) == 0
    assert "does not match its checksum; the replay is filled again from step 160 on" in capsys.readouterr().err
    found = rows(out)
    assert found[: len(before)] == before
    assert {row["refilled_at_steps"] for row in found[len(before) :]} == {160}
    versions = json.loads((out / "config.json").read_text())["versions"]
    assert versions["replay"] == "filled again from step 160 on: its frames were damaged"
    # No update in the 40 steps of the new warm-up; then one every four steps.
    updates = {row["agent_steps"]: row["online_updates"] for row in found}
    assert [updates[steps] - updates[160] for steps in (200, 240, 320)] == [0, 10, 30]

    # Stopped while the replay is filled, and resumed, it is the same run.
    assert session.resume(twin, 200, refill=True, quiet=True)
    assert session.resume(twin, FREEWAY.steps, quiet=True)
    assert rows(twin) == found


def test_a_checkpoint_of_version_0_1_is_refused_in_one_line(freeway: Path, tmp_path: Path) -> None:
    """Its arrays are those of a list of groups."""
    tree, meta = checkpoint.restore(freeway / "checkpoints" / "000000000320", engine_of(FREEWAY).shapes())
    checkpoint.save(tmp_path, 320, [tree], meta)
    with pytest.raises(UserError, match=r"was written by version 0\.1, group by group: only that version can go on$"):
        checkpoint.restore_latest(tmp_path, engine_of(FREEWAY).shapes())
