"""One run as a picture: how its agents' returns and their networks' gap go over the steps."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lookrep.analysis.figures import style
from lookrep.errors import UserError
from lookrep.files import check_figure_path, save_figure

PANELS = {"return_mean": "return of an episode", "function_gap": "function gap $|q_θ − q_w|$"}


def draw(rows: Sequence[Mapping[str, Any]], title: str, path: Path) -> Path:
    """A line per agent, and their mean with its standard error; a panel of returns for each game, and one of gaps."""
    check_figure_path(path)
    save_figure(figure_of(rows, title), path)
    return path


def figure_of(rows: Sequence[Mapping[str, Any]], title: str, gap: bool = True) -> Figure:
    """The same, not written; on request without gaps."""
    if not rows:
        raise UserError("there is nothing to draw yet: the run has no row of metrics")
    games = list(dict.fromkeys(row.get("env") for row in rows))
    panels = [("return_mean", game) for game in games] + ([("function_gap", None)] if gap else [])
    figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
    for axes, (column, game) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        some = [row for row in rows if game is None or row.get("env") == game]
        _panel(axes, some, column)
        axes.set_title(game if game and len(games) > 1 else "", fontsize=9)
        axes.set_ylabel(PANELS[column])
    if len({(row.get("env"), row["agent"]) for row in rows}) > len(games):
        figure.axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    return figure


def _panel(axes: Axes, rows: Sequence[Mapping[str, Any]], column: str) -> None:
    steps = sorted({int(row["agent_steps"]) for row in rows})
    who = list(dict.fromkeys((row.get("env"), row["agent"]) for row in rows))
    values = np.full((len(who), len(steps)), np.nan)
    for row in rows:
        value = row[column]
        place = who.index((row.get("env"), row["agent"])), steps.index(int(row["agent_steps"]))
        values[place] = np.nan if value is None else value
    for line in values:
        axes.plot(steps, line, color="0.75", linewidth=0.8)
    known = (~np.isnan(values)).sum(axis=0)
    mean = np.nansum(values, axis=0) / np.where(known, known, np.nan)
    axes.plot(steps, mean, color=style.BLUE, linewidth=1.8, label="mean of the agents")
    if len(who) > 1:
        error = np.sqrt(np.nansum((values - mean) ** 2, axis=0) / np.maximum(known - 1, 1) / np.maximum(known, 1))
        low, high = mean - error, mean + error
        axes.fill_between(steps, low, high, color=style.BLUE, alpha=0.25, linewidth=0, label="± standard error")
    axes.set_xlabel("agent steps")
    axes.spines[["top", "right"]].set_visible(False)
