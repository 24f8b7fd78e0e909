"""`lookrep report`: a study as one page that opens offline."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from lookrep.commands.looking import Part
from lookrep.commands.parsing import parse
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Turn a study into one self-contained HTML page: the answer in words, figures, tables, films, and what was run.

    lookrep report studies/minatar
    """

    study: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STUDY")]
    """folder of the study; runs may still be going on"""
    out: Annotated[
        Path | None,
        tyro.conf.arg(
            aliases=["-o"], metavar="PATH", help_behavior_hint="(default: report.html in the study's folder)"
        ),
    ] = None
    """file to write"""
    part: Annotated[Part, tyro.conf.arg(name="")] = field(default_factory=Part)


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep report", flat=True)
    out = arguments.study / "report.html" if arguments.out is None else arguments.out
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"report '{out}': the name should end in .html")
    if out.is_dir():
        raise UserError(f"report '{out}': is a folder")
    from lookrep.studies import report, results  # matplotlib: --help and bad flags should not wait for it

    report.write(arguments.part.load(arguments.study), out)
    size = out.stat().st_size
    print(f"{out}: {size / 1e6:.1f} MB, opens in any browser, needs no network")
    if size > report.LARGE_BYTES:
        print(
            f"it is larger than {report.LARGE_BYTES / 1e6:.0f} MB: mail programs and phones may refuse it; "
            f"fewer or shorter films in {arguments.study / results.VIDEOS} make it smaller",
            file=sys.stderr,
        )
    return 0
