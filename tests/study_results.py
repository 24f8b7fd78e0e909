"""Results as a study would leave them, without training: for tests of what is made of them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lookrep.analysis.results import Results, Status, StudyMember
from lookrep.studies.definition import Study, Variant, to_toml

TARGETS: dict[str, dict[str, Any]] = {
    "hard": {"target": "hard", "target_period_updates": 200},
    "polyak": {"target": "polyak"},
    "replicate": {"target": "replicate", "target_period_updates": 200, "replicate_updates": 20},
}


def study(
    environments: tuple[str, ...] = ("minatar/breakout", "minatar/freeway"),
    variants: Mapping[str, dict[str, Any]] = TARGETS,
    *,
    seeds: int = 3,
    steps: int = 100_000,
    **others: Any,
) -> Study:
    named = tuple(Variant(name, f"{name.capitalize()} target", changes) for name, changes in variants.items())
    settings: dict[str, Any] = {
        "name": "test",
        "title": "A study",
        "question": "Which?",
        "kind": "training",
        "agent": "rainbow",
        "overrides": {},
        "size": "smoke",
        "figures": (),
        "baseline": named[0].name,
    }
    return Study(environments=environments, variants=named, seeds=seeds, steps=steps, **(settings | others))


def columns(asked: Study, changes: Mapping[str, Any], level: float, *, rows: int = 20) -> dict[str, np.ndarray]:
    """Metrics that rise to `level`, with the counters the trainer would have written."""
    steps = np.linspace(asked.steps / rows, asked.steps, rows).astype(np.int64)
    online = steps // 4
    kind, period = changes.get("target", "hard"), changes.get("target_period_updates", 250)
    target = {"hard": online // period, "polyak": online}.get(
        kind, online // period * changes.get("replicate_updates", 25)
    )
    rise = steps / asked.steps
    return {
        "agent_steps": steps,
        "steps_per_second": np.full(rows, 1e4),
        "online_updates": online,
        "target_updates": target,
        "episodes": np.full(rows, 5),
        "return_mean": level * rise,
        "function_gap": 0.1 + np.exp(-30 * rise),
        "bellman_residual": 0.3 + 0.1 * rise,
        "norm_online": 10 + 20 * rise,
        "norm_target": 10 + 15 * rise,
        "parameter_distance": 5 * rise,
        "argmax_agreement": 0.5 + 0.4 * rise,
        "r2_advantages": 0.2 + 0.3 * rise,
        "r2_state_values": 0.8 + 0.1 * rise,
        "diverged": np.zeros(rows, bool),
    }


def results(
    asked: Study,
    level: Callable[[str, str, int], float] = lambda env, variant, seed: 10.0 + seed,
    *,
    statuses: Mapping[tuple[str, str, int], Status] | None = None,
    rows: int = 20,
) -> Results:
    """Every member finished at its level; `statuses` makes exceptions. An unfinished one is half done."""
    members = []
    for env in asked.environments:
        for variant in asked.variants:
            for seed in range(asked.seeds):
                status = (statuses or {}).get((env, variant.name, seed), "finished")
                found = columns(asked, asked.overrides | variant.changes, level(env, variant.name, seed), rows=rows)
                if status == "missing":
                    found = {}
                elif status == "unfinished":
                    found = {name: values[: rows // 2] for name, values in found.items()}
                elif status == "diverged":
                    found["diverged"][rows // 2 :] = True
                members.append(StudyMember(env, variant.name, seed, status, found))
    return Results(asked, asked, Path("no such folder"), tuple(members), (), ())


def write(found: Results, folder: Path) -> Path:
    """The same as a study's folder: one population for each environment and variant."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(to_toml(found.study))
    for env in found.study.environments:
        for variant in found.study.variants:
            run = folder / "populations" / f"{env.replace('/', '_')}--{variant.name}"
            run.mkdir(parents=True)
            target = {"target": "hard", "target_period_updates": 250, "replicate_updates": 25} | variant.changes
            plan = {"agents": found.study.seeds, "first_agent": 0, "steps": found.study.steps}
            config = {"env": env, **plan, "checkpoint_interval_steps": 0, "settings": {"target": target}}
            (run / "config.json").write_text(json.dumps(config))
            rows = [
                {"agent": member.seed, **{name: values[row].item() for name, values in member.columns.items()}}
                for member in found.of(env, variant.name)
                for row in range(len(member.columns.get("agent_steps", ())))
            ]
            rows.sort(key=lambda row: (row["agent_steps"], row["agent"]))
            (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
