"""Checkpoints: what goes in comes out, and no kill, full disk or flipped bit loses the run. Real files throughout."""

import errno
import json
import os
import resource
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.runs import array_bytes, checkpoint


def state(seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "params": {"w": jnp.asarray(random.normal(size=(3, 4)), jnp.float32), "half": jnp.ones(5, jnp.bfloat16) * 0.1},
        "replay": (random.integers(0, 256, (7, 2, 3), np.uint8), np.array([True, False])),
        "count": np.int64(2**40 + seed),
        "empty": np.zeros((0, 3), np.float32),
        "nothing": None,
        "nan": np.array([np.nan, -0.0, np.inf]),
    }


def shapes(tree: Any) -> Any:
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), tree)


def assert_same_bytes(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert isinstance(one, np.ndarray)
        assert (one.dtype, one.shape) == (np.asarray(other).dtype, np.shape(other))
        assert one.tobytes() == np.asarray(other).tobytes()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- there and back


@pytest.mark.parametrize("describe", [shapes, lambda tree: tree], ids=["from shapes", "from arrays"])
def test_every_leaf_comes_back_bit_for_bit(tmp_path: Path, describe: Any) -> None:
    meta = {"config": {"lr": 6.25e-5, "name": "θ"}, "limit": float("inf"), "list": [1, None]}
    path = checkpoint.save(tmp_path / "new" / "folder", 500, state(), meta)
    tree, found = checkpoint.restore(path, describe(state(1)))
    assert_same_bytes(tree, state())
    assert found == meta
    assert path == tmp_path / "new" / "folder" / "000000000500"


def test_the_files_are_raw_bytes_and_json_that_another_program_can_read(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 7, state(), {"a": 1})
    manifest = json.loads((path / "manifest.json").read_text())
    assert names(path) == ["arrays.bin", "manifest.json"]
    assert manifest["version"] == 1
    assert manifest["meta"] == {"a": 1}
    leaf = next(leaf for leaf in manifest["leaves"] if leaf["path"] == "['params']['half']")
    assert (leaf["dtype"], leaf["shape"], leaf["bytes"]) == ("bfloat16", [5], 10)
    half = np.memmap(path / "arrays.bin", ml_dtypes.bfloat16, "r", offset=leaf["offset"], shape=(5,))
    assert half.tobytes() == bytes.fromhex("cd3d" * 5)  # 0.1 as bfloat16 is 0x3dcd


@pytest.mark.parametrize("slice_bytes", [1, 5, 64, 1 << 20])
def test_leaves_of_any_layout_are_cut_into_slices_without_loss(
    tmp_path: Path, slice_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_bytes, "SLICE_BYTES", slice_bytes)
    block = np.arange(2 * 3 * 4, dtype=np.int16).reshape(2, 3, 4)
    tree = {"transposed": block.T, "strided": block[:, ::2], "reversed": block[::-1], "scalar": np.float32(3)}
    found, _ = checkpoint.restore(checkpoint.save(tmp_path, 1, tree, {}), shapes(tree))
    assert_same_bytes(found, tree)


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_slices_taken_on_a_device_add_up_to_the_leaf(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    leaf = jnp.arange(7 * 5, dtype=jnp.bfloat16).reshape(7, 5)
    monkeypatch.setattr(array_bytes, "SLICE_BYTES", rows * 10)
    monkeypatch.setattr(array_bytes, "_on_device", lambda array: True)
    pieces = [bytes(piece) for piece in array_bytes.pieces(leaf)]
    assert len(pieces) == -(-7 // rows)
    assert b"".join(pieces) == np.asarray(leaf).tobytes()


@pytest.mark.parametrize("slice_bytes", [1, 50, 1 << 20])
@pytest.mark.parametrize("axis", [0, 1])
def test_arrays_that_are_written_as_one_come_back_joined(
    tmp_path: Path, axis: int, slice_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(array_bytes, "SLICE_BYTES", slice_bytes)
    parts = [np.arange(24, dtype=np.int16).reshape(4, 6), jnp.ones((4, 6), jnp.int16), np.zeros((6, 4), np.int16).T]
    whole = np.concatenate(parts, axis)
    path = checkpoint.save(tmp_path, 1, {"a": array_bytes.Joined(parts, axis)}, {})
    found, _ = checkpoint.restore(path, {"a": whole})
    assert_same_bytes(found, {"a": whole})


def test_saving_never_holds_a_second_copy_of_a_leaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_bytes, "SLICE_BYTES", 1 << 20)
    big = np.zeros((64, 1 << 20), np.uint8)
    tree = {"plain": big, "strided": big[:, ::2]}
    tracemalloc.start()
    try:
        path = checkpoint.save(tmp_path, 1, tree, {})
        saving = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        checkpoint.restore(path, shapes(tree))
        restoring = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert saving < 4 << 20
    assert restoring < (64 + 32 + 4) << 20  # the result itself, and a little


# ---- which ones are kept


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path / "nowhere") is None
    for steps in (5, 90, 100, 1_000_000):
        saved = checkpoint.save(tmp_path, steps, state(), {})
        assert checkpoint.latest(tmp_path) == saved
    assert names(tmp_path) == ["000000000100", "000001000000"]


def test_a_checkpoint_of_the_same_step_is_replaced(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        checkpoint.save(tmp_path, 10, state(seed), {"seed": seed})
    assert names(tmp_path) == ["000000000010"]
    tree, meta, _, warning = checkpoint.restore_latest(tmp_path, shapes(state()))
    assert (meta, warning) == ({"seed": 3}, None)
    assert_same_bytes(tree, state(3))


def test_killed_between_the_two_renames_of_a_replacement_the_old_one_still_counts(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 5, state(5), {})
    checkpoint.save(tmp_path, 10, state(10), {}).rename(tmp_path / "000000000010.replaced")
    tree, _, path, warning = checkpoint.restore_latest(tmp_path, shapes(state()))
    assert path == checkpoint.latest(tmp_path) == tmp_path / "000000000010.replaced"
    assert warning is None
    assert_same_bytes(tree, state(10))
    assert checkpoint.restore_latest(str(tmp_path), shapes(state())).path == path  # names will do
    checkpoint.save(tmp_path, 10, state(11), {})
    assert names(tmp_path) == ["000000000005", "000000000010"]


def test_saving_after_going_back_drops_the_abandoned_future(tmp_path: Path) -> None:
    for steps in (10, 20):
        checkpoint.save(tmp_path, steps, state(steps), {})
    assert checkpoint.save(tmp_path, 15, state(15), {}) == checkpoint.latest(tmp_path)
    assert names(tmp_path) == ["000000000010", "000000000015"]


def test_leftovers_of_a_killed_save_are_ignored_and_then_cleared(tmp_path: Path) -> None:
    saved = checkpoint.save(tmp_path, 10, state(), {})
    leftover = tmp_path / "000000000020.tmp"
    leftover.mkdir()
    (leftover / "arrays.bin").write_bytes(b"half")
    (tmp_path / "notes.txt").write_text("mine")
    assert checkpoint.latest(tmp_path) == saved
    checkpoint.save(tmp_path, 30, state(), {})
    assert names(tmp_path) == ["000000000010", "000000000030", "notes.txt"]


# ---- a checkpoint of something else


def other(**changes: Any) -> dict[str, Any]:
    tree = shapes({"a": {"b": np.zeros((2, 3), np.float32)}, "c": np.zeros(4, np.int32)})
    return {key: value for key, value in {**tree, **changes}.items() if value != "gone"}


@pytest.mark.parametrize(
    ("like", "complaint"),
    [
        (other(c=jax.ShapeDtypeStruct((5,), np.int32)), "its leaf ['c'] is int32[4], expected int32[5]"),
        (other(c=jax.ShapeDtypeStruct((4,), jnp.bfloat16)), "its leaf ['c'] is int32[4], expected bfloat16[4]"),
        (other(c="gone"), "its leaf ['c'] is not expected here"),
        (other(a="gone"), "its leaf ['a']['b'] is not expected here"),
        (other(d=np.zeros(1)), "it has no leaf ['d']"),
        (other(b=np.zeros(1)), "it has no leaf ['b']"),
        ([np.zeros(1)], "it has no leaf [0]"),
    ],
)
def test_a_checkpoint_that_does_not_fit_names_the_first_leaf_that_differs(
    tmp_path: Path, like: Any, complaint: str
) -> None:
    path = checkpoint.save(tmp_path, 1, jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), other()), {})
    for read in (lambda: checkpoint.restore(path, like), lambda: checkpoint.restore_latest(tmp_path, like)):
        with pytest.raises(UserError) as error:
            read()
        assert str(error.value) == f"checkpoint {path} does not fit this run: {complaint}"


@pytest.mark.parametrize(
    ("leaf", "complaint"),
    [
        (jax.random.key(0), "leaf ['x'] is a typed PRNG key: give the checkpoint jax.random.key_data(key) instead"),
        (np.array(["text"]), "leaf ['x'] has dtype <U4"),
        (np.array([object()]), "leaf ['x'] has dtype object"),
        (np.zeros(3, ">f4"), "leaf ['x'] has dtype >f4"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(tmp_path: Path, leaf: Any, complaint: str) -> None:
    with pytest.raises(UserError) as error:
        checkpoint.save(tmp_path / "run", 1, {"x": leaf}, {})
    assert str(error.value).startswith(complaint)
    with pytest.raises(TypeError):
        checkpoint.save(tmp_path / "run", 1, {}, {"not json": object()})
    assert not (tmp_path / "run").exists()


def test_a_folder_without_checkpoints_is_an_error_for_people(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no checkpoint in"):
        checkpoint.restore_latest(tmp_path, state())
    with pytest.raises(UserError, match="no checkpoint at"):
        checkpoint.restore(tmp_path / "x", state())


# ---- a part of a checkpoint


def test_a_part_is_restored_without_reading_the_rest(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 9, state(), {"steps": 9})
    part = {"params": {"half": state()["params"]["half"]}, "nothing": None, "count": state()["count"]}
    position = next(
        leaf["offset"]
        for leaf in json.loads((path / "manifest.json").read_text())["leaves"]
        if leaf["path"] == "['replay'][0]"
    )
    flip_a_bit(path / "arrays.bin", position)  # whoever reads the replay will notice
    with pytest.raises(checkpoint.Damaged):
        checkpoint.restore(path, state())
    found = checkpoint.restore_latest(tmp_path, shapes(part), part=True)
    assert_same_bytes(found.tree, part)
    assert (found.meta, found.path, found.warning) == ({"steps": 9}, path, None)


@pytest.mark.parametrize(
    ("like", "complaint"),
    [
        ({"c": np.zeros(5, np.int32)}, "its leaf ['c'] is int32[4], expected int32[5]"),
        ({"a": {"z": np.zeros(1)}}, "it has no leaf ['a']['z']"),
        ({"a": np.zeros(1), "c": np.zeros(4, np.int32)}, "it has no leaf ['a']"),
    ],
)
def test_a_part_that_is_not_there_is_named(tmp_path: Path, like: Any, complaint: str) -> None:
    path = checkpoint.save(tmp_path, 1, jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), other()), {})
    with pytest.raises(UserError) as error:
        checkpoint.restore(path, like, part=True)
    assert str(error.value) == f"checkpoint {path} does not fit this run: {complaint}"


# ---- damage


def flip_a_bit(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 16
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


DAMAGE = {
    "a bit in the first array": lambda path: flip_a_bit(path / "arrays.bin", 0),
    "a bit in the last array": lambda path: flip_a_bit(path / "arrays.bin", -1),
    "arrays cut short": lambda path: cut_short(path / "arrays.bin"),
    "arrays gone": lambda path: (path / "arrays.bin").unlink(),
    "manifest empty": lambda path: (path / "manifest.json").write_text(""),
    "manifest cut short": lambda path: cut_short(path / "manifest.json"),
    "manifest nested too deeply": lambda path: (path / "manifest.json").write_text("[" * 3000 + "]" * 3000),
    "manifest of something else": lambda path: (path / "manifest.json").write_text("[]"),
    "a digit in the manifest": lambda path: (path / "manifest.json").write_text(
        (path / "manifest.json").read_text().replace("20", "21", 1)
    ),
    "a digit in its version": lambda path: (path / "manifest.json").write_text(
        (path / "manifest.json").read_text().replace('"version": 1', '"version": 7')
    ),
}


@pytest.mark.parametrize("harm", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_checkpoint_is_named_and_the_older_one_taken(tmp_path: Path, harm: Any) -> None:
    checkpoint.save(tmp_path, 10, state(10), {"steps": 10})
    newest = checkpoint.save(tmp_path, 20, state(20), {"steps": 20})
    harm(newest)
    with pytest.raises(UserError) as error:
        checkpoint.restore(newest, shapes(state()))
    assert str(newest) in str(error.value)
    assert "\n" not in str(error.value)
    tree, meta, path, warning = checkpoint.restore_latest(tmp_path, shapes(state()))
    assert meta == {"steps": 10}
    assert warning == f"{error.value}; went back to checkpoint {path}"
    assert_same_bytes(tree, state(10))


def test_every_byte_of_every_array_is_guarded(tmp_path: Path) -> None:
    path = checkpoint.save(tmp_path, 1, {"a": np.arange(8, dtype=np.int8), "b": np.ones(3)}, {})
    like = {"a": np.zeros(8, np.int8), "b": np.zeros(3)}
    for leaf in json.loads((path / "manifest.json").read_text())["leaves"]:
        for position in range(leaf["offset"], leaf["offset"] + leaf["bytes"]):
            flip_a_bit(path / "arrays.bin", position)
            with pytest.raises(checkpoint.Damaged):
                checkpoint.restore(path, like)
            flip_a_bit(path / "arrays.bin", position)
    checkpoint.restore(path, like)


def test_when_both_are_damaged_it_says_so(tmp_path: Path) -> None:
    for steps in (10, 20):
        cut_short(checkpoint.save(tmp_path, steps, state(), {}) / "arrays.bin")
    with pytest.raises(UserError, match=r"000000000020/arrays.bin is damaged.*no intact checkpoint is left"):
        checkpoint.restore_latest(tmp_path, shapes(state()))


def test_a_newer_format_is_told_apart_from_damage(tmp_path: Path) -> None:
    file = checkpoint.save(tmp_path, 1, state(), {}) / "manifest.json"
    body = {key: value for key, value in json.loads(file.read_text()).items() if key != "crc32"} | {"version": 99}
    file.write_text(json.dumps({**body, "crc32": checkpoint._manifest_crc(body)}))
    with pytest.raises(UserError, match="has format version 99; this release reads 1"):
        checkpoint.restore_latest(tmp_path, state())


# ---- disks and kills


def assert_a_failed_save_changes_nothing(folder: Path, tree: Any, reason: int) -> None:
    before = names(folder)
    with pytest.raises(UserError) as error:
        checkpoint.save(folder, 2, tree, {})
    path = folder / "000000000002"
    assert str(error.value) == f"cannot save checkpoint {path}: {os.strerror(reason)}; older checkpoints are untouched"
    assert names(folder) == before
    assert_same_bytes(checkpoint.restore_latest(folder, shapes(state())).tree, state())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True).returncode:
        pytest.skip("mounting a disk needs root")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_leaves_the_last_checkpoint_as_it_was(small_disk: Path) -> None:
    checkpoint.save(small_disk, 1, state(), {})
    assert_a_failed_save_changes_nothing(small_disk, np.ones(2 << 20, np.uint8), errno.ENOSPC)
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_bsize))
    assert_a_failed_save_changes_nothing(small_disk, state(1), errno.ENOSPC)


def test_a_file_size_limit_leaves_the_last_checkpoint_as_it_was(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, state(), {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        assert_a_failed_save_changes_nothing(tmp_path, np.ones(1 << 17, np.uint8), errno.EFBIG)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_folder_one_may_not_write_to_is_an_error_for_people(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)  # root may write anywhere
    try:
        with pytest.raises(UserError, match=r"cannot save checkpoint .*: Permission denied"):
            checkpoint.save(folder, 1, state(), {})
    finally:
        os.seteuid(me)
    assert names(folder) == []


def test_an_exception_in_the_middle_of_a_save_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.save(tmp_path, 1, state(), {})

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "sync_folder", interrupted)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 2, state(), {})
    assert names(tmp_path) == ["000000000001"]


# Forks after one import, since importing takes longer than fifty kills. Each child saves over and over, every step
# twice (so replacements are hit too), and says which saves have returned; it is killed at a random moment.
KILLER = """
import os, random, signal, sys, time, warnings
from pathlib import Path
import numpy as np
from lookrep.runs import array_bytes, checkpoint

warnings.simplefilter("ignore")
folder, kills = Path(sys.argv[1]), int(sys.argv[2])
array_bytes.SLICE_BYTES = 1 << 16
tree = lambda steps: {"a": np.full((300, 1000), steps, np.int32), "b": [np.arange(3), np.float32(steps)]}
steps, interrupted = 1, 0
random.seed(0)
for _ in range(kills):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        while True:
            for _ in range(2):
                checkpoint.save(folder, steps, tree(steps), {"steps": steps})
                os.write(writer, b"%d\\n" % steps)
            steps += 1
    time.sleep(random.uniform(0.001, 0.08))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        announced = max([int(line) for line in lines], default=steps - 1)
    interrupted += any(folder.glob("*.tmp")) or any(folder.glob("*.replaced"))
    if announced == 0:
        continue
    found = checkpoint.restore_latest(folder, tree(announced))
    assert found.warning is None, found.warning
    assert found.meta["steps"] >= announced, (found.meta, announced)
    steps = found.meta["steps"]
    assert found.path == checkpoint.latest(folder)
    assert (found.tree["a"] == steps).all() and found.tree["b"][1] == steps
    steps += 1
print(steps, interrupted)
"""


def test_killed_at_any_moment_the_latest_checkpoint_restores(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path / "c"), "50"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    steps, interrupted = map(int, done.stdout.split())
    assert steps > 10
    assert interrupted > 5, "the kills did not hit a save in progress: the test is too tame"
