"""Rows of metrics in Weights & Biases, beside the run's own file, where the variable LOOKREP_WANDB names a project.

Nothing is read back, and if anything fails, the run goes on without. WANDB_MODE=offline and all else that wandb knows
work as usual.
"""

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from lookrep.importing import in_short
from lookrep.runs import names
from lookrep.runs.folder import read_config

PROJECT = "LOOKREP_WANDB"  # the variable; `lookrep train --wandb` sets it


class WandbRun:
    """One run there; it does nothing where no project is named."""

    def __init__(self, run: Path, resume_at_steps: int | None, note: Callable[[str], None]) -> None:
        self._note, self._run = note, None
        project = os.environ.get(PROJECT)
        if not project:
            return
        try:
            import wandb
        except ImportError:
            note("nothing goes to Weights & Biases: pip install 'lookrep[wandb]'")
            return
        file = run / names.WANDB
        try:
            goes_on = bool(resume_at_steps) and file.exists()
            if not goes_on:  # its own id, so that a resume goes on with the same curves
                file.write_text(uuid.uuid4().hex[:8])
            about = {} if goes_on else {"config": read_config(run) or {}}
            name, own = run.resolve().name, file.read_text()
            self._run = wandb.init(project=project, name=name, id=own, resume="allow", dir=str(run), **about)
        except Exception as error:  # a network, a key, a disk
            note(f"nothing goes to Weights & Biases: {in_short(error)}")

    def write(self, numbers: Mapping[str, float], agent_steps: int) -> None:
        if self._run is None:
            return
        try:
            self._run.log(dict(numbers), step=agent_steps)
        except Exception as error:
            self._note(f"no more goes to Weights & Biases: {in_short(error)}")
            self._run = None

    def close(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
