"""Checkpoints on disk: any pytree of arrays, written atomically, the last two kept, no pickle.

A checkpoint is a folder `<agent steps, zero-padded>/` with two files: `arrays.bin`, the raw bytes of every leaf
one after the other, and `manifest.json`, which says what they are (key path, dtype, shape, offset, byte count,
CRC-32) and carries the caller's own `meta`. It appears under its name only once it is whole and on the disk.
What belongs into the tree, and when to save, is the trainer's business: nothing here knows what the arrays mean.
"""

import contextlib
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from lookrep.errors import UserError
from lookrep.files import from_json, sync_folder
from lookrep.runs.array_bytes import bytes_of, cut, pieces
from lookrep.runs.names import MANIFEST, of_step

KEPT = 2
FORMAT, VERSION = "lookrep-checkpoint", 1
ARRAYS = "arrays.bin"
ALIGNMENT_BYTES = 64  # leaves start on cache lines, so that a reader may also map the file

# `.replaced` is the old checkpoint of the same step, set aside for the instant in which the new one takes its name.
_NAME = re.compile(r"(\d{12,})(\.replaced)?")


T = TypeVar("T")


class Damaged(UserError):
    """The files are not what was written; an older checkpoint may still be good."""


class NoneIntact(UserError):
    """There are checkpoints, and all are damaged."""

    def __init__(self, folder: str | Path, damage: Sequence[Damaged]) -> None:
        super().__init__(f"{damage[0]}; no intact checkpoint is left in {folder}")
        self.damage = tuple(damage)


class Restored(NamedTuple):
    tree: Any
    meta: dict[str, Any]
    path: Path
    warning: str | None  # one line when the newest checkpoint was damaged and an older one was taken


def save(folder: Path, agent_steps: int, tree: Any, meta: dict[str, Any]) -> Path:
    """Write `folder/<agent_steps>/` and drop all but it and the newest one before it.

    Checkpoints of later steps go too: a run that saves at this step resumed from before them.
    """
    leaves = [(*_spec(path, leaf), leaf) for path, leaf in _flatten(tree)]
    meta = json.loads(json.dumps(meta))  # refuses, before anything is written, what JSON cannot hold
    final = folder / of_step(agent_steps)
    temporary = final.with_suffix(".tmp")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob("*.tmp"):  # of a process that was killed
            shutil.rmtree(leftover)
        try:
            temporary.mkdir()
            _write(temporary, agent_steps, leaves, meta)
            _publish(temporary, final)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"cannot save checkpoint {final}: {reason}; older checkpoints are untouched") from error
    _prune(folder, final)
    return final


def latest(folder: str | Path) -> Path | None:
    """The newest complete checkpoint; unfinished ones do not count."""
    whole = [p for p in _checkpoints(folder) if (p / MANIFEST).is_file() and (p / ARRAYS).is_file()]
    return whole[-1] if whole else None


def restore(path: str | Path, like: Any, *, part: bool = False) -> tuple[Any, dict[str, Any]]:
    """A checkpoint as numpy arrays in the structure of `like` (arrays or `jax.ShapeDtypeStruct`s), and its meta.

    Every byte is checked against its checksum; every leaf must have the path, shape and dtype that `like` has. With
    `part`, leaves that `like` lacks (a replay of tens of GB, say) are passed over, unread and unchecked.
    """
    path = Path(path)
    manifest = _read_manifest(path)
    expected = [(*_spec(key, leaf),) for key, leaf in _flatten(like)]
    stored = manifest["leaves"]
    if any(leaf["path"].startswith("[0].agents.") for leaf in stored):
        raise UserError(f"checkpoint {path} was written by version 0.1, group by group: only that version can go on")
    if part:
        wanted = {key for key, _, _ in expected}
        stored = [leaf for leaf in stored if leaf["path"] in wanted]
    _check_same_leaves(path, stored, expected)
    arrays = path / ARRAYS
    try:
        size = arrays.stat().st_size
        if size != manifest["bytes"]:
            raise Damaged(f"checkpoint file {arrays} is damaged: {size} bytes instead of {manifest['bytes']}")
        with open(arrays, "rb", buffering=0) as file:
            values = [
                _read_leaf(file, arrays, leaf, shape, dtype)
                for leaf, (_, shape, dtype) in zip(stored, expected, strict=True)
            ]
    except OSError as error:
        raise Damaged(f"cannot read checkpoint file {arrays}: {error.strerror or error}") from error
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), values), manifest["meta"]


