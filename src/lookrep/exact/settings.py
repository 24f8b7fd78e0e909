"""The inputs T, K_L, K_R, α, β of Algorithm 1, what other methods need besides, and their checks. No JAX here.

What "auto" step sizes mean is said in `sizes.py`; the theorem's own are in `theory.py`.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from lookrep.errors import UserError
from lookrep.exact.methods import METHODS, Method

Auto = Literal["auto"]
TOLERANCE = 1e-6  # largest difference that counts as equal, where membership in a solution set is asked
LARGEST_COUNT = 10**7  # of iterations or updates; more is a typing mistake, and would exhaust memory before time
MOST_NETWORKS = 100


@dataclass(frozen=True)
class Settings:
    """`lookahead_updates` (K_L) is also the period of a copy; the others are read by the methods that have them."""

    method: Method = "lr"
    outer_iterations: int = 800
    lookahead_updates: int = 400
    replicate_updates: int = 1
    lookahead_step_size: float | Auto = "auto"
    replicate_step_size: float | tuple[float, ...] | Auto = "auto"
    tau: float = 0.005  # polyak: the online network's weight after every online update
    kappa: float = 1.0  # weight of a proximal term, Piché et al.'s κ
    networks: int = 5  # averaged, distilled: how many of the last online networks
    growth: float = 1.05  # growing: each period is so many times the one before,
    longest_period: int = 2_000  # up to this
    batch_size: int | None = None  # transitions drawn for every update; None takes expectations instead
    seed: int = 0  # of what is drawn


def check(settings: Settings) -> Settings:
    """Refuse what cannot run, with the field's name."""
    if settings.method not in METHODS:
        raise UserError(f"method: {settings.method!r} is unknown; choose from {', '.join(METHODS)}")
    for name in ("outer_iterations", "lookahead_updates", "replicate_updates", "longest_period"):
        _check_count(name, getattr(settings, name), LARGEST_COUNT)
    _check_count("networks", settings.networks, MOST_NETWORKS)
    if settings.batch_size is not None:
        _check_count("batch_size", settings.batch_size, LARGEST_COUNT)
    if isinstance(settings.seed, bool) or not isinstance(settings.seed, int) or not 0 <= settings.seed < 2**63:
        raise UserError(f"seed: {settings.seed!r} is not a whole number from 0 to 2^63 − 1")
    _check_step("lookahead_step_size", settings.lookahead_step_size)
    steps = settings.replicate_step_size
    if isinstance(steps, tuple):
        if len(steps) != settings.replicate_updates:
            raise UserError(
                f"replicate_step_size: {len(steps)} entries for replicate_updates = {settings.replicate_updates}; "
                "give one per update"
            )
        for step in steps:
            _check_step("replicate_step_size", step)
    else:
        _check_step("replicate_step_size", steps)
    if not (_is_number(settings.tau) and 0.0 < settings.tau <= 1.0):
        raise UserError(f"tau: {settings.tau!r} is outside (0, 1]")
    if not (_is_number(settings.kappa) and settings.kappa >= 0.0):
        raise UserError(f"kappa: {settings.kappa!r} is not a number of at least 0")
    if not (_is_number(settings.growth) and settings.growth >= 1.0):
        raise UserError(f"growth: {settings.growth!r} is not a number of at least 1")
    if METHODS[settings.method].grows and settings.longest_period < settings.lookahead_updates:
        raise UserError(
            f"longest_period: {settings.longest_period} is below the first period, "
            f"lookahead_updates = {settings.lookahead_updates}"
        )
    return settings


def periods(settings: Settings) -> tuple[int, ...]:
    """Online updates of each outer iteration.

    >>> periods(Settings("growing", outer_iterations=5, lookahead_updates=10, growth=1.5, longest_period=30))
    (10, 15, 22, 30, 30)
    """
    if not METHODS[settings.method].grows:
        return (settings.lookahead_updates,) * settings.outer_iterations
    found: list[int] = []
    period = float(settings.lookahead_updates)
    for _ in range(settings.outer_iterations):
        found.append(round(period))
        period = min(period * settings.growth, float(settings.longest_period))
    return tuple(found)


def last_period(settings: Settings) -> int:
    """The period that a method keeps to in the end, however many outer iterations there are."""
    grows = METHODS[settings.method].grows and settings.growth > 1.0
    return settings.longest_period if grows else settings.lookahead_updates


def _check_count(name: str, count: Any, most: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= most:
        raise UserError(f"{name}: {count!r} is not a whole number from 1 to {most}")


def _check_step(name: str, step: float | str) -> None:
    if step != "auto" and not (_is_number(step) and float(step) > 0.0):
        raise UserError(f'{name}: {step!r} is not a positive number or "auto"')


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
