"""What a study says, in plain numbers: every variant's aggregate scores, each environment's, and what is not counted.

The estimators are in `aggregate`, the intervals in `bootstrap`, the rules by which a run gets its score in `scores`;
words and pictures made of these numbers belong to the report and the figures.
"""

from dataclasses import dataclass

import numpy as np

from lookrep.analysis import bootstrap
from lookrep.analysis.aggregate import (
    Floats,
    area_under_curve,
    environment_improvement,
    environment_means,
    iqm,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
    relative_difference,
)
from lookrep.analysis.bootstrap import CONFIDENCE, RESAMPLES, Band, Estimate, Statistic, band, estimate
from lookrep.analysis.results import Results, StudyMember
from lookrep.analysis.scores import LeftOut, Normalisation, counts, curves, final_scores, normalisation

AGGREGATES: dict[str, Statistic] = {"median": median, "iqm": iqm, "mean": mean}
FEW_SEEDS = 5  # with fewer runs on an environment intervals come out too narrow: no verdict


@dataclass(frozen=True)
class VariantScore:
    """One variant over all environments, in normalised scores."""

    variant: str
    label: str
    runs: int  # that count, over the environments compared
    iqm: Estimate
    mean: Estimate
    median: Estimate
    optimality_gap: Estimate
    area_under_curve: Estimate  # mean over training of the median over environments
    improvement: Estimate | None  # P(a run beats a run of the baseline); None for the baseline itself


@dataclass(frozen=True)
class EnvironmentScore:
    """One variant on one environment, in the environment's own scores."""

    env: str
    variant: str
    runs: int
    score: Estimate
    relative: Estimate | None  # (score − baseline) / max(baseline, 1), normalised; None for the baseline itself
    improvement: Estimate | None


@dataclass(frozen=True)
class Headline:
    baseline: str
    normalisation: Normalisation
    environments: tuple[str, ...]  # compared: those on which every variant has a run that counts
    left_out: tuple[LeftOut, ...]  # the others, with the reason
    variants: tuple[VariantScore, ...]  # in the study's order; empty if no environment can be compared
    by_environment: tuple[EnvironmentScore, ...]  # all that have a run that counts, also of environments left out
    diverged: tuple[StudyMember, ...]  # counted, by the rule in `scores`
    excluded: tuple[StudyMember, ...]  # unfinished or missing: not counted
    fewest_seeds: int  # of any variant on any environment compared
    confidence: float
    resamples: int


def headline(results: Results, *, resamples: int = RESAMPLES, seed: int = 0) -> Headline:
    """Everything a report states about final scores. Equal results, resamples and seed give equal numbers."""
    study = results.study
    rule = normalisation(results)
    environments = rule.environments
    raw = {v.name: final_scores(results, v.name, environments) for v in study.variants}
    scores = {name: rule.apply(values) for name, values in raw.items()}
    found = []
    for variant in study.variants if environments else ():
        ours, theirs = scores[variant.name], scores[study.baseline]

        def number(statistic: Statistic, *arrays: Floats) -> Estimate:
            return estimate(statistic, *arrays, resamples=resamples, seed=seed)

        found.append(
            VariantScore(
                variant=variant.name,
                label=variant.label,
                runs=int((~np.isnan(ours)).sum()),
                iqm=number(iqm, ours),
                mean=number(mean, ours),
                median=number(median, ours),
                optimality_gap=number(optimality_gap, ours),
                area_under_curve=curve_area(results, variant.name, rule, seed=seed),
                improvement=(
                    None if variant.name == study.baseline else number(probability_of_improvement, ours, theirs)
                ),
            )
        )
    members = results.members
    return Headline(
        baseline=study.baseline,
        normalisation=rule,
        environments=environments,
        left_out=rule.left_out,
        variants=tuple(found),
        by_environment=by_environment(results, rule, resamples=min(resamples, 10_000), seed=seed),
        diverged=tuple(member for member in members if member.status == "diverged"),
        excluded=tuple(member for member in members if not counts(member)),
        fewest_seeds=min((int((~np.isnan(s)).sum(axis=0).min()) for s in scores.values() if environments), default=0),
        confidence=CONFIDENCE,
        resamples=resamples,
    )


def by_environment(
    results: Results, rule: Normalisation, *, resamples: int = 10_000, seed: int = 0
) -> tuple[EnvironmentScore, ...]:
    """Every variant on every environment: its final score, and the asymptotic comparison with the baseline."""
    study = results.study
    raw = {v.name: final_scores(results, v.name, study.environments) for v in study.variants}
    compared = [study.environments.index(env) for env in rule.environments]
    found = {}
    for variant in study.variants:
        ours = raw[variant.name]
        score = band(environment_means, ours, resamples=resamples, seed=seed)
        relative, improvement = None, None
        if variant.name != study.baseline and compared:
            pair = [rule.apply(raw[name][:, compared]) for name in (variant.name, study.baseline)]
            relative = band(relative_difference, *pair, resamples=resamples, seed=seed)
            improvement = band(environment_improvement, *pair, resamples=resamples, seed=seed)
        for index, env in enumerate(study.environments):
            runs = int((~np.isnan(ours[:, index])).sum())
            if runs:
                place = compared.index(index) if index in compared else None
                fewer = min(runs, int((~np.isnan(raw[study.baseline][:, index])).sum()))
                found[env, variant.name] = EnvironmentScore(
                    env,
                    variant.name,
                    runs,
                    score=_at(score, index, runs),
                    relative=None if relative is None or place is None else _at(relative, place, fewer),
                    improvement=None if improvement is None or place is None else _at(improvement, place, fewer),
                )
    order = [(env, variant.name) for env in study.environments for variant in study.variants]
    return tuple(found[key] for key in order if key in found)


def curve_area(
    results: Results, variant: str, rule: Normalisation, *, aggregate: str = "median", seed: int = 0
) -> Estimate:
    """Area under the aggregate learning curve over agent steps, divided by its length (Fig. 4)."""
    found = curves(results, variant, "return_mean", rule.environments, "agent-steps")
    whole = ~np.isnan(environment_means(found.y)).any(axis=-1)  # every environment has begun to score
    if not whole.any():
        return Estimate(float("nan"), float("nan"), float("nan"))
    x, y = found.x[whole], rule.apply(found.y[whole])

    def area(values: Floats) -> Floats:
        return area_under_curve(x, AGGREGATES[aggregate](values))

    return estimate(area, y, resamples=bootstrap.CURVE_RESAMPLES, seed=seed)


def aggregate_curve(
    y: Floats, *, aggregate: str = "median", resamples: int = bootstrap.CURVE_RESAMPLES, seed: int = 0
) -> Band:
    """Normalised y[points, seeds, environments] → one curve; NaN where an environment has no run (yet)."""
    found = band(AGGREGATES[aggregate], y, resamples=resamples, seed=seed)
    whole = ~np.isnan(environment_means(y)).any(axis=-1)
    return Band(*(np.where(whole, values, np.nan) for values in found))


def _at(found: Band, index: int, runs: int) -> Estimate:
    value, low, high = (float(values[index]) for values in found)
    return Estimate(value, low, high) if runs > 1 else Estimate(value, float("nan"), float("nan"))
