"""Figures and films as parts of the page: embedded, with caption, text for those who cannot see them, and numbers."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.colors import to_hex

from lookrep.errors import UserError
from lookrep.files import as_csv
from lookrep.studies import figures
from lookrep.studies.figures import style
from lookrep.studies.plan import plain
from lookrep.studies.report import words
from lookrep.studies.report.captions import caption
from lookrep.studies.report.markup import Html, data_uri, tag
from lookrep.studies.results import VIDEOS, Results

INSIDE = ("fig5", "gap", "residual")  # what happens inside the agents: a section of its own
LARGE_SVG_BYTES = 1_500_000  # dozens of panels: as pixels they are smaller and quicker to show
WIDE_INCHES = 6.0


def colours(results: Results) -> dict[str, str]:
    """Each variant's colour in the figures; black ones follow the theme."""
    found = {name: to_hex(look.color) for name, look in style.looks(results).items()}
    return {name: "var(--ink)" if colour == "#000000" else colour for name, colour in found.items()}


def section(results: Results, chosen: Sequence[str]) -> list[Html]:
    return [_figure(results, name) for name in chosen]


def films(results: Results) -> list[Html]:
    """The study's films, in the order of its games and variants; files with other names come last."""
    study = results.study
    titles = {
        f"{plain(env)}--{variant.name}": (words.short_environment(env, study.environments), variant.label)
        for env in study.environments
        for variant in study.variants
    }
    files = {path.stem: path for path in sorted((results.folder / VIDEOS).glob("*.gif"))}
    order = [*(stem for stem in titles if stem in files), *(stem for stem in files if stem not in titles)]
    found = []
    for stem in order:
        game, label = titles.get(stem, (stem, ""))
        name = f"{game} · {label}" if label else game
        text = f"Film of an agent at play: {name}, with the values of both networks beside the frame"
        image = tag("img", src=data_uri("image/gif", files[stem].read_bytes()), alt=text)
        pause = tag(
            "button", "Pause", tag("span", f" {name}", class_="unseen"), type="button", class_="button", hidden=True
        )
        found.append(
            tag(
                "figure",
                tag("div", image, class_="paper"),
                tag("figcaption", tag("span", name), pause),
                class_="card figure film",
            )
        )
    return found


def _figure(results: Results, name: str) -> Html:
    said = caption(name, figures.NAMES[name])
    title = tag("h3", said.title)
    try:
        drawn, rows = figures.draw(name, results)
    except UserError as error:
        return tag("div", title, tag("p", f"It could not be drawn: {error}"), class_="warning figure")
    kind, content = _embedded(drawn)
    width, height = (round(96 * inches) for inches in drawn.get_size_inches())
    image = tag(
        "img",
        src=data_uri(kind, content),
        alt=f"Figure: {said.title}. {said.seen} The numbers are in {name}.csv below it.",
        width=width,
        height=height,
        class_="wide" if width > 96 * WIDE_INCHES else None,
    )
    paper = tag("div", image, class_="paper", tabindex="0", role="region", aria_label=f"Figure: {said.title}")
    link = tag("a", "Numbers as CSV", download=f"{name}.csv", href=data_uri("text/csv", as_csv(rows).encode()))
    command = tag("span", "lookrep figure ", tag("b", name), class_="soft")
    text = tag(
        "figcaption",
        title,
        tag("p", said.seen),
        tag("p", said.computed, class_="soft"),
        tag("p", link, command, class_="more"),
    )
    return tag("figure", paper, text, class_="card figure", id=f"figure-{name}")


def _embedded(figure: Any) -> tuple[str, bytes]:
    """As SVG, whose text is outlines (no font is needed, equal input gives equal bytes); as pixels if that is huge."""
    with mpl.rc_context({"svg.hashsalt": "lookrep", "svg.fonttype": "path"}):
        vector = io.BytesIO()
        figure.savefig(vector, format="svg", metadata={"Date": None})
    if len(vector.getvalue()) <= LARGE_SVG_BYTES:
        return "image/svg+xml", vector.getvalue()
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=160)
    return "image/png", pixels.getvalue()
