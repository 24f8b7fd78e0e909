"""What happens inside the agents over time: Fig. 5 (both norms), function gap, distance, agreement, residual."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from lookrep.analysis.aggregate import nanmean
from lookrep.analysis.bootstrap import Band
from lookrep.analysis.figures import notes, style
from lookrep.analysis.figures.per_game import Rows, averaged, per_environment, rows
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, Curves, curves, run_name
from lookrep.analysis.statistics import aggregate_curve

PANELS_APART = 5  # up to so many environments have panels of their own; more are averaged
START = 0.05  # share of training whose transients may leave the picture
ROOM = 1.1


class Measure(NamedTuple):
    column: str
    name: str  # as the label of an axis


NORMS = (
    Measure("norm_online", r"online network, $\|w\|$"),
    Measure("norm_target", r"target network, $\|\theta\|$"),
)
GAP = (
    Measure("function_gap", r"function gap, mean $|q_\theta - q_w|$"),
    Measure("parameter_distance", r"parameter distance, $\|\theta - w\|$"),
)
AGREEMENT = (
    Measure("argmax_agreement", "greedy actions that agree"),
    Measure("r2_advantages", r"differences between actions, $R^2$"),
    Measure("r2_state_values", r"level of a state, $R^2$"),
)
RESIDUAL = (Measure("bellman_residual", r"Bellman residual, mean $|r + \gamma \max q_\theta - q_w|$"),)


class Panel(NamedTuple):
    measure: Measure
    env: str  # empty for the mean over environments
    lines: dict[str, tuple[Curves, Band]]  # by variant


def draw(
    results: Results, axis: Axis, measures: tuple[Measure, ...], title: str, *, apart: bool = True, level: bool = False
) -> tuple[Figure, Rows]:
    """One row of panels for each measure; `apart` gives few environments their own, `level` one scale to all panels."""
    environments = results.study.environments
    variants = [variant.name for variant in results.study.variants]
    found = {m: {v: curves(results, v, m.column, environments, axis) for v in variants} for m in measures}
    apart = apart and len(environments) <= PANELS_APART
    begun = [env for env in environments if _begun(results, env)]
    panels, every_row = [], []
    for measure, by_variant in found.items():
        bands = {name: per_environment(curve) for name, curve in by_variant.items()}
        every_row += rows(by_variant, bands, environments, axis, measure.column)
        for place, env in enumerate(environments if apart else ()):
            cut = {name: Band(*(edge[:, place] for edge in bands[name])) for name in variants}
            panels.append(Panel(measure, env, {name: (by_variant[name], cut[name]) for name in variants}))
        if not apart:
            places = [environments.index(env) for env in begun]
            mean = {v: (c, aggregate_curve(c.y[..., places], aggregate="mean")) for v, c in by_variant.items()}
            panels.append(Panel(measure, "", mean))
            whole = {v: (c, Band(*(edge[:, None] for edge in line))) for v, (c, line) in mean.items()}
            every_row += rows(
                {v: c._replace(y=nanmean(c.y[..., places], axis=-1)[..., None]) for v, (c, _) in whole.items()},
                {v: line for v, (_, line) in whole.items()},
                ["(mean)"],
                axis,
                measure.column,
            )
    return _page(results, axis, panels, title, begun, level).figure, every_row


def _page(results: Results, axis: Axis, panels: list[Panel], title: str, begun: list[str], level: bool) -> style.Sheet:
    environments = list(dict.fromkeys(panel.env for panel in panels))
    measures = list(dict.fromkeys(panel.measure for panel in panels))
    columns = max(len(environments), len(measures)) if 1 in (len(environments), len(measures)) else len(environments)
    drawn = [curve for panel in panels for curve, _ in panel.lines.values()]
    tops = [_top(panel) for panel in panels]
    page = style.sheet(
        len(panels),
        title=title,
        handles=style.legend_lines(results, list(panels[0].lines)),
        notes=_notes(results, panels, begun, drawn, any(top < highest for top, highest in tops)),
        columns=columns,
        size={1: (5.6, 3.3), 2: (3.9, 2.9), 3: (2.6, 2.2)}.get(columns, (2.2, 2.0)),
    )
    looks = style.looks(results)
    divisor, unit = style.scale(max((curve.x[-1] for curve in drawn if len(curve.x)), default=1.0))
    for index, (axes, panel, (top, _)) in enumerate(zip(page.panels, panels, tops, strict=True)):
        for name, (curve, line) in panel.lines.items():
            style.curve(axes, looks[name], curve.x / divisor, line, label=name, width=1.4)
        if len(environments) == 1:  # one environment, or their mean: a column for each measure
            axes.set_title(panel.measure.name, fontsize=style.PANEL_SIZE)
        else:
            axes.set_title(style.game(panel.env), fontsize=style.PANEL_SIZE)
            label = axes.set_ylabel(panel.measure.name.replace(", ", ",\n"), fontsize=style.SMALLEST_SIZE)
            label.set_visible(index % columns == 0)
        if top > 0:
            axes.set_ylim(0, (max(t for t, _ in tops) if level else top) * ROOM)
    page.upper.supxlabel(style.axis_name(axis) + unit, fontsize=style.LABEL_SIZE)
    return page


def _notes(
    results: Results, panels: list[Panel], begun: list[str], drawn: list[Curves], beginning_cut: bool
) -> list[str]:
    absent = dict.fromkeys(
        f"{results.study.variant(name).label} has no {panel.measure.column.replace('_', ' ')}."
        for panel in panels
        for name, (curve, _) in panel.lines.items()
        if len(curve.x) and np.isnan(curve.y).all()
    )
    mean = ""
    if not panels[0].env and len(results.study.environments) > 1:
        waiting = [env for env in results.study.environments if env not in begun]
        without = f", without {notes.some(waiting)}, where not every variant has begun" if waiting else ""
        mean = f"Mean over {len(begun)} environment{'s' * (len(begun) != 1)}{without}. "
    unfinished = {run_name(member): member for curve in drawn for member in curve.unfinished}
    return [
        mean + notes.seeds(results),
        averaged(drawn),
        "The beginning of training leaves the picture where it is far above the rest." if beginning_cut else "",
        " ".join(absent),
        *notes.exceptions(results, list(unfinished.values())),
    ]


def _begun(results: Results, env: str) -> bool:
    """Whether every variant has metrics there: a mean over environments must be over the same ones for all."""
    return all(any(member.columns for member in results.of(env, v.name)) for v in results.study.variants)


def _top(panel: Panel) -> tuple[float, float]:
    """How high the picture must reach, and the highest value: less than that if only the start is far above."""
    late, every = [0.0], [0.0]
    for curve, line in panel.lines.values():
        edge = np.fmax(line.value, line.high)
        seen = ~np.isnan(edge)
        if seen.any():
            late.append(float(edge[seen & (curve.x >= curve.x[0] + START * np.ptp(curve.x))].max(initial=0.0)))
            every.append(float(edge[seen].max()))
    return (max(late), max(every)) if max(every) > 2 * max(late) > 0 else (max(every), max(every))
