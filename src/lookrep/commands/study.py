"""`lookrep study`: list studies, say what one would cost, run it in any number of sittings, look at how it goes."""

import difflib
import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from lookrep.commands.parsing import optional, parse
from lookrep.errors import UserError
from lookrep.studies import cost, definition, hardware, monitor, plan
from lookrep.studies.definition import Study
from lookrep.studies.hardware import GIGABYTE, Hardware
from lookrep.studies.plan import Population
from lookrep.training.progress import duration

COMMANDS = {
    "list": "the studies that come with lookrep",
    "plan": "what a study would take: runs, agent steps, GPU-hours, gigabytes",
    "run": "run a study, or go on with one",
    "status": "how far a study is",
}


@dataclass(frozen=True)
class Selection:
    """Which study, and how much of it."""

    study: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="STUDY")]
    """a built-in study, a .toml file, or the folder of a study to go on with"""
    size: Annotated[str | None, optional("SIZE", "laptop")] = None
    """smoke (seconds), laptop (2 CPU cores, minutes), gpu (one GPU, an hour or so), full (the paper)"""
    env: Annotated[tuple[str, ...], optional("ENV …", "all")] = ()
    """only these of its environments"""
    variant: Annotated[tuple[str, ...], optional("NAME …", "all")] = ()
    """only these of its variants"""
    seeds: Annotated[int | None, optional("N", "the size's")] = None
    """seeds of each variant on each environment"""
    steps: Annotated[int | None, optional("N", "the size's")] = None
    """agent steps of each seed"""
    memory_gb: Annotated[float | None, optional("GB", "the device's")] = None
    """memory that a population's state may take; larger ones are split"""


@dataclass(frozen=True)
class ListArguments:
    """The studies that come with lookrep."""


@dataclass(frozen=True)
class PlanArguments:
    """Say what a study would take, and start nothing.

    lookrep study plan paper-55 --size full
    """

    selection: Annotated[Selection, tyro.conf.arg(name="")]


@dataclass(frozen=True)
class RunArguments:
    """Run a study. What is finished is not repeated; what was interrupted goes on from its checkpoints.

    lookrep study run minatar-targets --out studies/minatar

    lookrep study run studies/minatar
    """

    selection: Annotated[Selection, tyro.conf.arg(name="")]
    out: Annotated[Path | None, optional("DIR", "STUDY, if that is a folder")] = None
    """folder of the study; one that is there already is gone on with"""
    jobs: int = 1
    """programs at once; with Ray, programs that share a GPU (without GPUs: workers of a cluster made here)"""
    together: Annotated[int | None, optional("AGENTS", "256 on a GPU, none on CPUs")] = None
    """train variants that differ in their target update alone in one program, up to so many agents; 0: each alone"""
    minutes: Annotated[float | None, optional("M", "none")] = None
    """stop cleanly after this time"""
    checkpoints: bool = True
    """save the state every few minutes; without, what is interrupted starts again, and there are no films"""
    keep_replay: tyro.conf.FlagCreatePairsOff[bool] = False
    """keep whole checkpoints of finished populations instead of the networks alone"""
    film: bool = True
    """film seed 0 of every variant on the first environment"""
    backend: Literal["local", "ray"] = "local"
    address: Annotated[str | None, optional("HOST:PORT", "a cluster of this machine")] = None
    """the Ray cluster to join, or auto"""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """no progress"""


