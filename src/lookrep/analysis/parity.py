"""Our training scores beside published ones, game by game and iteration by iteration.

The reference is a table of runs: columns `game`, `run`, `iteration`, `avg_return`, and perhaps `variant`, plain or
gzipped CSV: Dopamine publishes such curves. Runs of different variants are different things, each compared with ours by
itself. An iteration is 250 000 agent steps, counted from 0, and its score is the
sum of the returns of the episodes that ended in it over their number.
"""

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lookrep import config as configs
from lookrep.analysis.figures import style
from lookrep.errors import UserError
from lookrep.runs import metrics

ITERATION_STEPS = 250_000
Verdict = Literal["inside", "below", "above", "no reference"]
COLUMNS = ("game", "run", "iteration", "avg_return")
Scores = dict[tuple[str, int], list[float]]  # by game and iteration, one per agent or published run


class Comparison(NamedTuple):
    """One game in one iteration, beside one variant of the reference."""

    game: str
    iteration: int
    variant: str  # "" where the reference has no such column
    ours: np.ndarray  # one score per agent
    theirs: np.ndarray  # one score per published run; empty if there is none

    @property
    def verdict(self) -> Verdict:
        """Whether our mean lies within the range of the published runs."""
        if not len(self.theirs):
            return "no reference"
        mean = self.ours.mean()
        return "below" if mean < self.theirs.min() else "above" if mean > self.theirs.max() else "inside"


def squeezed(game: str) -> str:
    """A game's name without what people write differently.

    >>> squeezed("atari/RoadRunner"), squeezed("road_runner")
    ('roadrunner', 'roadrunner')
    """
    return game.rpartition("/")[2].lower().replace("_", "").replace("-", "")


def scores(run: str | Path) -> Scores:
    """A run's scores by game and whole iteration, one per agent. Agents without an ended episode are left out."""
    config = configs.load(run)
    data = metrics.read(run)
    if ITERATION_STEPS % config.log_interval_steps:
        raise UserError(
            f"{run}: log_interval_steps = {config.log_interval_steps} does not divide an iteration of "
            f"{ITERATION_STEPS:,} agent steps, so its scores cannot be told"
        )
    games = data.get("env", np.full(len(data["agent"]), config.env, object))
    episodes, steps = data["episodes"], data["agent_steps"]
    returns = np.where(episodes > 0, data["return_mean"], 0.0) * episodes
    iteration = (steps - 1) // ITERATION_STEPS
    whole = int(steps.max(initial=0)) // ITERATION_STEPS
    found: Scores = {}
    for game in dict.fromkeys(games):
        for number in range(whole):
            here = (games == game) & (iteration == number)
            scores = found.setdefault((str(game), number), [])
            for agent in np.unique(data["agent"][here]):
                mine = here & (data["agent"] == agent)
                if count := episodes[mine].sum():
                    scores.append(float(returns[mine].sum() / count))
    return found


def reference(path: str | Path, variant: str | None = None) -> dict[str, Scores]:
    """Published scores by variant, with games squeezed."""
    found: dict[str, Scores] = {}
    for row in _rows(Path(path)):
        if variant is None or row.get("variant") == variant:
            by_iteration = found.setdefault(row.get("variant") or "", {})
            by_iteration.setdefault((squeezed(row["game"]), int(row["iteration"])), []).append(float(row["avg_return"]))
    if not found:
        raise UserError(f"{path} has no scores" + (f" of variant '{variant}'" if variant else ""))
    return found


def compare(runs: Sequence[str | Path], path: str | Path, variant: str | None = None) -> list[Comparison]:
    """Every game and whole iteration of the runs, beside every variant or the one that is asked for; several runs of a
    game are taken together."""
    published = reference(path, variant)
    ours: Scores = {}
    for run in runs:
        for key, values in scores(run).items():
            ours.setdefault(key, []).extend(values)
    found = [
        Comparison(game, number, name, np.array(values), np.array(theirs.get((squeezed(game), number), [])))
        for (game, number), values in ours.items()
        if values
        for name, theirs in published.items()
    ]
    if not found:
        raise UserError(f"nothing to compare: no whole iteration of {ITERATION_STEPS:,} agent steps is there yet")
    return found


