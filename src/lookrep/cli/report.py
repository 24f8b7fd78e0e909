"""`lookrep report`: a study, a run or logs as one page that opens offline."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from lookrep.cli.looking import Part
from lookrep.cli.parsing import parse
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments(Part):
    """Turn a study, a run or logs into one HTML page that needs no network: the answer in words, figures, tables,
    films, and what was run.

    lookrep report studies/minatar

    lookrep report runs/first

    lookrep report scores.csv

    A CSV has columns run, step and score; env and variant are optional. A folder may hold TensorBoard events of
    Stable-Baselines3 (rollout/ep_rew_mean) or CleanRL (charts/episodic_return).
    """

    study: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="STUDY")]
    """folder of a study or a run, which may still be going on; a CSV, or a folder of TensorBoard events"""
    out: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], metavar="PATH", help_behavior_hint="(default: report.html in the folder)"),
    ] = None
    """file to write"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep report")
    beside = (
        arguments.study.with_suffix(".html") if arguments.study.suffix == ".csv" else arguments.study / "report.html"
    )
    out = beside if arguments.out is None else arguments.out
    if out.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"report '{out}': the name should end in .html")
    if out.is_dir():
        raise UserError(f"report '{out}': is a folder")
    from lookrep.analysis import report  # matplotlib: --help and bad flags should not wait for it
    from lookrep.studies.folder import VIDEOS

    report.write(arguments.load(arguments.study), out)
    size = out.stat().st_size
    print(f"{out}: {size / 1e6:.1f} MB, opens in any browser, needs no network")
    if size > report.LARGE_BYTES:
        print(
            f"it is larger than {report.LARGE_BYTES / 1e6:.0f} MB: mail programs and phones may refuse it; "
            f"fewer or shorter films in {arguments.study / VIDEOS} make it smaller",
            file=sys.stderr,
        )
    return 0
