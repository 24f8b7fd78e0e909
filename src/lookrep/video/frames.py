"""The frame: title, the game's screen or the agent's view, a row per action, and the numbers of the moment.

What never changes is painted once; a frame is that picture, copied, with the moving parts on top. Everything is drawn
at twice the size and then halved, which smooths edges and text. Coordinates below are final pixels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image

from lookrep.playing import Recording
from lookrep.video.observations import Colour, photographs, screen
from lookrep.video.pen import SCALE, Pen, shortened, text_width
from lookrep.video.values import Rows, rows

WIDTH, HEIGHT = 800, 470  # of a frame with a square view

BACKGROUND: Colour = (13, 17, 23)
ROW: Colour = (20, 25, 34)
CHOSEN: Colour = (38, 47, 63)
FAINT: Colour = (44, 52, 66)
MUTED: Colour = (139, 148, 158)
TEXT: Colour = (230, 237, 243)
# Okabe and Ito's orange and sky blue: told apart with any colour vision.
ONLINE: Colour = (230, 159, 0)
TARGET: Colour = (86, 180, 233)

SIDE = 320  # of the view; a screen that is taller than wide may be higher
MOST_VIEW_HEIGHT = 420  # Atari's 160 × 210, twice as large
LEFT, TOP = 20, 48
PANEL_LEFT, PANEL_RIGHT = LEFT + SIDE + 24, WIDTH - 20
NAME_WIDTH, MOST_NAME_WIDTH, NUMBER_WIDTH = 80, 150, 92
NAME_MARGINS = 12, 8
PLOT_RIGHT = PANEL_RIGHT - NUMBER_WIDTH


class Canvas(NamedTuple):
    """Where things are in one video: it is as high as its view asks, and names take the room that they need."""

    view_height: int
    rows: int
    name_width: float

    @property
    def bottom(self) -> int:
        return TOP + self.view_height

    @property
    def height(self) -> int:
        return self.view_height + HEIGHT - SIDE

    @property
    def tiles_top(self) -> int:
        return self.height - 52

    @property
    def row_height(self) -> float:
        return self.view_height / self.rows

    @property
    def name_size(self) -> int:
        return 13 if self.row_height > 24 else 10

    @property
    def plot_left(self) -> float:
        return PANEL_LEFT + self.name_width

    @property
    def tiles(self) -> tuple[tuple[float, str], ...]:
        gap = (self.plot_left, "function gap |q_θ − q_w|")
        return (LEFT, "episode"), (LEFT + 90, "step"), (LEFT + 180, "return so far"), gap


class Labels(NamedTuple):
    """The words of a video."""

    title: str
    subtitle: str
    actions: tuple[str, ...]
    channels: tuple[str, ...] | None = None  # of the observations, where they have names


class Film:
    """A recording as a sequence of pictures."""

    def __init__(self, recording: Recording, labels: Labels) -> None:
        self.recording = recording
        self.rows = rows(recording, labels.actions)
        self.canvas = _canvas(recording, self.rows)
        room = self.canvas.name_width - sum(NAME_MARGINS) + 1
        short = [shortened(name, self.canvas.name_size, room, bold=True) for name in self.rows.names]
        self.rows = self.rows._replace(names=tuple(short))
        if recording.screens is None:
            self.screen = screen(recording.observations, SIDE * SCALE, labels.channels)
        else:
            self.screen = photographs(recording.observations, SIDE * SCALE, self.canvas.view_height * SCALE)
        starts = np.flatnonzero(np.diff(recording.episodes, prepend=-1))
        first = np.repeat(starts, np.diff(np.append(starts, len(recording.actions))))
        self.steps = np.arange(len(recording.actions)) - first
        before = np.cumsum(recording.rewards, dtype=np.float64) - recording.rewards
        self.earned = before - before[first]  # in this episode, up to the state that is shown
        self._background = self._still(labels)

    def __len__(self) -> int:
        return len(self.recording.actions)

    def __iter__(self) -> Iterator[Image.Image]:
        return (self.frame(t) for t in range(len(self)))

    def frame(self, t: int) -> Image.Image:
        """The picture of step t, `WIDTH` × `canvas.height`."""
        recording, canvas = self.recording, self.canvas
        image = self._background.copy()
        view = recording.observations[t] if recording.screens is None else recording.screens[t]
        image.paste(Image.fromarray(self.screen.paint(view)), (LEFT * SCALE, TOP * SCALE))
        pen = Pen(image)
        for i, action in enumerate(self.rows.actions):
            _row(pen, canvas, self.rows, t, i, chosen=bool(recording.actions[t] == action))
        numbers = (
            str(recording.episodes[t] + 1),
            str(self.steps[t]),
            f"{self.earned[t]:.10g}",
            _number(recording.function_gap[t], self.rows.decimals + 1),
        )
        for (x, _), number in zip(canvas.tiles, numbers, strict=True):
            pen.text(x, canvas.tiles_top + 28, number, 18, TEXT, bold=True)
        return image.reduce(SCALE)

    def _still(self, labels: Labels) -> Image.Image:
        """The parts of the picture that never change."""
        canvas, bottom = self.canvas, self.canvas.bottom
        image = Image.new("RGB", (WIDTH * SCALE, canvas.height * SCALE), BACKGROUND)
        pen = Pen(image)
        pen.text(LEFT, 24, labels.title, 15, TEXT, bold=True)
        pen.text(PANEL_RIGHT, 24, labels.subtitle, 12, MUTED, anchor="rm")
        _legend(pen, bottom, self.screen.legend, self.screen.caption)
        for tick in self.rows.ticks:
            pen.text(_x(canvas, self.rows, tick), bottom + 10, f"{tick:.6g}".replace("-", "−"), 11, MUTED, anchor="mm")
        what = "return" if self.rows.edges is not None else "value"
        pen.text(PANEL_RIGHT - 12, bottom + 10, what, 11, MUTED, anchor="rm")
        if len(self.rows.actions) < len(labels.actions):
            some = f"{len(self.rows.actions)} of {len(labels.actions)}"
            pen.text(PANEL_LEFT + 12, bottom + 10, some, 11, MUTED)
        distributions = self.rows.edges is not None
        left = canvas.plot_left
        for x, name, colour in ((left, "online network w", ONLINE), (left + 132, "target network θ", TARGET)):
            fill = _mix(colour, 0.8) if not distributions else _mix(colour, 0.4) if colour == ONLINE else None
            pen.box(x, bottom + 26, x + 14, bottom + 36, fill, colour if distributions else None)
            pen.text(x + 20, bottom + 31, name, 12, TEXT)
        pen.box(LEFT, canvas.tiles_top, PANEL_RIGHT, canvas.tiles_top + 1, FAINT)
        for x, label in canvas.tiles:
            pen.subscripted(x, canvas.tiles_top + 11, label, 11, MUTED)
        return image


def _canvas(recording: Recording, what: Rows) -> Canvas:
    view_height = SIDE
    if recording.screens is not None:
        height, width = recording.screens[0].shape[:2]
        view_height = min(max(round(SIDE * height / width / 2) * 2, SIDE), MOST_VIEW_HEIGHT)  # even, for mp4
    canvas = Canvas(view_height, len(what.actions), NAME_WIDTH)
    widest = max(text_width(name, canvas.name_size, bold=True) for name in what.names)  # the chosen one's is bold
    return canvas._replace(name_width=min(max(round(widest) + sum(NAME_MARGINS), NAME_WIDTH), MOST_NAME_WIDTH))


def _legend(pen: Pen, bottom: int, legend: tuple[tuple[str, Colour], ...], caption: str) -> None:
    if caption:
        pen.text(LEFT, bottom + 11, caption, 11, MUTED)
    x, y = float(LEFT), bottom + 11
    for name, colour in legend:
        width = 22 + pen.width(name, 11)
        if x > LEFT and x + width > LEFT + SIDE:
            x, y = LEFT, y + 15
        pen.box(x, y - 5, x + 9, y + 4, colour)
        pen.text(x + 13, y, name, 11, MUTED)
        x += width


def _row(pen: Pen, canvas: Canvas, what: Rows, t: int, i: int, *, chosen: bool) -> None:
    height = canvas.row_height
    top, bottom = round(TOP + i * height), round(TOP + (i + 1) * height) - (4 if height > 30 else 2)
    middle = (top + bottom) / 2
    pen.box(PANEL_LEFT, top, PANEL_RIGHT, bottom, CHOSEN if chosen else ROW)
    if chosen:
        pen.box(PANEL_LEFT, top, PANEL_LEFT + 4, bottom, TEXT)
    pen.text(
        PANEL_LEFT + NAME_MARGINS[0], middle, what.names[i], canvas.name_size, TEXT if chosen else MUTED, bold=chosen
    )
    for tick in what.ticks:
        x = _x(canvas, what, tick)
        pen.box(x - 0.5, top, x + 0.5, bottom, _mix(MUTED, 0.55 if tick == 0 else 0.22, CHOSEN if chosen else ROW))
    values = (float(what.online_values[t, i]), float(what.target_values[t, i]))
    if what.edges is None:
        _bars(pen, canvas, what, values, top, bottom)
    else:
        _histograms(pen, canvas, what, t, i, values, top, bottom, CHOSEN if chosen else ROW)
    for value, colour, above in zip(values, (ONLINE, TARGET), (True, False), strict=True):
        text = _number(value, what.decimals)
        if height >= 36:
            pen.text(PANEL_RIGHT - 12, middle + (-8 if above else 9), text, 13, colour, anchor="rm")
        else:
            pen.text(PANEL_RIGHT - (50 if above else 8), middle, text, 10, colour, anchor="rm")


def _bars(pen: Pen, canvas: Canvas, what: Rows, values: tuple[float, float], top: int, bottom: int) -> None:
    thickness = min((bottom - top) * 0.32, 18.0)
    middle, zero = (top + bottom) / 2, _x(canvas, what, 0.0)
    for value, colour, start in ((values[0], ONLINE, middle - thickness - 1), (values[1], TARGET, middle + 1)):
        left, right = sorted((zero, _x(canvas, what, value)))
        pen.box(left, start, max(right, left + 1), start + thickness, _mix(colour, 0.8))


def _histograms(
    pen: Pen,
    canvas: Canvas,
    what: Rows,
    t: int,
    i: int,
    values: tuple[float, float],
    top: int,
    bottom: int,
    behind: Colour,
) -> None:
    assert what.edges is not None
    assert what.online_weights is not None
    assert what.target_weights is not None
    below, above = (9, 4) if bottom - top > 30 else (5, 1)  # below the base line are the marks of the expected values
    base, full = bottom - below, bottom - below - top - above
    edges = [_x(canvas, what, float(edge)) for edge in what.edges]
    # The target is drawn thinner, over the online network: where they agree, both can still be seen.
    for weights, colour, is_online in ((what.online_weights, ONLINE, True), (what.target_weights, TARGET, False)):
        heights = base - full * np.minimum(weights[t, i] / what.peak, 1.0)
        steps = [(edges[0], float(base))]
        for left, right, y in zip(edges[:-1], edges[1:], heights, strict=True):
            steps += [(left, float(y)), (right, float(y))]
        steps.append((edges[-1], float(base)))
        if is_online:
            pen.polygon(steps, _mix(colour, 0.4, behind))
        pen.line(steps, colour, 3.0 if is_online and full > 20 else 1.5)
    pen.box(canvas.plot_left, base, PLOT_RIGHT, base + 1, MUTED)
    for value, colour, half in zip(values, (ONLINE, TARGET), (6.0, 3.0), strict=True):
        x = _x(canvas, what, value)
        pen.polygon([(x, base + 1), (x - half, bottom - 1), (x + half, bottom - 1)], colour)


def _x(canvas: Canvas, what: Rows, value: float) -> float:
    value = min(max(value, what.low), what.high)
    return canvas.plot_left + (PLOT_RIGHT - canvas.plot_left) * (value - what.low) / (what.high - what.low)


def _number(value: float, decimals: int) -> str:
    """Fixed digits with a true minus sign, and none before zero.

    >>> _number(-1.25, 2), _number(-0.001, 2)
    ('−1.25', '0.00')
    """
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def _mix(colour: Colour, share: float, behind: Colour = ROW) -> Colour:
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(colour, behind, strict=True))
    return red, green, blue
