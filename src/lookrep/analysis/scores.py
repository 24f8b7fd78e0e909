"""From a study's members to arrays: final scores, learning curves on any axis, and how scores are normalised.

Rules that every number of a report rests on:

- The score of an interval is the mean return of the training episodes that ended in it; where none ended, it is the
  score of the interval before.
- A final score is the mean over the intervals in the last 10 % of the study's steps.
- A run that diverged counts, with the returns its broken agent really collected. Where there are none, it counts with
  the first score it ever had, that of an untrained agent: never with what it had reached before it broke.
- Unfinished and missing runs have no final score. They are NaN here, and `statistics.headline` names them.

Estimators and intervals are in `aggregate` and `bootstrap`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from lookrep import config
from lookrep.analysis.aggregate import Floats, nanmean
from lookrep.analysis.human_scores import reference
from lookrep.analysis.results import Results, StudyMember
from lookrep.errors import UserError

Axis = Literal["frames", "agent-steps", "gradient-steps"]
FINAL_SHARE = 0.1  # of the study's steps, at its end
POINTS = 100  # most points of a curve; longer ones are averaged over neighbouring intervals
FRAMES_PER_STEP = {"atari": 4}  # frame skip; in every other suite a step is a frame


def counts(member: StudyMember) -> bool:
    """Whether a run has a final score: finished, or over because it diverged."""
    return member.status in ("finished", "diverged")


def returns(member: StudyMember) -> Floats:
    """The score of every interval, by the rules above; NaN before the first episode ended.

    >>> lost = {"return_mean": np.array([1.0, 5.0, np.nan]), "diverged": np.array([False, False, True])}
    >>> returns(StudyMember("e", "v", 0, "diverged", lost)).tolist()
    [1.0, 5.0, 1.0]
    """
    measured = np.asarray(member.columns["return_mean"], np.float64)
    seen = np.isfinite(measured)
    last_seen = np.maximum.accumulate(np.where(seen, np.arange(len(measured)), -1))
    filled = np.where(last_seen >= 0, measured[last_seen], np.nan)
    broken = np.asarray(member.columns.get("diverged", np.zeros(len(measured), bool)))
    return np.where(broken & ~seen, _first(measured), filled)


def final_score(member: StudyMember, steps: int) -> float:
    """Mean over the last 10 % of `steps`; NaN for a run that does not count."""
    if not counts(member):
        return float("nan")
    late = member.columns["agent_steps"] > (1.0 - FINAL_SHARE) * steps
    scores = returns(member)[late]
    return float(scores.mean()) if len(scores) else _first(np.asarray(member.columns["return_mean"], np.float64))


def final_scores(results: Results, variant: str, environments: Sequence[str]) -> Floats:
    """Raw final scores [seeds, environments]; NaN for runs that do not count."""
    found = np.full((results.study.seeds, len(environments)), np.nan)
    for place, env in enumerate(environments):
        for member in results.of(env, variant):
            found[member.seed, place] = final_score(member, results.study.steps)
    return found


class LeftOut(NamedTuple):
    """An environment that no aggregate can include, and why."""

    env: str
    reason: str


@dataclass(frozen=True)
class Normalisation:
    """Scores as (score − zero) / (one − zero), by environment; `rule` says in words what 0 and 1 are."""

    kind: Literal["human", "baseline"]
    name: str
    rule: str
    zero: dict[str, float]
    one: dict[str, float]
    left_out: tuple[LeftOut, ...]

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(self.one)

    def apply(self, raw: Floats) -> Floats:
        """[..., environments], in the order of `environments`."""
        zero = np.array(list(self.zero.values()))
        return (raw - zero) / (np.array(list(self.one.values())) - zero)


def normalisation(results: Results) -> Normalisation:
    """Human-normalised where every environment has a human score, otherwise relative to the baseline variant.

    Environments on which some variant has no run that counts are left out: an aggregate over different environments
    would compare nothing.
    """
    study = results.study
    raw = {variant.name: final_scores(results, variant.name, study.environments) for variant in study.variants}
    human = {env: reference(env) for env in study.environments}
    by_human = all(human.values())
    zero, one, left_out = {}, {}, []
    for index, env in enumerate(study.environments):
        empty = [name for name, scores in raw.items() if np.isnan(scores[:, index]).all()]
        if empty:
            left_out.append(LeftOut(env, f"no finished run of {', '.join(empty)}"))
            continue
        known = human[env]
        zero[env], one[env] = 0.0, float(np.nanmean(raw[study.baseline][:, index]))
        if by_human and known:
            zero[env], one[env] = known
        elif one[env] <= 0:
            left_out.append(LeftOut(env, f"{study.baseline} scores {one[env]:.3g}, and only a positive score can be 1"))
            del zero[env], one[env]
    label = study.variant(study.baseline).label
    name = "human-normalised score" if by_human else f"score relative to {label}"
    rule = (
        "scores are human-normalised: 0 is random play, 1 is the human"
        if by_human
        else f"scores are divided by the mean final score of {label} on the same environment, so 1 is its average run"
    )
    return Normalisation("human" if by_human else "baseline", name, rule, zero, one, tuple(left_out))


class Curves(NamedTuple):
    """One variant's runs over time, on a grid they share."""

    x: Floats  # [points]
    y: Floats  # [points, seeds, environments]; NaN where a run has no value
    intervals_per_point: int  # more than one where the intervals are too many to draw
    unfinished: tuple[StudyMember, ...]  # runs drawn as far as they got, where a pair has no finished ones


