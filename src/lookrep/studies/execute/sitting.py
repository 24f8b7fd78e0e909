"""What a sitting's backends have in common: when to stop, what to show, and what became of each population."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lookrep.studies import folder as folders
from lookrep.studies.execute import worker
from lookrep.studies.execute.monitor import StudyDisplay
from lookrep.training.interrupt import Stop


@dataclass
class Sitting:
    folder: Path
    stop: Stop
    display: StudyDisplay
    deadline: float  # by time.monotonic
    environment: Mapping[str, str]  # more variables for the processes that train
    finished: list[str] = field(default_factory=list)  # populations, by their names
    stopped: list[str] = field(default_factory=list)
    busy: dict[str, str] = field(default_factory=dict)  # why
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.stop.requested or time.monotonic() > self.deadline

    def begin(self, name: str) -> None:
        folders.set_failure(self.folder, name, None)

    def record(self, name: str, status: int, said: str) -> None:
        """What became of a population, from its worker's exit status and last words."""
        if status == worker.FINISHED:
            self.finished.append(name)
            self.display.line(f"{name}: finished")
        elif status == worker.STOPPED:
            self.stopped.append(name)
        elif status == worker.BUSY:
            self.busy[name] = said
            self.display.note(f"{name}: left alone ({said})")
        else:
            self.failed[name] = said
            folders.set_failure(self.folder, name, said)
            self.display.line(f"{name}: failed ({said}); the others go on", "bold red")
