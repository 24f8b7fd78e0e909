"""Text on a frame, in matplotlib's own font, which is there wherever lookrep is."""

from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
from PIL import ImageDraw, ImageFont

from lookrep.video.observations import Colour


@lru_cache(maxsize=64)
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(mpl.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def text_width(words: str, size: int, *, bold: bool = False) -> float:
    return float(font(size, bold).getlength(words))


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


def subscripted(draw: ImageDraw.ImageDraw, x: float, y: float, words: str, size: int, colour: Colour) -> None:
    """Text in which the letter after each underscore hangs below the line."""
    first, *parts = words.split("_")
    pieces = [(first, 0)] + [piece for part in parts for piece in ((part[0], 3), (part[1:], 0))]
    for piece, lower in pieces:
        draw.text((x, y + lower), piece, colour, font(size - lower), "lm")
        x += text_width(piece, size - lower)
