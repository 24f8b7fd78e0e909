"""Observations as square pictures with fixed colours and scales: MinAtar boards, images, and any other array; and the
pictures that an environment draws itself.

Where the picture goes on the frame is decided in `frames`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from PIL import Image

Colour = tuple[int, int, int]

FLOOR: Colour = (18, 22, 30)  # a cell with nothing in it
GRID: Colour = (27, 33, 44)
INK: Colour = (120, 200, 180)  # bars of a plain vector

# MinAtar's channels, from what lies at the bottom to what is drawn over it. Orange and sky blue mean the networks.
MINATAR: dict[str, Colour] = {
    "oxygen_gauge": (70, 110, 190),
    "diver_gauge": (158, 146, 40),
    "trail": (74, 84, 104),
    "speed1": (74, 84, 104),
    "speed2": (86, 96, 132),
    "speed3": (98, 104, 160),
    "speed4": (116, 108, 184),
    "speed5": (140, 110, 204),
    "brick": (190, 74, 88),
    "alien": (204, 121, 167),
    "alien_left": (204, 121, 167),
    "alien_right": (170, 110, 200),
    "car": (190, 74, 88),
    "enemy": (190, 74, 88),
    "enemy_fish": (190, 74, 88),
    "enemy_sub": (204, 121, 167),
    "gold": (240, 228, 66),
    "diver": (240, 228, 66),
    "sub_back": (0, 118, 86),
    "sub_front": (0, 178, 130),
    "paddle": (0, 178, 130),
    "cannon": (0, 178, 130),
    "player": (0, 178, 130),
    "chicken": (240, 228, 66),
    "enemy_bullet": (255, 90, 80),
    "friendly_bullet": (245, 247, 250),
    "ball": (245, 247, 250),
}
OTHER: tuple[Colour, ...] = (
    (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (213, 94, 0), (204, 121, 167), (245, 247, 250),
)  # fmt: skip
MOST_BARS = 48  # a longer vector is drawn as a heat map


class Screen(NamedTuple):
    """How a recording's observations look."""

    paint: Callable[[np.ndarray], np.ndarray]  # one observation → uint8[height, width, 3]
    legend: tuple[tuple[str, Colour], ...]
    caption: str  # what there is to say instead of a legend


def screen(observations: np.ndarray, side: int, channels: Sequence[str] | None = None) -> Screen:
    """Pictures of `side` × `side` pixels for these observations [T, ...]; scales are those of the whole recording."""
    shape, dtype = observations.shape[1:], observations.dtype
    if len(shape) == 3 and dtype == np.uint8:
        return Screen(lambda x: _fit(_as_image(x), side, side), (), "")
    if len(shape) == 3 and shape[2] > 1:
        return _boards(observations, side, channels)
    values = _plain(observations)
    low, high = (0.0, 1.0) if dtype == np.bool_ else (float(values.min()), float(values.max()))
    if high <= low:
        high = low + 1.0
    count = int(np.prod(shape))
    numbers = f"{count} number" + ("s" if count > 1 else "")
    caption = f"observation: {numbers} from {low:.3g} to {high:.3g}".replace("-", "−")
    if len(shape) <= 1 and count <= MOST_BARS:
        low, high = min(low, 0.0), max(high, 0.0)
        return Screen(lambda x: _bars(_plain(x), side, low, high), (), caption)

    def heat(x: np.ndarray) -> np.ndarray:
        return _fit(_heat((_folded(_plain(x)) - low) / (high - low)), side, side)

    return Screen(heat, (), caption)


def photographs(observations: np.ndarray, width: int, height: int) -> Screen:
    """The environment's own pictures, as large as fits, where the agent sees these observations [T, ...]."""
    shape, grey = observations.shape[1:], observations.dtype == np.uint8 and observations.ndim == 3
    seen = f"{shape[1]} × {shape[0]} grey pixels" if grey else " × ".join(map(str, shape)) + " numbers"
    return Screen(lambda picture: _fit(picture, width, height), (), f"the agent sees {seen}")


def _fit(picture: np.ndarray, width: int, height: int, lines: bool = False) -> np.ndarray:
    """In the middle of so many pixels: enlarged by a whole factor, so that cells stay crisp, or resampled."""
    scale = min(width / picture.shape[1], height / picture.shape[0])
    if scale >= 2:
        factor = int(scale)
        picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
        if lines and factor >= 12:
            picture[::factor] = GRID
            picture[:, ::factor] = GRID
    else:
        size = (max(1, int(picture.shape[1] * scale)), max(1, int(picture.shape[0] * scale)))
        picture = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.LANCZOS))
    out = np.full((height, width, 3), FLOOR, np.uint8)
    top, left = (height - picture.shape[0]) // 2, (width - picture.shape[1]) // 2
    out[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return out


def _boards(observations: np.ndarray, side: int, channels: Sequence[str] | None) -> Screen:
    """Categorical channels: one colour each, drawn over each other from `order`'s first to its last."""
    count = observations.shape[-1]
    names = tuple(channels) if channels is not None else tuple(f"channel {i}" for i in range(count))
    colours = [MINATAR.get(name, OTHER[i % len(OTHER)]) for i, name in enumerate(names)]
    ranks = list(MINATAR)
    order = sorted(range(count), key=lambda i: ranks.index(names[i]) if names[i] in ranks else -i)

    def paint(x: np.ndarray) -> np.ndarray:
        board = np.full((*x.shape[:2], 3), FLOOR, np.uint8)
        for i in order:
            board[x[..., i] > 0] = colours[i]
        return _fit(board, side, side, lines=True)

    # Of channels that share a colour the one on top is named: an alien is always also one that flies left or right.
    last = {colours[i]: names[i].replace("_", " ") for i in order}
    shown = [(last[colour], colour) for colour in dict.fromkeys(colours)]
    return Screen(paint, tuple(shown) if channels is not None else (), "")


def _as_image(x: np.ndarray) -> np.ndarray:
    """Colour as it is; of a stack of grey frames the newest."""
    return x if x.shape[2] == 3 else np.repeat(x[..., -1:], 3, axis=2)


def _plain(x: np.ndarray) -> np.ndarray:
    return np.nan_to_num(np.asarray(x, np.float64))


def _folded(x: np.ndarray) -> np.ndarray:
    """Any array as a matrix; a long vector is broken into lines of a square."""
    if x.ndim > 2 and x.shape[2] == 1:
        x = x[..., 0]
    if x.ndim == 2:
        return x
    if x.ndim > 2:
        return x.reshape(x.shape[0], -1)
    width = int(np.ceil(np.sqrt(x.size)))
    lines = -(-x.size // width)
    return np.pad(x.reshape(-1), (0, lines * width - x.size)).reshape(lines, width)


def _heat(fraction: np.ndarray) -> np.ndarray:
    colours: np.ndarray = mpl.colormaps["cividis"](np.clip(fraction, 0, 1), bytes=True)[..., :3]
    return colours


def _bars(x: np.ndarray, side: int, low: float, high: float) -> np.ndarray:
    """One horizontal bar per number, from zero."""
    out = np.full((side, side, 3), FLOOR, np.uint8)
    margin = side // 16

    def column(value: float) -> int:
        return margin + round((side - 2 * margin) * (value - low) / (high - low))

    zero = column(0.0)
    thickness = side // max(x.size, 1)
    for i, value in enumerate(np.clip(x.reshape(-1), low, high)):
        start, end = sorted((zero, column(float(value))))
        gap = thickness // 5
        out[i * thickness + gap : (i + 1) * thickness - gap, start : max(end, start + 1)] = INK
    out[:, zero] = (110, 120, 138)
    return out
