"""Learning curves, one panel for each environment: Fig. 2 (the ablation), Figs. 9 and 10 (all games, in two parts)."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from lookrep.analysis.aggregate import environment_means
from lookrep.analysis.bootstrap import Band, band
from lookrep.analysis.figures import notes, style
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, Curves, curves

Rows = list[dict[str, Any]]
PART = 28  # games in Fig. 9: seven rows of four, as in the paper; the rest is Fig. 10


def draw(results: Results, axis: Axis, environments: Sequence[str], title: str) -> tuple[Figure, Rows]:
    variants = [variant.name for variant in results.study.variants]
    found = {name: curves(results, name, "return_mean", environments, axis) for name in variants}
    bands = {name: per_environment(curve) for name, curve in found.items()}
    unfinished = [member for curve in found.values() for member in curve.unfinished]
    page = style.sheet(
        len(environments),
        title=title,
        handles=style.legend_lines(results, variants),
        notes=[
            f"Mean return of training episodes. {notes.seeds(results)}",
            averaged(found.values()),
            *notes.exceptions(results, unfinished),
        ],
    )
    looks = style.looks(results)
    divisor, unit = style.scale(max((curve.x[-1] for curve in found.values() if len(curve.x)), default=1.0))
    for place, (env, axes) in enumerate(zip(environments, page.panels, strict=True)):
        axes.set_title(style.game(env), fontsize=style.PANEL_SIZE)
        for name in variants:
            line = Band(*(values[:, place] for values in bands[name]))
            style.curve(axes, looks[name], found[name].x / divisor, line, label=name, width=1.4)
    page.upper.supxlabel(style.axis_name(axis) + unit, fontsize=style.LABEL_SIZE)
    page.upper.supylabel("return", fontsize=style.LABEL_SIZE)
    return page.figure, rows(found, bands, environments, axis, "return_mean")


def per_environment(found: Curves) -> Band:
    """The mean over seeds with its interval: [points, environments] each; no interval where there is one run."""
    if not len(found.x):
        empty = np.empty((0, found.y.shape[-1]))
        return Band(empty, empty, empty)
    result = band(environment_means, found.y)
    single = (~np.isnan(found.y)).sum(axis=1) < 2
    return Band(result.value, *(np.where(single, np.nan, edge) for edge in (result.low, result.high)))


def averaged(found: Iterable[Curves]) -> str:
    """Said where points stand for several intervals."""
    most = max((curve.intervals_per_point for curve in found), default=1)
    return f"Each point is the mean of {most} intervals of the metrics." if most > 1 else ""


def rows(
    found: dict[str, Curves],
    bands: dict[str, Band],
    environments: Sequence[str],
    axis: Axis,
    column: str,
) -> Rows:
    """The numbers drawn: one row for each environment, variant and point."""
    return [
        {
            "environment": env,
            "variant": name,
            axis.replace("-", "_"): notes.number(curve.x[point]),
            "measure": column,
            **notes.interval("mean", [edge[point, place] for edge in bands[name]]),
            "runs": int((~np.isnan(curve.y[point, :, place])).sum()),
        }
        for place, env in enumerate(environments)
        for name, curve in found.items()
        for point in range(len(curve.x))
        if not np.isnan(bands[name].value[point, place])
    ]
