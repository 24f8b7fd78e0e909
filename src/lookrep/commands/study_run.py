"""`lookrep study run`: what is to be done, handed to one of the backends, and what came of it in a few words.

Not a command of its own: `lookrep.commands.study` reads the flags and calls it.
"""

import contextlib
import dataclasses
import math
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookrep import config as configs
from lookrep.errors import UserError
from lookrep.studies import cost, definition, hardware, local, monitor, plan, results
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study
from lookrep.studies.hardware import Hardware
from lookrep.studies.local import Outcome, Task
from lookrep.studies.monitor import Display
from lookrep.studies.plan import Population
from lookrep.studies.worker import Job
from lookrep.training.interrupt import Stop, graceful

if TYPE_CHECKING:
    from lookrep.commands.study import RunArguments

TOGETHER_AGENTS = 256  # on an H200 more agents in one program gain little (docs/performance.md)


def run(arguments: "RunArguments", command: str) -> int:
    """Exit status: 0 if all is done or the minutes are over, 1 if a population failed, 130 if interrupted."""
    from lookrep.commands.study import chosen

    if arguments.jobs < 1:
        raise UserError(f"jobs = {arguments.jobs}: must be at least 1")
    if arguments.minutes is not None and not arguments.minutes > 0:
        raise UserError(f"minutes = {arguments.minutes}: must be a positive number")
    if arguments.address is not None and arguments.backend != "ray":
        raise UserError("--address is that of a Ray cluster: it goes with --backend ray")
    asked = chosen(arguments.selection)
    out = arguments.out
    if out is None:
        out = Path(arguments.selection.study)
        if not (out / definition.FILE).is_file():
            raise UserError(f"say where the study should go: --out studies/{asked.name}")
    study = folders.merged(out, asked)
    deadline = None if arguments.minutes is None else time.monotonic() + 60 * arguments.minutes
    if study.kind == "exact":
        return _run_exact(study, out, command)
    with graceful() as stop, contextlib.ExitStack() as stack:
        if arguments.backend == "ray":
            from lookrep.studies import ray_backend

            cluster = stack.enter_context(ray_backend.connected(arguments.address, arguments.jobs))
            here = cluster.hardware
        else:
            cluster, here = None, hardware.detect()
        todo, jobs = _work(arguments, asked, out, here)
        folders.prepare(out, study)
        end = stack.enter_context(folders.sitting(out, command, here))
        title = f"{study.title} ({study.size})"
        display = Display(title, lambda: monitor.survey(out, study.steps, todo), quiet=arguments.quiet)
        stack.enter_context(display)
        variables = stack.enter_context(_environment(study))
        filming = _Filming(out, study, arguments.film and arguments.checkpoints)
        outcome = Outcome()
        if cluster is not None:
            shared = variables if arguments.address is None else {}
            outcome = ray_backend.run(
                out, jobs, cluster, stop=stop, display=display, deadline=deadline, environment=shared
            )
            tasks: list[Task] = []
        else:
            tasks = [local.training(out, job) for job in jobs]
        if not (stop.requested or outcome.stopped):
            after = local.run(
                out, [*filming.due(), *tasks], jobs=arguments.jobs, here=here, stop=stop, display=display,
                deadline=deadline, environment=variables, afterwards=lambda name: filming.due(),
            )  # fmt: skip
            outcome = after if cluster is None else outcome
        end |= {"finished": outcome.finished, "failed": outcome.failed, "stopped": outcome.stopped}
    return _said(study, out, todo, outcome, stop)


@contextlib.contextmanager
def _environment(study: Study) -> Iterator[dict[str, str]]:
    """Of the processes that train. The smallest size is about everything but results, and mostly compile time: they
    compile at the lowest effort, and each program once."""
    if study.size != "smoke":
        yield {}
        return
    with tempfile.TemporaryDirectory() as cache:
        yield {
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "true",
            "JAX_COMPILATION_CACHE_DIR": cache,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }


