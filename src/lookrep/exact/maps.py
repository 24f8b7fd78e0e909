"""The linear case: one outer iteration of any method as an affine map of z = (θ, w, earlier online networks).

Each part of a method (`methods.py`) writes the blocks that it changes; everything else stays. Affine maps are matrices
that act on (z, 1), so composing is multiplying. Nothing here runs an algorithm: that `solver.py` agrees is a test.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from lookrep.errors import UserError
from lookrep.exact.checks import Floats
from lookrep.exact.methods import METHODS, Parts
from lookrep.exact.problems import Problem, linear_chain
from lookrep.exact.settings import Settings, last_period
from lookrep.exact.sizes import StepSizes, check_method, step_sizes

RANK = 1e-12  # singular values of √D Φ below this, relative to the largest, count as zero
LARGEST = 2_000  # numbers in z: eigenvalues of more take minutes

Rows = dict[str, Floats]
"""An affine function of z: block → matrix, and under `CONSTANT` its value at 0."""

TARGET, ONLINE, BEFORE, CONSTANT = "target", "online", "one update ago", ""


class Step(NamedTuple):
    """An affine map of z, and columns that span what it can change."""

    matrix: Floats  # acts on (z, 1)
    moves: Floats


class OuterMap(NamedTuple):
    """z ↦ matrix · z + offset, with orthonormal bases of what can move and what never does; and where z starts."""

    matrix: Floats
    offset: Floats
    moving: Floats  # [numbers, moving directions]
    fixed: Floats  # [numbers, fixed directions]
    start: Floats


def outer_map(problem: Problem, settings: Settings) -> OuterMap:
    """One outer iteration of `settings.method`; with a growing period, one of the longest."""
    check_method(problem, settings.method)
    linear_chain(problem)  # refuses what is not
    parts = METHODS[settings.method]
    if not parts.affine:
        raise UserError(f"'{settings.method}' reads the smaller of two values: no single map decides its fate")
    space, start = _space(problem, settings, parts)
    steps = list(_Builder(problem, settings, step_sizes(problem, settings), parts, space).steps())
    powers = [np.linalg.matrix_power(step.matrix, times) for step, times in steps]
    matrix = reduce(lambda before, power: power @ before, powers)
    moving, fixed = _spanned(np.hstack([step.moves for step, _ in steps]))
    size = space.size
    return OuterMap(matrix[:size, :size], matrix[:size, size], moving, fixed, start)


@dataclass(frozen=True)
class Space:
    """Where each block of z lies."""

    blocks: dict[str, int]

    @property
    def size(self) -> int:
        return sum(self.blocks.values())

    def place(self, name: str) -> slice:
        before = 0
        for block, count in self.blocks.items():
            if block == name:
                break
            before += count
        return slice(before, before + (1 if name == CONSTANT else self.blocks[name]))

    def step(self, changed: dict[str, Rows], moves: dict[str, Floats]) -> Step:
        """The map that changes these blocks, all at once, along these directions."""
        matrix = np.eye(self.size + 1)
        for name, rows in changed.items():
            matrix[self.place(name)] = 0.0
            for block, part in rows.items():
                matrix[self.place(name), self.place(block)] = part[:, None] if part.ndim == 1 else part
        columns = [np.zeros((self.size, basis.shape[1])) for basis in moves.values()]
        for column, (name, basis) in zip(columns, moves.items(), strict=True):
            column[self.place(name)] = basis
        return Step(matrix, np.hstack(columns))


@dataclass(frozen=True)
class _Builder:
    problem: Problem
    settings: Settings
    sizes: StepSizes
    parts: Parts
    space: Space

    def steps(self) -> Iterator[tuple[Step, int]]:
        """What one outer iteration applies, in order, and how often."""
        update = self._online_update()
        if self.parts.update == "mix":
            update = _then(update, self._becomes(TARGET, {TARGET: 1.0 - self.settings.tau, ONLINE: self.settings.tau}))
        yield update, last_period(self.settings)
        if self.parts.turn == "copy":
            yield self._becomes(TARGET, {ONLINE: 1.0}), 1
        last = self._last_networks()
        shares = dict.fromkeys(last, 1.0 / len(last))
        if self.parts.turn == "average":
            yield self._becomes(TARGET, shares), 1
        if self.parts.replicates:  # Alg. 1, line 4: θ ← θ − 2β Φ_θᵀ D (Φ_θ θ − Φ_w w)
            for beta, repeats in _runs(self.sizes.replicate):
                error = _sum(self._values(TARGET), *(self._values(name, -share) for name, share in shares.items()))
                yield self.space.step({TARGET: self._descended(TARGET, error, beta)}, self._reached(TARGET)), repeats
        # Only now: the mean is of networks at the turn, the newest of which is w itself. One by one, the oldest first.
        for newer, older in reversed(list(itertools.pairwise(last))):
            yield self._becomes(older, {newer: 1.0}), 1

    def _online_update(self) -> Step:
        """w ← w − 2α Φᵀ D (Φ w − r − γ P Φ θ), as bootstrap and proximal term change it; and a target that follows."""
        parts, kappa = self.parts, self.settings.kappa
        read = {"target": TARGET, "online": ONLINE, "through": ONLINE}[parts.bootstrap]
        changed = {ONLINE: self._descended(ONLINE, self._towards(ONLINE, read), self.sizes.lookahead)}
        moves = self._reached(ONLINE)
        if parts.proximal == "parameters":
            pull = 2.0 * self.sizes.lookahead * kappa * np.eye(self.space.blocks[ONLINE])
            changed[ONLINE] = _sum(changed[ONLINE], {ONLINE: -pull, TARGET: pull})
            moves = {ONLINE: np.eye(len(pull))}
        elif parts.proximal == "churn":
            changed[BEFORE] = {ONLINE: np.eye(self.space.blocks[ONLINE])}
            moves |= {BEFORE: changed[BEFORE][ONLINE]}
        beta = self.sizes.replicate[0]
        if parts.update == "mirror":
            changed[TARGET] = self._descended(TARGET, self._towards(TARGET, ONLINE), beta)
        elif parts.update == "track":
            gap = _sum(self._values(TARGET), self._values(ONLINE, -1.0))
            changed[TARGET] = self._descended(TARGET, gap, beta)
        return self.space.step(changed, moves | (self._reached(TARGET) if TARGET in changed else {}))

    def _towards(self, name: str, read: str) -> Rows:
        """v_x − T v_y for the network x that learns and the one y that is read, and κ (v_x − what it is kept near)."""
        chain, _, _ = linear_chain(self.problem)
        ahead = {block: -chain.discount * (chain.transition @ part) for block, part in self._values(read).items()}
        error = _sum(self._values(name), ahead, {CONSTANT: -chain.reward})
        if self.parts.proximal in ("values", "churn"):
            near = TARGET if self.parts.proximal == "values" else BEFORE
            other = near if name == ONLINE else ONLINE
            error = _sum(error, self._values(name, self.settings.kappa), self._values(other, -self.settings.kappa))
        return error

    def _descended(self, name: str, error: Rows, size: float) -> Rows:
        """x ← x − 2 · size · (∂v_x)ᵀ D error."""
        pull = 2.0 * size * (self.problem.weighting[:, None] * self._slope(name)).T
        return _sum({name: np.eye(len(pull))}, {block: -pull @ part for block, part in error.items()})

    def _reached(self, name: str) -> dict[str, Floats]:
        """Gradients lie in the row space of √D ∂v."""
        return {name: _spanned((np.sqrt(self.problem.weighting)[:, None] * self._slope(name)).T)[0]}

    def _slope(self, name: str) -> Floats:
        features = self._values(name)[name]
        if self.parts.bootstrap != "through":
            return features
        chain, _, _ = linear_chain(self.problem)
        return np.asarray(features - chain.discount * (chain.transition @ features))

    def _values(self, name: str, factor: float = 1.0) -> Rows:
        _, online, target = linear_chain(self.problem)
        return {name: factor * (target if name == TARGET else online)}

    def _becomes(self, name: str, shares: dict[str, float]) -> Step:
        eye = np.eye(self.space.blocks[name])
        return self.space.step({name: {block: share * eye for block, share in shares.items()}}, {name: eye})

    def _last_networks(self) -> list[str]:
        """The newest first: w itself, then what it was at earlier turns."""
        return [ONLINE, *(name for name in self.space.blocks if name not in (TARGET, ONLINE, BEFORE))]


def _space(problem: Problem, settings: Settings, parts: Parts) -> tuple[Space, Floats]:
    start = {TARGET: np.asarray(problem.target_init), ONLINE: np.asarray(problem.online_init)}
    if parts.single:
        start[TARGET] = start[ONLINE]
    for age in range(1, settings.networks if parts.remembers else 1):
        # Before there are k online networks, the target stands for those of its own class.
        start[f"{age} turns ago"] = start[TARGET if parts.turn == "average" else ONLINE]
    if parts.proximal == "churn":
        start[BEFORE] = start[ONLINE]
    space = Space({name: len(params) for name, params in start.items()})
    if space.size > LARGEST:
        raise UserError(f"networks: all of them have {space.size} parameters; the certificate takes at most {LARGEST}")
    return space, np.concatenate(list(start.values()))


def _then(first: Step, second: Step) -> Step:
    return Step(second.matrix @ first.matrix, np.hstack([first.moves, second.moves]))


def _sum(*functions: Rows) -> Rows:
    found: Rows = {}
    for rows in functions:
        for block, part in rows.items():
            found[block] = found[block] + part if block in found else part
    return found


def _runs(values: Floats) -> list[tuple[float, int]]:
    """Consecutive equal values with their counts: a constant β needs one matrix power, not K_R products."""
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    lengths = np.diff(np.append(starts, len(values)))
    return [(float(values[start]), int(length)) for start, length in zip(starts, lengths, strict=True)]


def _spanned(columns: Floats) -> tuple[Floats, Floats]:
    """Orthonormal bases of what the columns span, and of the rest."""
    left, spread, _ = np.linalg.svd(columns)
    rank = int((spread > RANK * spread[0]).sum()) if spread.size and spread[0] > 0 else 0
    return left[:, :rank], left[:, rank:]
