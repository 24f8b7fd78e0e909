"""Which method converges on which problem: every certificate over a sweep of step sizes, periods and own settings.

    python benchmarks/who_converges.py                    # four minutes on one core; docs/results/exact/
    python benchmarks/who_converges.py --chains 50 --out /tmp/exact
    python benchmarks/who_converges.py --chains 150 --check   # certificates beside runs, on `hard`; writes nothing

Writes `sweep.csv` (a row for each method, setting and problem), `who_converges.csv` (the figure's numbers) and
`who_converges.png`, `.svg`. `docs/results/exact.md` says what is seen.
"""

import argparse
import dataclasses
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: matrices of ten rows gain nothing from threads

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from lookrep.exact import Problem, Settings, certify, measured_rate, solve_many, step_sizes, true_value
from lookrep.exact.builtin import baird, boyan, random_chain, tsitsiklis_van_roy, two_state, two_state_two_spaces
from lookrep.exact.methods import METHODS, Method
from lookrep.exact.problems import same_class
from lookrep.exact.settings import last_period
from lookrep.files import as_csv, save_figure, write_whole

STEPS = (0.1, 1.0, 1.9)  # of the automatic step size; gradient descent diverges from 2 on
PERIODS = (1, 10, 100, 1000)
LONGEST = 10_000  # growing
KAPPAS = (0.1, 1.0, 10.0)
DISCOUNT = 0.99
STATES, FEW, MANY = 8, 5, 10  # of the random chains; features that cannot, and that can represent every value
MEASURED_UPDATES = 20_000  # of a method without a certificate

Setting = dict[str, Any]

COPIES = [{"lookahead_updates": period} for period in PERIODS]
NEAR = [{**copy, "kappa": kappa} for copy in COPIES for kappa in KAPPAS]

# The figure's rows: the method, and what is swept besides the step size.
ROWS: dict[str, tuple[Method, list[Setting]]] = {
    "residual": ("residual", [{}]),
    "td": ("td", [{}]),
    "asymmetric": ("asymmetric", [{"beta": factor} for factor in (0.1, 1.0)]),
    "symmetric": ("symmetric", [{"kappa": kappa} for kappa in KAPPAS]),
    "polyak": ("polyak", [{"tau": tau} for tau in (0.001, 0.01, 0.1)]),
    "hard": ("hard", COPIES),
    "growing": ("growing", [{"longest_period": LONGEST}]),
    "averaged": ("averaged", [{**copy, "networks": k} for copy in COPIES for k in (2, 5)]),
    "value-proximal": ("value-proximal", NEAR),
    "dqn-pro": ("dqn-pro", NEAR),
    "functional": ("functional", NEAR),
    "chain": ("chain", NEAR),
    "minto (measured)": ("minto", COPIES),
    "lr, K_R = 1": ("lr", [{**copy, "replicate_updates": 1} for copy in COPIES]),
    "lr, K_R = 100": ("lr", [{**copy, "replicate_updates": 100} for copy in COPIES]),
    "distilled, K_R = 100": ("distilled", [{**copy, "replicate_updates": 100, "networks": 5} for copy in COPIES]),
}
# The figure's lines: of a row, these settings.
LINES: dict[str, tuple[str, Setting]] = {
    "hard": ("hard", {}),
    "lr, K_R = 1": ("lr, K_R = 1", {}),
    "lr, K_R = 100": ("lr, K_R = 100", {}),
    "averaged, k = 5": ("averaged", {"networks": 5}),
    "functional, κ = 1": ("functional", {"kappa": 1.0}),
    "dqn-pro, κ = 1": ("dqn-pro", {"kappa": 1.0}),
    "value-proximal, κ = 1": ("value-proximal", {"kappa": 1.0}),
    "chain, κ = 1": ("chain", {"kappa": 1.0}),
    "minto (measured)": ("minto (measured)", {}),
}
KNOBS = ("lookahead_updates", "replicate_updates", "kappa", "tau", "networks", "beta", "longest_period")


def problems(chains: int) -> dict[str, list[Problem]]:
    """Columns of the figure. Every chain is there with its own and with a random weighting of its states."""

    def drawn(stationary: bool, features: int) -> list[Problem]:
        return [
            random_chain(STATES, seed, None, None, DISCOUNT, stationary, features, concentration=0.1)
            for seed in range(features % 2, chains, 2)
        ]

    return {
        "paper, one space": [two_state()],
        "paper, two spaces": [two_state_two_spaces()],
        "Boyan": [boyan()],
        "Baird": [baird()],
        "w → 2w": [tsitsiklis_van_roy()],
        "on-policy": drawn(True, FEW) + drawn(True, MANY),
        "off-policy, wide": drawn(False, MANY),
        "off-policy, tall": drawn(False, FEW),
    }


