"""The frame: title, the agent's view, a row per action, and the numbers of the moment.

What never changes is painted once; a frame is that picture, copied, with the moving parts on top. Everything is drawn
at twice the size and then halved, which smooths edges and text. Coordinates below are final pixels.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lookrep.playing import Recording
from lookrep.video.observations import Colour, screen
from lookrep.video.values import Rows, rows

WIDTH, HEIGHT = 800, 470
SCALE = 2

BACKGROUND: Colour = (13, 17, 23)
ROW: Colour = (20, 25, 34)
CHOSEN: Colour = (38, 47, 63)
FAINT: Colour = (44, 52, 66)
MUTED: Colour = (139, 148, 158)
TEXT: Colour = (230, 237, 243)
# Okabe and Ito's orange and sky blue: told apart with any colour vision.
ONLINE: Colour = (230, 159, 0)
TARGET: Colour = (86, 180, 233)

SIDE = 320  # of the agent's view
LEFT, TOP = 20, 48
PANEL_LEFT, PANEL_RIGHT = LEFT + SIDE + 24, WIDTH - 20
NAME_WIDTH, NUMBER_WIDTH = 80, 92
PLOT_LEFT, PLOT_RIGHT = PANEL_LEFT + NAME_WIDTH, PANEL_RIGHT - NUMBER_WIDTH
BOTTOM = TOP + SIDE
TILES_TOP = HEIGHT - 52


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
        self.screen = screen(recording.observations, SIDE * SCALE, labels.channels)
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
        """The picture of step t, `WIDTH` × `HEIGHT`."""
        image = self._background.copy()
        image.paste(Image.fromarray(self.screen.paint(self.recording.observations[t])), (LEFT * SCALE, TOP * SCALE))
        pen = _Pen(image)
        for i, action in enumerate(self.rows.actions):
            _row(pen, self.rows, t, i, chosen=bool(self.recording.actions[t] == action))
        numbers = (
            str(self.recording.episodes[t] + 1),
            str(self.steps[t]),
            f"{self.earned[t]:.10g}",
            _number(self.recording.function_gap[t], self.rows.decimals + 1),
        )
        for (x, _), number in zip(_TILES, numbers, strict=True):
            pen.text(x, TILES_TOP + 28, number, 18, TEXT, bold=True)
        return image.reduce(SCALE)

    def _still(self, labels: Labels) -> Image.Image:
        """The parts of the picture that never change."""
        image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), BACKGROUND)
        pen = _Pen(image)
        pen.text(LEFT, 24, labels.title, 15, TEXT, bold=True)
        pen.text(PANEL_RIGHT, 24, labels.subtitle, 12, MUTED, anchor="rm")
        _legend(pen, self.screen.legend, self.screen.caption)
        for tick in self.rows.ticks:
            pen.text(_x(self.rows, tick), BOTTOM + 10, f"{tick:.6g}".replace("-", "−"), 11, MUTED, anchor="mm")
        what = "return" if self.rows.edges is not None else "value"
        pen.text(PANEL_RIGHT - 12, BOTTOM + 10, what, 11, MUTED, anchor="rm")
        if len(self.rows.actions) < len(labels.actions):
            some = f"{len(self.rows.actions)} of {len(labels.actions)}"
            pen.text(PANEL_LEFT + 12, BOTTOM + 10, some, 11, MUTED)
        distributions = self.rows.edges is not None
        for x, name, colour in ((PLOT_LEFT, "online network w", ONLINE), (PLOT_LEFT + 132, "target network θ", TARGET)):
            fill = _mix(colour, 0.8) if not distributions else _mix(colour, 0.4) if colour == ONLINE else None
            pen.box(x, BOTTOM + 26, x + 14, BOTTOM + 36, fill, colour if distributions else None)
            pen.text(x + 20, BOTTOM + 31, name, 12, TEXT)
        pen.box(LEFT, TILES_TOP, PANEL_RIGHT, TILES_TOP + 1, FAINT)
        for left, label in _TILES:
            pen.subscripted(left, TILES_TOP + 11, label, 11, MUTED)
        return image


_TILES = (
    (LEFT, "episode"),
    (LEFT + 90, "step"),
    (LEFT + 180, "return so far"),
    (PLOT_LEFT, "function gap |q_θ − q_w|"),
)


def _legend(pen: "_Pen", legend: tuple[tuple[str, Colour], ...], caption: str) -> None:
    if caption:
        pen.text(LEFT, BOTTOM + 11, caption, 11, MUTED)
    x, y = float(LEFT), BOTTOM + 11
    for name, colour in legend:
        width = 22 + pen.width(name, 11)
        if x > LEFT and x + width > LEFT + SIDE:
            x, y = LEFT, y + 15
        pen.box(x, y - 5, x + 9, y + 4, colour)
        pen.text(x + 13, y, name, 11, MUTED)
        x += width


def _row(pen: "_Pen", what: Rows, t: int, i: int, *, chosen: bool) -> None:
    height = SIDE / len(what.actions)
    top, bottom = round(TOP + i * height), round(TOP + (i + 1) * height) - (4 if height > 30 else 2)
    middle = (top + bottom) / 2
    pen.box(PANEL_LEFT, top, PANEL_RIGHT, bottom, CHOSEN if chosen else ROW)
    if chosen:
        pen.box(PANEL_LEFT, top, PANEL_LEFT + 4, bottom, TEXT)
    size = 13 if height > 24 else 10
    pen.text(PANEL_LEFT + 12, middle, what.names[i], size, TEXT if chosen else MUTED, bold=chosen)
    for tick in what.ticks:
        x = _x(what, tick)
        pen.box(x - 0.5, top, x + 0.5, bottom, _mix(MUTED, 0.55 if tick == 0 else 0.22, CHOSEN if chosen else ROW))
    values = (float(what.online_values[t, i]), float(what.target_values[t, i]))
    if what.edges is None:
        _bars(pen, what, values, top, bottom)
    else:
        _histograms(pen, what, t, i, values, top, bottom, CHOSEN if chosen else ROW)
    for value, colour, above in zip(values, (ONLINE, TARGET), (True, False), strict=True):
        text = _number(value, what.decimals)
        if height >= 36:
            pen.text(PANEL_RIGHT - 12, middle + (-8 if above else 9), text, 13, colour, anchor="rm")
        else:
            pen.text(PANEL_RIGHT - (50 if above else 8), middle, text, 10, colour, anchor="rm")


def _bars(pen: "_Pen", what: Rows, values: tuple[float, float], top: int, bottom: int) -> None:
    thickness = min((bottom - top) * 0.32, 18.0)
    middle, zero = (top + bottom) / 2, _x(what, 0.0)
    for value, colour, start in ((values[0], ONLINE, middle - thickness - 1), (values[1], TARGET, middle + 1)):
        left, right = sorted((zero, _x(what, value)))
        pen.box(left, start, max(right, left + 1), start + thickness, _mix(colour, 0.8))


def _histograms(
    pen: "_Pen", what: Rows, t: int, i: int, values: tuple[float, float], top: int, bottom: int, behind: Colour
) -> None:
    assert what.edges is not None
    assert what.online_weights is not None
    assert what.target_weights is not None
    room = 9 if bottom - top > 30 else 5  # below the base line, for the marks of the expected values
    base, full = bottom - room, bottom - room - top - 4
    edges = [_x(what, float(edge)) for edge in what.edges]
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
    pen.box(PLOT_LEFT, base, PLOT_RIGHT, base + 1, MUTED)
    for value, colour, half in zip(values, (ONLINE, TARGET), (6.0, 3.0), strict=True):
        x = _x(what, value)
        pen.polygon([(x, base + 1), (x - half, bottom - 1), (x + half, bottom - 1)], colour)


def _x(what: Rows, value: float) -> float:
    value = min(max(value, what.low), what.high)
    return PLOT_LEFT + (PLOT_RIGHT - PLOT_LEFT) * (value - what.low) / (what.high - what.low)


def _number(value: float, decimals: int) -> str:
    """Fixed digits with a true minus sign, and none before zero.

    >>> _number(-1.25, 2), _number(-0.001, 2)
    ('−1.25', '0.00')
    """
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def _mix(colour: Colour, share: float, behind: Colour = ROW) -> Colour:
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(colour, behind, strict=True))
    return red, green, blue


@lru_cache(maxsize=64)
def _font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(str(path), size * SCALE, layout_engine=ImageFont.Layout.BASIC)


class _Pen:
    """Draws in final pixels on the enlarged canvas."""

    def __init__(self, image: Image.Image) -> None:
        self._draw = ImageDraw.Draw(image)

    def box(
        self, left: float, top: float, right: float, bottom: float, fill: Colour | None, outline: Colour | None = None
    ) -> None:
        corners = [round(left * SCALE), round(top * SCALE), round(right * SCALE) - 1, round(bottom * SCALE) - 1]
        self._draw.rectangle(corners, fill, outline, width=3 if outline else 0)

    def polygon(self, points: list[tuple[float, float]], fill: Colour) -> None:
        self._draw.polygon([(x * SCALE, y * SCALE) for x, y in points], fill)

    def line(self, points: list[tuple[float, float]], colour: Colour, width: float) -> None:
        self._draw.line([(x * SCALE, y * SCALE) for x, y in points], colour, round(width * SCALE))

    def text(
        self, x: float, y: float, words: str, size: int, colour: Colour, *, bold: bool = False, anchor: str = "lm"
    ) -> None:
        self._draw.text((x * SCALE, y * SCALE), words, colour, _font(size, bold), anchor)

    def subscripted(self, x: float, y: float, words: str, size: int, colour: Colour) -> None:
        """Text in which the letter after each underscore hangs below the line."""
        for i, part in enumerate(words.split("_")):
            if i:
                self.text(x, y + 3, part[0], size - 3, colour)
                x += self.width(part[0], size - 3)
                part = part[1:]
            self.text(x, y, part, size, colour)
            x += self.width(part, size)

    def width(self, words: str, size: int) -> float:
        return float(self._draw.textlength(words, _font(size, False))) / SCALE
