"""`lookrep figure`: one figure of a study by name, and the numbers it shows beside it as CSV."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lookrep.commands.looking import Part
from lookrep.commands.parsing import parse
from lookrep.errors import UserError
from lookrep.files import as_csv, write_whole
from lookrep.studies.results import Results


@dataclass(frozen=True)
class Arguments:
    """Draw a figure of a study, with its numbers as CSV beside it.

    lookrep figure fig2 studies/minatar -o fig2.pdf
    """

    name: Annotated[tyro.conf.Positional[str | None], tyro.conf.arg(metavar="NAME")] = None
    """fig1 to fig10, profiles, improvement, gap, residual: --list says what each shows"""
    study: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="STUDY")] = None
    """folder of the study; fig1 and fig8 need none"""
    out: Annotated[Path | None, tyro.conf.arg(aliases=["-o"], metavar="PATH")] = None
    """where to write it: .png, .pdf or .svg (default: NAME.png); the CSV gets the same name"""
    axis: Annotated[
        Literal["frames", "gradient-steps", "agent-steps"] | None,
        tyro.conf.arg(help_behavior_hint="(default: frames for Atari, agent-steps otherwise; fig6 has two)"),
    ] = None
    """what time is counted in; gradient steps are those of both networks"""
    list: tyro.conf.FlagCreatePairsOff[bool] = False
    """say what figures there are; with a study, which of them it has the numbers for"""
    part: Annotated[Part, tyro.conf.arg(name="")] = field(default_factory=Part)


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep figure", flat=True)
    from lookrep.studies import figures  # matplotlib takes a while to import: --help need not wait

    # `lookrep figure --list STUDY` has one word, and it is a folder.
    name, folder = arguments.name, arguments.study
    if arguments.list:
        folder = folder or (Path(name) if name else None)
        _print_list(None if folder is None else arguments.part.load(folder))
        return 0
    if name is None:
        raise UserError(f"figure: which one? choose from {', '.join(figures.NAMES)} (--list says what they show)")
    figures.check_name(name)
    path = arguments.out or Path(f"{name}.png")
    from lookrep.exact.figures import check_figure_path, save

    check_figure_path(path)
    found = None if folder is None else arguments.part.load(folder)
    figure, rows = figures.draw(name, found, axis=arguments.axis)
    table = path.with_suffix(".csv")
    save(figure, path)
    _write_csv(table, rows)
    print(f"{path} and {table.name}")
    return 0


def _print_list(found: Results | None) -> None:
    from lookrep.studies import figures

    width = max(map(len, figures.NAMES))
    for name, text in figures.NAMES.items():
        reason = figures.why_not(name, found) if found else None
        print(f"{name:<{width}}  {text}" + (f" [not here: {reason}]" if reason else ""))


def _write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    try:
        write_whole(path, as_csv(rows))
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from None
