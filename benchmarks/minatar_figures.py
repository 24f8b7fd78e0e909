"""How the figures of docs/results/minatar.md are drawn. The numbers come from minatar_results.py."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator
from PIL import Image

from lookrep.analysis.bootstrap import Band, Estimate
from lookrep.analysis.figures import notes, style
from lookrep.analysis.figures.per_game import per_environment
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, curves
from lookrep.analysis.statistics import aggregate_curve

Points = dict[str, dict[float, Estimate]]  # a line for each name: x → value
COLORS = 128


class Panel(NamedTuple):
    title: str
    x_label: str
    lines: Points
    chosen: float | None = None  # an x to point out


class Spot(NamedTuple):
    """A variant in the scatter plots."""

    game: str
    group: str
    x: tuple[float, ...]  # one for each panel
    score: Estimate


def against(panels: Sequence[Panel], title: str, y_label: str, small: Sequence[str], chosen: str = "") -> Figure:
    """Scores against a setting on a logarithmic axis: a panel for each way to compare, a line for each game."""
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    looks = {name: (style.OTHERS[i], style.MARKERS[i]) for i, name in enumerate(names)}
    handles = [
        Line2D([], [], color=color, marker=marker, markersize=5, linewidth=1.6, label=name)
        for name, (color, marker) in looks.items()
    ]
    handles += [Line2D([], [], color="0.8", linewidth=7, label=chosen)] if chosen else [level()]
    page = style.sheet(len(panels), title=title, handles=handles, notes=small)
    for axes, panel in zip(page.panels, panels, strict=True):
        places = sorted({x for line in panel.lines.values() for x in line})
        logarithmic(axes, places)
        for index, (name, line) in enumerate(panel.lines.items()):
            color, marker = looks[name]
            x = np.array(list(line)) * 1.05 ** (index - (len(panel.lines) - 1) / 2)  # beside, not on, each other
            axes.plot(x, [y.value for y in line.values()], color=color, marker=marker, markersize=4.5, linewidth=1.6)
            axes.vlines(x, [y.low for y in line.values()], [y.high for y in line.values()], color=color, linewidth=1.3)
        if panel.chosen is None:
            axes.axhline(1.0, color=style.BLACK, linewidth=1.3)
            axes.set_ylim(bottom=0)
        else:
            axes.axvspan(panel.chosen / 1.15, panel.chosen * 1.15, color="0.88", linewidth=0, zorder=0)
        axes.set_title(panel.title, fontsize=style.PANEL_SIZE)
        axes.set_xlabel(panel.x_label, fontsize=style.LABEL_SIZE)
        axes.sharey(page.panels[0])
    page.panels[0].set_ylabel(y_label, fontsize=style.LABEL_SIZE)
    return page.figure


def forest(groups: Mapping[str, Mapping[str, Mapping[str, Estimate]]], title: str, small: Sequence[str]) -> Figure:
    """Group → variant → game → score: a row for each variant, a panel for each game, the best on top."""

    def height(variants: Mapping[str, Mapping[str, Estimate]]) -> float:
        return float(np.mean([score.value for by_game in variants.values() for score in by_game.values()]))

    ordered = sorted(groups, key=lambda group: height(groups[group]))
    rows = [
        (group, label, by_game)
        for group in ordered
        for label, by_game in sorted(groups[group].items(), key=lambda item: height(dict([item])))
    ]
    games = list(rows[0][2])
    colors = dict(zip(reversed(ordered), (*style.OTHERS, "0.3"), strict=False))
    handles = [Line2D([], [], color=color, marker="o", linewidth=1.6, label=group) for group, color in colors.items()]
    size = (4.4, 0.6 + 0.215 * len(rows))
    page = style.sheet(len(games), title=title, handles=[*handles, level()], notes=small, size=size)
    edges = [place - 0.5 for place in range(1, len(rows)) if rows[place][0] != rows[place - 1][0]]
    for axes, name in zip(page.panels, games, strict=True):
        axes.axvline(1.0, color=style.BLACK, linewidth=1.3)
        for place, (group, _, by_game) in enumerate(rows):
            value, low, high = by_game[name]
            axes.plot([low, high], [place, place], color=colors[group], linewidth=1.6)
            axes.plot([value], [place], color=colors[group], marker="o", markersize=5)
        axes.hlines(edges, 0, 1, transform=axes.get_yaxis_transform(), color="0.75", linewidth=0.7)
        axes.set_yticks(range(len(rows)), [style.plain(label) for _, label, _ in rows])
        axes.tick_params(axis="y", length=0, labelleft=axes is page.panels[0])
        axes.grid(visible=False, axis="y")
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_title(name, fontsize=style.PANEL_SIZE)
        axes.set_xlabel("final score relative to hard copy", fontsize=style.LABEL_SIZE)
        axes.sharex(page.panels[0])
        axes.set_xlim(left=0)
    return page.figure


def scatter(spots: Sequence[Spot], titles: Sequence[str], title: str, small: Sequence[str]) -> Figure:
    """Every variant as a point: against the reach of its target, and against the function gap."""
    games = list(dict.fromkeys(spot.game for spot in spots))
    colors = dict(zip(games, style.OTHERS, strict=False))
    markers = dict(zip(dict.fromkeys(spot.group for spot in spots), ("o", *style.MARKERS), strict=False))
    handles = [Line2D([], [], color=color, linewidth=5, label=name) for name, color in colors.items()]
    handles += [Line2D([], [], color="0.3", marker=m, linestyle="none", label=group) for group, m in markers.items()]
    page = style.sheet(2, title=title, handles=[*handles, level()], notes=small)
    labels = (
        "target steps × step size,\nrelative to the online network's",
        "function gap at the end,\nmean $|q_\\theta - q_w|$",
    )
    for place, axes in enumerate(page.panels):
        axes.axhline(1.0, color=style.BLACK, linewidth=1.3)
        for spot in spots:
            x = spot.x[place] * (1.06 ** (2 * games.index(spot.game) - len(games) + 1) if place == 0 else 1.0)
            color = colors[spot.game]
            axes.plot(x, spot.score.value, marker=markers[spot.group], markersize=5.5, color=color, alpha=0.85)
            axes.vlines(x, spot.score.low, spot.score.high, color=color, linewidth=0.9, alpha=0.6)
        axes.set_title(titles[place].replace("-", "−"), fontsize=style.LABEL_SIZE)
        axes.set_xlabel(labels[place], fontsize=style.LABEL_SIZE)
        axes.set_ylim(bottom=0)
    logarithmic(page.panels[0], (0.1, 0.2, 0.4, 1.0, 2.0, 4.0))
    page.panels[0].set_ylabel("final score relative to hard copy", fontsize=style.LABEL_SIZE)
    return page.figure


def learning(results: Results, whole: Sequence[str], small: Sequence[str]) -> Figure:
    """Learning curves of complete games: above by data, below by computation (side by side for a single game)."""
    page = _sheet(
        results,
        2 * len(whole),
        "The same curves by agent steps, and by gradient steps of both networks",
        small,
        max(2, len(whole)),
    )
    axes_shown: tuple[Axis, Axis] = ("agent-steps", "gradient-steps")
    for axes, (axis, env) in zip(page.panels, ((axis, env) for axis in axes_shown for env in whole), strict=True):
        for name, look in style.looks(results).items():
            curve = curves(results, name, "return_mean", [env], axis)
            style.curve(axes, look, curve.x / 1e6, Band(*(edge[:, 0] for edge in per_environment(curve))))
        axes.set_title(style.game(env), fontsize=style.PANEL_SIZE)
        axes.set_xlabel(f"{axis.replace('-', ' ')} (millions)", fontsize=style.LABEL_SIZE)
        axes.set_ylim(bottom=0)
    page.upper.supylabel("return", fontsize=style.LABEL_SIZE)
    return page.figure


def inside(results: Results, whole: Sequence[str], measures: Mapping[str, str], small: Sequence[str]) -> Figure:
    """What the metrics say about both networks over time, mean over complete games."""
    over = ", ".join(map(style.game, whole))
    page = _sheet(results, len(measures), f"Inside the agents: {over}", small, 3)
    for axes, (column, name) in zip(page.panels, measures.items(), strict=True):
        for variant, look in style.looks(results).items():
            curve = curves(results, variant, column, whole, "agent-steps")
            style.curve(axes, look, curve.x / 1e6, aggregate_curve(curve.y, aggregate="mean"), width=1.4)
        axes.set_title(name, fontsize=style.PANEL_SIZE)
        axes.set_ylim(bottom=0)
    page.upper.supxlabel("agent steps (millions)", fontsize=style.LABEL_SIZE)
    return page.figure


def _sheet(results: Results, count: int, title: str, small: Sequence[str], columns: int) -> style.Sheet:
    handles = style.legend_lines(results, [variant.name for variant in results.study.variants])
    return style.sheet(count, title=title, handles=handles, notes=[notes.seeds(results), *small], columns=columns)


def level() -> Line2D:
    return Line2D([], [], color=style.BLACK, linewidth=1.3, label="hard copy = 1")


def logarithmic(axes: Axes, marks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{mark:g}" for mark in marks])


def save(figure: Figure, path: Path) -> None:
    """A PNG with few colours: a fraction of the size, and no difference to be seen."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=170)
    Image.open(buffer).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE).save(path, optimize=True)
