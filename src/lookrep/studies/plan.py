"""A study cut into populations: members with one static configuration train side by side, as many as memory allows.

A population has one variant. Its seeds are agents; Atari's engine also takes several games at once. Populations that
differ in numbers and in their target update alone can be trained in one program (`bundles`). Nothing is started here,
and no engine is imported.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from lookrep import config as configs
from lookrep.config import RunConfig
from lookrep.envs import names, spelling
from lookrep.errors import UserError
from lookrep.runs.folder import planned
from lookrep.studies import cost, definition
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study, Variant
from lookrep.studies.folder import plain

ROWS = 100  # of metrics in a run, where the study does not say


class MemberKey(NamedTuple):
    """A member of a study."""

    env: str
    variant: str
    seed: int


@dataclass(frozen=True)
class PlannedPopulation:
    environments: tuple[str, ...]
    variant: str
    first_seed: int
    seeds: int  # of each environment

    @property
    def agents(self) -> int:
        return len(self.environments) * self.seeds

    @property
    def id(self) -> str:
        """Its folder's name.

        >>> PlannedPopulation(("minatar/breakout",), "hard", 0, 20).id
        'minatar_breakout--hard--0-19'
        >>> PlannedPopulation(("atari/Alien", "atari/Pong"), "lr", 0, 5).id
        'atari_Alien_and_1_more--lr--0-4'
        """
        more = f"_and_{len(self.environments) - 1}_more" if len(self.environments) > 1 else ""
        return f"{plain(self.environments[0])}{more}--{self.variant}--{self.first_seed}-{self.last_seed}"

    @property
    def last_seed(self) -> int:
        return self.first_seed + self.seeds - 1

    @property
    def env(self) -> str:
        """As the engine takes it: atari/Alien,Pong."""
        games = [name.rpartition("/")[2] for name in self.environments[1:]]
        return ",".join([self.environments[0], *games])

    @property
    def members(self) -> set[MemberKey]:
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return {MemberKey(env, self.variant, seed) for env in self.environments for seed in seeds}


def populations(study: Study, usable_bytes: float, done: Collection[MemberKey] = ()) -> tuple[PlannedPopulation, ...]:
    """What is to be trained for the members that `done` lacks, the first environment's populations first."""
    check(study)
    found = []
    for variant in study.variants:
        gaps = [(env, gap) for env in study.environments for gap in _gaps(study, env, variant.name, done)]
        for together in _groups(gaps):
            found += _packed(study, variant, [env for env, _ in together], *together[0][1], usable_bytes)
    rows = {env: i for i, env in enumerate(study.environments)}
    columns = {variant.name: i for i, variant in enumerate(study.variants)}
    found.sort(key=lambda p: (rows[p.environments[0]], columns[p.variant], p.first_seed))
    for name, count in Counter(population.id for population in found).items():
        folders.check_name(name, study.name)
        if count > 1:
            raise UserError(f"study {study.name}: two environments have the same name '{name.partition('--')[0]}'")
    return tuple(found)


def existing(folder: Path) -> dict[str, PlannedPopulation]:
    """The populations that were begun, by the names of their folders."""
    runs = ((run.name, planned(run)) for run in folders.populations(folder))
    return {name: from_config(name, config) for name, config in runs if config is not None}


def every(folder: Path, study: Study) -> dict[str, PlannedPopulation]:
    """The populations that were begun, and those that the rest of the study would be."""
    begun = existing(folder)
    return begun | {one.id: one for one in populations(study, float("inf"), members(begun.values()))}