@dataclass(frozen=True)
class StatusArguments:
    """Populations of a study: progress, return, speed, time left, state."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DIR")]
    watch: tyro.conf.FlagCreatePairsOff[bool] = False
    """refresh until Ctrl-C"""


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    if not words or words[0] in ("-h", "--help"):
        width = max(map(len, COMMANDS))
        print("usage: lookrep study COMMAND [options]      (lookrep study COMMAND --help says more)\n")
        print("\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()))
        return 0 if words else 2
    name, *rest = words
    prog = f"lookrep study {name}"
    match name:
        case "list":
            parse(ListArguments, rest, prog)
            return _list()
        case "plan":
            return _plan(parse(PlanArguments, rest, prog, flat=True))
        case "run":
            arguments = parse(RunArguments, rest, prog, flat=True)
            from lookrep.commands import study_run

            return study_run.run(arguments, shlex.join(["lookrep", "study", *words]))
        case "status":
            return _status(parse(StatusArguments, rest, prog))
    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(COMMANDS)}"
    raise UserError(f"unknown command 'study {name}': {hint}")


def chosen(selection: Selection) -> Study:
    """The study that is asked for, checked as far as that goes without an engine."""
    if selection.memory_gb is not None and not (selection.memory_gb > 0 and math.isfinite(selection.memory_gb)):
        raise UserError(f"memory_gb = {selection.memory_gb}: must be a positive number")
    study = definition.narrow(
        definition.load(selection.study, selection.size),
        environments=selection.env,
        variants=selection.variant,
        seeds=selection.seeds,
        steps=selection.steps,
    )
    if study.kind == "training":
        plan.check(study)
    return study


def usable_bytes(selection: Selection, here: Hardware, sharing: int = 1) -> float:
    """What one population may take."""
    return selection.memory_gb * GIGABYTE if selection.memory_gb else here.usable_bytes / sharing


def _list() -> int:
    console = _console()
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("study", no_wrap=True)
    grid.add_column("what it asks")
    grid.add_column("runs × agent steps", no_wrap=True)
    for name in definition.names():
        sizes = [definition.load(name, size) for size in definition.SIZES]
        lines = [f"{s.size:<6}  {_runs(s):>3} × {s.steps:,}" for s in sizes if s.kind == "training"]
        grid.add_row(name, escape(f"{sizes[0].title}. {sizes[0].question}"), "\n".join(lines) or "exact")
    console.print(grid)
    console.print("lookrep study plan STUDY --size SIZE says what it takes; lookrep study run STUDY --out DIR runs it.")
    return 0


def _plan(arguments: PlanArguments) -> int:
    selection = arguments.selection
    study = chosen(selection)
    console = _console()
    console.print(f"[bold]{escape(study.title)}[/bold] (size {escape(study.size)})")
    if study.kind == "exact":
        console.print(f"{len(study.environments)} problems, solved exactly: seconds on any machine.")
        return 0
    # The larger sizes are meant for a machine that this one need not be.
    here = hardware.H200 if study.size in ("gpu", "full") else hardware.detect()
    room = usable_bytes(selection, here)
    console.print(_plan_table(study, plan.populations(study, room), here))
    cluster = "; several divide the time" if here.kind == "gpu" else ""
    console.print(
        f"On {here}, one population at a time{cluster}; {room / GIGABYTE:.0f} GB for a population's state "
        "(--memory-gb for another size). Disk: metrics and networks at the end, and two checkpoints on the way."
    )
    suites = sorted({cost.suite(env) for env in study.environments})
    if any(not cost.speed(suite, here.kind, 1).measured for suite in suites):
        console.print(f"≈ Nobody has measured the speed of {', '.join(suites)} on {here} yet: an estimate.")
    return 0


def _plan_table(study: Study, populations: tuple[Population, ...], here: Hardware) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    measured = all(cost.speed(cost.suite(env), here.kind, 1).measured for env in study.environments)

    def cells(part: list[Population]) -> list[str]:
        work = [plan.workload(study, population) for population in part]
        seconds = sum(cost.seconds(one, here.kind) for one in work)
        memory = max(map(cost.memory_bytes, work))
        disk = sum(map(cost.disk_bytes, work)) + max(map(cost.disk_under_way_bytes, work))
        return [
            f"{len(part):,}",
            f"{sum(p.agents for p in part):,}",
            f"{sum(p.agents for p in part) * study.steps:,}",
            ("" if measured else "≈ ") + (_hours(seconds) if here.kind == "gpu" else duration(seconds)),
            _gigabytes(memory),
            _gigabytes(disk),
        ]

    time_name = "GPU-hours" if here.kind == "gpu" else "time"
    names = ("populations", "runs", "agent steps", time_name, "memory, GB", "disk, GB")
    grid.add_column("variant", "all", overflow="fold")
    for name, footer in zip(names, cells(list(populations)), strict=True):
        grid.add_column(name, footer, justify="right")
    for variant in study.variants:
        grid.add_row(escape(variant.name), *cells([p for p in populations if p.variant == variant.name]))
    return grid


def _status(arguments: StatusArguments) -> int:
    folder = arguments.folder
    study = definition.load(folder) if folder.is_dir() else None
    if study is None:
        raise UserError(f"{folder}: there is no such study folder")
    if study.kind == "exact":
        print(f"{study.title}: {len(list((folder / 'exact').glob('*.json')))} of {_runs(study)} problems solved")
        return 0
    begun = plan.existing(folder)
    rest = plan.populations(study, math.inf, plan.members(begun.values()))
    every = begun | {population.id: population for population in rest}
    title = f"{study.title} ({study.size})"

    def rows() -> list[monitor.Row]:
        return monitor.survey(folder, study.steps, every)

    console = Console(highlight=False)
    if not console.is_terminal:
        print("\n".join([f"{title}: {monitor.overview(rows())}", *(f"  {monitor.line(row)}" for row in rows())]))
        return 0
    if arguments.watch:
        try:
            with Live(monitor.table(rows(), title), console=console, auto_refresh=False) as live:
                while True:
                    live.update(monitor.table(rows(), title), refresh=True)
                    time.sleep(1)
        except KeyboardInterrupt:
            return 0
    console.print(monitor.table(rows(), title))
    for row in rows():
        if row.error:
            console.print(f"{row.name}: {row.error}", style="red", markup=False, soft_wrap=True)
    console.print(monitor.overview(rows()), soft_wrap=True)
    return 0


def _runs(study: Study) -> int:
    return len(study.environments) * len(study.variants) * study.seeds


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.0f}" if seconds >= 360_000 else f"{seconds / 3600:,.2f}"


def _gigabytes(count: float) -> str:
    return f"{count / GIGABYTE:,.0f}" if count >= 100 * GIGABYTE else f"{count / GIGABYTE:.2g}"


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=120)
