"""A folder that one process holds: a lock that the system releases when its holder dies, however that ends."""

import contextlib
import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from lookrep.errors import UserError
from lookrep.files import same_file
from lookrep.runs import names

NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # what a file system says that knows none


class Busy(UserError):
    """Another process is at it."""


@contextlib.contextmanager
def held(folder: Path, doing: str, patience_seconds: float) -> Iterator[str | None]:
    """Hold a folder, which is made if there is none; `Busy` if it is `doing` for someone else for longer than that.
    Where its file system has no locks, it is not held, and a line says so."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file, note = _locked(folder, doing, time.monotonic() + patience_seconds)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror or error}") from None
    with file:
        yield note


def is_held(folder: Path) -> bool:
    try:
        with open(folder / names.LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # nobody ever did, or this file system knows no locks
        return False
    return False


def _locked(folder: Path, doing: str, deadline: float) -> tuple[contextlib.ExitStack, str | None]:
    """What keeps the lock file open, and so the lock, with who holds it in the file."""
    path = folder / names.LOCK
    while True:
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open(path, "a+"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    who = file.read().strip() or "another process"
                    raise Busy(f"{folder} is {doing} by {who}: wait for it, or stop it first") from None
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                return stack.pop_all(), (
                    f"no lock on {folder}: its file system has none ({error.strerror}); start nothing else there"
                )
            else:
                if same_file(file.fileno(), path):  # otherwise the folder was replaced between the two lines above
                    file.truncate(0)
                    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
                    file.flush()
                    return stack.pop_all(), None
        time.sleep(0.05)
