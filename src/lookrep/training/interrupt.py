"""Ctrl-C and SIGTERM as a flag that a training loop polls, so that it can save before it stops.

What to do when asked to stop is the loop's business. Nothing is printed here: a signal handler that writes to a stream
may interrupt a write to the same stream.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType


@dataclass
class Stop:
    """Has someone asked the run to stop?"""

    requested: bool = False
    signal_name: str | None = None  # "SIGINT" or "SIGTERM", whichever came first


@contextlib.contextmanager
def graceful() -> Iterator[Stop]:
    """Within this block the first SIGINT or SIGTERM sets `requested`; a Ctrl-C after that raises KeyboardInterrupt.

    Further SIGTERMs only repeat the request, as cluster schedulers do. Signals that were ignored stay ignored
    (`nohup`). Outside the main thread Python delivers no signals, and the flag stays down.

    >>> import signal
    >>> with graceful() as stop:
    ...     signal.raise_signal(signal.SIGINT)
    ...     stop.requested, stop.signal_name
    (True, 'SIGINT')
    """
    stop = Stop()

    def ask(number: int, frame: FrameType | None) -> None:
        if stop.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.requested = True
        stop.signal_name = stop.signal_name or signal.Signals(number).name

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    wanted = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, ask) for number in wanted}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            # None: installed by C code, which Python cannot put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
