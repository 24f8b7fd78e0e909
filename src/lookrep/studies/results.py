"""What came of a study: every member it asks for, with its metrics, or with the reason why there are none.

Reads files only; no trainer and no JAX behind it. A population's folder is called `ENV--VARIANT`, with
`--FIRST-LAST` behind it if the seeds are split: the variant is in the name, all else in its `config.json`.
"""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from lookrep.errors import UserError
from lookrep.studies import definition
from lookrep.studies.definition import Study
from lookrep.training import metrics

POPULATIONS, SITTINGS, VIDEOS, EXACT = "populations", "sittings.jsonl", "videos", "exact"

Status = Literal["finished", "unfinished", "missing", "diverged"]


@dataclass(frozen=True)
class Member:
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
    members: tuple[Member, ...]  # one for every (env, variant, seed) the study asks for, in that order
    sittings: tuple[dict[str, Any], ...]
    versions: tuple[dict[str, Any], ...]  # the distinct "versions" of the populations

    def of(self, env: str, variant: str) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.env == env and member.variant == variant)


def load(
    folder: Path, steps: int | None = None, environments: Sequence[str] = (), variants: Sequence[str] = ()
) -> Results:
    """Everything on disk about the study in this folder; runs may still be going on. With `steps`, as if the study
    ended there: nothing that happens in a run depends on how long it will be. With `environments` and `variants`, as if
    there were no others."""
    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such study folder")
    if not (folder / definition.FILE).is_file():
        raise UserError(f"{folder} is no study: it has no {definition.FILE}")
    whole = definition.load(folder)
    ending = whole if steps is None else _ending_at(whole, steps)
    study = definition.narrow(ending, environments=environments, variants=variants)
    kept = {variant.name for variant in study.variants}
    found: dict[tuple[str, str, int], dict[str, np.ndarray]] = {}
    versions: list[dict[str, Any]] = []
    for run in populations(folder):
        config = read_config(run)
        if config is None:
            continue
        if config.get("versions") not in (None, *versions):
            versions.append(config["versions"])
        if (run / metrics.FILE).exists() and variant_of(run) in kept:
            members = _members(run, str(config.get("env", "")), study.steps)
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
        Member(*key, status=_status(found.get(key, {}), study.steps), columns=found.get(key, {})) for key in wanted
    )
    return Results(
        study=study,
        whole=whole,
        folder=folder,
        members=tuple(asked) if study.kind == "training" else (),
        sittings=_sittings(folder / SITTINGS),
        versions=tuple(versions),
    )


def populations(folder: Path) -> list[Path]:
    """Folders of the populations that were begun, in the order of their names."""
    return sorted(path.parent for path in (folder / POPULATIONS).glob("*/config.json"))


def variant_of(run: Path) -> str:
    """The variant in the name of a population's folder.

    >>> variant_of(Path("populations/minatar_breakout--replicate-all--0-9"))
    'replicate-all'
    """
    parts = run.name.split("--")
    return parts[1] if len(parts) > 1 else parts[0]


def environments_of(env: str) -> tuple[str, ...]:
    """The games of a population: Atari's engine takes several at once.

    >>> environments_of("atari/Breakout,Pong"), environments_of("minatar/breakout")
    (('atari/Breakout', 'atari/Pong'), ('minatar/breakout',))
    """
    suite, slash, games = env.rpartition("/")
    return tuple(f"{suite}{slash}{game}" for game in games.split(","))


def read_config(run: Path) -> dict[str, Any] | None:
    """A population's config.json as it is; None while it is being made."""
    try:
        data = json.loads((run / "config.json").read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{run / 'config.json'}: not readable as JSON ({error})") from None
    if not isinstance(data, dict):
        raise UserError(f"{run / 'config.json'}: must hold one JSON object")
    return data


def _ending_at(study: Study, steps: int) -> Study:
    if study.kind != "training":
        raise UserError(f"study {study.name}: exact solutions have no steps to stop at")
    if not 0 < steps <= study.steps:
        raise UserError(f"steps = {steps:,}: study {study.name} goes from 1 to {study.steps:,}")
    return dataclasses.replace(study, steps=steps)


def _members(run: Path, env: str, steps: int) -> dict[tuple[str, str, int], dict[str, np.ndarray]]:
    """The rows of its agents up to that step, where one must be if there are any behind it."""
    columns = metrics.read(run)
    past = columns["agent_steps"] > steps
    if past.any() and steps not in columns["agent_steps"]:
        before = columns["agent_steps"][~past].max(initial=0)
        hint = f"its last row before is at {before:,}" if before else "its first row is later"
        raise UserError(f"steps = {steps:,}: {run.name} has no row of metrics there, {hint}")
    columns = {name: column[~past] for name, column in columns.items()}
    rows = len(columns["agent"])
    games = columns.get("env", np.full(rows, env, object))
    suite = env.rpartition("/")[0]
    found = {}
    for game in dict.fromkeys(games.tolist()):
        full = game if "/" in game or not suite else f"{suite}/{game}"
        for seed in np.unique(columns["agent"][games == game]).tolist():
            mine = np.flatnonzero((games == game) & (columns["agent"] == seed))
            mine = mine[np.argsort(columns["agent_steps"][mine], kind="stable")]
            found[full, variant_of(run), seed] = {name: column[mine] for name, column in columns.items()}
    return found


def _status(columns: dict[str, np.ndarray], steps: int) -> Status:
    if not columns:
        return "missing"
    if columns["diverged"].any():
        return "diverged"
    return "finished" if columns["agent_steps"][-1] >= steps else "unfinished"


def _sittings(path: Path) -> tuple[dict[str, Any], ...]:
    """One dictionary per sitting. Its start and its end are separate lines, so that a killed one is on record too."""
    if not path.exists():
        return ()
    found: dict[Any, dict[str, Any]] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
            key = row.get("sitting", number)
        except (ValueError, AttributeError):
            continue  # torn by a kill
        found[key] = found.get(key, {}) | row
    return tuple(found.values())
