"""Percentile intervals by the stratified bootstrap: runs are drawn again, with replacement, within each environment.

The environments are the ones we care about, not a sample of others, so they are never resampled. What is estimated is
any function of scores[..., runs, environments] from `aggregate`; a leading axis (points in time) belongs to the run and
is drawn with it. Runs that are missing (NaN throughout) are never drawn: every resample has as many runs of each
environment as there really are.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookrep.analysis.aggregate import Floats

RESAMPLES = 50_000  # for single numbers
CURVE_RESAMPLES = 1_000  # for bands along curves, where each resample is a whole curve
CONFIDENCE = 0.95
CHUNK = 2_000_000  # numbers resampled at once: a few dozen megabytes whatever is asked for

Indices = NDArray[np.intp]
Statistic = Callable[..., Floats]


class Estimate(NamedTuple):
    """A number and its interval; low and high are NaN where no environment has two runs, since one says nothing."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return not (math.isnan(self.low) or math.isnan(self.high))


class Band(NamedTuple):
    """The same for arrays: a curve or one number for each environment."""

    value: Floats
    low: Floats
    high: Floats


def band(
    statistic: Statistic,
    *arrays: Floats,
    resamples: int = CURVE_RESAMPLES,
    seed: int = 0,
    indices: Sequence[Indices] | None = None,
) -> Band:
    """`statistic(*arrays)` with its percentile interval; several arrays are resampled independently of each other.

    `indices`, one [resamples, runs, environments] for each array, replaces the random draw.
    """
    value = np.asarray(statistic(*arrays), np.float64)
    nothing = np.full(value.shape, np.nan)
    if all(len(_runs(array)) == 0 or _runs(array).max() < 2 for array in arrays):
        return Band(value, nothing, nothing)
    all_found = distribution(statistic, *arrays, resamples=resamples, seed=seed, indices=indices)
    tail = 50.0 * (1.0 - CONFIDENCE)
    percentile = np.nanpercentile if np.isnan(all_found).any() else np.percentile
    everywhere_nan = np.isnan(all_found).all(axis=0)
    all_found = np.where(everywhere_nan, 0.0, all_found)  # nanpercentile would warn
    low, high = percentile(all_found, [tail, 100.0 - tail], axis=0)
    return Band(value, np.where(everywhere_nan, np.nan, low), np.where(everywhere_nan, np.nan, high))


def distribution(
    statistic: Statistic,
    *arrays: Floats,
    resamples: int,
    seed: int | Sequence[int] = 0,
    indices: Sequence[Indices] | None = None,
) -> Floats:
    """The statistic of every resample: [resamples, …]."""
    rng = np.random.default_rng(seed)
    compact = [_missing_last(array) for array in arrays]
    size = max(1, CHUNK // max(1, sum(array.size for array in arrays)))
    found = []
    for start in range(0, resamples, size):
        count = min(size, resamples - start)
        if indices is None:
            drawn = [draw(array, count, rng) for array in compact]
        else:
            drawn = [chosen[start : start + count] for chosen in indices]
        found.append(statistic(*(resample(a, i) for a, i in zip(compact, drawn, strict=True))))
    return np.concatenate(found)


def estimate(
    statistic: Statistic,
    *arrays: Floats,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Estimate:
    """`band` for a statistic that is one number.

    >>> from lookrep.analysis.aggregate import mean
    >>> estimate(mean, np.array([[1.0, 2.0], [1.0, 2.0]]))
    Estimate(value=1.5, low=1.5, high=1.5)
    >>> estimate(mean, np.array([[1.0, 2.0]]))
    Estimate(value=1.5, low=nan, high=nan)
    """
    found = band(statistic, *arrays, resamples=resamples, seed=seed)
    return Estimate(float(found.value), float(found.low), float(found.high))


def draw(scores: Floats, resamples: int, rng: np.random.Generator) -> Indices:
    """Which run takes each place: [resamples, runs, environments], each environment among its own runs.

    `scores` has its missing runs last; the places of missing runs stay with missing runs.
    """
    runs, environments = scores.shape[-2:]
    present = _runs(scores)
    if (present == runs).all():
        return rng.integers(0, runs, (resamples, runs, environments), dtype=np.intp)
    drawn = (rng.random((resamples, runs, environments)) * present).astype(np.intp)
    place = np.arange(runs)[:, None]
    return np.where(place < present, drawn, place)


def resample(scores: Floats, indices: Indices) -> Floats:
    """scores[..., runs, environments] → [resamples, ..., runs, environments]."""
    extra = scores.ndim - 2
    shaped = indices.reshape(len(indices), *(1,) * extra, *indices.shape[1:])
    return np.take_along_axis(scores[None], shaped, axis=-2)


def _runs(scores: Floats) -> NDArray[np.int64]:
    """How many runs each environment has; one that is NaN throughout is none."""
    return _present(scores).sum(axis=0)


def _present(scores: Floats) -> NDArray[np.bool_]:
    return np.asarray((~np.isnan(scores)).any(axis=tuple(range(scores.ndim - 2))))


def _missing_last(scores: Floats) -> Floats:
    present = _present(scores)
    if present.all():
        return scores
    order = np.argsort(~present, axis=0, kind="stable")
    return np.take_along_axis(scores, order.reshape(*(1,) * (scores.ndim - 2), *order.shape), axis=-2)
