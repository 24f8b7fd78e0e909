"""The frame: title, the game's screen or the agent's view, a row per action, and the numbers of the moment.

What never changes is painted once; a frame is that picture, copied, with the moving parts on top. Units are pixels.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from lookrep.playing import Recording
from lookrep.playing.episodes import Screens
from lookrep.video.observations import Colour, photographs, screen
from lookrep.video.text import font, shortened, subscripted, text_width
from lookrep.video.values import rows

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
        view_height = _view_height(recording.screens)
        self.bottom = TOP + view_height
        self.height = view_height + HEIGHT - SIDE
        self._row_height = view_height / len(self.rows.actions)
        self._name_size = 13 if self._row_height > 24 else 10
        widest = max(text_width(name, self._name_size, bold=True) for name in self.rows.names)
        name_width = min(max(round(widest) + sum(NAME_MARGINS), NAME_WIDTH), MOST_NAME_WIDTH)
        self.plot_left = PANEL_LEFT + name_width
        room = name_width - sum(NAME_MARGINS) + 1
        self.names = [shortened(name, self._name_size, room, bold=True) for name in self.rows.names]
        if recording.screens is None:
            self._view = screen(recording.observations, SIDE, labels.channels)
        else:
            self._view = photographs(recording.observations, SIDE, view_height)
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
        """The picture of step t, `WIDTH` × `height`."""
        recording = self.recording
        image = self._background.copy()
        view = recording.observations[t] if recording.screens is None else recording.screens[t]
        image.paste(Image.fromarray(self._view.paint(view)), (LEFT, TOP))
        draw = ImageDraw.Draw(image)
        for i, action in enumerate(self.rows.actions):
            self._row(draw, t, i, chosen=bool(recording.actions[t] == action))
        numbers = (
            str(recording.episodes[t] + 1),
            str(self.steps[t]),
            f"{self.earned[t]:.10g}",
            _number(recording.function_gap[t], self.rows.decimals + 1),
        )
        for (x, _), number in zip(self._tiles, numbers, strict=True):
            draw.text((x, self.height - 24), number, TEXT, font(18, bold=True), "lm")
        return image

    @property
    def _tiles(self) -> tuple[tuple[int, str], ...]:
        """The numbers of the moment: where they are, and what they are called."""
        gap = (self.plot_left, "function gap |q_θ − q_w|")
        return (LEFT, "episode"), (LEFT + 90, "step"), (LEFT + 180, "return so far"), gap

    def _still(self, labels: Labels) -> Image.Image:
        """The parts of the picture that never change."""
        bottom, small = self.bottom, font(11)
        image = Image.new("RGB", (WIDTH, self.height), BACKGROUND)
        draw = ImageDraw.Draw(image)
        draw.text((LEFT, 24), labels.title, TEXT, font(15, bold=True), "lm")
        draw.text((PANEL_RIGHT, 24), labels.subtitle, MUTED, font(12), "rm")
        self._legend(draw)
        for tick in self.rows.ticks:
            draw.text((self._x(tick), bottom + 10), f"{tick:.6g}".replace("-", "−"), MUTED, small, "mm")
        distributions = self.rows.edges is not None
        draw.text((PANEL_RIGHT - 12, bottom + 10), "return" if distributions else "value", MUTED, small, "rm")
        if len(self.rows.actions) < len(labels.actions):
            some = f"{len(self.rows.actions)} of {len(labels.actions)}"
            draw.text((PANEL_LEFT + 12, bottom + 10), some, MUTED, small, "lm")
        left = self.plot_left
        for x, name, colour in ((left, "online network w", ONLINE), (left + 132, "target network θ", TARGET)):
            fill = _mix(colour, 0.8) if not distributions else _mix(colour, 0.4) if colour == ONLINE else None
            _box(draw, x, bottom + 26, x + 14, bottom + 36, fill, colour if distributions else None)
            draw.text((x + 20, bottom + 31), name, TEXT, font(12), "lm")
        _box(draw, LEFT, self.height - 52, PANEL_RIGHT, self.height - 51, FAINT)
        for x, label in self._tiles:
            subscripted(draw, x, self.height - 41, label, 11, MUTED)
        return image

    def _legend(self, draw: ImageDraw.ImageDraw) -> None:
        """What the view shows, in words or as coloured names."""
        x, y = float(LEFT), self.bottom + 11
        draw.text((x, y), self._view.caption, MUTED, font(11), "lm")
        for name, colour in self._view.legend:
            width = 22 + text_width(name, 11)
            if x > LEFT and x + width > LEFT + SIDE:
                x, y = LEFT, y + 15
            _box(draw, x, y - 5, x + 9, y + 4, colour)
            draw.text((x + 13, y), name, MUTED, font(11), "lm")
            x += width

    def _row(self, draw: ImageDraw.ImageDraw, t: int, i: int, *, chosen: bool) -> None:
        what, height = self.rows, self._row_height
        top, bottom = round(TOP + i * height), round(TOP + (i + 1) * height) - (4 if height > 30 else 2)
        middle, behind = (top + bottom) / 2, CHOSEN if chosen else ROW
        _box(draw, PANEL_LEFT, top, PANEL_RIGHT, bottom, behind)
        if chosen:
            _box(draw, PANEL_LEFT, top, PANEL_LEFT + 4, bottom, TEXT)
        place = (PANEL_LEFT + NAME_MARGINS[0], middle)
        draw.text(place, self.names[i], TEXT if chosen else MUTED, font(self._name_size, bold=chosen), "lm")
        for tick in what.ticks:
            x = round(self._x(tick))
            _box(draw, x, top, x + 1, bottom, _mix(MUTED, 0.55 if tick == 0 else 0.22, behind))
        values = (float(what.online_values[t, i]), float(what.target_values[t, i]))
        if what.edges is None:
            self._bars(draw, values, top, bottom)
        else:
            self._histograms(draw, t, i, values, top, bottom, behind)
        for value, colour, above in zip(values, (ONLINE, TARGET), (True, False), strict=True):
            text = _number(value, what.decimals)
            if height >= 36:
                place = (PANEL_RIGHT - 12, middle + (-8 if above else 9))
                draw.text(place, text, colour, font(13), "rm")
            else:
                draw.text((PANEL_RIGHT - (50 if above else 8), middle), text, colour, font(10), "rm")

    def _bars(self, draw: ImageDraw.ImageDraw, values: tuple[float, float], top: int, bottom: int) -> None:
        thickness = min(round((bottom - top) * 0.32), 18)
        middle, zero = (top + bottom) // 2, self._x(0.0)
        for value, colour, start in zip(values, (ONLINE, TARGET), (middle - thickness - 1, middle + 1), strict=True):
            left, right = sorted((zero, self._x(value)))
            _box(draw, left, start, right, start + thickness, _mix(colour, 0.8))

    def _histograms(
        self,
        draw: ImageDraw.ImageDraw,
        t: int,
        i: int,
        values: tuple[float, float],
        top: int,
        bottom: int,
        behind: Colour,
    ) -> None:
        what = self.rows
        assert what.edges is not None
        assert what.online_weights is not None
        assert what.target_weights is not None
        below, above = (9, 4) if bottom - top > 30 else (5, 1)  # below the base line are the marks of expected values
        base, full = bottom - below, bottom - below - top - above
        edges = [self._x(float(edge)) for edge in what.edges]
        # The target is drawn thinner, over the online network: where they agree, both can still be seen.
        for weights, colour, is_online in ((what.online_weights, ONLINE, True), (what.target_weights, TARGET, False)):
            heights = base - full * np.minimum(weights[t, i] / what.peak, 1.0)
            steps = [(edges[0], float(base))]
            for left, right, y in zip(edges[:-1], edges[1:], heights, strict=True):
                steps += [(left, float(y)), (right, float(y))]
            steps.append((edges[-1], float(base)))
            if is_online:
                draw.polygon(steps, _mix(colour, 0.4, behind))
            draw.line(steps, colour, 3 if is_online and full > 20 else 1)
        _box(draw, self.plot_left, base, PLOT_RIGHT, base + 1, MUTED)
        for value, colour, half in zip(values, (ONLINE, TARGET), (6, 3), strict=True):
            x = self._x(value)
            draw.polygon([(x, base + 1), (x - half, bottom - 1), (x + half, bottom - 1)], colour)

    def _x(self, value: float) -> float:
        low, high = self.rows.low, self.rows.high
        return self.plot_left + (PLOT_RIGHT - self.plot_left) * (min(max(value, low), high) - low) / (high - low)


def _view_height(screens: Screens | None) -> int:
    if screens is None:
        return SIDE
    height, width = screens[0].shape[:2]
    return min(max(round(SIDE * height / width / 2) * 2, SIDE), MOST_VIEW_HEIGHT)  # even, for mp4


def _box(
    draw: ImageDraw.ImageDraw,
    left: float,
    top: float,
    right: float,
    bottom: float,
    fill: Colour | None,
    outline: Colour | None = None,
) -> None:
    """At least a pixel wide; its right and bottom edges are not part of it."""
    draw.rectangle([round(left), top, max(round(left), round(right) - 1), bottom - 1], fill, outline)


def _number(value: float, decimals: int) -> str:
    """Fixed digits with a true minus sign, and none before zero.

    >>> _number(-1.25, 2), _number(-0.001, 2)
    ('−1.25', '0.00')
    """
    return f"{round(value, decimals) + 0.0:.{decimals}f}".replace("-", "−")


def _mix(colour: Colour, share: float, behind: Colour = ROW) -> Colour:
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(colour, behind, strict=True))
    return red, green, blue
