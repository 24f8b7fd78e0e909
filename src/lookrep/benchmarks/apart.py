"""Trials in processes of their own, so that many programs are traced and compiled at the same time.

Tracing holds Python's lock, so threads would do it one after the other. A process waits while another one is timed.
"""

import contextlib
import multiprocessing
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

from lookrep.benchmarks.minatar import Trial
from lookrep.config import RunConfig
from lookrep.errors import UserError


class TrialApart:
    """What a `Trial` in another process offers. It is being prepared until `ready` has returned."""

    period_updates: int
    first_seconds: float
    kept_bytes: int

    def __init__(self, config: RunConfig) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, config), daemon=True)
        self._process.start()
        theirs.close()
        self._is_ready = False

    def ready(self) -> None:
        """Wait until it is compiled and past its warm-up."""
        if not self._is_ready:
            self.period_updates, self.first_seconds, self.kept_bytes = self._answer()
            self._is_ready = True

    def seconds(self, updates: int) -> float:
        """How long so many cycles take, in its process."""
        self._connection.send(updates)
        return float(self._answer())

    def close(self) -> None:
        self._connection.close()  # ends `_serve`
        self._process.join(10)
        self._process.kill()

    def _answer(self) -> Any:
        try:
            answer = self._connection.recv()
        except EOFError:
            raise UserError(f"a process that was to be timed ended with status {self._process.exitcode}") from None
        if isinstance(answer, UserError):
            raise answer
        return answer


@contextlib.contextmanager
def started(configs: Sequence[RunConfig]) -> Iterator[list[TrialApart]]:
    """A trial for each, all being prepared at the same time. They share a GPU, so none may take most of its memory at
    its start: XLA_PYTHON_CLIENT_PREALLOCATE=false, in this process too."""
    trials: list[TrialApart] = []
    try:
        trials.extend(TrialApart(config) for config in configs)
        yield trials
    finally:
        for trial in trials:
            trial.close()


def _serve(connection: Connection, config: RunConfig) -> None:
    with contextlib.suppress(EOFError, ConnectionError):  # nobody asks any more
        try:
            trial = Trial(config)
            connection.send((trial.period_updates, trial.first_seconds, trial.kept_bytes))
            while True:
                connection.send(trial.seconds(connection.recv()))
        except (EOFError, ConnectionError):
            raise
        except Exception as error:
            connection.send(UserError(f"{type(error).__name__}: {error}"))