def restore_latest(folder: str | Path, like: Any, *, part: bool = False) -> Restored:
    """`restore` of the newest checkpoint that is intact; one that is intact but does not fit `like` is an error."""
    (tree, meta), path, warning = first_intact(folder, lambda path: restore(path, like, part=part))
    return Restored(tree, meta, path, warning)


def first_intact(folder: str | Path, read: Callable[[Path], T]) -> tuple[T, Path, str | None]:
    """What `read` makes of the newest checkpoint for which it does not raise `Damaged`; with the checkpoint's path, and
    a line of warning if it is an older one."""
    damage: list[Damaged] = []
    for path in reversed(_checkpoints(folder)):
        try:
            found = read(path)
        except Damaged as error:
            damage.append(error)
            continue
        return found, path, f"{damage[0]}; went back to checkpoint {path}" if damage else None
    if damage:
        raise NoneIntact(folder, damage)
    raise UserError(f"no checkpoint in {folder}")


def meta(path: Path) -> dict[str, Any]:
    """What was said about a checkpoint when it was saved."""
    return dict(_read_manifest(path)["meta"])


def metas(folder: str | Path) -> list[dict[str, Any]]:
    """The same of each that can still be restored, oldest first."""
    found = []
    for path in _checkpoints(folder):
        with contextlib.suppress(Damaged):
            found.append(meta(path))
    return found


def any_in(folder: str | Path) -> bool:
    """Whether there is one, be it damaged."""
    return bool(_checkpoints(folder))


def _checkpoints(folder: str | Path) -> list[Path]:
    """Folders that carry a checkpoint's name, oldest first; the replacement of a step comes after what it replaces."""

    def age(path: Path) -> tuple[int, bool]:
        return _steps(path), path.suffix != ".replaced"

    folder = Path(folder)
    if not folder.is_dir():
        return []
    return sorted((p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()), key=age)


def _steps(path: Path) -> int:
    return int(path.name.partition(".")[0])


def _flatten(tree: Any) -> list[tuple[str, Any]]:
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def _spec(path: str, leaf: Any) -> tuple[str, tuple[int, ...], np.dtype]:
    described = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    if jax.dtypes.issubdtype(described.dtype, jax.dtypes.prng_key):
        raise UserError(f"leaf {path} is a typed PRNG key: give the checkpoint jax.random.key_data(key) instead")
    dtype = np.dtype(described.dtype)
    registered = dtype.isbuiltin == 2  # bfloat16 and its relatives from ml_dtypes
    if not (dtype.kind in "biufc" or registered) or not dtype.isnative:
        raise UserError(f"leaf {path} has dtype {dtype}: a checkpoint holds native numbers and booleans only")
    return path, tuple(described.shape), dtype


def _write(folder: Path, agent_steps: int, leaves: list[tuple[str, tuple[int, ...], np.dtype, Any]], meta: Any) -> None:
    entries = []
    with open(folder / ARRAYS, "wb", buffering=0) as file:
        for path, shape, dtype, leaf in leaves:
            _write_all(file, memoryview(bytes(-file.tell() % ALIGNMENT_BYTES)))
            offset, crc = file.tell(), 0
            for piece in pieces(leaf):
                crc = zlib.crc32(piece, crc)
                _write_all(file, piece)
            entries.append(
                {
                    "path": path,
                    "dtype": dtype.name,
                    "shape": list(shape),
                    "offset": offset,
                    "bytes": file.tell() - offset,
                    "crc32": crc,
                }
            )
        body = {
            "format": FORMAT,
            "version": VERSION,
            "agent_steps": agent_steps,
            "bytes": file.tell(),
            "leaves": entries,
            "meta": meta,
        }
        os.fsync(file.fileno())
    with open(folder / MANIFEST, "w", encoding="utf-8") as text:
        json.dump({**body, "crc32": _manifest_crc(body)}, text, indent=1)
        text.flush()
        os.fsync(text.fileno())
    sync_folder(folder)


