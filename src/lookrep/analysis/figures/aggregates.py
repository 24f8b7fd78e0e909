"""Scores over all environments at once: Fig. 3 (curves by K_R), Fig. 4 (area against K_R), Fig. 6 (on two axes)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

from lookrep.analysis.bootstrap import Band
from lookrep.analysis.figures import notes, style
from lookrep.analysis.figures.per_game import Rows, averaged
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, Curves, Normalisation, curves, normalisation, target_settings
from lookrep.analysis.statistics import aggregate_curve, curve_area

AGGREGATE = "median"  # over environments, of the mean over seeds: the paper's


def fig3(results: Results, axis: Axis) -> tuple[Figure, Rows]:
    """One panel for each K_R; the variants that have none are in every panel, for comparison."""
    rule, swept = normalisation(results), style.sweep(results)
    others = [variant.name for variant in results.study.variants if variant.name not in swept]
    found = _curves(results, rule, axis, [variant.name for variant in results.study.variants])
    page = style.sheet(
        len(swept),
        title=f"{_measure(rule)}, by K_R",
        handles=[*style.legend_lines(results, others), *style.legend_lines(results, list(swept))],
        notes=[*notes.scores(results, rule), averaged(curve for curve, _ in found.values())],
    )
    for (name, updates), axes in zip(swept.items(), page.panels, strict=True):
        axes.set_title(f"$K_R$ = {updates:,}", fontsize=style.PANEL_SIZE)
        unit = _draw(results, axes, found, [*others, name])
        axes.sharey(page.panels[0])
    page.upper.supxlabel(style.axis_name(axis) + unit, fontsize=style.LABEL_SIZE)
    page.upper.supylabel("normalised score", fontsize=style.LABEL_SIZE)
    return page.figure, _rows(found, axis)


def fig4(results: Results) -> tuple[Figure, Rows]:
    """Area under the aggregate curve: Replicate by its K_R, the other variants as level lines."""
    rule, swept, looks = normalisation(results), style.sweep(results), style.looks(results)
    areas = {v.name: curve_area(results, v.name, rule, aggregate=AGGREGATE) for v in results.study.variants}
    others = [name for name in areas if name not in swept]
    taken = {looks[name].color for name in others}
    replicate = next((color for color in style.OTHERS if color not in taken), style.BLUE)
    handles = [
        Line2D([], [], color=replicate, marker="o", linewidth=1.6, label="Replicate"),
        *style.legend_lines(results, others),
    ]
    measure = _measure(rule)
    page = style.sheet(
        1,
        title=f"Area under the learning curve by K_R: {measure[0].lower()}{measure[1:]}",
        handles=handles,
        notes=[
            "Area over agent steps, divided by their number: the mean height of the curve.",
            *notes.scores(results, rule),
        ],
    )
    axes = page.panels[0]
    updates = np.array(list(swept.values()), float)
    values = np.array([areas[name] for name in swept])
    axes.plot(updates, values[:, 0], color=replicate, linewidth=1.6, marker="o", label="replicate")
    axes.vlines(updates, values[:, 1], values[:, 2], color=replicate, linewidth=1.4)
    for name in others:
        level = areas[name]
        axes.axhline(level.value, color=looks[name].color, linestyle=looks[name].linestyle, linewidth=1.6, label=name)
        if level.has_interval:
            axes.axhspan(level.low, level.high, color=looks[name].color, alpha=0.12, linewidth=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(updates.tolist()))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([f"{int(value):,}" for value in updates])
    periods = {int(target_settings(results, name)["target_period_updates"]) for name in swept}
    every = f" per {periods.pop():,} online updates ($K_L$)" if len(periods) == 1 else " per turn"
    axes.set_xlabel(f"target updates{every}: $K_R$", fontsize=style.LABEL_SIZE)
    axes.set_ylabel("mean height of the learning curve", fontsize=style.LABEL_SIZE)
    return page.figure, [
        {"variant": name, "replicate_updates": swept.get(name, ""), **notes.interval("area", area),
         "aggregate": AGGREGATE, "normalisation": rule.kind}
        for name, area in areas.items()
    ]  # fmt: skip


def fig6(results: Results, axes_shown: Sequence[Axis]) -> tuple[Figure, Rows]:
    """The aggregate curve of every variant, once for each axis: by data, and by computation."""
    rule = normalisation(results)
    variants = [variant.name for variant in results.study.variants]
    found = {axis: _curves(results, rule, axis, variants) for axis in axes_shown}
    page = style.sheet(
        len(axes_shown),
        title=_measure(rule),
        handles=style.legend_lines(results, variants),
        notes=[*notes.scores(results, rule), averaged(c for by_name in found.values() for c, _ in by_name.values())],
    )
    rows: Rows = []
    for axis, axes in zip(axes_shown, page.panels, strict=True):
        unit = _draw(results, axes, found[axis], variants)
        axes.set_xlabel(style.axis_name(axis) + unit, fontsize=style.LABEL_SIZE)
        axes.sharey(page.panels[0])
        rows += [{"axis": axis, **row} for row in _rows(found[axis], axis, "x")]
    page.upper.supylabel("normalised score", fontsize=style.LABEL_SIZE)
    return page.figure, rows


def _curves(
    results: Results, rule: Normalisation, axis: Axis, variants: Sequence[str]
) -> dict[str, tuple[Curves, Band]]:
    found = {}
    for name in variants:
        curve = curves(results, name, "return_mean", rule.environments, axis)
        found[name] = curve, aggregate_curve(rule.apply(curve.y), aggregate=AGGREGATE)
    return found


def _draw(results: Results, axes: Axes, found: dict[str, tuple[Curves, Band]], variants: Sequence[str]) -> str:
    looks = style.looks(results)
    divisor, unit = style.scale(max(curve.x[-1] for curve, _ in found.values()))
    for name in variants:
        curve, line = found[name]
        style.curve(axes, looks[name], curve.x / divisor, line, label=name)
    return unit


def _measure(rule: Normalisation) -> str:
    words = "environment" if len(rule.environments) == 1 else "environments"
    name = rule.name[0].upper() + rule.name[1:] if len(rule.environments) == 1 else f"{AGGREGATE.title()} {rule.name}"
    return f"{name}, {len(rule.environments)} {words}"


def _rows(found: dict[str, tuple[Curves, Band]], axis: Axis, x_name: str | None = None) -> Rows:
    return [
        {
            "variant": name,
            x_name or axis.replace("-", "_"): notes.number(curve.x[point]),
            **notes.interval(AGGREGATE, [edge[point] for edge in line]),
        }
        for name, (curve, line) in found.items()
        for point in range(len(curve.x))
        if not np.isnan(line.value[point])
    ]
