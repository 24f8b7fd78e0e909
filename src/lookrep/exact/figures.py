"""The paper's figures 1 and 8 for any finite problem: the paths in value space and in parameter space.

What fits is drawn as it is (up to 2 states, up to 3 parameters); larger spaces are shown along the directions in which
the paths move most. Only drawing lives here: it takes a trace and knows nothing about solvers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lookrep.exact.checks import Floats
from lookrep.exact.problems import Linear, Problem, ValueFunction, same_class, true_value
from lookrep.exact.solver import Trace, flat


class _Look(NamedTuple):
    """Okabe and Ito's blue and vermilion; style, width and marker differ too, for grey print and overlaps."""

    color: str
    linestyle: str
    linewidth: float
    marker: str
    size: float  # of the start and end markers; the smaller one is drawn on top


TARGET = _Look("#0072B2", "-", 2.2, "o", 9.0)
ONLINE = _Look("#D55E00", "--", 1.1, "s", 5.0)
SOLUTIONS: dict[str, Any] = {"color": "0.45", "linestyle": ":", "linewidth": 1.5}
STAR: dict[str, Any] = {
    "marker": "*",
    "markersize": 20,
    "markerfacecolor": "none",
    "markeredgecolor": "black",
    "linestyle": "none",
}
NEGLIGIBLE = 1e-6  # directions in which the paths move less than this, relative to the first, are not drawn


class _Path(NamedTuple):
    points: Floats  # [iterations, dimensions]
    look: _Look


def draw(problem: Problem, trace: Trace, title: str) -> Figure:
    """Value space on the left; then one parameter space if the networks share it, otherwise one for each."""
    truth = true_value(problem.process)
    shown = _drawable(trace, truth)
    if shown < len(trace.value_target):
        title += f" (diverges; drawn up to iteration {shown - 1})"
    values = [_Path(trace.value_target[:shown], TARGET), _Path(trace.value_online[:shown], ONLINE)]
    target, online = _Path(flat(trace.target)[:shown], TARGET), _Path(flat(trace.online)[:shown], ONLINE)
    spaces: list[tuple[list[_Path], ValueFunction, str, str]] = [
        ([target], problem.target, r"target parameters $\theta$", r"$\theta_{}$"),
        ([online], problem.online, r"online parameters $w$", "$w_{}$"),
    ]
    if same_class(problem):
        spaces = [([target, online], problem.target, "parameter space", "parameter {}")]
    panels = 1 + len(spaces)
    figure = Figure(figsize=(3.9 * panels, 4.2))
    FigureCanvasAgg(figure)
    figure.suptitle(title.replace("$", r"\$"), fontsize=11)  # a file's name is no formula
    _panel(figure, (1, panels, 1), values, "value space", "$v(s_{})$", truth=truth, largest=2)
    any_line = False
    for column, (paths, function, name, axis_name) in enumerate(spaces, start=2):
        line = _solutions(function, truth, paths)
        any_line |= line is not None
        _panel(figure, (1, panels, column), paths, name, axis_name, line=line)
    figure.legend(
        handles=_legend(any_line), loc="lower center", ncols=3 if panels == 2 else 6, frameon=False, fontsize=9
    )
    figure.subplots_adjust(
        left=0.2 / panels, right=1 - 0.14 / panels, bottom=0.26, top=0.84, wspace=0.24 if panels == 2 else 0.34
    )
    return figure


def _legend(any_line: bool) -> list[Line2D]:
    grey: dict[str, Any] = {"linestyle": "none", "marker": "D", "markersize": 6, "markeredgecolor": "0.3"}
    handles = [
        Line2D([], [], **_line_style(TARGET), label=r"target: $\theta$, $v_\theta$"),
        Line2D([], [], **_line_style(ONLINE), label=r"online: $w$, $v_w$"),
        Line2D([], [], **grey, markerfacecolor="white", label="start"),
        Line2D([], [], **grey, markerfacecolor="0.3", label="end"),
        Line2D([], [], **{**STAR, "markersize": 12}, label=r"true value $v^*$"),
    ]
    if any_line:
        handles.append(Line2D([], [], **SOLUTIONS, label=r"all parameters with value $v^*$"))
    return handles


def _line_style(look: _Look) -> dict[str, Any]:
    return {
        "color": look.color,
        "linestyle": look.linestyle,
        "linewidth": look.linewidth,
        "marker": look.marker,
        "markersize": look.size / 2.2,
    }


