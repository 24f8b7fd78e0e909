"""A figure as SVG inside the page: it follows the page's theme, and its type is outlines, so it needs no font.

Colours become the page's: black its ink, white its card, greys mixtures of both; a hue keeps its meaning and is mixed
with `--tint`, which is nothing in the light and white in the dark. Outlines of letters are shared by all figures.
"""

import io
import itertools
import re
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from lookrep.analysis.report.markup import Html

LINK = "{http://www.w3.org/1999/xlink}href"
COLOUR = re.compile(r"#[0-9a-f]{6}\b")
REFERENCE = re.compile(r"url\(#([^)]+)\)")
DECIMALS = re.compile(r"-?\d+\.\d{3,}")
LETTER = re.compile(r"^[A-Za-z][\w-]*-[0-9a-f]+$")  # the outline of a letter: its font, its number


def drawing(figure: Figure, prefix: str, letters: dict[str, str], **attributes: str) -> Html:
    """The figure without background. Its identifiers begin with `prefix`; letters that it uses are added to `letters`,
    which must be somewhere on the page: see `alphabet`."""
    root = _parsed(figure)
    _take_letters(root, letters)
    _shorten_names(root, prefix, letters)
    colours: set[str] = set()
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.text = element.tail = None  # indentation; type is outlines
        for name, value in list(element.attrib.items()):
            if name == "fill":  # of a hatch: an attribute where others have a style
                del element.attrib["fill"]
                name, value = "style", f"fill: {value}"
            if name == "style":
                colours |= set(COLOUR.findall(value))
                element.set("style", COLOUR.sub(lambda found: f"var(--c{found[0][1:]})", value).replace(": ", ":"))
            elif name in ("d", "x", "y", "points"):
                element.set(name, " ".join(DECIMALS.sub(_rounded, value).split()))
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    palette = ";".join(f"--c{colour[1:]}:{themed(colour)}" for colour in sorted(colours))
    root.attrib = {
        "viewBox": root.attrib["viewBox"], "width": str(width), "height": str(height), "role": "img",
        "style": palette, **{name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()},
    }  # fmt: skip
    return Html(ElementTree.tostring(root, encoding="unicode"))


def alphabet(letters: dict[str, str]) -> Html:
    """The outlines that drawings refer to, themselves not seen."""
    return Html(
        f'<svg class="alphabet" width="0" height="0" aria-hidden="true"><defs>{"".join(letters.values())}</defs></svg>'
    )


def themed(colour: str) -> str:
    """A colour of paper as one of the page's.

    >>> themed("#ffffff"), themed("#000000"), themed("#cccccc")
    ('var(--card)', 'var(--ink)', 'color-mix(in oklab, var(--ink) 20%, var(--card))')
    >>> themed("#0072b2")
    'color-mix(in oklab, #0072b2, var(--tint))'
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    if not red == green == blue:
        return f"color-mix(in oklab, {colour}, var(--tint))"
    if red in (0, 255):
        return "var(--card)" if red else "var(--ink)"
    return f"color-mix(in oklab, var(--ink) {100 - 100 * red / 255:.3g}%, var(--card))"


def _parsed(figure: Figure) -> ElementTree.Element:
    """As matplotlib writes it, without comments and what describes the file. Equal input gives equal bytes."""
    file = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "lookrep", "svg.fonttype": "path"}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(file.getvalue())
    for child in list(root):
        if child.tag.endswith("}metadata") or any(each.tag.endswith("}style") for each in child):
            root.remove(child)
    return root


def _take_letters(root: ElementTree.Element, letters: dict[str, str]) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            name = child.get("id", "")
            if parent.tag.endswith("}defs") and LETTER.match(name) and child.get("transform"):
                transform = child.get("transform")
                letters[name] = (
                    f'<path id="{name}" d="{" ".join(child.get("d", "").split())}" transform="{transform}"/>'
                )
                parent.remove(child)


def _shorten_names(root: ElementTree.Element, prefix: str, letters: dict[str, str]) -> None:
    """Identifiers that are the page's alone, and only where something refers to them."""
    used: dict[str, str] = {}
    numbers = itertools.count()

    def name_of(old: str) -> str:
        return old if old in letters else used.setdefault(old, f"{prefix}-{next(numbers)}")

    for element in root.iter():
        if link := element.attrib.pop(LINK, None):
            element.set("href", f"#{name_of(link[1:])}")
        for name, value in element.attrib.items():
            if "url(" in value:
                element.set(name, REFERENCE.sub(lambda found: f"url(#{name_of(found[1])})", value))
    for element in root.iter():
        old: Any = element.attrib.pop("id", None)
        if old in used:
            element.set("id", used[old])


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