def _write_all(file: FileIO, data: memoryview) -> None:
    while len(data):
        data = data[file.write(data) :]


def _publish(temporary: Path, final: Path) -> None:
    """Give the finished folder its name. A folder cannot replace another, so an old one steps aside first; killed in
    between, its `.replaced` name still counts as a checkpoint."""
    aside = final.with_suffix(".replaced")
    if final.exists():
        _discard(aside)
        final.rename(aside)
    try:
        temporary.rename(final)
    except OSError:
        if aside.exists():
            aside.rename(final)
        raise
    sync_folder(final.parent)


def _prune(folder: Path, newest: Path) -> None:
    paths = _checkpoints(folder)
    older = [path for path in paths if _steps(path) < _steps(newest)]
    for path in paths:
        if path != newest and path not in older[-(KEPT - 1) :]:
            _discard(path)


def _discard(path: Path) -> None:
    """Delete a checkpoint, first taking away its name: killed half-way, what is left does not look like one. What
    cannot be deleted costs disk, not the run."""
    doomed = path.with_name(path.name + ".old.tmp")
    shutil.rmtree(doomed, ignore_errors=True)
    try:
        path.rename(doomed)
    except OSError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def _manifest_crc(body: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = from_json(file.read_bytes())
        crc = manifest.pop("crc32")
        intact = manifest["format"] == FORMAT and crc == _manifest_crc(manifest)  # as in every version
    except FileNotFoundError:
        raise Damaged(f"no checkpoint at {path}: {MANIFEST} is missing") from None
    except OSError as error:
        raise Damaged(f"cannot read checkpoint file {file}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact:
        raise Damaged(f"checkpoint file {file} is damaged: its checksum does not fit")
    if manifest["version"] != VERSION:
        raise UserError(f"checkpoint {path} has format version {manifest['version']}; this release reads {VERSION}")
    return dict(manifest)


def _check_same_leaves(
    checkpoint: Path, stored: list[dict[str, Any]], expected: list[tuple[str, tuple[int, ...], np.dtype]]
) -> None:
    def refuse(difference: str) -> UserError:
        return UserError(f"checkpoint {checkpoint} does not fit this run: {difference}")

    stored_paths, expected_paths = [leaf["path"] for leaf in stored], [path for path, _, _ in expected]
    for leaf, (path, shape, dtype) in zip(stored, expected, strict=False):
        if leaf["path"] != path:
            if path not in stored_paths:
                raise refuse(f"it has no leaf {path}")
            raise refuse(f"its leaf {leaf['path']} is not expected here")
        there, here = f"{leaf['dtype']}{leaf['shape']}", f"{dtype.name}{list(shape)}"
        if there != here:
            raise refuse(f"its leaf {path} is {there}, expected {here}")
    if len(expected) > len(stored):
        raise refuse(f"it has no leaf {expected_paths[len(stored)]}")
    if len(stored) > len(expected):
        raise refuse(f"its leaf {stored_paths[len(expected)]} is not expected here")


def _read_leaf(file: FileIO, name: Path, leaf: dict[str, Any], shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    value = np.empty(shape, dtype)
    crc = 0
    file.seek(leaf["offset"])
    for piece in cut(bytes_of(value)):
        rest = piece
        while len(rest):
            count = file.readinto(rest)
            if not count:
                raise Damaged(f"checkpoint file {name} is damaged: it ends inside leaf {leaf['path']}")
            rest = rest[count:]
        crc = zlib.crc32(piece, crc)
    if crc != leaf["crc32"]:
        raise Damaged(f"checkpoint file {name} is damaged: leaf {leaf['path']} does not match its checksum")
    return value
