"""`lookrep exact`: solve a finite problem, print a table or one JSON object, draw the paper's figure.

Only the words on the screen live here; problems, solver, certificate, audit and figures are in `lookrep.exact`.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lookrep.cli.parsing import optional, parse
from lookrep.exact.methods import ALIASES, METHODS, Method
from lookrep.exact.settings import TOLERANCE, Settings
from lookrep.files import check_figure_path, save_figure

if TYPE_CHECKING:
    from lookrep.exact.checks import Floats
    from lookrep.exact.solution import Solution
    from lookrep.exact.theory import Audit

ROWS_SHOWN = 13  # of states or parameters; --json has them all


OWN = "the problem's own"


@dataclass(frozen=True)
class Arguments:
    """Solve a finite Markov problem exactly, without sampling noise."""

    problem: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="PROBLEM")]
    """two-state, two-state-two-spaces, baird, tsitsiklis-van-roy, boyan, random:N,SEED, or a .toml problem file"""
    method: Literal[Method, "replicate", "no-target"] = "lr"
    """what follows what: docs/theory.md has a line on each; replicate is lr, no-target is td"""
    figure: Annotated[Path | None, optional("PATH", "none")] = None
    """write the paths in value and parameter space to this .png, .pdf or .svg"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print one JSON object and nothing else"""
    outer_iterations: Annotated[int | None, optional("T", OWN)] = None
    """how often Lookahead and Replicate alternate"""
    lookahead_updates: Annotated[int | None, optional("K_L", OWN)] = None
    """online updates per iteration; also the period of a copy"""
    replicate_updates: Annotated[int | None, optional("K_R", OWN)] = None
    """target updates per iteration"""
    lookahead_step_size: Annotated[float | Literal["auto"] | None, optional("α|auto", OWN)] = None
    """"auto" is one over the Lipschitz constant of the gradient"""
    replicate_step_size: Annotated[tuple[float, ...] | Literal["auto"] | None, optional("β [β ...]|auto", OWN)] = None
    """one number, K_R numbers, or "auto" as above"""
    tau: Annotated[float | None, optional("τ", "0.005")] = None
    """polyak: weight of the online network, after every online update"""
    kappa: Annotated[float | None, optional("κ", "1")] = None
    """functional, dqn-pro, value-proximal, chain, symmetric: weight of the term that keeps networks near"""
    networks: Annotated[int | None, optional("k", "5")] = None
    """averaged, distilled: the mean is of so many of the last online networks"""
    growth: Annotated[float | None, optional("FACTOR", "1.05")] = None
    """growing: from each period to the next"""
    longest_period: Annotated[int | None, optional("UPDATES", "2000")] = None
    """growing: where that ends"""
    batch_size: Annotated[int | None, optional("N", "expectations, no samples")] = None
    """draw so many transitions for every update"""
    seed: Annotated[int | None, optional("SEED", "0")] = None
    """of what is drawn"""
    audit: tyro.conf.FlagCreatePairsOff[bool] = False
    """also say which assumption of the paper's Theorem 1 fails, and by how much"""
    tolerance: float = TOLERANCE
    """largest absolute difference that counts as equal in the membership tests"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep exact")
    if arguments.figure is not None:
        check_figure_path(arguments.figure)
    from lookrep.exact.solution import as_json, solution  # JAX: --help and bad flags should not wait for it

    given = {field.name: getattr(arguments, field.name) for field in fields(Settings)}
    given = {name: value for name, value in given.items() if value is not None}
    given["method"] = ALIASES.get(arguments.method, arguments.method)
    found = solution(arguments.problem, given, arguments.tolerance, arguments.audit)
    if arguments.figure is not None:
        from lookrep.exact.figures import draw

        title = f"{Path(arguments.problem).name}, solved by {METHODS[given['method']].title}"
        save_figure(draw(found.problem, found.trace, title), arguments.figure)
    if arguments.json:
        print(json.dumps(as_json(found), allow_nan=False))
    else:
        _print_tables(arguments, found)
    return 0


def _print_tables(arguments: Arguments, result: "Solution") -> None:
    from lookrep.exact.solver import flat

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=80)
    settings, trace, found = result.settings, result.trace, result.certificate
    parts, sizes = METHODS[settings.method], result.sizes
    name = escape(Path(arguments.problem).name)
    console.print(f"[bold]{name}[/bold], {parts.title} ({settings.method}): {_recipe(settings)}")
    console.print(f"step sizes α = {sizes.lookahead:.4g}" + (_betas(sizes.replicate) if parts.descends_target else ""))
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
                "target θ": flat(trace.target)[-1],
                "limit of θ": found and found.limit_target,
                "online w": flat(trace.online)[-1],
                "limit of w": found and found.limit_online,
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
    facts.add_row("certificate", escape(_verdict(result)))
    broken = np.flatnonzero(~np.isfinite(trace.value_online).all(axis=1))
    if broken.size:
        facts.add_row("", f"left the floating-point range at outer iteration {broken[0]}")
    for words in _audited(result.audit) if result.audit is not None else ():
        facts.add_row(*words)
    if arguments.figure is not None:
        facts.add_row("figure", escape(str(arguments.figure)))
    console.print(facts)


def _verdict(result: "Solution") -> str:
    found, measured = result.certificate, _number(result.measured_rate)
    if found is None:
        return f"none: {result.uncertified}; measured rate {measured}"
    verdict = f"{'converges' if found.converges else 'does not converge'}; rate {_number(found.rate)}"
    if result.settings.batch_size is not None:
        return f"{verdict}, of the mean over all draws"
    settles = result.measured_rate is not None and result.measured_rate < 1.0
    exception = "; this start seems to be one of the few that settle all the same (docs/theory.md)"
    return f"{verdict}, measured {measured}{exception if settles and not found.converges else ''}"


def _audited(theory: "Audit") -> Iterator[tuple[str, str]]:
    constants = {"κ₁": theory.kappa1, "F_θ": theory.F_theta, "L": theory.L, "F_w": theory.F_w, "ζ": theory.zeta}
    texts = [f"{name}={'–' if value is None else f'{value:.4g}'}" for name, value in constants.items()]
    yield "Theorem 1's constants", ", ".join(texts)
    yield "Theorem 1 applies", ("yes: " if theory.holds else "no: ") + theory.why


def _recipe(settings: Settings) -> str:
    parts = METHODS[settings.method]
    words = [f"T = {settings.outer_iterations}", f"K_L = {settings.lookahead_updates}"]
    if parts.grows:
        words[-1] += f" × {settings.growth:g}ⁿ up to {settings.longest_period}"
    if parts.replicates:
        words.append(f"K_R = {settings.replicate_updates}")
    if parts.update == "mix":
        words.append(f"τ = {settings.tau:g}")
    if parts.proximal != "none":
        words.append(f"κ = {settings.kappa:g}")
    if parts.remembers:
        words.append(f"k = {settings.networks}")
    if settings.batch_size is not None:
        words.append(f"batches of {settings.batch_size}")
    return ", ".join(words)


def _betas(values: "Floats") -> str:
    low, high = values.min(), values.max()
    return f", β = {low:.4g}" if low == high else f", β from {low:.4g} to {high:.4g}"


def _columns(index: str, columns: "dict[str, Floats | None]") -> Table:
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


def _cell(column: "Floats | None", row: int) -> str:
    return "–" if column is None else _number(float(column[row]))


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "overflow"
    return f"{value:.6f}" if value == 0 or 1e-4 <= abs(value) < 1e6 else f"{value:.3e}"