def _work(
    arguments: "RunArguments", asked: Study, out: Path, here: Hardware
) -> tuple[dict[str, Population], list[Job]]:
    """The populations of what is asked for, and the jobs of those that are not finished; all configurations are built
    before anything is written."""
    from lookrep.commands.study import usable_bytes

    sharing = arguments.jobs if here.kind == "cpu" else -(-arguments.jobs // here.count)
    begun = plan.existing(out) if out.exists() else {}
    wanted = plan.members(plan.populations(asked, math.inf))
    mine = {name: population for name, population in begun.items() if population.members & wanted}
    room = usable_bytes(arguments.selection, here, sharing)
    fresh = plan.populations(asked, room, plan.members(begun.values()))
    unfinished = [name for name in mine if not folders.finished(out / results.POPULATIONS / name)]
    runs = {name: configs.load(out / results.POPULATIONS / name) for name in unfinished}
    new = {population.id: population for population in fresh}
    runs |= {name: plan.run_config(asked, population) for name, population in new.items()}
    begun_at = {name: folders.saved_at(out / results.POPULATIONS / name) for name in runs}
    # What is wrong, or is being trained by someone else, must not hold up others.
    apart = [n for n in runs if folders.went_wrong(out, n) or folders.is_running(out / results.POPULATIONS / n)]
    jobs = []
    for names in plan.bundles(runs, begun_at, _together(arguments, here), room, apart):
        agents = sum(runs[name].agents for name in names)
        given: dict[str, dict[str, Any]] = {name: {} for name in names}
        for name in (name for name in names if name in new):
            every = _checkpoint_interval_steps(asked, new[name], agents, here) if arguments.checkpoints else 0
            given[name] = configs.to_json(configs.replace(runs[name], checkpoint_interval_steps=every))
        jobs.append(Job(str(out.resolve()), given, arguments.keep_replay))
    return mine | new, jobs


def _together(arguments: "RunArguments", here: Hardware) -> int:
    if arguments.together is None:
        return TOGETHER_AGENTS if here.kind == "gpu" else 0
    if arguments.together < 0:
        raise UserError(f"together = {arguments.together}: must be at least 0")
    return arguments.together


def _checkpoint_interval_steps(study: Study, population: Population, agents: int, here: Hardware) -> int:
    """Of a population in a program with so many agents in all."""
    given = plan.settings(study, study.variant(population.variant)).get("checkpoint_interval_steps")
    workload = dataclasses.replace(plan.workload(study, population), agents=agents)
    found: int = given or cost.checkpoint_interval_steps(workload, here.kind)
    return found


class _Filming:
    """Films of the first environment, once all that there is to film has been trained."""

    def __init__(self, out: Path, study: Study, wanted: bool) -> None:
        self._out, self._study, self._wanted = out, study, wanted

    def due(self) -> list[Task]:
        if not self._wanted:
            return []
        env = self._study.environments[0]
        firsts = {
            population.variant: name
            for name, population in plan.existing(self._out).items()
            if env in population.environments and population.first_seed == 0
        }
        ready = all(folders.finished(self._out / results.POPULATIONS / name) for name in firsts.values())
        if not ready or set(firsts) != {variant.name for variant in self._study.variants}:
            return []
        self._wanted = False
        return local.films(self._out, env, firsts)


def _run_exact(study: Study, out: Path, command: str) -> int:
    from lookrep.studies import exact_study

    written = exact_study.run(study, out)
    with folders.sitting(out, command, hardware.detect()) as end:
        end["finished"] = [path.stem for path in written]
    print(f"{len(written)} problems solved → {out}")
    print(f"look at it with: lookrep report {out}")
    return 0


def _said(study: Study, out: Path, todo: dict[str, Population], outcome: Outcome, stop: Stop) -> int:
    populations = plan.existing(out)
    rows = monitor.survey(out, study.steps, todo | populations)  # some may not have begun
    missing = plan.populations(study, math.inf, plan.members(populations.values()))
    complete = not missing and all(row.state == "finished" for row in rows)
    for name, why in outcome.failed.items():
        print(f"failed: {name}: {why} (logs/{name}.log)")
    for name, why in outcome.busy.items():
        print(f"left alone: {name}: {why}")
    if complete:
        print(f"finished: all {len(rows)} populations of {study.name} → {out}")
        print(f"look at it with: lookrep report {shlex.quote(str(out))}")
        return 0
    place = f"./{out}" if str(out) in definition.names() else str(out)  # a folder with the name of a built-in study
    again = f"go on with: lookrep study run {shlex.quote(place)}"
    print(f"{monitor.overview(rows)}; {'interrupted, ' if stop.requested else ''}{again}")
    if stop.requested:
        return 130
    return 1 if outcome.failed or outcome.busy else 0
