"""How the figures look: colours, lines, type, and the sheet on which panels, legend and notes get their own places.

The colours and sizes are those of `lookrep.exact.figures`, so that all figures look like one set. Nothing here knows
what is drawn.
"""

import functools
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from matplotlib.font_manager import FontProperties
from matplotlib.gridspec import GridSpec
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.textpath import TextPath
from matplotlib.ticker import MaxNLocator

from lookrep.analysis.aggregate import Floats
from lookrep.analysis.bootstrap import Band
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Axis, target_settings

# Okabe and Ito's colours: told apart with any colour vision. Yellow is left out, it vanishes on white paper.
BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
)  # fmt: skip
OTHERS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
LINES: tuple[Any, ...] = ("--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (3, 2)))
MARKERS = ("s", "^", "D", "v", "P", "X")
TITLE_SIZE, PANEL_SIZE, LABEL_SIZE, SMALLEST_SIZE = 11.0, 10.0, 9.0, 8.0  # points
LEGEND_ROW, NOTE_ROW, TITLE_ROW = 0.2, 0.16, 0.32  # inches
NARROW_APART = 6  # so many panels stand below each other on a phone; more stand two in a row
PHONE = 3.9  # inches: what fits a phone without shrinking its type
NARROW_PANEL = 1.9  # inches: the least width of a panel of many
PADDING = 3 / 72  # inches around a panel
NAME_LETTERS = 44  # longer names are cut
SWEEP = 3  # from so many values of K_R on, a sweep's variants are shades in their order, not colours of their own


class Look(NamedTuple):
    """Three ways to tell a variant: grey print keeps the line and the marker."""

    color: Any
    linestyle: Any
    marker: str


class Drawing(Figure):
    """A figure that keeps what its layout is made of, so that it can be laid out again: see `lay_out`."""

    bands: GridSpec  # panels above, legend and notes below
    title = ""
    handles: Sequence[Any] = ()
    notes: Sequence[str] = ()
    columns = 1
    panel_size = (0.0, 0.0)  # inches


class Sheet(NamedTuple):
    figure: Drawing
    upper: SubFigure  # the panels' part, for labels that they share
    panels: list[Axes]


def plain(text: str) -> str:
    r"""Text from a user, shown as it is: no formula, no line breaks or other control characters.

    >>> print(plain("cost $x$"))
    cost \$x\$
    """
    return "".join(c if c.isprintable() else " " for c in text).replace("$", r"\$")


def short(text: str) -> str:
    """A name that leaves room for what it names."""
    return text if len(text) <= NAME_LETTERS else text[: NAME_LETTERS - 1] + "…"


def lines_of(text: str, inches: float, size: float) -> list[str]:
    """Plain text in lines that are no wider than this."""
    text = "".join(c if c.isprintable() else " " for c in text)
    letters = int(inches * 72 / max(_points_wide(text, size) / max(1, len(text)), 0.1) * 0.94)
    return [plain(line) for line in textwrap.wrap(text, max(8, letters))]


def fit(text: str, inches: float, size: float) -> str:
    return "\n".join(lines_of(text, inches, size))


def game(env: str) -> str:
    """An environment as the title of a panel.

    >>> game("minatar/space_invaders"), game("atari/UpNDown")
    ('space invaders', 'UpNDown')
    """
    return plain(env.rpartition("/")[2].replace("_", " ")) or plain(env)


def looks(results: Results) -> dict[str, Look]:
    """The baseline is black and solid; a sweep over K_R runs from dark to light; the rest take the colours in turn."""
    study = results.study
    found = {study.baseline: Look(BLACK, "-", "o")}
    swept = sweep(results)
    others = [variant.name for variant in study.variants if variant.name not in found]
    if len(swept) >= SWEEP:
        shades = mpl.colormaps["viridis"]
        for place, name in enumerate(name for name in swept if name in others):
            shade = shades(0.05 + 0.8 * place / max(1, len(swept) - 1))
            found[name] = Look(shade, LINES[place % len(LINES)], MARKERS[place % len(MARKERS)])
        others = [name for name in others if name not in found]
        colors: Sequence[str] = (PURPLE, VERMILION, ORANGE)  # none of viridis
    else:
        colors = OTHERS
    for place, name in enumerate(others):
        found[name] = Look(colors[place % len(colors)], LINES[place % len(LINES)], MARKERS[place % len(MARKERS)])
    return found


def sweep(results: Results) -> dict[str, int]:
    """The Replicate variants with their K_R, ascending; empty if two of them share one: then it is no sweep."""
    settings = {variant.name: target_settings(results, variant.name) for variant in results.study.variants}
    found = {name: int(s["replicate_updates"]) for name, s in settings.items() if s["target"] == "replicate"}
    distinct = len(set(found.values())) == len(found)
    return dict(sorted(found.items(), key=lambda item: item[1])) if distinct else {}


def legend_lines(results: Results, variants: Sequence[str]) -> list[Line2D]:
    every = looks(results)
    return [
        Line2D(
            [], [], color=look.color, linestyle=look.linestyle, linewidth=1.8, label=results.study.variant(name).label
        )
        for name, look in ((name, every[name]) for name in variants)
    ]


def sheet(
    count: int,
    *,
    title: str,
    handles: Sequence[Any] = (),
    notes: Sequence[str] = (),
    columns: int | None = None,
    size: tuple[float, float] | None = None,
) -> Sheet:
    """A figure with `count` panels above, then the legend, then the notes: three bands that cannot overlap."""
    columns = min(count, columns or (3 if count in (3, 5, 6, 9) else 4))
    rows = -(-count // columns)
    width, height = size or {1: (5.6, 3.3), 2: (3.9, 2.9), 3: (3.3, 2.5)}.get(columns, (2.5, 1.9))
    width, height = max(5.0, width * columns), height * rows
    figure = Drawing(layout="constrained")
    FigureCanvasAgg(figure)
    figure.bands = figure.add_gridspec(2, 1)
    upper, _ = (figure.add_subfigure(figure.bands[band]) for band in (0, 1))
    panels = [upper.add_subplot() for _ in range(count)]
    figure.title, figure.handles, figure.notes = title, handles, [note for note in notes if note]
    figure.columns, figure.panel_size = columns, (width / columns, height / rows)
    for axes in panels:
        _dress(axes)
    lay_out(figure)
    return Sheet(figure, upper, panels)


def lay_out(figure: Drawing, *, narrow: bool = False, worded: bool = True) -> None:
    """Give panels, legend and notes their places, again if need be: `narrow` as on a phone, with panels below each
    other, two in a row where they are many; without title and notes for a page that says them itself."""
    upper, lower = figure.subfigs
    columns, (panel_width, panel_height) = figure.columns, figure.panel_size
    count = len(upper.axes)
    if narrow:
        columns = 1 if count <= NARROW_APART else int(PHONE / NARROW_PANEL)
        panel_width = PHONE / columns
    rows = -(-count // columns)
    width, height = panel_width * columns, panel_height * rows
    legend_columns, legend_rows = _legend_shape(figure.handles, width)
    lines = [line for note in figure.notes for line in lines_of(note, width, SMALLEST_SIZE)] if worded else []
    below = LEGEND_ROW * legend_rows + NOTE_ROW * len(lines) + 0.12
    title_lines = lines_of(figure.title, width, TITLE_SIZE) if worded else []
    above = height + (TITLE_ROW + 0.17 * max(0, len(title_lines) - 1) if worded else 0.0)
    figure.set_size_inches(width, above + below)
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(h_pad=PADDING * (2 if narrow else 1))
    figure.bands.set_height_ratios([above, below])
    upper.suptitle("\n".join(title_lines), fontsize=TITLE_SIZE).set_in_layout(worded)
    grid = upper.add_gridspec(rows, columns)
    for index, axes in enumerate(upper.axes):
        axes.set_subplotspec(grid[index // columns, index % columns])
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(locator := axis.get_major_locator(), MaxNLocator):
                locator.set_params(nbins=4 if panel_width < 3 else 6)
        if narrow:  # what it had from its neighbour on the left
            axes.yaxis.label.set_visible(True)
            axes.tick_params(axis="y", labelleft=True)
    for old in (*lower.legends, *lower.texts):
        old.remove()
    if figure.handles:
        legend = lower.legend(
            handles=list(figure.handles),
            labels=[plain(short(str(handle.get_label()))) for handle in figure.handles],
            loc="upper center",
            ncols=legend_columns,
            frameon=False,
            fontsize=LABEL_SIZE,
            borderaxespad=0.0,
            borderpad=0.0,
            handlelength=2.6,
        )
        legend.set_in_layout(False)
    start = 1.0 - (LEGEND_ROW * legend_rows + 0.03) / below
    for index, line in enumerate(lines):
        lower.text(
            0.5,
            start - NOTE_ROW * index / below,
            line,
            ha="center",
            va="top",
            fontsize=SMALLEST_SIZE,
            color="0.25",
            in_layout=False,
        )


def stack(figure: Figure) -> None:
    """The same for a figure that is no sheet: without title, its panels below each other."""
    width, height = figure.get_size_inches()
    panels, below = list(figure.axes), 0.0
    deep = any(axes.name == "3d" for axes in panels)  # the label of its third axis is not reckoned with
    figure.set_layout_engine("constrained", rect=(0, 0, 0.93 if deep else 1, 1))
    figure.suptitle("").set_in_layout(False)
    for old in list(figure.legends):
        handles = old.legend_handles
        columns, rows = _legend_shape(handles, PHONE)
        below += LEGEND_ROW * rows
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, fontsize=LABEL_SIZE)
        old.remove()
    figure.set_size_inches(PHONE, PHONE * height / width * len(panels) ** 2 + below)
    grid = figure.add_gridspec(len(panels), 1)
    for place, axes in enumerate(panels):
        axes.set_subplotspec(grid[place, 0])


def curve(axes: Axes, look: Look, x: Floats, found: Band, *, label: str | None = None, width: float = 1.6) -> None:
    """A line in its band; the band is missing where there is no interval."""
    axes.fill_between(x, found.low, found.high, color=look.color, alpha=0.2, linewidth=0)
    axes.plot(x, found.value, color=look.color, linestyle=look.linestyle, linewidth=width, label=label)


def scale(largest: float) -> tuple[float, str]:
    """What to divide large counts by, and how to say so."""
    if largest >= 1e6:
        return 1e6, " (millions)"
    return (1e3, " (thousands)") if largest >= 1e4 else (1.0, "")


def axis_name(axis: Axis) -> str:
    return {
        "frames": "frames",
        "agent-steps": "agent steps",
        "gradient-steps": "gradient steps of both networks",
    }[axis]


def _dress(axes: Axes) -> None:
    axes.tick_params(labelsize=SMALLEST_SIZE)
    axes.grid(color="0.9", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    for direction in (axes.xaxis, axes.yaxis):
        direction.set_major_locator(MaxNLocator(steps=[1, 2, 2.5, 5, 10]))


def _legend_shape(handles: Sequence[Any], width: float) -> tuple[int, int]:
    """As many columns as fit into so many inches, and the rows that takes."""
    texts = [short(str(handle.get_label())) for handle in handles]
    widths = [_points_wide(text, LABEL_SIZE) for text in texts]
    for columns in range(len(texts), 1, -1):
        parts = np.array_split(widths, columns)  # as matplotlib deals them out
        if sum(part.max() + 50 for part in parts) <= width * 72:
            return columns, len(parts[0])
    return 1, len(texts)


@functools.lru_cache(1024)  # outlines take a while, and a page lays its figures out three times
def _points_wide(text: str, size: float) -> float:
    if not text.strip():
        return 0.0
    return float(TextPath((0, 0), plain(text), prop=FontProperties(size=size)).get_extents().width)
