"""Populations of a study that share a program, from wherever they are to their end: what a subprocess or a Ray worker
does. Mostly it is one.

    python -m lookrep.studies.execute.worker < job.json

How many of them run at once, and where, is decided by the files beside this one: `local` and `ray_cluster`.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lookrep import config as configs
from lookrep.errors import UserError, refusal
from lookrep.runs import folder as runs
from lookrep.runs import names
from lookrep.streams import outlets
from lookrep.studies import folder, plan

FINISHED, FAILED, WRONG, BUSY, STOPPED = 0, 1, 2, 75, 130  # exit statuses


@dataclass(frozen=True)
class TrainingJob:
    folder: str  # the study's
    populations: dict[str, dict[str, Any]]  # id → configuration, {} for one that was begun, which has its own
    keep_replay: bool  # whole checkpoints also at the end, so that the run can be extended


def train(job: TrainingJob) -> bool:
    """Start or go on; whether the end was reached. UserError if it cannot be done, Busy if someone else is at it."""
    study = Path(job.folder)
    if not study.is_dir():
        raise UserError(f"{study} cannot be seen from here: workers need a path that all machines share")
    from lookrep.training import session  # JAX

    with contextlib.ExitStack() as claims:
        wanted: list[tuple[Path, configs.RunConfig | None]] = []
        places = {name: study / folder.POPULATIONS / name for name in job.populations}
        for out in places.values():
            if note := claims.enter_context(runs.claim(out)):
                print(note, file=sys.stderr)
        for out in [out for out in places.values() if runs.half_saved(out)]:  # they go on at the same step, together
            runs.forget_newest(out)
        for name, config in job.populations.items():
            out = places[name]
            if runs.finished(out):
                continue
            begun = (out / names.CONFIG).exists()
            if not begun:
                _check_new(study, name, config)
            elif runs.never_saved(out):  # then it can only start again
                runs.set_aside(out)
            wanted.append((out, None if begun else configs.from_json(config)))
        complete = session.together(wanted)
        for out, _ in wanted:
            if not job.keep_replay and runs.finished(out):
                drop_replay(out)
        return complete


def drop_replay(out: Path) -> None:
    """Of a finished run's checkpoints, keep the last one, without replay and optimisers: that is enough for playing,
    and may be a thousand times smaller."""
    from lookrep.runs import checkpoint
    from lookrep.training.engines import make_engine

    config = configs.load(out)
    if not config.checkpoint_interval_steps:
        return
    wanted = _without_replay(make_engine(config).shapes())
    found = checkpoint.restore_latest(out / names.CHECKPOINTS, wanted, part=True)
    kept = checkpoint.save(out / names.CHECKPOINTS, config.steps, found.tree, {**found.meta, "replay": "dropped"})
    for other in (out / names.CHECKPOINTS).iterdir():
        if other != kept:
            shutil.rmtree(other, ignore_errors=True)


def _without_replay(tree: Any) -> Any:
    """An engine's state, whose parts are named tuples, with None in place of what only further training needs."""
    if hasattr(tree, "_fields"):
        parts = {name: None if name in ("replay", "optimizer") else getattr(tree, name) for name in tree._fields}
        return tree._replace(**{name: _without_replay(part) for name, part in parts.items()})
    return type(tree)(map(_without_replay, tree)) if isinstance(tree, tuple | list) else tree


def _check_new(study: Path, name: str, config: dict[str, Any]) -> None:
    """Someone who packed differently may have begun some of these members in the meantime."""
    mine = plan.from_config(name, config).members
    for other, population in plan.existing(study).items():
        if mine & population.members:
            raise runs.Busy(f"{name}: some of its seeds are already being trained in {other}")


def main() -> int:
    with outlets():  # the log may be on a full disk
        return _status()


def _status() -> int:
    job = TrainingJob(**json.load(sys.stdin))
    threading.Thread(target=_stop_when_alone, args=(os.getppid(),), daemon=True).start()
    try:
        return FINISHED if train(job) else STOPPED
    except Exception as error:
        if (said := refusal(error)) is None:
            raise
        print(f"lookrep: {said}", file=sys.stderr)
        return BUSY if isinstance(error, runs.Busy) else WRONG


def _stop_when_alone(parent: int) -> None:
    """Whoever started this process may be killed without a chance to stop it."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
