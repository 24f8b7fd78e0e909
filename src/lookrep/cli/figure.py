"""`lookrep figure`: one figure of a study, a run or logs by name, and the numbers it shows beside it as CSV."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lookrep.analysis.results import Results
from lookrep.cli.looking import Part
from lookrep.cli.parsing import parse
from lookrep.errors import UserError
from lookrep.files import as_csv, check_figure_path, save_figure, write_whole, writing


@dataclass(frozen=True)
class Arguments(Part):
    """Draw a figure of a study, a run or other software's logs, with its numbers as CSV beside it.

    lookrep figure fig2 studies/minatar -o fig2.pdf

    lookrep figure curve runs/first
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """fig1 to fig10, profiles, improvement, curve, gap, agreement, residual: --list says what each shows"""
    study: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="STUDY")] = None
    """folder of a study or a run, or logs as `lookrep report` reads them; fig1 and fig8 need none"""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="PATH")] = None
    """where to write it: .png, .pdf or .svg (default: NAME.png); the CSV gets the same name"""
    axis: Annotated[
        Literal["frames", "gradient-steps", "agent-steps"] | None,
        tyro.conf.arg(help_behavior_hint="(default: frames for Atari, agent-steps otherwise; fig6 has two)"),
    ] = None
    """what time is counted in; gradient steps are those of both networks"""
    list: tyro.conf.FlagCreatePairsOff[bool] = False
    """say what figures there are; with a study, which of them it has the numbers for"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep figure")
    from lookrep.analysis import figures  # matplotlib takes a while to import: --help need not wait

    # `lookrep figure --list STUDY` has one word, and it is a folder.
    name, folder = arguments.name, arguments.study
    if arguments.list:
        folder = folder or (Path(name) if name else None)
        _print_list(None if folder is None else arguments.load(folder))
        return 0
    if name is None:
        raise UserError(f"figure: which one? choose from {', '.join(figures.NAMES)} (--list says what they show)")
    figures.check_name(name)
    path = arguments.out or Path(f"{name}.png")
    check_figure_path(path)
    found = None if folder is None else arguments.load(folder)
    figure, rows = figures.draw(name, found, axis=arguments.axis)
    table = path.with_suffix(".csv")
    save_figure(figure, path)
    with writing(str(table)):
        write_whole(table, as_csv(rows))
    print(f"{path} and {table.name}")
    return 0


def _print_list(found: Results | None) -> None:
    from lookrep.analysis import figures
    from lookrep.analysis.figures.captions import CAPTIONS

    for name, caption in CAPTIONS.items():
        reason = figures.why_not(name, found) if found else None
        note = f" [not here: {reason}]" if reason else " (needs no study)" if name in figures.PROBLEMS else ""
        print(f"{name:<11}  {caption.title}{note}")
