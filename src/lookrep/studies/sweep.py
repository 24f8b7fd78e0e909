"""Variants that differ in some numbers alone, written as one: `sweep = { kappa = [0.1, 1], tau = [0.01, 0.1] }`.

Every combination is a variant of its own, `NAME.kappa-0.1.tau-0.01`; `family` gives NAME back.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lookrep.errors import UserError


class Point(NamedTuple):
    """One combination: what it adds to its variant's name, label and settings."""

    name: str
    label: str
    changes: dict[str, Any]


def points(sweep: Any, where: str, most: int) -> Iterator[Point]:
    """All combinations, the last setting changing fastest.

    >>> [point.name for point in points({"kappa": [0.1, 1], "tau": [0.5]}, "here", 2)]
    ['.kappa-0.1.tau-0.5', '.kappa-1.tau-0.5']
    """
    if not isinstance(sweep, Mapping) or not all(isinstance(values, list) and values for values in sweep.values()):
        raise UserError(f"{where} = {sweep!r}: must be a table of lists, setting = [value, …]")
    if math.prod(map(len, sweep.values())) > most:  # a number that may itself be too long to print
        raise UserError(f"{where}: has more combinations than the {most:,} variants that may be added: shorten lists")
    for values in itertools.product(*sweep.values()):
        pairs = list(zip(sweep, map(_short, values), strict=True))
        yield Point(
            "".join(f".{setting}-{value}" for setting, value in pairs),
            "".join(f", {setting} = {value}" for setting, value in pairs),
            dict(zip(sweep, values, strict=True)),
        )


def family(variant: str) -> str:
    """What variants of one sweep have in common: the name up to its first dot.

    >>> family("value-proximal.kappa-0.1")
    'value-proximal'
    """
    return variant.partition(".")[0]


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
