"""Studies without sampling noise: every problem with every variant, solved exactly, as JSON and CSV in the folder."""

import json
from pathlib import Path

from lookrep.errors import UserError
from lookrep.exact.solution import Solution, as_json, solution, trace_rows
from lookrep.files import as_csv, write_whole
from lookrep.studies import folder as folders
from lookrep.studies import hardware
from lookrep.studies.definition import Study
from lookrep.studies.folder import plain

ROWS = 200  # of a trace in its CSV: of a longer one, evenly spread iterations


def run(asked: Study, out: Path, command: str) -> list[Path]:
    """Solve everything, then write it: `exact/PROBLEM--VARIANT.json`, and the way there as `.csv`."""
    study = folders.merged(out, asked)
    pairs = [(env, variant.name) for env in study.environments for variant in study.variants]
    names = [f"{plain(Path(env).stem)}--{variant}" for env, variant in pairs]
    for name in names:
        folders.check_name(name, study.name)
    solved = [_solved(study, env, variant) for env, variant in pairs]
    with folders.defined(out, asked):
        pass  # someone else may add to it from here on
    written = []
    with folders.sitting(out, command, hardware.detect()) as end:
        for name, found in zip(names, solved, strict=True):
            path = out / folders.EXACT / f"{name}.json"
            write_whole(path, json.dumps(as_json(found), allow_nan=False, indent=1) + "\n")
            write_whole(path.with_suffix(".csv"), as_csv(trace_rows(found.trace, ROWS)))
            written.append(path)
        end["finished"] = [path.stem for path in written]
    return written


def _solved(study: Study, env: str, variant: str) -> Solution:
    try:
        return solution(env, study.overrides | study.variant(variant).changes)
    except (UserError, TypeError) as error:
        raise UserError(f"study {study.name}, {env}, variant {variant}: {error}") from None
