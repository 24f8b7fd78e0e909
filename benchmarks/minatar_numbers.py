"""What docs/results/minatar.md compares, by the estimators and intervals of `lookrep.studies`."""

import math
from collections.abc import Iterable

import jax
import numpy as np

from lookrep import config, envs
from lookrep.agents import Agent
from lookrep.analysis.aggregate import Floats, environment_means, nanmean
from lookrep.analysis.bootstrap import Estimate, estimate
from lookrep.analysis.results import Results
from lookrep.analysis.scores import FINAL_SHARE, Axis, counts, curves, final_scores, target_settings

RESAMPLES = 10_000


def finished(results: Results, env: str, variants: Iterable[str] | None = None) -> bool:
    """Whether every run of these variants (of all) on the game counts."""
    names = [variant.name for variant in results.study.variants] if variants is None else variants
    return all(counts(member) for name in names for member in results.of(env, name))


def complete(results: Results) -> list[str]:
    return [env for env in results.study.environments if finished(results, env)]


def measured(
    results: Results, variant: str, env: str, column: str, end: float | None = None, axis: Axis = "agent-steps"
) -> Floats:
    """A column's mean over the last tenth of the way to `end` (of all there is): [seeds, 1], NaN if not finished."""
    curve = curves(results, variant, column, [env], axis)
    last = end or float(curve.x[-1])
    late = (curve.x > (1 - FINAL_SHARE) * last) & (curve.x <= last)
    return np.where(np.isnan(final_scores(results, variant, [env])), np.nan, nanmean(curve.y[late], axis=0))


def mean_of(scores: Floats) -> Estimate:
    return estimate(lambda x: environment_means(x)[..., 0], scores, resamples=RESAMPLES)


def ratio_of(ours: Floats, theirs: Floats) -> Estimate:
    """Of the means of [seeds, 1]; both are resampled."""
    return estimate(
        lambda x, y: (environment_means(x) / environment_means(y))[..., 0], ours, theirs, resamples=RESAMPLES
    )


def relative(results: Results, variant: str, env: str, to: str | None = None) -> Estimate:
    """Final score divided by that of another variant (the baseline)."""
    return ratio_of(*(final_scores(results, name, [env]) for name in (variant, to or results.study.baseline)))


def target_steps(results: Results, variant: str, env: str) -> float:
    """Gradient steps of the target per online update, as they were taken."""
    last = [member.columns for member in results.of(env, variant)]
    return float(np.mean([columns["target_updates"][-1] / columns["online_updates"][-1] for columns in last]))


def transitions(results: Results, variant: str, env: str) -> float:
    """How many replayed transitions both networks learn from in all, for one that the online network does."""
    settings = target_settings(results, variant)
    if settings["target"] != "replicate":
        return 1.0
    batch = int(str(results.study.overrides.get("batch_size", config.preset(results.study.agent).learning.batch_size)))
    return 1.0 + target_steps(results, variant, env) * settings["replicate_batch_size"] / batch


def reach(results: Results, variant: str, env: str) -> float:
    """Target steps × their size, divided by online updates × theirs: how far the target can move beside the online."""
    study = results.study
    online = float(str(study.overrides.get("learning_rate", config.preset(study.agent).learning.learning_rate)))
    own = float(target_settings(results, variant)["replicate_learning_rate"] or online)
    return round(target_steps(results, variant, env) * own / online, 4)  # equal reaches stay ties


def parameters(results: Results, variant: str) -> int:
    """Of the target network, on the first game."""
    run = config.from_json({name: value for name, value in results.configs[variant].items() if name != "versions"})
    spaces = envs.make(run.env)
    target = Agent(run.settings, spaces.observation_shape, spaces.num_actions).target
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(target.init, jax.random.key(0))))


def rank_correlation(scores: Floats, values: Floats) -> Estimate:
    """Spearman's, over variants, of mean score[seeds, variants] and value[variants]; ties share a rank."""

    def ranks(x: Floats) -> Floats:
        ours, theirs = x[..., :, None], x[..., None, :]
        rank = (ours > theirs).sum(-1) + 0.5 * (ours == theirs).sum(-1)
        return np.asarray(rank - rank.mean(-1, keepdims=True))

    def spearman(x: Floats) -> Floats:
        a, b = ranks(environment_means(x)), ranks(values)
        return np.asarray((a * b).sum(-1) / np.sqrt((a**2).sum(-1) * (b**2).sum(-1)))

    return estimate(spearman, scores, resamples=RESAMPLES)
