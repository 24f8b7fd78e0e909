"""Frames on disk: each is written once, comes back bit for bit, and damage is noticed. Real files throughout."""

import errno
import itertools
import os
import resource
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.runs import frame_log
from lookrep.runs.checkpoint import Damaged
from lookrep.runs.frame_log import FrameLog, Segment

AGENTS, CELLS = 3, 50


def frames(steps: int, seed: int = 0) -> np.ndarray:
    """[steps, agents, cells]"""
    return np.random.default_rng(seed).integers(0, 256, (steps, AGENTS, CELLS), np.uint8)


def written(folder: Path, steps: np.ndarray, chunk_steps: int, since_step: int = 0) -> list[Segment]:
    log = FrameLog(folder, chunk_bytes=chunk_steps * AGENTS * CELLS)
    for step in steps:
        log.add(0, step)
    segments = log.flush(since_step)
    log.close()
    return segments


def ring(folder: Path, segments: list[Segment], end_step: int, capacity: int) -> np.ndarray:
    found = np.zeros((capacity, AGENTS, CELLS), np.uint8)
    for position, agent, piece in frame_log.read(folder, segments, end_step, capacity, AGENTS):
        steps, agents, _ = piece.shape
        found[position : position + steps, agent : agent + agents] = piece
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("capacity", [1, 7, 20, 41, 64])
@pytest.mark.parametrize("chunk_steps", [1, 4, 7, 1000])
def test_the_last_frames_come_back_where_a_ring_has_them(tmp_path: Path, chunk_steps: int, capacity: int) -> None:
    steps = frames(41)
    segments = written(tmp_path, steps, chunk_steps)
    for end_step in (1, 8, 40, 41):
        expected = np.zeros((capacity, AGENTS, CELLS), np.uint8)
        for t in range(end_step):
            expected[t % capacity] = steps[t]
        np.testing.assert_array_equal(ring(tmp_path, segments, end_step, capacity), expected)


def test_a_segment_is_a_zlib_stream_of_differences_that_another_program_can_read(tmp_path: Path) -> None:
    steps = frames(5)
    (segment,) = written(tmp_path, steps, 1000)
    data = (tmp_path / segment.name).read_bytes()
    assert segment == Segment(
        f"000000000000-000000-{zlib.crc32(data):08x}.seg", 0, 5, 0, AGENTS, len(data), zlib.crc32(data)
    )
    found = np.frombuffer(zlib.decompress(data), np.uint8).reshape(5, AGENTS, CELLS)
    np.testing.assert_array_equal(found[0], steps[0])
    np.testing.assert_array_equal(found[1:], steps[1:] ^ steps[:-1])


def test_frames_that_hardly_change_take_hardly_any_room(tmp_path: Path) -> None:
    still = np.repeat(frames(1), 1000, axis=0)
    (segment,) = written(tmp_path, still, 1000)
    assert segment.bytes < still.nbytes / 100


def test_each_flush_writes_what_is_new_and_names_what_is_needed(tmp_path: Path) -> None:
    steps, log = frames(40), FrameLog(tmp_path, chunk_bytes=8 * AGENTS * CELLS)
    for step in steps[:20]:
        log.add(0, step)
    first = log.flush(since_step=0)
    assert [(s.first_step, s.steps) for s in first] == [(0, 8), (8, 8), (16, 4)]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert log.flush(since_step=0) == first
    for step in steps[20:]:
        log.add(0, step)
    second = log.flush(since_step=17)
    assert [(s.first_step, s.steps) for s in second] == [(16, 4), (20, 8), (28, 8), (36, 4)]
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(names(tmp_path)) == 6
    log.close()


def test_a_log_goes_on_where_another_stopped(tmp_path: Path) -> None:
    steps = frames(30)
    known = written(tmp_path, steps[:12], 5)
    log = FrameLog(tmp_path, 12, known, chunk_bytes=5 * AGENTS * CELLS)
    for step in steps[12:]:
        log.add(0, step)
    np.testing.assert_array_equal(ring(tmp_path, log.flush(0), 30, 30), steps)
    log.close()


def test_another_life_of_a_run_does_not_replace_what_the_last_one_wrote(tmp_path: Path) -> None:
    """On a GPU the same steps need not give the same bits; a checkpoint of the first life must stay whole."""
    ours, theirs = written(tmp_path, frames(6, seed=1), 1000), written(tmp_path, frames(6, seed=2), 1000)
    np.testing.assert_array_equal(ring(tmp_path, ours, 6, 6), frames(6, seed=1))
    np.testing.assert_array_equal(ring(tmp_path, theirs, 6, 6), frames(6, seed=2))