def rows_of(found: Sequence[Comparison]) -> list[dict[str, Any]]:
    """The comparison as a table."""

    def summary(name: str, values: np.ndarray) -> dict[str, float | None]:
        numbers = (values.mean(), values.min(), values.max()) if len(values) else (None,) * 3
        columns = (name, f"{name}_low", f"{name}_high")
        return {c: None if x is None else round(float(x), 2) for c, x in zip(columns, numbers, strict=True)}

    return [
        {
            "game": c.game.rpartition("/")[2],
            "iteration": c.iteration,
            "variant": c.variant,
            "agents": len(c.ours),
            **summary("ours", c.ours),
            "runs": len(c.theirs),
            **summary("theirs", c.theirs),
            "verdict": c.verdict,
        }
        for c in found
    ]


def draw(found: Sequence[Comparison]) -> Figure:
    """A panel for each game: the published runs' range and mean, of each variant, and ours."""
    games, variants = (list(dict.fromkeys(values)) for values in ((c.game for c in found), (c.variant for c in found)))
    blue, shades = style.BLUE, ("0.45", *style.OTHERS[1:])
    colors = [shades[i % len(shades)] for i in range(len(variants))]
    labels = [f"published{f' ({style.short(style.plain(name))})' if name else ''}" for name in variants]
    page = style.sheet(
        len(games),
        title="Training score by iteration: ours and published",
        handles=[
            *(
                Line2D([], [], color=color, linestyle="--", label=f"{label}: mean, and range of runs")
                for label, color in zip(labels, colors, strict=True)
            ),
            Line2D([], [], color=blue, marker="o", label="ours: mean and range of agents"),
        ],
        notes=[f"An iteration is {ITERATION_STEPS:,} agent steps; its score, the mean return of its episodes."],
    )
    for game, axes in zip(games, page.panels, strict=True):
        axes.set_title(style.game(game), fontsize=style.PANEL_SIZE)
        for variant, color in zip(variants, colors, strict=True):
            known = [c for c in found if c.game == game and c.variant == variant and len(c.theirs)]
            x = [c.iteration for c in known]
            low, high = ([float(f(c.theirs)) for c in known] for f in (np.min, np.max))
            axes.fill_between(x, low, high, color=color, alpha=0.35, linewidth=0)
            axes.vlines(x, low, high, color=color, alpha=0.35, linewidth=6)  # a band of one iteration has no width
            axes.plot(x, [float(c.theirs.mean()) for c in known], color=color, linestyle="--", marker="_")
        here = [c for c in found if c.game == game and c.variant == variants[0]]
        means = np.array([float(c.ours.mean()) for c in here])
        spread = [means - [float(c.ours.min()) for c in here], [float(c.ours.max()) for c in here] - means]
        axes.errorbar([c.iteration for c in here], means, spread, color=blue, marker="o", markersize=4, capsize=2)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(here[0].iteration - 0.5, here[-1].iteration + 0.5)
    page.upper.supxlabel("iteration", fontsize=style.LABEL_SIZE)
    page.upper.supylabel("score", fontsize=style.LABEL_SIZE)
    return page.figure


def _rows(path: Path) -> Iterator[dict[str, str]]:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", newline="") as file:
            table = csv.DictReader(file)
            missing = [name for name in COLUMNS if name not in (table.fieldnames or [])]
            if missing:
                raise UserError(f"{path}: column '{missing[0]}' is missing; a reference has {', '.join(COLUMNS)}")
            for number, row in enumerate(table, 2):
                try:
                    int(row["iteration"]), float(row["avg_return"])
                except (TypeError, ValueError):
                    raise UserError(f"{path} line {number}: not a score") from None
                yield row
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None
