"""`lookrep exact`: solve a finite problem, print a table or one JSON object, draw the paper's figure.

Only the words on the screen live here; problems, solver, certificate, audit and figures are in `lookrep.exact`.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lookrep.commands.parsing import parse
from lookrep.errors import UserError
from lookrep.exact.certificate import Certificate, certify
from lookrep.exact.figures import check_figure_path, draw, save
from lookrep.exact.membership import DEFAULT_TOLERANCE, Membership, membership_of
from lookrep.exact.naming import named_problem
from lookrep.exact.problems import Floats, Problem, true_value
from lookrep.exact.rates import measured_rate
from lookrep.exact.settings import Method, Settings, check, step_sizes
from lookrep.exact.solver import Trace, solve
from lookrep.exact.theory import Audit, audit

ROWS_SHOWN = 13  # of states or parameters; --json has them all


def _flag(metavar: str, default: str = "the problem's own") -> Any:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True)
class Arguments:
    """Solve a finite Markov problem exactly, without sampling noise."""

    problem: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PROBLEM")]
    """two-state, two-state-two-spaces, baird, tsitsiklis-van-roy, boyan, random:N,SEED, or a .toml problem file"""
    method: Method = "lr"
    """Lookahead-Replicate, TD without target, TD with a hard or Polyak target, or the residual gradient"""
    figure: Annotated[Path | None, _flag("PATH", "none")] = None
    """write the paths in value and parameter space to this .png, .pdf or .svg"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print one JSON object and nothing else"""
    outer_iterations: Annotated[int | None, _flag("T")] = None
    """how often Lookahead and Replicate alternate"""
    lookahead_updates: Annotated[int | None, _flag("K_L")] = None
    """online updates per iteration; also the period of td-hard's copy"""
    replicate_updates: Annotated[int | None, _flag("K_R")] = None
    """target updates per iteration"""
    lookahead_step_size: Annotated[float | Literal["auto"] | None, _flag("α|auto")] = None
    """"auto" is one over the Lipschitz constant of the gradient"""
    replicate_step_size: Annotated[tuple[float, ...] | Literal["auto"] | None, _flag("β [β ...]|auto")] = None
    """one number, K_R numbers, or "auto" as above"""
    tau: Annotated[float | None, _flag("τ", "0.005")] = None
    """weight of the online network in td-polyak's update, applied after every online update"""
    tolerance: float = DEFAULT_TOLERANCE
    """largest absolute difference that counts as equal in the membership tests"""


class Result(NamedTuple):
    problem: Problem
    settings: Settings
    trace: Trace
    truth: Floats
    membership: Membership
    certificate: Certificate
    measured_rate: float | None
    audit: Audit


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep exact")
    if arguments.figure is not None:
        check_figure_path(arguments.figure)
    result = run(arguments)
    if arguments.figure is not None:
        title = f"{Path(arguments.problem).name}, method {arguments.method}"
        save(draw(result.problem, result.trace, title), arguments.figure)
    if arguments.json:
        print(json.dumps(as_json(result), allow_nan=False))
    else:
        _print_tables(arguments, result)
    return 0


def run(arguments: Arguments) -> Result:
    """Everything the command reports, as data."""
    if not (math.isfinite(arguments.tolerance) and arguments.tolerance >= 0):
        raise UserError(f"tolerance: {arguments.tolerance!r} is not a number of at least 0")
    problem, settings = named_problem(arguments.problem)
    settings = check(_override(settings, arguments))
    trace = solve(problem, settings)
    return Result(
        problem=problem,
        settings=settings,
        trace=trace,
        truth=true_value(problem.process),
        membership=membership_of(problem, trace.target[-1], trace.online[-1], arguments.tolerance),
        certificate=certify(problem, settings),
        measured_rate=measured_rate(np.hstack([trace.target, trace.online])),
        audit=audit(problem, settings.lookahead_updates, settings.replicate_updates),
    )


def _override(settings: Settings, arguments: Arguments) -> Settings:
    names = ("outer_iterations", "lookahead_updates", "replicate_updates", "lookahead_step_size", "tau")
    given: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    steps = arguments.replicate_step_size
    if steps is not None:
        given["replicate_step_size"] = steps[0] if isinstance(steps, tuple) and len(steps) == 1 else steps
    elif "replicate_updates" in given and isinstance(settings.replicate_step_size, tuple):
        raise UserError("replicate_updates: the problem file lists one β per update; give --replicate-step-size too")
    return replace(settings, method=arguments.method, **given)


