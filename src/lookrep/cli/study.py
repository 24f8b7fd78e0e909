"""`lookrep study`: list studies, say what one would cost, run it in any number of sittings, look at how it goes.

Flags and words on the screen; `lookrep.studies` does the work.
"""

import dataclasses
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lookrep.cli.parsing import optional, parse
from lookrep.errors import UserError, hint
from lookrep.studies import choice, cost, definition, hardware, plan
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study
from lookrep.studies.execute import monitor
from lookrep.studies.execute import run as execute
from lookrep.studies.execute.run import Options
from lookrep.studies.execute.sitting import Sitting
from lookrep.studies.hardware import GIGABYTE, Hardware
from lookrep.studies.plan import PlannedPopulation
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
    """smoke (seconds), laptop (2 CPU cores, minutes), gpu (one GPU, half an hour to three hours), full (the paper)"""
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
class PlanArguments(Selection):
    """Say what a study would take, and start nothing.

    lookrep study plan paper-55 --size full
    """


@dataclass(frozen=True)
class RunArguments(Selection):
    """Run a study. What is finished is not repeated; what was interrupted goes on from its checkpoints.

    A folder takes more of its study later: seeds, variants, environments, steps. More steps go on where --keep-replay
    kept what that needs; other populations are trained again.

    lookrep study run minatar-targets --out studies/minatar

    lookrep study run studies/minatar
    """

    out: Annotated[Path | None, optional("DIR", "STUDY, if that is a folder")] = None
    """folder of the study; one that is there already is gone on with"""
    jobs: int = 1
    """programs at once; with Ray, programs that share a GPU (without GPUs: workers of a cluster made here)"""
    together: Annotated[int | None, optional("AGENTS", "512 on a GPU, none on CPUs")] = None
    """train variants that differ in target update and numbers in one program, up to so many agents; 0: each alone"""
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
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print one JSON object and nothing else"""


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
            return _plan(parse(PlanArguments, rest, prog))
        case "run":
            return _run(parse(RunArguments, rest, prog), shlex.join(["lookrep", "study", *words]))
        case "status":
            return _status(parse(StatusArguments, rest, prog))
    raise UserError(f"unknown command 'study {name}': {hint(name, COMMANDS)}")


def _chosen(selection: Selection) -> Study:
    """The study that is asked for, checked as far as that goes without an engine."""
    study = choice.chosen(
        selection.study,
        selection.size,
        environments=selection.env,
        variants=selection.variant,
        seeds=selection.seeds,
        steps=selection.steps,
    )
    if study.kind == "training":
        plan.check(study)
    return study


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
    options = Options(memory_gb=arguments.memory_gb)
    study = _chosen(arguments)
    console = _console()
    console.print(f"[bold]{escape(study.title)}[/bold] (size {escape(study.size)})")
    if study.kind == "exact":
        console.print(f"{len(study.environments)} problems, solved exactly: seconds on any machine.")
        return 0
    # The larger sizes are meant for a machine that this one need not be.
    here = hardware.H200 if study.size in ("gpu", "full") else hardware.detect()
    room = options.usable_bytes(here)
    console.print(_plan_table(study, plan.populations(study, room), here))
    cluster = "; several divide the time" if here.kind == "gpu" else ""
    console.print(
        f"On {here}, one population at a time{cluster}; {room / GIGABYTE:.0f} GB for a population's state "
        "(--memory-gb for another size). Disk: metrics and networks at the end, and two checkpoints on the way."
    )
    machine = cost.TABLE["machines"][here.kind]
    console.print(
        f"≈ An estimate, from speeds of Rainbow and C51 on Breakout with the usual networks, on {machine['name']}, "
        f"{machine['measured']} (docs/performance.md). Other games, wider networks and some methods take longer."
    )
    return 0


def _plan_table(study: Study, populations: tuple[PlannedPopulation, ...], here: Hardware) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    by_variant: dict[str, list[PlannedPopulation]] = {}
    for population in populations:
        by_variant.setdefault(population.variant, []).append(population)
    # Which seeds they are makes no difference to what they take, and thousands may differ in nothing else.
    alike = {(p.environments, p.variant, p.seeds): p for p in populations}
    workloads = {key: plan.workload(study, population) for key, population in alike.items()}

    def cells(part: Sequence[PlannedPopulation]) -> list[str]:
        work = [workloads[p.environments, p.variant, p.seeds] for p in part]
        seconds = sum(cost.seconds(one, here.kind) for one in work)
        memory = max(map(cost.memory_bytes, work))
        disk = sum(map(cost.disk_bytes, work)) + max(map(cost.disk_under_way_bytes, work))
        return [
            f"{len(part):,}",
            f"{sum(p.agents for p in part):,}",
            f"{sum(p.agents for p in part) * study.steps:,}",
            "≈ " + (_hours(seconds) if here.kind == "gpu" else duration(seconds)),
            _gigabytes(memory),
            _gigabytes(disk),
        ]

    time_name = "GPU-hours" if here.kind == "gpu" else "time"
    names = ("populations", "runs", "agent steps", time_name, "memory, GB", "disk, GB")
    grid.add_column("variant", "all", overflow="fold")
    for name, footer in zip(names, cells(populations), strict=True):
        grid.add_column(name, footer, justify="right")
    for variant in study.variants:
        grid.add_row(escape(variant.name), *cells(by_variant[variant.name]))
    return grid


def _run(arguments: RunArguments, command: str) -> int:
    """Exit status: 0 if all is done or the minutes are over, 1 if a population failed, 130 if interrupted."""
    options = Options(**{field.name: getattr(arguments, field.name) for field in dataclasses.fields(Options)})
    asked, out = _chosen(arguments), arguments.out
    if out is None:
        out = Path(arguments.study)
        if not (out / definition.FILE).is_file():
            raise UserError(f"say where the study should go: --out studies/{asked.name}")
    if asked.kind == "exact":
        from lookrep.studies import exact_study  # JAX

        written = exact_study.run(asked, out, command)
        print(f"{len(written)} problems solved → {out}\nlook at it with: lookrep report {shlex.quote(str(out))}")
        return 0
    return _say(out, execute.run(asked, out, options, command))


def _say(out: Path, sitting: Sitting) -> int:
    study = definition.load(out)
    rows = monitor.survey(out, study.steps, plan.every(out, study))
    for name, why in sitting.failed.items():
        print(f"failed: {name}: {why} (logs/{name}.log)")
    for name, why in sitting.busy.items():
        print(f"left alone: {name}: {why}")
    if all(row.state == "finished" for row in rows):
        print(f"finished: all {len(rows)} populations of {study.name} → {out}")
        print(f"look at it with: lookrep report {shlex.quote(str(out))}")
        return 0
    place = f"./{out}" if str(out) in definition.names() else str(out)  # a folder with the name of a built-in study
    again = f"go on with: lookrep study run {shlex.quote(place)}"
    print(f"{monitor.overview(rows)}; {'interrupted, ' if sitting.stop.requested else ''}{again}")
    if sitting.stop.requested:
        return 130
    return 1 if sitting.failed or sitting.busy else 0


def _status(arguments: StatusArguments) -> int:
    folder = arguments.folder
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such study folder")
    study = definition.load(folder)
    if study.kind == "exact":
        solved = len(list((folder / folders.EXACT).glob("*.json")))
        found = {"study": study.name, "problems": _runs(study), "solved": solved}
        print(json.dumps(found) if arguments.json else f"{study.title}: {solved} of {_runs(study)} problems solved")
        return 0
    rows = monitor.survey(folder, study.steps, plan.every(folder, study))
    if arguments.json:
        print(json.dumps({"study": study.name, "size": study.size, "populations": list(map(monitor.as_json, rows))}))
        return 0
    title, overview = f"{study.title} ({study.size})", monitor.overview(rows)
    console = Console(highlight=False)
    if console.is_terminal:
        errors = [f"{row.name}: {row.error}" for row in rows if row.error]
        console.print(monitor.table(rows, title), *errors, overview, sep="\n", soft_wrap=True)
    else:
        print("\n  ".join([f"{title}: {overview}", *map(monitor.line, rows)]))
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
