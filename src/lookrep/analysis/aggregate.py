"""One number for many runs on many environments: the estimators of Agarwal et al. (2021), and the paper's.

Every function takes scores[..., runs, environments] and gives one value for each leading index, so that resamples and
points in time are computed at once. NaN is a run that is not there; an environment without any run is skipped, so a
caller who compares variants must first choose environments that all of them have. Where the scores come from, and
intervals around these numbers, live elsewhere (`scores`, `bootstrap`).

All but the IQM give every environment the same weight, however many of its runs are there.

References: Agarwal et al. (2021), Deep Reinforcement Learning at the Edge of the Statistical Precipice.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def nanmean(values: Floats, axis: int) -> Floats:
    """The mean of what is there; NaN, without a warning, where nothing is."""
    here = ~np.isnan(values)
    if here.all() and values.shape[axis]:
        return np.asarray(values.mean(axis=axis))
    count = here.sum(axis=axis)
    total = np.where(here, values, 0.0).sum(axis=axis)
    return np.asarray(np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0))


def environment_means(scores: Floats) -> Floats:
    """Mean over the runs of each environment: [..., environments]."""
    return nanmean(scores, axis=-2)


def mean(scores: Floats) -> Floats:
    """Mean over environments of the mean over runs.

    >>> float(mean(np.array([[1.0, 4.0], [3.0, np.nan]])))
    3.0
    """
    return nanmean(environment_means(scores), axis=-1)


def median(scores: Floats) -> Floats:
    """Median over environments of the mean over runs: the paper's aggregate (Figs. 3 and 6)."""
    by_environment = environment_means(scores)
    gone = np.isnan(by_environment)
    if not gone.any():
        return np.asarray(np.median(by_environment, axis=-1))
    ranked = np.sort(by_environment, axis=-1)  # NaN comes last
    count = (~gone).sum(axis=-1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, ranked.shape[-1] - 1)
    pair = np.stack([low, high], axis=-1)
    return np.asarray(np.take_along_axis(ranked, pair, axis=-1).mean(axis=-1))


def iqm(scores: Floats) -> Floats:
    """Interquartile mean: the mean of the middle half of all runs of all environments, pooled.

    A quarter of the runs, rounded down, is cut at either end.

    >>> float(iqm(np.array([[0.0, 1.0], [3.0, 100.0]])))
    2.0
    """
    pooled = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)  # NaN comes last
    count = (~np.isnan(pooled)).sum(axis=-1, keepdims=True)
    cut, rank = count // 4, np.arange(pooled.shape[-1])
    return nanmean(np.where((rank >= cut) & (rank < count - cut), pooled, np.nan), axis=-1)


def optimality_gap(scores: Floats, threshold: float = 1.0) -> Floats:
    """By how much runs fall short of `threshold` on average; what lies above it counts as reaching it."""
    return threshold - mean(np.minimum(scores, threshold))


def performance_profile(scores: Floats, thresholds: ArrayLike) -> Floats:
    """Share of runs above each threshold, averaged over environments (run-score distribution): [..., thresholds]."""
    levels = np.asarray(thresholds, np.float64)
    shares = []
    for level in levels:  # one at a time: all at once would be resamples × thresholds × runs numbers
        shares.append(mean(np.where(np.isnan(scores), np.nan, scores > level)))
    return np.stack(shares, axis=-1)


def probability_of_improvement(ours: Floats, theirs: Floats) -> Floats:
    """P(a run of ours beats a run of theirs) on an environment, ties counting half; averaged over environments.

    >>> float(probability_of_improvement(np.array([[1.0], [3.0]]), np.array([[2.0], [3.0]])))
    0.375
    """
    return nanmean(environment_improvement(ours, theirs), axis=-1)


def environment_improvement(ours: Floats, theirs: Floats) -> Floats:
    """The same for each environment: [..., environments]."""
    pairs = (~np.isnan(ours)).sum(axis=-2) * (~np.isnan(theirs)).sum(axis=-2)
    wins = np.empty(pairs.shape)
    for env in range(ours.shape[-1]):
        x = np.ascontiguousarray(ours[..., env])[..., :, None]
        y = np.ascontiguousarray(theirs[..., env])[..., None, :]
        wins[..., env] = 0.5 * ((x > y).sum(axis=(-2, -1)) + (x >= y).sum(axis=(-2, -1)))  # NaN is never ≥
    return np.divide(wins, pairs, out=np.full(pairs.shape, np.nan), where=pairs > 0)


def relative_difference(ours: Floats, theirs: Floats) -> Floats:
    """(ours − theirs) / max(theirs, 1) of the normalised means, for each environment: [..., environments].

    With human-normalised scores this is Wang et al.'s (2016) (score − baseline) / (max(human, baseline) − random), the
    usual bar of such figures; with scores divided by the baseline's it is the change relative to the baseline.
    """
    x, y = environment_means(ours), environment_means(theirs)
    return np.asarray((x - y) / np.maximum(y, 1.0))


def area_under_curve(x: Floats, y: Floats) -> Floats:
    """Trapezoidal area under y[..., points], divided by the length of x: the mean height of the curve.

    >>> float(area_under_curve(np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 2.0])))
    1.6666666666666667
    """
    if len(x) < 2:
        return np.asarray(y[..., -1] if len(x) else np.full(y.shape[:-1], np.nan))
    return np.asarray(np.trapezoid(y, x, axis=-1) / (x[-1] - x[0]))
