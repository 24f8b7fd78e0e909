"""What came of a study: every member it asks for, with its metrics, or with the reason why there are none.

Reads files only, and imports neither a trainer nor JAX.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lookrep import config as configs
from lookrep.errors import UserError
from lookrep.runs import metrics, names
from lookrep.runs.folder import lost_rows, read_config
from lookrep.studies import definition
from lookrep.studies import folder as folders
from lookrep.studies.definition import Study

Status = Literal["finished", "unfinished", "missing", "diverged"]


@dataclass(frozen=True)
class StudyMember:
    """One seed of one variant on one environment."""

    env: str
    variant: str
    seed: int
    status: Status
    columns: dict[str, np.ndarray]  # its rows of metrics, ordered by agent_steps; {} if missing


@dataclass(frozen=True)
class Results:
    study: Study  # as much of it as is looked at
    whole: Study  # as it was planned
    folder: Path
    members: tuple[StudyMember, ...]  # one for every (env, variant, seed) the study asks for, in that order
    sittings: tuple[dict[str, Any], ...]
    versions: tuple[dict[str, Any], ...]  # the distinct "versions" of the populations
    # variant → config.json of its first population, with its settings checked: each is of the type it must be of
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    source: Literal["study", "run", "logs"] = "study"  # `lookrep.analysis.sources` has the others

    @property
    def unit(self) -> str:
        """What the members of a variant are: a study's seeds, or the agents of one run, which have one seed."""
        return "agent" if self.source == "run" else "seed"

    def of(self, env: str, variant: str) -> tuple[StudyMember, ...]:
        return tuple(member for member in self.members if member.env == env and member.variant == variant)


def load(
    folder: str | Path, steps: int | None = None, environments: Sequence[str] = (), variants: Sequence[str] = ()
) -> Results:
    """Everything on disk about the study in this folder; runs may still be going on. With `steps`, as if the study
    ended there: nothing that happens in a run depends on how long it will be. With `environments` and `variants`, as if
    there were no others."""
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such study folder")
    if not (folder / definition.FILE).is_file():
        raise UserError(f"{folder} is no study: it has no {definition.FILE}")
    whole = definition.load(folder)
    ending = whole if steps is None else ending_at(whole, steps)
    study = definition.narrow(ending, environments=environments, variants=variants)
    kept = {variant.name for variant in study.variants}
    found: dict[tuple[str, str, int], dict[str, np.ndarray]] = {}
    versions: list[dict[str, Any]] = []
    firsts: dict[str, dict[str, Any]] = {}
    for run in folders.populations(folder):
        config = read_config(run)
        if config is None:
            continue
        recorded = config.get("versions")
        if isinstance(recorded, dict) and recorded not in versions:
            versions.append(recorded)
        name = folders.variant_of(run)
        if name not in firsts:
            firsts[name] = config | {"settings": configs.recorded_settings(config, str(run / names.CONFIG))}
        if (run / names.METRICS).exists() and name in kept:
            members = members_of(run, str(config.get("env", "")), study.steps)
            for env, variant, seed in members.keys() & found.keys():
                raise UserError(
                    f"{run.name}: seed {seed} of {variant} on {env} is in another population too; move one of them away"
                )
            found |= members
    wanted = [
        (env, variant.name, seed)
        for env in study.environments
        for variant in study.variants
        for seed in range(study.seeds)
    ]
    asked = (
        StudyMember(*key, status=status_of(found.get(key, {}), study.steps), columns=found.get(key, {}))
        for key in wanted
    )
    return Results(
        study=study,
        whole=whole,
        folder=folder,
        members=tuple(asked) if study.kind == "training" else (),
        sittings=folders.sittings(folder),
        versions=tuple(versions),
        configs=firsts,
    )


def ending_at(study: Study, steps: int) -> Study:
    if study.kind != "training":
        raise UserError(f"study {study.name}: exact solutions have no steps to stop at")
    if not 0 < steps <= study.steps:
        raise UserError(f"steps = {steps:,}: study {study.name} goes from 1 to {study.steps:,}")
    return dataclasses.replace(study, steps=steps)


def members_of(run: Path, env: str, steps: int) -> dict[tuple[str, str, int], dict[str, np.ndarray]]:
    """The rows of its agents up to that step, where one must be if there are any behind it."""
    if lost := lost_rows(run):
        raise UserError(lost)
    columns = metrics.read(run)
    past = columns["agent_steps"] > steps
    if past.any() and steps not in columns["agent_steps"]:
        before = columns["agent_steps"][~past].max(initial=0)
        hint = f"its last row before is at {before:,}" if before else "its first row is later"
        raise UserError(f"steps = {steps:,}: {run.name} has no row of metrics there, {hint}")
    columns = {name: column[~past] for name, column in columns.items()}
    games = columns.get("env", np.full(len(columns["agent"]), env, object))
    found = {}
    for game in dict.fromkeys(games.tolist()):
        for seed in np.unique(columns["agent"][games == game]).tolist():
            mine = np.flatnonzero((games == game) & (columns["agent"] == seed))
            mine = mine[np.argsort(columns["agent_steps"][mine], kind="stable")]
            found[game, folders.variant_of(run), seed] = {name: column[mine] for name, column in columns.items()}
    return found


def status_of(columns: dict[str, np.ndarray], steps: int) -> Status:
    if not columns:
        return "missing"
    if columns["diverged"].any():
        return "diverged"
    return "finished" if columns["agent_steps"][-1] >= steps else "unfinished"
