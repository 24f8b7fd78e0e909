"""Small files that appear whole or not at all, figures, and tables as CSV."""

import contextlib
import csv
import io
import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookrep.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_FORMATS = ("png", "pdf", "svg")
MOST_DIGITS, DEEPEST = 100, 100  # of a whole number, and of tables and lists in each other, in TOML


def from_json(text: str | bytes) -> Any:
    """What JSON says; ValueError whatever may be wrong with it, be it too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. A missing file is a FileNotFoundError, all else that is wrong one line."""
    try:
        data = from_json(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: must hold one JSON object")
    return data


def from_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML table; one line about `where` if it is none, or has what Python cannot print."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())
        raise UserError(f"{where}: not readable as TOML ({said})") from None
    _check_printable(table, where, 0)
    return table


def _check_printable(value: Any, where: str, depth: int) -> None:
    """Whole numbers in hexadecimal, and dotted keys, have no bounds of their own."""
    if depth > DEEPEST:
        raise UserError(f"{where}: not readable as TOML (nested too deeply)")
    if isinstance(value, dict):
        for key, entry in value.items():
            _check_printable(entry, f"{where}: {key}" if depth == 0 else f"{where}.{key}", depth + 1)
    elif isinstance(value, list):
        for entry in value:
            _check_printable(entry, where, depth + 1)
    elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise UserError(f"{where}: a whole number is too large: it has more than {MOST_DIGITS} digits")


@contextlib.contextmanager
def writing(what: str) -> Iterator[None]:
    """What the system refuses in this block becomes one line about `what`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what} cannot be written: {error.strerror or error}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write (text as UTF-8) under another name first: a reader, or a kill, never meets half a file. Raises OSError."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_new(path: Path, content: str) -> None:
    """The same where no file may be yet: FileExistsError if there is one, also from a writer at the same instant."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content.encode())
        try:
            os.link(unfinished, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with open(path, "xb") as file:
                file.write(content.encode())
    finally:
        unfinished.unlink(missing_ok=True)


def same_file(handle: int, path: Path) -> bool:
    """Whether an open file is still what has this name: it may have been moved, deleted or replaced."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return False


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


def check_figure_path(path: Path) -> None:
    """Refuse, before any computing, a format we cannot write or a place where no file can be; make the folder."""
    if path.suffix.lstrip(".").lower() not in FIGURE_FORMATS:
        raise UserError(f"figure '{path}': the name should end in .{', .'.join(FIGURE_FORMATS)}")
    if path.is_dir():
        raise UserError(f"figure '{path}': is a folder")
    with writing(f"figure '{path}'"):
        path.parent.mkdir(parents=True, exist_ok=True)
        existed = path.exists()
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()


def save_figure(figure: "Figure", path: Path) -> None:
    """Write in the format of the suffix; the file appears whole or not at all, and equal input gives equal bytes."""
    import matplotlib as mpl

    kind = path.suffix.lstrip(".").lower()
    metadata: dict[str, Any] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind, {})
    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "lookrep"}):
        figure.savefig(buffer, format=kind, dpi=200, metadata=metadata)
    with writing(f"figure '{path}'"):
        write_whole(path, buffer.getvalue())
