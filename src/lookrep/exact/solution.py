"""A problem solved, with everything the theory says about it: what `lookrep exact` and the exact studies report."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from lookrep.errors import UserError
from lookrep.exact.certificate import Certificate, certify
from lookrep.exact.checks import Floats
from lookrep.exact.membership import Membership, membership_of
from lookrep.exact.naming import named_problem
from lookrep.exact.problems import Problem, true_value
from lookrep.exact.rates import measured_rate
from lookrep.exact.sampled import solve_sampled
from lookrep.exact.settings import TOLERANCE, Settings, check
from lookrep.exact.sizes import StepSizes, step_sizes
from lookrep.exact.solver import Trace, flat, solve
from lookrep.exact.theory import Audit, audit


class Solution(NamedTuple):
    problem: Problem
    settings: Settings
    sizes: StepSizes
    trace: Trace
    truth: Floats
    membership: Membership
    certificate: Certificate | None
    uncertified: str  # why there is none
    measured_rate: float | None
    audit: Audit | None  # of Theorem 1, when asked for


def solution(name: str, changes: Mapping[str, Any], tolerance: float = TOLERANCE, audited: bool = False) -> Solution:
    """Solve the problem that `name` stands for, by its own settings but for `changes`."""
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise UserError(f"tolerance: {tolerance!r} is not a number of at least 0")
    problem, own = named_problem(name)
    settings = check(_changed(own, dict(changes)))
    theory = audit(problem, settings.lookahead_updates, settings.replicate_updates) if audited else None
    batch = settings.batch_size
    trace = solve(problem, settings) if batch is None else solve_sampled(problem, settings, batch, settings.seed)
    target, online = jax.tree.map(lambda leaf: leaf[-1], (trace.target, trace.online))
    certificate, uncertified = _certified(problem, settings)
    return Solution(
        problem=problem,
        settings=settings,
        sizes=step_sizes(problem, settings),
        trace=trace,
        truth=true_value(problem.process),
        membership=membership_of(problem, target, online, tolerance),
        certificate=certificate,
        uncertified=uncertified,
        # Of samples, noise is all that a late step measures.
        measured_rate=measured_rate(np.hstack([flat(trace.target), flat(trace.online)])) if batch is None else None,
        audit=theory,
    )


def _certified(problem: Problem, settings: Settings) -> tuple[Certificate | None, str]:
    try:
        return certify(problem, settings), ""
    except UserError as error:
        return None, str(error)


def as_json(found: Solution) -> dict[str, Any]:
    """The published keys; numbers that are not finite become null, because JSON has no word for them."""
    trace, certificate = found.trace, found.certificate
    result = {
        "target": flat(trace.target)[-1],
        "online": flat(trace.online)[-1],
        "value_target": trace.value_target[-1],
        "value_online": trace.value_online[-1],
        "value_true": found.truth,
        "function_gap": np.sqrt(trace.replicate_loss[-1]),
        "bellman_residual": np.sqrt(trace.lookahead_loss[-1]),
        "membership": found.membership._asdict(),
        "certificate": {
            **(dict.fromkeys(Certificate._fields) if certificate is None else certificate._asdict()),
            "measured_rate": found.measured_rate,
            "missing": found.uncertified or None,
        },
    }
    if found.audit is not None:
        theory = ("kappa1", "F_theta", "L", "F_w", "zeta", "holds", "why")
        result["assumptions"] = {name: getattr(found.audit, name) for name in theory}
    return {name: _finite(value) for name, value in result.items()}


def trace_rows(trace: Trace, most: int | None = None) -> list[dict[str, float]]:
    """Values and parameters of both networks along the outer iterations: all, or so many that are evenly spread."""
    names = ("value_target", "value_online", "target", "online")
    length = len(trace.value_target)
    rows = np.unique(np.linspace(0, length - 1, min(length, most or length)).round().astype(int)).tolist()
    columns = {f"{name}_{i + 1}": path for name in names for i, path in enumerate(flat(getattr(trace, name)).T)}
    return [{"outer_iteration": row, **{name: float(path[row]) for name, path in columns.items()}} for row in rows]


def _changed(settings: Settings, changes: dict[str, Any]) -> Settings:
    steps = changes.get("replicate_step_size")
    if isinstance(steps, list | tuple):
        changes["replicate_step_size"] = steps[0] if len(steps) == 1 else tuple(steps)
    elif steps is None and "replicate_updates" in changes and isinstance(settings.replicate_step_size, tuple):
        raise UserError("replicate_updates: the problem file lists one β per update; give --replicate-step-size too")
    return replace(settings, **changes)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return [_finite(entry) for entry in value]
    if value is None or isinstance(value, bool | str):
        return value
    return float(value) if math.isfinite(value) else None