def as_json(result: Result) -> dict[str, Any]:
    """The published keys; numbers that are not finite become null, because JSON has no word for them."""
    trace, found, theory = result.trace, result.certificate, result.audit
    return _finite(
        {
            "target": trace.target[-1],
            "online": trace.online[-1],
            "value_target": trace.value_target[-1],
            "value_online": trace.value_online[-1],
            "value_true": result.truth,
            "function_gap": np.sqrt(trace.replicate_loss[-1]),
            "bellman_residual": np.sqrt(trace.lookahead_loss[-1]),
            "membership": result.membership._asdict(),
            "certificate": {
                "rate": found.rate,
                "converges": found.converges,
                "limit_target": found.limit_target,
                "limit_online": found.limit_online,
                "measured_rate": result.measured_rate,
            },
            "assumptions": {
                "kappa1": theory.kappa1,
                "F_theta": theory.F_theta,
                "L": theory.L,
                "F_w": theory.F_w,
                "zeta": theory.zeta,
                "holds": theory.holds,
                "why": theory.why,
            },
        }
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return [_finite(entry) for entry in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    return float(value) if math.isfinite(value) else None


def _print_tables(arguments: Arguments, result: Result) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=80)
    settings, trace, found, theory = result.settings, result.trace, result.certificate, result.audit
    sizes = step_sizes(result.problem, settings)
    console.print(f"[bold]{escape(Path(arguments.problem).name)}[/bold], method {settings.method}: {_recipe(settings)}")
    console.print(
        f"step sizes α = {sizes.lookahead:.4g}" + (_betas(sizes.replicate) if settings.method == "lr" else "")
    )
    console.print(
        _columns(
            "state",
            {
                "true value v*": result.truth,
                "target v_θ": trace.value_target[-1],
                "online v_w": trace.value_online[-1],
            },
        )
    )
    console.print(
        _columns(
            "parameter",
            {
                "target θ": trace.target[-1],
                "limit of θ": found.limit_target,
                "online w": trace.online[-1],
                "limit of w": found.limit_online,
            },
        )
    )
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("function gap ‖v_θ − v_w‖_D", _number(math.sqrt(trace.replicate_loss[-1])))
    facts.add_row("Bellman residual ‖v_w − T v_θ‖_D", _number(math.sqrt(trace.lookahead_loss[-1])))
    inside = [f"F_{name}: {'yes' if member else 'no'}" for name, member in result.membership._asdict().items()]
    facts.add_row(f"in the set (± {arguments.tolerance:g})", "   ".join(inside))
    verdict = "converges" if found.converges else "does not converge"
    facts.add_row("certificate", f"{verdict}; rate {_number(found.rate)}, measured {_number(result.measured_rate)}")
    broken = np.flatnonzero(~np.isfinite(trace.value_online).all(axis=1))
    if broken.size:
        facts.add_row("", f"left the floating-point range at outer iteration {broken[0]}")
    constants = {"κ₁": theory.kappa1, "F_θ": theory.F_theta, "L": theory.L, "F_w": theory.F_w, "ζ": theory.zeta}
    texts = [f"{name}={'–' if value is None else f'{value:.4g}'}" for name, value in constants.items()]
    facts.add_row("Theorem 1's constants", ", ".join(texts))
    facts.add_row("Theorem 1 applies", ("yes: " if theory.holds else "no: ") + theory.why)
    if arguments.figure is not None:
        facts.add_row("figure", escape(str(arguments.figure)))
    console.print(facts)


def _recipe(settings: Settings) -> str:
    text = f"T = {settings.outer_iterations}, K_L = {settings.lookahead_updates}"
    if settings.method == "lr":
        return text + f", K_R = {settings.replicate_updates}"
    return text + (f", τ = {settings.tau:g}" if settings.method == "td-polyak" else "")


def _betas(values: Floats) -> str:
    low, high = values.min(), values.max()
    return f", β = {low:.4g}" if low == high else f", β from {low:.4g} to {high:.4g}"


def _columns(index: str, columns: dict[str, Floats | None]) -> Table:
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column(index, justify="right")
    for name in columns:
        grid.add_column(name, justify="right")
    length = max(len(column) for column in columns.values() if column is not None)
    for row in range(min(length, ROWS_SHOWN)):
        cells = ("" if column is not None and row >= len(column) else _cell(column, row) for column in columns.values())
        grid.add_row(str(row + 1), *cells)
    if length > ROWS_SHOWN:
        grid.add_row("…", *(f"{length - ROWS_SHOWN} more" for _ in columns))
    return grid


def _cell(column: Floats | None, row: int) -> str:
    return "–" if column is None else _number(float(column[row]))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "overflow"
    return f"{value:.6f}" if value == 0 or 1e-4 <= abs(value) < 1e6 else f"{value:.3e}"