def _panel(
    figure: Figure,
    place: tuple[int, int, int],
    paths: Sequence[_Path],
    name: str,
    axis_name: str,
    truth: Floats | None = None,
    line: Floats | None = None,
    largest: int = 3,
) -> None:
    extra = [] if truth is None else [truth[None]]
    points, labels = _coordinates([path.points for path in paths] + extra, axis_name, largest)
    dimensions = points[0].shape[1]
    axes: Any = figure.add_subplot(*place, projection="3d" if dimensions == 3 else None)
    axes.set_title(name, fontsize=10)
    if line is not None and line.shape[1] == dimensions:
        axes.plot(*line.T, **SOLUTIONS)
    for path, drawn in zip(paths, points, strict=False):
        _draw_path(axes, path.look, drawn)
    if truth is not None:
        star = points[-1]
        if dimensions == 1:
            axes.axhline(star[0, 0], color="black", linewidth=0.8)
        axes.plot(*(star.T if dimensions > 1 else [[len(points[0]) - 1], star[0]]), **STAR, zorder=6)
    if dimensions == 1:
        labels = ["outer iteration", *labels]
    for letter, label in zip("xyz", labels, strict=False):
        getattr(axes, f"set_{letter}label")(label, fontsize=9)
        getattr(axes, f"{letter}axis").set_major_locator(
            MaxNLocator(4 if dimensions == 3 else 6, steps=[1, 2, 2.5, 5, 10], integer=label == "outer iteration")
        )
    axes.tick_params(labelsize=8)
    axes.margins(0.1)
    if dimensions == 3:
        axes.view_init(elev=22, azim=-52)
        axes.set_box_aspect(None, zoom=0.98)
    else:
        axes.grid(color="0.9", linewidth=0.6)
        axes.set_axisbelow(True)


def _draw_path(axes: Any, look: _Look, drawn: Floats) -> None:
    columns = [*drawn.T] if drawn.shape[1] > 1 else [np.arange(len(drawn)), drawn[:, 0]]
    axes.plot(*columns, **_line_style(look), markevery=_spaced(drawn), zorder=3)
    for index, face in ((0, "white"), (-1, look.color)):
        axes.plot(
            *([column[index]] for column in columns),
            marker=look.marker,
            markersize=look.size,
            markeredgecolor=look.color,
            markerfacecolor=face,
            markeredgewidth=1.4,
            linestyle="none",
            zorder=5,
        )


def _spaced(drawn: Floats) -> list[int]:
    """Iterations worth a marker: those that moved at least 2 % of the path's extent since the last one marked."""
    extent = float(np.linalg.norm(np.ptp(drawn, axis=0))) or 1.0
    kept = [0]
    for index in range(1, len(drawn)):
        if np.linalg.norm(drawn[index] - drawn[kept[-1]]) > 0.02 * extent:
            kept.append(index)
    return kept


def _coordinates(groups: list[Floats], axis_name: str, largest: int) -> tuple[list[Floats], list[str]]:
    """The points themselves where they fit, otherwise along their principal directions."""
    dimensions = groups[0].shape[1]
    if dimensions <= largest:
        return groups, [axis_name.format(i + 1) for i in range(dimensions)]
    everything = np.vstack(groups)
    center = everything.mean(axis=0)
    _, spread, directions = np.linalg.svd(everything - center, full_matrices=False)
    kept = max(1, int((spread[:largest] > NEGLIGIBLE * spread[0]).sum()))
    share = 100.0 * spread**2 / (float((spread**2).sum()) or 1.0)
    labels = [f"direction {i + 1} ({share[i]:.3g} %)" for i in range(kept)]
    return [(group - center) @ directions[:kept].T for group in groups], labels


def _solutions(function: ValueFunction, truth: Floats, paths: Sequence[_Path]) -> Floats | None:
    """Two ends of the line {x : v_x = v*}, when it is a line and the parameters are drawn as they are."""
    if not isinstance(function, Linear) or function.features.shape[1] not in (2, 3):
        return None
    solution, _, rank, _ = np.linalg.lstsq(function.features, truth, rcond=None)
    if function.features.shape[1] - rank != 1 or np.abs(function.features @ solution - truth).max() > 1e-9:
        return None
    direction = np.linalg.svd(function.features)[2][-1]
    reach = np.concatenate([(path.points - solution) @ direction for path in paths])
    extent = max(float(np.linalg.norm(np.ptp(path.points, axis=0))) for path in paths)
    margin = max(0.15 * float(np.ptp(reach)), 0.2 * extent)
    return solution + np.array([[reach.min() - margin], [reach.max() + margin]]) * direction


def _drawable(trace: Trace, truth: Floats) -> int:
    """How many rows to draw: a diverging path is cut once it leaves a hundred times the scale it started on."""
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(trace.value_target).max(axis=1), np.abs(trace.value_online).max(axis=1))
        scale = 1.0 + np.abs(truth).max() + size[0]
        away = np.flatnonzero(~(size <= 100.0 * scale))
    return max(2, int(away[0])) if away.size else len(size)
