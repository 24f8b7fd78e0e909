"""Signals that ask to stop as a flag that a training loop polls, so that it can save before it stops; and a Ctrl-C that
is heard inside long native calls.

What to do when asked to stop is the loop's business. Nothing is printed by a handler: one that writes to a stream may
interrupt a write to the same stream.
"""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # Ctrl-C, a scheduler, no terminal, Ctrl-\
INSISTING = (signal.SIGINT, signal.SIGQUIT)  # when they come again
PATIENCE_SECONDS = 3.0  # for Python to notice a Ctrl-C by itself
INTERRUPTED = 130  # exit status


@dataclass
class Stop:
    """Has someone asked the run to stop?"""

    requested: bool = False
    signal_name: str | None = None  # "SIGINT", "SIGTERM", …: whichever came first


class _Asked:
    """The handler of `graceful`."""

    def __init__(self, stop: Stop) -> None:
        self.stop, self.heard = stop, 0  # by the thread of `heard_anywhere`, which may be ahead of Python's handlers

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.stop.requested and number in INSISTING:
            raise KeyboardInterrupt
        self.stop.requested = True
        self.stop.signal_name = self.stop.signal_name or signal.Signals(number).name


@contextlib.contextmanager
def graceful() -> Iterator[Stop]:
    """Within this block the first signal of `ASKING` sets `requested`; a Ctrl-C after that raises KeyboardInterrupt.

    Further SIGTERMs only repeat the request, as cluster schedulers do. Signals that were ignored stay ignored
    (`nohup`). Outside the main thread Python delivers no signals, and the flag stays down.

    >>> import signal
    >>> with graceful() as stop:
    ...     signal.raise_signal(signal.SIGINT)
    ...     stop.requested, stop.signal_name
    (True, 'SIGINT')
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    asked = _Asked(stop)
    wanted = [n for n in ASKING if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, asked) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            # None: installed by C code, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


@contextlib.contextmanager
def heard_anywhere(patience_seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Within this block a Ctrl-C that insists ends the process also inside a long native call (compiling, a compiled
    loop), where Python's handlers wait for the call to end: a thread learns of it, and is patient for a moment.

    For commands: whatever they write is whole or not there, so that ending at any time is safe.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ear, mouth = socket.socketpair()
    over = threading.Event()
    mouth.setblocking(False)
    before = signal.set_wakeup_fd(mouth.fileno(), warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(ear, over, patience_seconds), daemon=True)
    listener.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        mouth.close()  # which the listener hears
        listener.join()
        ear.close()


def _listen(ear: socket.socket, over: threading.Event, patience_seconds: float) -> None:
    while numbers := ear.recv(64):
        if any(_insists(number) for number in numbers) and not over.wait(patience_seconds):
            os.write(2, b"lookrep: interrupted\n")
            os._exit(INTERRUPTED)


def _insists(number: int) -> bool:
    """Whether Python's own handler would raise KeyboardInterrupt."""
    handler = signal.getsignal(number)
    if isinstance(handler, _Asked):
        handler.heard += number in ASKING
        return handler.heard > 1 and number in INSISTING
    return handler is signal.default_int_handler