def settings_of(problem: Problem, method: Method, step: float, setting: Setting) -> Settings:
    """Both step sizes are the automatic ones times `step`; `beta` is a further factor on the target's."""
    given = {name: value for name, value in setting.items() if name != "beta"}
    settings = Settings(method, 1, given.pop("lookahead_updates", 1), **given)
    sizes = step_sizes(problem, settings)
    beta = step * setting.get("beta", 1.0) * float(sizes.replicate[0])
    return dataclasses.replace(
        settings,
        lookahead_step_size=step * sizes.lookahead,
        replicate_step_size=beta if METHODS[method].descends_target else "auto",
    )


class Outcome(NamedTuple):
    converges: bool
    rate: float  # of one online update
    error: float  # where it ends


def certified(problem: Problem, settings: Settings) -> Outcome:
    found = certify(problem, settings)
    error = _error(problem, problem.online(found.limit_online)) if found.converges else math.nan
    return Outcome(found.converges, found.rate ** (1 / last_period(settings)), error)


def measured(tasks: Sequence[Problem], method: Method, step: float, setting: Setting) -> list[Outcome]:
    """The same seen in runs, for a method that has no certificate."""
    shapes = dict.fromkeys(len(task.online_init) for task in tasks)
    if len(shapes) > 1:  # what runs together has one shape
        parts = {shape: [task for task in tasks if len(task.online_init) == shape] for shape in shapes}
        found = {shape: iter(measured(part, method, step, setting)) for shape, part in parts.items()}
        return [next(found[len(task.online_init)]) for task in tasks]
    settings = [settings_of(task, method, step, setting) for task in tasks]
    period = settings[0].lookahead_updates
    sizes = [step_sizes(task, each) for task, each in zip(tasks, settings, strict=True)]
    runs = dataclasses.replace(settings[0], outer_iterations=max(MEASURED_UPDATES // period, 20))
    trace = solve_many(tasks, dataclasses.replace(runs, lookahead_step_size="auto"), sizes)
    outcomes = []
    for values in trace.value_online:
        rate = measured_rate(values)
        converges = bool(np.isfinite(values[-1]).all()) and (rate is None or rate < 1.0)
        # No error: a slow run is not yet where it will end.
        outcomes.append(Outcome(converges, math.nan if rate is None else rate ** (1 / period), math.nan))
    return outcomes


def _error(task: Problem, values: Any) -> float:
    """The largest error of a value, relative to the largest true value or 1."""
    truth = true_value(task.process)
    return float(np.abs(values - truth).max() / max(1.0, np.abs(truth).max()))


def rows(columns: dict[str, list[Problem]]) -> Iterator[dict[str, Any]]:
    """One for each method, setting and column."""
    settings = [(row, method, setting) for row, (method, each) in ROWS.items() for setting in each]
    for (row, method, setting), step, (column, tasks) in itertools.product(settings, STEPS, columns.items()):
        if METHODS[method].one_class and not same_class(tasks[0]):
            continue
        if METHODS[method].affine:
            outcomes = [certified(task, settings_of(task, method, step, setting)) for task in tasks]
        else:
            outcomes = measured(tasks, method, step, setting)
        yield {
            "method": row,
            "problem": column,
            "step": step,
            **{name: setting.get(name, "") for name in KNOBS},
            "problems": len(tasks),
            "converging": sum(found.converges for found in outcomes),
            "rate_per_update": _shown(np.median([found.rate for found in outcomes])),
            "error": _shown(np.median([found.error for found in outcomes if found.converges] or [math.nan])),
        }


def agreement(columns: dict[str, list[Problem]]) -> tuple[int, int, float]:
    """On `hard`: where runs and certificates say the same, of how many cases; and how far from 1 the others' rates
    are, at most."""
    agree, cases, furthest = 0, 0, 0.0
    chains = [column for column in columns.values() if len(column) > 1]
    for (method, setting), step, tasks in itertools.product([("hard", copy) for copy in COPIES], STEPS, chains):
        runs = measured(tasks, method, step, setting)
        for task, seen in zip(tasks, runs, strict=True):
            certain = certified(task, settings_of(task, method, step, setting))
            cases += 1
            if seen.converges == certain.converges:
                agree += 1
            else:
                furthest = max(furthest, abs(certain.rate - 1.0))
    return agree, cases, furthest


def _shown(number: float) -> str:
    return f"{number:.12g}"  # of a rate near 1, the last digits are what tells


def summary(found: list[dict[str, Any]], columns: Sequence[str]) -> list[dict[str, Any]]:
    """For each method and column: what share of all settings and problems converges, and with the best one setting."""
    table = []
    for method, column in itertools.product(ROWS, columns):
        own = [row for row in found if row["method"] == method and row["problem"] == column]
        if own:
            shares = [row["converging"] / row["problems"] for row in own]
            best = max(own, key=lambda row: (row["converging"], -float(row["rate_per_update"])))
            table.append(
                {
                    "method": method,
                    "problem": column,
                    "settings": len(own),
                    "share": round(float(np.mean(shares)), 4),
                    "best_share": round(max(shares), 4),
                    **{f"best_{name}": best[name] for name in ("step", *KNOBS, "error")},
                    "best_updates_per_digit": _updates_per_digit(float(best["rate_per_update"])),
                }
            )
    return table


def _updates_per_digit(rate: float) -> str:
    """Online updates after which an error is a tenth."""
    return f"{-math.log(10) / math.log(rate):.3g}" if 0.0 < rate < 1.0 else ""


def draw(table: list[dict[str, Any]], found: list[dict[str, Any]], columns: Sequence[str]) -> Figure:
    """Left: a cell for each method and problem. Right: what the period does to the chains off policy."""
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.55, 1))
    _draw_cells(left.add_subplot(), table, columns)
    wide, tall = right.subplots(2, 1, sharex=True)
    for axes, column in ((wide, "off-policy, wide"), (tall, "off-policy, tall")):
        _draw_periods(axes, found, column)
    tall.set_xlabel("online updates between two turns of the target")
    right.legend(*tall.get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center", frameon=False)
    return figure


def _draw_cells(axes: Any, table: list[dict[str, Any]], columns: Sequence[str]) -> None:
    methods = list(ROWS)
    shares = np.full((len(methods), len(columns)), np.nan)
    for row in table:
        place = methods.index(row["method"]), list(columns).index(row["problem"])
        shares[place] = row["share"]
        dark = row["share"] < 0.35 or row["share"] > 0.85
        axes.text(
            *place[::-1],
            f"{100 * row['share']:.0f}" + ("" if row["best_share"] < 1.0 else "*"),
            ha="center", va="center", fontsize=9, color="white" if dark else "black",
        )  # fmt: skip
    axes.imshow(shares, cmap=colormaps["RdYlBu"].with_extremes(bad="0.9"), vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=35, ha="right", fontsize=9)
    axes.set_yticks(range(len(methods)), methods, fontsize=9)
    axes.set_title("settings that converge, in %    (* one of them does on all problems of its column)", fontsize=10)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _draw_periods(axes: Any, found: list[dict[str, Any]], column: str) -> None:
    at_one = [row for row in found if row["problem"] == column and row["step"] == 1.0]
    for (label, (method, setting)), marker in zip(LINES.items(), "osD^v<>XP", strict=True):
        own = {
            row["lookahead_updates"]: 100 * row["converging"] / row["problems"]
            for row in at_one
            if row["method"] == method and all(row[name] == value for name, value in setting.items())
        }
        axes.plot(list(own), list(own.values()), marker=marker, markersize=5, linewidth=1.4, label=label)
    (td,) = [100 * row["converging"] / row["problems"] for row in at_one if row["method"] == "td"]
    axes.axhline(td, color="0.3", linestyle=":", linewidth=1.4, label="td: no target")
    axes.set_xscale("log")
    axes.set_title(f"{column}: converging chains in %, automatic step size", fontsize=10)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=1000, help="random chains, half of them with many features")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "results" / "exact")
    parser.add_argument("--check", action="store_true", help="runs beside certificates, on hard copies of the chains")
    arguments = parser.parse_args(argv)
    if arguments.check:
        agree, cases, furthest = agreement(problems(arguments.chains))
        print(f"{agree:,} of {cases:,} agree; the rates of the others are within {furthest:.1e} of 1")
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    columns = problems(arguments.chains)
    found = list(rows(columns))
    table = summary(found, list(columns))
    write_whole(arguments.out / "sweep.csv", as_csv(found))
    write_whole(arguments.out / "who_converges.csv", as_csv(table))
    for kind in ("png", "svg"):
        save_figure(draw(table, found, list(columns)), arguments.out / f"who_converges.{kind}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