def curves(results: Results, variant: str, column: str, environments: Sequence[str], axis: Axis) -> Curves:
    """A column of the metrics over time, `return_mean` by the rules above.

    Finished and diverged runs; an environment that has none yet shows its unfinished runs instead, as far as they got.
    """
    drawn: dict[tuple[int, int], StudyMember] = {}
    for place, env in enumerate(environments):
        members = [member for member in results.of(env, variant) if member.columns.get("agent_steps", np.empty(0)).size]
        chosen = [member for member in members if counts(member)] or members
        drawn |= {(member.seed, place): member for member in chosen}
    settings = target_settings(results, variant) | _settings(results, variant, "method")
    xs = {key: axis_values(member, axis, settings) for key, member in drawn.items()}
    grid = _grid(list(xs.values()))
    y = np.full((len(grid), results.study.seeds, len(environments)), np.nan)
    for (seed, place), member in drawn.items():
        values = returns(member) if column == "return_mean" else np.asarray(member.columns[column], np.float64)
        y[:, seed, place] = _on(grid, xs[seed, place], values)
    unfinished = tuple(member for member in drawn.values() if not counts(member))
    size = max(1, -(-len(grid) // POINTS))
    return Curves(*_thinned(grid, y, size), size, unfinished)


def axis_values(member: StudyMember, axis: Axis, settings: dict[str, Any]) -> Floats:
    """Where each interval ends. Gradient steps are those of both networks, and of a new one that learns its target.

    Copies and Polyak moves are `target_updates` in the metrics, too, but take no gradient: only Replicate's count.

    >>> run = {"online_updates": np.array([30, 60]), "target_updates": np.array([3, 6])}
    >>> renewed = {"target": "replicate", "reset_period_updates": 40, "reset_updates": 100}
    >>> axis_values(StudyMember("e", "v", 0, "finished", run), "gradient-steps", renewed).tolist()
    [33.0, 166.0]
    """
    if axis == "gradient-steps":
        online = member.columns["online_updates"]
        steps = online + (member.columns["target_updates"] if settings["target"] == "replicate" else 0)
        if period := settings.get("reset_period_updates"):
            steps = steps + online // period * settings["reset_updates"]
        return np.asarray(steps, np.float64)
    skip = FRAMES_PER_STEP.get(member.env.partition("/")[0], 1) if axis == "frames" else 1
    return np.asarray(member.columns["agent_steps"] * skip, np.float64)


def target_settings(results: Results, variant: str) -> dict[str, Any]:
    """A variant's settings of the target network: as its runs were configured; what they leave out, as the study asks
    for."""
    return _settings(results, variant, "target")


def _settings(results: Results, variant: str, group: str) -> dict[str, Any]:
    found = results.configs.get(variant, {}).get("settings", {}).get(group, {})
    study = results.study
    asked = study.overrides | study.variant(variant).changes
    try:
        agent, method = str(asked.get("agent", study.agent)), str(asked.get("method", "plain"))
        named = config.preset(agent, study.environments[0], method)
    except UserError:  # a preset of an engine that is not installed, or a method of someone's own
        named = config.AgentConfig()
    defaults = vars(getattr(named, group))
    return {**defaults, **{name: value for name, value in asked.items() if name in defaults}, **found}


def run_name(member: StudyMember) -> str:
    """A run as people call it."""
    return f"{member.env} {member.variant} seed {member.seed}"


def _first(measured: Floats) -> float:
    seen = measured[np.isfinite(measured)]
    return float(seen[0]) if len(seen) else float("nan")


def _grid(xs: list[Floats]) -> Floats:
    """All places where some run has a value; evenly spaced instead where runs hardly share any."""
    if not xs:
        return np.empty(0)
    every = np.unique(np.concatenate(xs))
    longest = max(len(x) for x in xs)
    return every if len(every) <= 2 * longest else np.linspace(every[0], every[-1], longest)


def _on(grid: Floats, x: Floats, values: Floats) -> Floats:
    """Linear in between, nothing before the first value and after the last: a run is not continued by guessing."""
    seen = np.isfinite(values)
    if not seen.any():
        return np.full(len(grid), np.nan)
    found = np.interp(grid, x[seen], values[seen])
    return np.where((grid >= x[seen][0]) & (grid <= x[seen][-1]), found, np.nan)


def _thinned(grid: Floats, y: Floats, size: int) -> tuple[Floats, Floats]:
    """Each point the mean of `size` neighbours, at the end of what it averages."""
    if size == 1:
        return grid, y
    starts = range(0, len(grid), size)
    thin = np.stack([nanmean(y[start : start + size], axis=0) for start in starts])
    return np.array([grid[min(start + size, len(grid)) - 1] for start in starts]), thin
