"""`lookrep parity`: a run's training scores beside published curves."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from lookrep.cli.parsing import parse
from lookrep.errors import UserError
from lookrep.files import check_figure_path, save_figure


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
    """take only these of the reference's rows; otherwise every variant is compared by itself"""
    figure: Path | None = None
    """also draw it: .png, .pdf or .svg"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print the rows as JSON and nothing else"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep parity")
    if not arguments.runs:
        raise UserError("say which runs: lookrep parity RUN … --reference FILE")
    from lookrep.analysis import parity

    if arguments.figure is not None:
        check_figure_path(arguments.figure)
    found = parity.compare(arguments.runs, arguments.reference, arguments.variant)
    rows = parity.rows_of(found)
    if arguments.json:
        print(json.dumps(rows))
    else:
        _print(rows)
    if arguments.figure is not None:
        save_figure(parity.draw(found), arguments.figure)
    return 0


def _print(rows: list[dict[str, Any]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    several = len({row["variant"] for row in rows}) > 1
    names = ("game", "iteration", "ours", *(("by",) if several else ()), "published", "")
    for name in names:
        table.add_column(name, justify="left" if name in ("game", "by", "") else "right", no_wrap=True)
    before = None
    for row in rows:
        what = (row["game"], str(row["iteration"]))
        ours = _score(row["ours"], row["ours_low"], row["ours_high"], row["agents"])
        theirs = _score(row["theirs"], row["theirs_low"], row["theirs_high"], row["runs"])
        shown = (*what, ours) if what != before else ("", "", "")
        table.add_row(*shown, *((row["variant"],) if several else ()), theirs, row["verdict"])
        before = what
    console = Console(highlight=False)
    console.print(table)
    for variant in dict.fromkeys(row["variant"] for row in rows):
        known = [row for row in rows if row["runs"] and row["variant"] == variant]
        inside = sum(row["verdict"] == "inside" for row in known)
        console.print(f"{inside} of {len(known)} means lie inside the published range{variant and f' of {variant}'}.")
    runs = min((row["runs"] for row in rows if row["runs"]), default=0)
    if runs:
        console.print(
            f"By chance alone not all would: were ours one more run of the same kind, the range of {runs} would hold "
            f"it in {runs - 1} of {runs + 1} cases.",
            soft_wrap=True,
        )


def _score(mean: float | None, low: float, high: float, count: int) -> str:
    """A mean, and the range behind it."""
    if mean is None:
        return "–"
    mean_text, low_text, high_text = (f"{x:,.2f}" if abs(x) < 100 else f"{x:,.0f}" for x in (mean, low, high))
    return mean_text if count == 1 else f"{mean_text} ({low_text} – {high_text})"
