"""What both networks say, as rows to draw: one per action, on one axis that is the same for the whole video.

Only numbers here: pixels, colours and text are in `frames`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.ticker import MaxNLocator

from lookrep.playing import Distribution, Recording

MOST_ROWS = 18  # Atari's joystick has as many actions
LEAST_WEIGHT = 0.005  # an atom lighter than this in every frame is not worth a place on the axis
LEAST_ATOMS = 10  # shown of a categorical distribution, however narrow it is
BINS = 56  # for quantiles
SMOOTHING_BINS = 1.4  # quantiles are points: each becomes a bell of this width
PEAK_QUANTILE = 0.95  # of all rows' peaks: the height that fills a row, so that few sure states do not flatten the rest


class Rows(NamedTuple):
    """Everything about the right-hand side that does not change from frame to frame, and the numbers that do."""

    actions: np.ndarray  # [R]: the actions that have a row
    names: tuple[str, ...]
    low: float
    high: float
    ticks: tuple[float, ...]
    decimals: int  # that tell values on this axis apart
    online_values: np.ndarray  # [T, R]
    target_values: np.ndarray
    edges: np.ndarray | None  # [B + 1] of the histograms; None: values alone
    online_weights: np.ndarray | None  # [T, R, B]
    target_weights: np.ndarray | None
    peak: float  # the weight that fills a row


def rows(recording: Recording, names: Sequence[str]) -> Rows:
    """The rows of a recording; with very many actions, of those that are taken most."""
    actions = np.arange(len(names))
    if len(names) > MOST_ROWS:
        counts = np.bincount(recording.actions, minlength=len(names))
        actions = np.sort(np.argsort(-counts, kind="stable")[:MOST_ROWS])
    values = [recording.online_values[:, actions], recording.target_values[:, actions]]
    edges: np.ndarray | None = None
    weights: list[np.ndarray] = []
    peak = 1.0
    low, high = min(0.0, float(np.min(values))), max(0.0, float(np.max(values)))
    if recording.online_returns is not None and recording.target_returns is not None:
        returns = [
            Distribution(d.atoms[:, actions], d.weights[:, actions])
            for d in (recording.online_returns, recording.target_returns)
        ]
        same_atoms = all(np.ptp(d.atoms, axis=(0, 1)).max() == 0 for d in returns)
        edges = _atom_edges(returns) if same_atoms else _quantile_edges(returns)
        weights = [histogram(d, edges, smooth=not same_atoms) for d in returns]
        peak = float(np.quantile(np.stack(weights).max(axis=-1), PEAK_QUANTILE))
        low, high = float(edges[0]), float(edges[-1])
    elif high > low:
        room = 0.04 * (high - low)
        low, high = low - room * (low < 0), high + room * (high > 0)
    else:
        low, high = -0.5, 0.5
    located = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    ticks = tuple(float(x) for x in located if low <= x <= high)
    return Rows(
        actions=actions,
        names=tuple(names[int(i)] for i in actions),
        low=low,
        high=high,
        ticks=ticks,
        decimals=min(5, max(2, 2 - math.floor(math.log10(high - low)))),
        online_values=values[0],
        target_values=values[1],
        edges=edges,
        online_weights=weights[0] if weights else None,
        target_weights=weights[1] if weights else None,
        peak=peak,
    )


def histogram(returns: Distribution, edges: np.ndarray, *, smooth: bool) -> np.ndarray:
    """Weight between each two edges, [T, R, B]: the atoms' own, or that of a bell around each."""
    centres = (edges[:-1] + edges[1:]) / 2
    if not smooth:
        first = int(np.argmin(np.abs(returns.atoms[0, 0] - centres[0])))
        return returns.weights[..., first : first + len(centres)]
    width = edges[1] - edges[0]
    out = np.empty((*returns.atoms.shape[:2], len(centres)), np.float32)
    for t, (atoms, weights) in enumerate(zip(returns.atoms, returns.weights, strict=True)):
        distance = (centres - atoms[..., None]) / (SMOOTHING_BINS * width)
        bell = np.exp(-0.5 * distance**2) / (SMOOTHING_BINS * np.sqrt(2 * np.pi))
        out[t] = (weights[..., None] * bell).sum(axis=1)
    return out


def _atom_edges(returns: list[Distribution]) -> np.ndarray:
    """Half-way between the atoms that matter anywhere in the video, and one more on either side."""
    atoms = returns[0].atoms[0, 0].astype(np.float64)
    heaviest = np.max([d.weights.max(axis=(0, 1)) for d in returns], axis=0)
    matter = np.flatnonzero(heaviest >= min(LEAST_WEIGHT, float(heaviest.max())))
    first, last = max(matter[0] - 1, 0), min(matter[-1] + 1, len(atoms) - 1)
    lacking = max(0, LEAST_ATOMS - (last - first + 1))
    last = min(last + lacking // 2, len(atoms) - 1)
    first = max(0, min(first, last - LEAST_ATOMS + 1))
    last = min(max(last, first + LEAST_ATOMS - 1), len(atoms) - 1)
    half = (atoms[1] - atoms[0]) / 2
    return np.append(atoms[first : last + 1] - half, atoms[last] + half)


def _quantile_edges(returns: list[Distribution]) -> np.ndarray:
    """Even, with nine tenths of every row's quantiles inside: a stray one should not set the scale."""
    lows, highs = np.quantile(np.stack([d.atoms for d in returns]), [0.05, 0.95], axis=-1)
    low, high = float(lows.min()), float(highs.max())
    room = 0.08 * (high - low) or 0.5
    return np.linspace(low - room, high + room, BINS + 1)