def from_config(name: str, config: dict[str, Any]) -> PlannedPopulation:
    """What a population's name and configuration say about it."""
    games = configs.games(config["env"])
    variant = folders.variant_of(Path(name))
    return PlannedPopulation(games, variant, config.get("first_agent", 0), config["agents"] // len(games))


def members(of: Iterable[PlannedPopulation]) -> set[MemberKey]:
    return set().union(*(population.members for population in of))


def check(study: Study) -> None:
    """Refuse what can be seen to be wrong without an engine: environments and settings."""
    for env in study.environments:
        if not (env.startswith(("atari/", "gym/", "gymnax/")) or ":" in env or env in names.MINATAR):
            raise UserError(f"study {study.name}: {spelling.unknown(env)}")
    for variant in study.variants:
        for env in study.environments:
            run_config(study, PlannedPopulation((env,), variant.name, 0, study.seeds))


def settings(study: Study, variant: Variant) -> dict[str, Any]:
    """Flat names → values that differ from the preset named by `agent`."""
    return {"agent": study.agent, **study.overrides, **variant.changes}


def run_config(study: Study, population: PlannedPopulation) -> RunConfig:
    """The configuration that `lookrep train` would have; without checkpoints, where the study does not say."""
    flat = settings(study, study.variant(population.variant))
    where = f"study {study.name}, variant {population.variant}"
    agent = flat.pop("agent")
    data: dict[str, Any] = {
        "env": population.env,
        "agent": agent,
        "agents": population.agents,
        "first_agent": population.first_seed,
        "steps": study.steps,
        "log_interval_steps": _log_interval_steps(study, flat),
        "checkpoint_interval_steps": 0,
        "settings": {},
    }
    groups = definition.setting_groups()
    for name, value in flat.items():
        group = groups[name]
        place = data if group is None else data["settings"].setdefault(group, {})
        place[name] = value
    try:
        return configs.from_json(data, where)
    except UserError as error:
        text = str(error).removeprefix(f"{where}: ").removeprefix("settings: ")
        raise UserError(f"{where}: {text}") from None


def workload(study: Study, population: PlannedPopulation) -> cost.Workload:
    """What the cost model wants to know."""
    config = run_config(study, population)
    target, learning = config.settings.target, config.settings.learning
    ratio = target.replicate_updates / target.target_period_updates if target.target == "replicate" else 0.0
    return cost.Workload(
        environments=population.environments,
        agents=population.agents,
        steps=config.steps,
        replay_capacity_steps=config.settings.replay.replay_capacity_steps,
        updates_ratio=ratio,
        log_interval_steps=config.log_interval_steps,
        updates_per_step=learning.updates_in_a_row / learning.steps_per_update,
    )


def bundles(
    runs: Mapping[str, RunConfig],
    at_steps: Mapping[str, int],
    most_agents: int,
    usable_bytes: float,
    apart: Collection[str] = (),
) -> list[tuple[str, ...]]:
    """Names of runs that may be trained in one program: on one device, alike but for numbers and their target update,
    at the same step, with at most so many agents and bytes in all. Others are alone, and so are those in `apart`."""
    found: dict[Any, list[list[str]]] = {}
    for name, run in runs.items():
        alone = name in apart or run.env.startswith(("atari/", "gym/")) or run.devices > 1
        kin = found.setdefault(name if alone else (configs.shared(run), at_steps[name]), [[]])
        together = [*kin[-1], name]
        agents = sum(runs[other].agents for other in together)
        each = cost.agent_bytes(run.env, run.settings.replay.replay_capacity_steps)
        copied = max(runs[other].agents for other in together)  # to save it, and while its target follows
        if kin[-1] and (agents > most_agents or (agents + copied) * each > usable_bytes):
            kin.append([name])
        else:
            kin[-1].append(name)
    order = list(runs)
    return sorted((tuple(names) for kin in found.values() for names in kin), key=lambda names: order.index(names[0]))


def _log_interval_steps(study: Study, flat: dict[str, Any]) -> int:
    cycle = flat.get("steps_per_update", 4)
    if type(cycle) is not int or cycle < 1:
        cycle = 1  # what is wrong with it is said where the configuration is built
    return max(1, study.steps // ROWS // cycle) * cycle


def _gaps(study: Study, env: str, variant: str, done: Collection[MemberKey]) -> list[tuple[int, int]]:
    """Seeds that are not there, as (first, count) of each unbroken range."""
    missing = [seed for seed in range(study.seeds) if MemberKey(env, variant, seed) not in done]
    ranges = (list(group) for _, group in groupby(enumerate(missing), lambda pair: pair[1] - pair[0]))
    return [(group[0][1], len(group)) for group in ranges]


def _groups(gaps: list[tuple[str, tuple[int, int]]]) -> list[list[tuple[str, tuple[int, int]]]]:
    """Games that may share a population: Atari's, if the same seeds are wanted of them."""
    found: dict[Any, list[tuple[str, tuple[int, int]]]] = {}
    for env, gap in gaps:
        found.setdefault(gap if cost.suite(env) == "atari" else (env, gap), []).append((env, gap))
    return list(found.values())


def _packed(
    study: Study, variant: Variant, envs: list[str], first: int, seeds: int, usable_bytes: float
) -> list[PlannedPopulation]:
    """Rectangles of games × seeds, each as large as fits."""
    work = workload(study, PlannedPopulation((envs[0],), variant.name, first, seeds))
    each = max(cost.agent_bytes(env, work.replay_capacity_steps) for env in envs)
    most = min(int(usable_bytes // each), 2**31) if usable_bytes != float("inf") else 2**31
    if most < 1:
        raise UserError(
            f"study {study.name}: one agent on {envs[0]} needs {each / 1e9:.2f} GB, and {usable_bytes / 1e9:.2f} GB "
            "can be used: lower replay_capacity_steps, or give --memory-gb"
        )
    if most >= seeds:
        bounds = _even(len(envs), most // seeds)
        return [PlannedPopulation(tuple(envs[low:high]), variant.name, first, seeds) for low, high in pairwise(bounds)]
    return [
        PlannedPopulation((env,), variant.name, first + low, high - low)
        for env in envs
        for low, high in pairwise(_even(seeds, most))
    ]


def _even(count: int, most: int) -> list[int]:
    """Bounds of as few parts of at most `most` as there can be, of about equal size.

    >>> _even(7, 3)
    [0, 2, 4, 7]
    """
    parts = -(-count // most)
    return [count * i // parts for i in range(parts + 1)]
