"""Numbers that describe a finite problem, checked: a complaint is one line that names the field and the entry."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookrep.errors import UserError

Floats = NDArray[np.float64]

ROW_SUM_TOLERANCE = 1e-8
LARGEST_NUMBER = 1e100  # squares and products must stay inside floating point


def finite(name: str, value: ArrayLike, dimensions: int) -> Floats:
    kinds = {
        0: "a number",
        1: "a list of numbers",
        2: "a list of equally long rows of numbers",
        3: "one matrix per action",
    }
    try:
        array = np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError(f"{name}: should be {kinds[dimensions]}") from None
    if array.ndim != dimensions or array.size == 0:
        raise UserError(f"{name}: should be {kinds[dimensions]}")
    if not np.isfinite(array).all():
        where = ", ".join(str(index + 1) for index in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"{name}: entry ({where}) is not a finite number")
    if np.abs(array).max() > LARGEST_NUMBER:
        raise UserError(f"{name}: has a number larger than {LARGEST_NUMBER:g}")
    return array


def check_stochastic(name: str, matrix: Floats) -> None:
    if matrix.shape[0] != matrix.shape[1]:
        raise UserError(f"{name}: {matrix.shape[0]} rows of {matrix.shape[1]} entries; should be square")
    check_probabilities(name, matrix)


def check_probabilities(name: str, matrix: Floats) -> None:
    """Every row is a distribution."""
    if (matrix < 0).any():
        row, column = np.argwhere(matrix < 0)[0]
        raise UserError(f"{name}: entry ({row + 1}, {column + 1}) is {matrix[row, column]:g}; probabilities are >= 0")
    sums = matrix.sum(axis=1)
    off = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise UserError(f"{name}: row {row + 1} sums to {sums[row]:.10g}, not 1")


def check_discount(discount: float) -> float:
    if isinstance(discount, bool) or not isinstance(discount, (int, float)) or not 0.0 <= discount < 1.0:
        raise UserError(f"discount: {discount!r} is outside [0, 1)")
    return float(discount)


def check_weighting(weighting: ArrayLike, states: int) -> Floats:
    weights = finite("weighting", weighting, 1)
    if weights.shape != (states,):
        raise UserError(f"weighting: {len(weights)} entries for {states} states; give one per state")
    if (weights < 0).any():
        raise UserError(f"weighting: entry {int(np.argmax(weights < 0)) + 1} is negative; weights are probabilities")
    if abs(weights.sum() - 1.0) > ROW_SUM_TOLERANCE:
        raise UserError(f"weighting: sums to {weights.sum():.10g}, not 1")
    return weights
