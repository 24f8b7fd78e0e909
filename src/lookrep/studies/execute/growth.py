"""More steps for a study that was run with fewer, in the same folder.

A population whose replay was kept goes on from its last checkpoint. One without is trained again from the start, to the
same rows as before and on; what it had come to stays in its folder.
"""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from lookrep.errors import UserError
from lookrep.files import write_whole
from lookrep.runs import folder as runs
from lookrep.runs import names
from lookrep.studies import folder as folders

Way = Literal["goes on", "again"]


def needed(out: Path, populations: Iterable[str], steps: int) -> dict[str, Way]:
    """Which of these that were begun were to end before so many steps, and how each gets there."""
    found: dict[str, Way] = {}
    for name in populations:
        run = out / folders.POPULATIONS / name
        if (runs.planned(run) or {"steps": steps})["steps"] < steps and not runs.moved_end(run):
            found[name] = "goes on" if runs.keeps_replay(run) else "again"
    return found


def apply(out: Path, ways: dict[str, Way], steps: int) -> list[str]:
    """Set their new end; in words, what becomes of each."""
    said = []
    with contextlib.ExitStack() as claims:
        for name in ways:  # all or none
            claims.enter_context(runs.claim(out / folders.POPULATIONS / name))
        for name, way in ways.items():
            run = out / folders.POPULATIONS / name
            config = runs.planned(run)
            if config is None:
                raise UserError(f"{run} has lost its {names.CONFIG}")
            before = f"{config['steps']:,} to {steps:,} steps"
            aside = runs.set_aside(run) if way == "again" else None
            recorded = config.get("versions")
            made_with = {"versions": recorded | runs.end_at(steps)} if isinstance(recorded, dict) else {}
            write_whole(run / names.CONFIG, json.dumps(config | {"steps": steps} | made_with, indent=2) + "\n")
            for film in (out / folders.VIDEOS).glob(f"*--{folders.variant_of(run)}.gif"):
                film.unlink()  # of networks that learn on
            said.append(
                f"{name}: goes on from {before}"
                if way == "goes on"
                else f"{name}: trained again, {before}: its replay was not kept"
                + (f" (what there was is in {aside.name})" if aside else "")
            )
    return said
