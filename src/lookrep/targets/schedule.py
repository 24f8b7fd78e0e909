"""When a target has its turn, counted in online updates: the one truth for rules, engines and loops of one's own.

All methods take whole numbers and answer without JAX, or arrays (traced ones too) and answer with arrays.
"""

import bisect
import itertools
import operator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.errors import UserError

MOST_TIMES = 10_000  # of a growing schedule; more is a typing mistake


@dataclass(frozen=True)
class Schedule:
    """Turns at the online updates `times`, and after the last of them every `every` updates; None: no more. With
    `last` above 1 there is one at each of the last so many updates of every period.

    There is never a turn before the first online update, so none at 0.

    >>> schedule = Schedule(times=(2, 6), every=10)
    >>> [n for n in range(40) if schedule.due(n)]
    [2, 6, 16, 26, 36]
    >>> [n for n in range(25) if Schedule(every=10, last=3).due(n)]
    [8, 9, 10, 18, 19, 20]
    """

    times: tuple[int, ...] = ()
    every: int | None = None
    last: int = 1

    def __post_init__(self) -> None:
        times = tuple(positive_integer("times", time) for time in self.times)
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise UserError(f"times = {times}: each must be later than the one before")
        object.__setattr__(self, "times", times)
        if self.every is not None:
            object.__setattr__(self, "every", positive_integer("every", self.every))
        object.__setattr__(self, "last", positive_integer("last", self.last))
        if self.last > (self.every or 1):
            raise UserError(f"last = {self.last}: must be at most the period, every = {self.every}")

    @property
    def period(self) -> int | None:
        """The updates from each turn to the next, where they are as many from the start; else None."""
        return None if self.times or self.last > 1 else self.every

    @property
    def never(self) -> bool:
        return not self.times and self.every is None

    def turns_by(self, updates: Any) -> Any:
        """How many turns there are up to and including this update."""
        last = self.times[-1] if self.times else 0
        if isinstance(updates, (int, np.integer)):
            listed = bisect.bisect_right(self.times, int(updates))
            return listed + self._later(max(int(updates) - last, 0), max)
        updates = jnp.asarray(updates)
        turns = jnp.zeros_like(updates)
        if self.times:
            turns += jnp.searchsorted(jnp.asarray(self.times), updates, side="right")
        return turns + self._later(jnp.maximum(updates - last, 0), jnp.maximum)

    def _later(self, updates: Any, larger: Any) -> Any:
        """How many turns there are in so many updates after the times listed."""
        if self.every is None:
            return 0
        if self.last == 1:
            return updates // self.every
        return updates // self.every * self.last + larger(updates % self.every - (self.every - self.last), 0)

    def crossed(self, before: Any, after: Any) -> Any:
        """Whether a turn came after update `before`, and not later than update `after`."""
        return self.turns_by(after) > self.turns_by(before)

    def due(self, updates: Any) -> Any:
        """Whether there is a turn at exactly this update."""
        return self.crossed(updates - 1, updates)

    def multiple_of(self, updates: int) -> bool:
        """Whether all turns come at multiples of so many updates."""
        return not any(time % updates for time in (*self.times, self.every or 0)) and (updates == 1 or self.last == 1)

    def next_after(self, updates: int) -> int | None:
        """The first turn later than this update; None if there is none.

        >>> Schedule(every=250).next_after(250)
        500
        """
        at = bisect.bisect_right(self.times, updates)
        if at < len(self.times):
            return self.times[at]
        if self.every is None:
            return None
        last = self.times[-1] if self.times else 0
        period, passed = divmod(max(updates - last, 0), self.every)
        return last + period * self.every + max(passed + 1, self.every - self.last + 1)


def as_schedule(every_updates: int | Schedule | None) -> Schedule:
    """A whole number is a period, None stands for never.

    >>> as_schedule(250).period, as_schedule(None).never
    (250, True)
    """
    if isinstance(every_updates, Schedule):
        return every_updates
    return Schedule() if every_updates is None else Schedule(every=positive_integer("every_updates", every_updates))


def growing(first_updates: int, factor: float, most_updates: int) -> Schedule:
    """Periods that grow by `factor`, from `first_updates` up to `most_updates`, rounded to whole updates.

    >>> growing(10, 2.0, 50)
    Schedule(times=(10, 30, 70), every=50, last=1)
    """
    first = positive_integer("first_updates", first_updates)
    most = positive_integer("most_updates", most_updates)
    if not isinstance(factor, (int, float)) or not factor > 1.0:
        raise UserError(f"factor = {factor!r}: must be a number above 1, so that the period grows")
    times: list[int] = []
    period = float(first)
    while round(period) < most:
        if len(times) == MOST_TIMES:
            raise UserError(f"factor = {factor}: takes more than {MOST_TIMES} turns to grow to {most}; choose a larger")
        times.append((times[-1] if times else 0) + round(period))
        period *= factor
    return Schedule(tuple(times), most)


def positive_integer(name: str, value: Any, unit: str = "updates") -> int:
    """The whole number that `value` is, or one line that says what `name` must be."""
    try:
        number = operator.index(value)
    except (TypeError, jax.errors.JAXTypeError):
        number = 0
    if isinstance(value, bool) or number < 1:
        raise UserError(f"{name} = {value!r}: must be a whole number of {unit}, at least 1")
    return number
