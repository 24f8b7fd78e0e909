"""`lookrep parity`: a run's training scores beside published curves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from lookrep.commands.parsing import parse
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Compare training scores with published ones, per game and iteration of 250 000 agent steps.

    lookrep parity runs/atari --reference dopamine_rainbow_curves.csv.gz --figure parity.png
    """

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")]
    """folders of runs; those of one game are taken together"""
    reference: Path
    """published scores: CSV or CSV.gz with columns game, run, iteration, avg_return (and perhaps variant)"""
    variant: str | None = None
    """take only these of the reference's rows"""
    figure: Path | None = None
    """also draw it: .png, .pdf or .svg"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the rows as JSON and nothing else"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep parity")
    if not arguments.runs:
        raise UserError("say which runs: lookrep parity RUN … --reference FILE")
    from lookrep.exact.figures import check_figure_path, save
    from lookrep.studies import parity

    if arguments.figure is not None:
        check_figure_path(arguments.figure)
    found = parity.compare(arguments.runs, arguments.reference, arguments.variant)
    rows = parity.rows_of(found)
    if arguments.json:
        print(json.dumps(rows))
    else:
        _print(rows)
    if arguments.figure is not None:
        save(parity.draw(found), arguments.figure)
    return 0


def _print(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("game", "iteration", "ours", "(range)", "published", "(range)", ""):
        table.add_column(name, justify="left" if name in ("game", "") else "right")
    for row in rows:
        table.add_row(
            row["game"],
            str(row["iteration"]),
            _text(row["ours"]),
            f"{_text(row['ours_low'])} – {_text(row['ours_high'])}",
            _text(row["theirs"]),
            f"{_text(row['theirs_low'])} – {_text(row['theirs_high'])}" if row["runs"] else "–",
            row["verdict"],
        )
    console = Console(highlight=False)
    console.print(table)
    known = [row for row in rows if row["runs"]]
    inside = sum(row["verdict"] == "inside" for row in known)
    console.print(
        f"{inside} of {len(known)} means lie inside the published range. By chance alone not all would: the range of "
        "five runs holds a sixth run's score two times in three.",
        soft_wrap=True,
    )


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"
