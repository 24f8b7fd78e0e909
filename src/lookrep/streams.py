"""Standard output and errors that nobody may be reading any more: a closed terminal, `| head -1`, a full disk."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from lookrep.errors import UserError

UNREAD = (errno.EPIPE, errno.EIO)  # whoever read a pipe or a terminal is gone


class Outlet:
    """A stream that goes silent when its reader has gone; `optional`: whatever else is wrong with it, too."""

    def __init__(self, stream: TextIO, *, optional: bool) -> None:
        self._stream, self._optional = stream, optional

    def write(self, text: str) -> int:
        with self._silenced():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._silenced():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _silenced(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # What is buffered, and what native code and Python's own end write there, goes nowhere as well.
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
            if error.errno not in UNREAD and not self._optional:
                raise UserError(f"cannot write the output: {error.strerror or error}") from None


@contextlib.contextmanager
def outlets() -> Iterator[None]:
    """Within this block a reader that goes away changes neither what is done nor the exit status. Results that cannot
    be written for another reason are one line."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Outlet(before[0], optional=False), Outlet(before[1], optional=True)
    try:
        yield
    finally:
        with contextlib.suppress(UserError):  # a command that must know flushes by itself
            sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
