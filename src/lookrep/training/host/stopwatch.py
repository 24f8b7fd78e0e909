"""Where a thread's time goes, by what it is spent on."""

import time
from collections import defaultdict


class Stopwatch:
    """`start`, do something, `lap("something")`, do something else, `lap("something else")`.

    >>> watch = Stopwatch()
    >>> watch.start(); watch.lap("nothing")
    >>> list(watch.seconds)
    ['nothing']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._since = time.perf_counter()

    def start(self) -> None:
        self._since = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.seconds[what] += now - self._since
        self._since = now
