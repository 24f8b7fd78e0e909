"""Shapes and text on an enlarged canvas, in coordinates of the final picture. What is drawn is decided in `frames`."""

from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
from PIL import Image, ImageDraw, ImageFont

from lookrep.video.observations import Colour

SCALE = 2  # the canvas is that much larger than the picture it is reduced to, which smooths edges and text


@lru_cache(maxsize=64)
def font(size: int, bold: bool) -> ImageFont.FreeTypeFont:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(str(path), size * SCALE, layout_engine=ImageFont.Layout.BASIC)


class Pen:
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
        self._draw.text((x * SCALE, y * SCALE), words, colour, font(size, bold), anchor)

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
        return text_width(words, size)


def shortened(words: str, size: int, room: float, *, bold: bool = False) -> str:
    """As much of a text as fits.

    >>> shortened("open the door", 13, 200), shortened("open the door", 13, 60)
    ('open the door', 'open t…')
    """
    if text_width(words, size, bold=bold) <= room:
        return words
    while words and text_width(f"{words}…", size, bold=bold) > room:
        words = words[:-1]
    return f"{words}…"


def text_width(words: str, size: int, *, bold: bool = False) -> float:
    return float(font(size, bold).getlength(words)) / SCALE
