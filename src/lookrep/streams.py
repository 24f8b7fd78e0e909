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


def _nowhere(number: int) -> TextIO:
    """In the place of a stream that was closed from the start."""
    try:
        os.fstat(number)
    except OSError:  # else the next file opened would get this number, and what native code has to say would be in it
        os.dup2(os.open(os.devnull, os.O_RDWR), number)  # the first that is free: this one, or standard input's
        os.set_inheritable(number, True)
        return open(number, "w", closefd=False)
    return open(os.devnull, "w")


@contextlib.contextmanager
def outlets() -> Iterator[None]:
    """Within this block a reader that goes away changes neither what is done nor the exit status. Results that cannot
    be written for another reason are one line. A stream that was closed from the start (`2>&-`) goes nowhere."""
    before = sys.stdout, sys.stderr
    with contextlib.ExitStack() as opened:
        out, err = (stream or opened.enter_context(_nowhere(number)) for number, stream in enumerate(before, 1))
        sys.stdout, sys.stderr = Outlet(out, optional=False), Outlet(err, optional=True)
        try:
            yield
        finally:
            with contextlib.suppress(UserError):  # a command that must know flushes by itself
                sys.stdout.flush()
            sys.stderr.flush()
            sys.stdout, sys.stderr = before
