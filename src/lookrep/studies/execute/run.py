"""One sitting of a study: what is left of it as jobs for a backend, then films, all of it on record in the folder."""

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lookrep import config as configs
from lookrep.errors import UserError
from lookrep.files import writing
from lookrep.runs import folder as runs
from lookrep.studies import cost, hardware, plan
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study
from lookrep.studies.execute import growth, local, monitor
from lookrep.studies.execute.local import Task
from lookrep.studies.execute.sitting import Sitting
from lookrep.studies.execute.worker import TrainingJob
from lookrep.studies.hardware import Hardware
from lookrep.training.interrupt import graceful

TOGETHER_AGENTS = 512  # on an H200 more agents in one program gain little (docs/performance.md)


@dataclass(frozen=True)
class Options:
    """How to go about it; each is a flag of `lookrep study run`, which explains them."""

    memory_gb: float | None = None
    jobs: int = 1
    together: int | None = None
    minutes: float | None = None
    checkpoints: bool = True
    keep_replay: bool = False
    film: bool = True
    backend: Literal["local", "ray"] = "local"
    address: str | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.memory_gb is not None and not (self.memory_gb > 0 and math.isfinite(self.memory_gb)):
            raise UserError(f"memory_gb = {self.memory_gb}: must be a positive number")
        if self.jobs < 1:
            raise UserError(f"jobs = {self.jobs}: must be at least 1")
        if self.together is not None and self.together < 0:
            raise UserError(f"together = {self.together}: must be at least 0")
        if self.minutes is not None and not self.minutes > 0:
            raise UserError(f"minutes = {self.minutes}: must be a positive number")
        if self.address is not None and self.backend != "ray":
            raise UserError("--address is that of a Ray cluster: it goes with --backend ray")

    def usable_bytes(self, here: Hardware) -> float:
        """What the state of one population may take."""
        sharing = self.jobs if here.kind == "cpu" else -(-self.jobs // here.count)
        return self.memory_gb * hardware.GIGABYTE if self.memory_gb else here.usable_bytes / sharing

    def together_agents(self, here: Hardware) -> int:
        """The most agents of several populations in one program."""
        default = TOGETHER_AGENTS if here.kind == "gpu" else 0
        return default if self.together is None else self.together


def run(asked: Study, out: Path, options: Options, command: str) -> Sitting:
    """Train what is asked for in this folder, as far as it is not finished, and film it."""
    folders.merged(out, asked)  # refuses, before anything is computed or made, what does not go together
    deadline = math.inf if options.minutes is None else time.monotonic() + 60 * options.minutes
    with writing(f"study '{out}'"), graceful() as stop, contextlib.ExitStack() as stack:
        cluster = None
        if options.backend == "ray":
            from lookrep.studies.execute import ray_cluster

            cluster = stack.enter_context(ray_cluster.connected(options.address, options.jobs))
        here = cluster.hardware if cluster else hardware.detect()
        todo, jobs = work(asked, out, options, here)
        with folders.defined(out, asked) as (study, no_lock):
            said = growth.apply(out, growth.needed(out, todo, study.steps), study.steps)
            said += [no_lock] if no_lock else []
        for finished in (place for name in todo if runs.left_behind(place := out / folders.POPULATIONS / name)):
            with contextlib.suppress(runs.Busy), runs.claim(finished):
                pass  # a job that was killed at its very end left this, and is not needed again
        end = stack.enter_context(folders.sitting(out, command, here))
        title = f"{study.title} ({study.size})"
        display = stack.enter_context(
            monitor.StudyDisplay(title, lambda: monitor.survey(out, study.steps, todo), quiet=options.quiet)
        )
        for line in said:
            display.note(line)
        variables = stack.enter_context(_environment(study))
        sitting = Sitting(out, stop, display, deadline, variables)
        if cluster:
            if options.address is not None:
                sitting.environment = {}  # a cache of this machine
            ray_cluster.run(sitting, jobs, cluster)
        else:
            local.run(sitting, [local.training(out, job) for job in jobs], jobs=options.jobs, here=here)
        if options.film and options.checkpoints and not (sitting.stopped or sitting.over):
            local.run(sitting, _films(out, study), jobs=options.jobs, here=here)
        end |= {"finished": sitting.finished, "failed": sitting.failed, "stopped": sitting.stopped}
    return sitting


def work(
    asked: Study, out: Path, options: Options, here: Hardware
) -> tuple[dict[str, plan.PlannedPopulation], list[TrainingJob]]:
    """The populations of what is asked for, and the jobs of those that are not finished; all configurations are built
    before anything is written."""
    begun = plan.existing(out) if out.exists() else {}
    wanted = plan.members(plan.populations(asked, math.inf))
    mine = {name: population for name, population in begun.items() if population.members & wanted}
    room = options.usable_bytes(here)
    new = {one.id: one for one in plan.populations(asked, room, plan.members(begun.values()))}
    places = {name: out / folders.POPULATIONS / name for name in (*mine, *new)}
    ways = growth.needed(out, mine, asked.steps)
    unfinished = {
        name: configs.replace(configs.load(places[name]), **({"steps": asked.steps} if name in ways else {}))
        for name in mine
        if name in ways or not runs.finished(places[name])
    }
    every = unfinished | {name: plan.run_config(asked, population) for name, population in new.items()}
    begun_at = {name: 0 if ways.get(name) == "again" else _goes_on_at(places[name]) for name in every}
    # What is wrong, or is being trained by someone else, must not hold up others.
    apart = [name for name in every if folders.went_wrong(out, name) or runs.is_running(places[name])]
    jobs = []
    for names in plan.bundles(every, begun_at, options.together_agents(here), room, apart):
        agents = sum(every[name].agents for name in names)
        given: dict[str, dict[str, Any]] = {name: {} for name in names}
        for name in (name for name in names if name in new):
            own = every[name].checkpoint_interval_steps  # the study's, which goes before a cost model's
            steps = own or _checkpoint_interval_steps(asked, new[name], agents, here)
            saving = {"checkpoint_interval_steps": steps if options.checkpoints else 0}
            given[name] = configs.to_json(configs.replace(every[name], **saving))
        jobs.append(TrainingJob(str(out.resolve()), given, options.keep_replay))
    return mine | new, jobs


def _goes_on_at(run: Path) -> int:
    """The step that its worker will take it up from."""
    return [0, 0, *runs.saves(run)][-2 if runs.half_saved(run) else -1]


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


def _checkpoint_interval_steps(study: Study, population: plan.PlannedPopulation, agents: int, here: Hardware) -> int:
    """Of a population in a program with so many agents in all."""
    workload = dataclasses.replace(plan.workload(study, population), agents=agents)
    return cost.checkpoint_interval_steps(workload, here.kind)


def _films(out: Path, study: Study) -> list[Task]:
    """Seed 0 of every variant on the first environment, once all of them are trained."""
    env = study.environments[0]
    firsts = {
        population.variant: name
        for name, population in plan.existing(out).items()
        if env in population.environments and population.first_seed == 0
    }
    ready = all(runs.finished(out / folders.POPULATIONS / name) for name in firsts.values())
    complete = set(firsts) == {variant.name for variant in study.variants}
    return local.films(out, env, firsts) if ready and complete else []
