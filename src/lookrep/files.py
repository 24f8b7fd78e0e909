"""Small files that appear whole or not at all, and tables as CSV."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 under another name first: a reader, or a kill, never meets half a file. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(text.encode())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until what was renamed, made or deleted in a folder is on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV text; columns in the order in which they first appear.

    >>> print(as_csv([{"game": "a,b", "score": 1.5}, {"game": "c", "seed": 2}]), end="")
    game,score,seed
    "a,b",1.5,
    c,,2
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