@pytest.mark.parametrize("cuts", [[[0, 3], [0, 1, 3]], [[0, 1, 2, 3], [0, 3]], [[0, 1, 3], [0, 2, 3]]])
def test_what_some_groups_wrote_any_other_groups_can_go_on_with(tmp_path: Path, cuts: list[list[int]]) -> None:
    """Each group adds its agents' frames when it gets to it; the first groups to step 13, the others from there on."""
    steps, known = frames(30), []
    for (begin, end), bounds in zip([(0, 13), (13, 30)], cuts, strict=True):
        log = FrameLog(tmp_path, begin, known, chunk_bytes=5 * AGENTS * CELLS)
        for first, last in reversed(list(itertools.pairwise(bounds))):
            for step in steps[begin:end]:
                log.add(first, step[first:last])
        known = log.flush(since_step=2)
        log.close()
    assert {segment.first_agent for segment in known} == {first for bounds in cuts for first in bounds[:-1]}
    np.testing.assert_array_equal(ring(tmp_path, known, 30, 28), np.roll(steps[2:], 2, axis=0))
    lost = next(segment for segment in known if segment.first_step == 13)
    with pytest.raises(Damaged, match="it lacks the frames of step 13"):
        ring(tmp_path, [segment for segment in known if segment != lost], 30, 28)


def test_what_no_checkpoint_needs_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    segments = written(tmp_path, frames(40), 10)
    for name in ("000000000040-000000-0badcafe.seg", "000000000050-000000-0badcafe.seg.tmp", "notes.txt"):
        (tmp_path / name).write_bytes(b"half")
    frame_log.tidy(tmp_path, [*segments[1:3], *segments[2:]])
    assert names(tmp_path) == [*(segment.name for segment in segments[1:]), "notes.txt"]
    frame_log.tidy(tmp_path / "missing", [])


# ---- damage


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


MISMATCH = "replay file {} is damaged: it does not match its checksum"
MISSING = "cannot read replay file {}: No such file or directory"


@pytest.mark.parametrize(("harm", "complaint"), [(flip_a_bit, MISMATCH), (cut_short, MISMATCH), (Path.unlink, MISSING)])
def test_damage_is_one_line_that_names_the_file(tmp_path: Path, harm: Callable[[Path], None], complaint: str) -> None:
    segments = written(tmp_path, frames(30), 10)
    file = tmp_path / segments[1].name
    harm(file)
    with pytest.raises(Damaged) as error:
        ring(tmp_path, segments, 30, 15)
    assert str(error.value) == complaint.format(file)
    ring(tmp_path, segments, 30, 10)  # which does not need it


def test_a_gap_is_noticed(tmp_path: Path) -> None:
    segments = written(tmp_path, frames(30), 10)
    with pytest.raises(Damaged, match="it lacks the frames of step 10"):
        ring(tmp_path, [segments[0], segments[2]], 30, 30)
    with pytest.raises(Damaged, match="it lacks the frames of step 30"):
        ring(tmp_path, segments, 31, 31)


def test_a_disk_that_takes_no_more_is_an_error_for_people_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = FrameLog(tmp_path, chunk_bytes=10 * AGENTS * CELLS)

    def fill() -> None:
        for step in frames(200):
            log.add(0, step)
        log.flush(0)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(UserError) as error:
            fill()
        log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(error.value) == f"cannot write frames to {tmp_path}: {os.strerror(errno.EFBIG)}"
    assert names(tmp_path) == []


# Forks after one import, since importing takes longer than the kills. Each child goes on where the last list that was
# announced ends, adds frames that are a function of their step, and announces the list after every flush.
KILLER = """
import json, os, random, signal, sys, time, warnings
from pathlib import Path
import numpy as np
from lookrep.runs import frame_log
from lookrep.runs.frame_log import FrameLog, Segment

warnings.simplefilter("ignore")
folder, kills = Path(sys.argv[1]), int(sys.argv[2])
frames = lambda step: np.random.default_rng(step).integers(0, 256, (2, 3000), np.uint8)
known, interrupted, capacity = [], 0, 100
random.seed(0)
for _ in range(kills):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        step = known[-1].end_step if known else 0
        log = FrameLog(folder, step, known, chunk_bytes=20 * 6000)
        while True:
            for _ in range(random.randrange(1, 50)):
                log.add(0, frames(step))
                step += 1
            os.write(writer, (json.dumps(log.flush(step - capacity)) + "\\n").encode())
    os.close(writer)
    time.sleep(random.uniform(0.01, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(reader) as lines:
        announced = [line for line in lines if line.endswith("\\n")]
    if announced:
        known = [Segment(*one) for one in json.loads(announced[-1])]
    end = known[-1].end_step if known else 0
    interrupted += any(int(path.name[:12]) >= end for path in folder.glob("*"))
    at = max(0, end - capacity)
    for position, _, piece in frame_log.read(folder, known, end, capacity, 2):
        for row in piece:
            assert position == at % capacity and (row == frames(at)).all()
            position, at = position + 1, at + 1
    assert at == end
print(end, interrupted)
"""


def test_killed_at_any_moment_what_was_flushed_is_there(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path / "0"), "30"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    steps, interrupted = map(int, done.stdout.split())
    assert steps > 200
    assert interrupted > 5, "the kills did not leave anything behind: the test is too tame"


def test_the_folder_of_a_run_that_was_deleted_does_not_come_back(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    log = FrameLog(run / "replay", chunk_bytes=AGENTS * CELLS)
    run.rmdir()
    log.add(0, frames(1)[0])
    with pytest.raises(UserError, match=r"cannot write frames to .*: No such file or directory"):
        log.flush(0)
    log.close()
    assert not run.exists()
