"""Studies without sampling noise: every problem with every variant, solved exactly, as JSON and CSV in the folder.

The problems and their solution are `lookrep.exact`'s; the pictures are drawn from there as well.
"""

import csv
import io
import json
from pathlib import Path

import numpy as np

from lookrep.commands import exact as command
from lookrep.errors import UserError
from lookrep.files import write_whole
from lookrep.studies import folder as folders
from lookrep.studies import results
from lookrep.studies.definition import Study
from lookrep.studies.plan import plain

ROWS = 200  # of a trace in its CSV: of a longer one, evenly spread iterations


def run(study: Study, out: Path) -> list[Path]:
    """Solve everything, then write it: `exact/PROBLEM--VARIANT.json`, and the way there as `.csv`."""
    solved = [
        (env, variant.name, solve(study, env, variant.name)) for env in study.environments for variant in study.variants
    ]
    folders.prepare(out, study)
    written = []
    for env, variant, result in solved:
        path = out / results.EXACT / f"{plain(Path(env).stem)}--{variant}.json"
        write_whole(path, json.dumps(command.as_json(result), allow_nan=False, indent=1) + "\n")
        write_whole(path.with_suffix(".csv"), trace_csv(result))
        written.append(path)
    return written


def solve(study: Study, env: str, variant: str) -> command.Result:
    changes = study.overrides | study.variant(variant).changes
    try:
        return command.run(command.Arguments(problem=env, **changes))
    except (UserError, TypeError) as error:
        raise UserError(f"study {study.name}, {env}, variant {variant}: {error}") from None


def trace_csv(result: command.Result) -> str:
    """Values and parameters of both networks along the outer iterations."""
    trace = result.trace
    columns = {
        "value_target": trace.value_target,
        "value_online": trace.value_online,
        "target": trace.target,
        "online": trace.online,
    }
    length = len(trace.target)
    rows = np.unique(np.linspace(0, length - 1, min(length, ROWS)).round().astype(int))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["outer_iteration", *(f"{n}_{i + 1}" for n, c in columns.items() for i in range(c.shape[1]))])
    for row in rows:
        writer.writerow([row, *(repr(float(x)) for column in columns.values() for x in column[row])])
    return text.getvalue()
