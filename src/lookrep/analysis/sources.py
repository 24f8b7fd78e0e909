"""What `report` and `figure` look at, by path: a study's folder, a single run's, or other software's logs.

A run and logs become the results of a small study, so that everything made of results works for them.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from lookrep import config as configs
from lookrep.analysis import logs, results
from lookrep.analysis.results import Results, StudyMember
from lookrep.errors import UserError
from lookrep.runs import names
from lookrep.runs.folder import read_config
from lookrep.studies import definition
from lookrep.studies.definition import Study, Variant


def load(
    path: str | Path, steps: int | None = None, environments: Sequence[str] = (), variants: Sequence[str] = ()
) -> Results:
    """Everything there; with `steps`, `environments` and `variants` as `results.load` has it."""
    path = Path(path)
    if (path / definition.FILE).is_file():
        return results.load(path, steps, environments, variants)
    if (path / names.CONFIG).is_file():
        return _narrowed(_of_run(path, steps), environments, variants)
    if logs.are_in(path):
        return _narrowed(logs.load(path, steps), environments, variants)
    if not path.exists():
        raise UserError(f"{path}: there is no such folder or file")
    raise UserError(
        f"{path} is no study: it has no {definition.FILE} (nor a run's {names.CONFIG}, nor TensorBoard events; of "
        "other files, .csv is read)"
    )


def _narrowed(found: Results, environments: Sequence[str], variants: Sequence[str]) -> Results:
    study = definition.narrow(found.study, environments=environments, variants=variants)
    kept = {variant.name for variant in study.variants}
    members = tuple(m for m in found.members if m.env in study.environments and m.variant in kept)
    return dataclasses.replace(found, study=study, members=members)


def _of_run(folder: Path, steps: int | None) -> Results:
    """A run as a study with one variant, whose seeds are the run's agents."""
    recorded, config = read_config(folder) or {}, configs.load(folder)
    target = config.settings.target.target
    whole = Study(
        name=folder.resolve().name,
        title=f"{config.env} · {config.agent} · {target}",
        question="",
        kind="training",
        environments=config.games,
        agent=config.agent,
        variants=(Variant(target, f"{config.agent}, {target}", {}),),
        seeds=len(set(config.numbers)),
        steps=config.steps,
        overrides={},
        size="one run",
        figures=(),
        baseline=target,
    )
    study = whole if steps is None else results.ending_at(whole, steps)
    found = results.members_of(folder, config.env, study.steps)
    by_place = {(env, seed - config.first_agent): columns for (env, _, seed), columns in found.items()}
    members = []
    for env in study.environments:
        for seed in range(study.seeds):
            columns = by_place.get((env, seed), {})
            members.append(StudyMember(env, target, seed, results.status_of(columns, study.steps), columns))
    versions = recorded.get("versions")
    return Results(
        study=study,
        whole=whole,
        folder=folder,
        members=tuple(members),
        sittings=(),
        versions=(versions,) if isinstance(versions, dict) else (),
        configs={target: recorded | configs.to_json(config)},
        source="run",
    )
