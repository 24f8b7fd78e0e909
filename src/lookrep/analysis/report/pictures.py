"""Figures and films as parts of the page: embedded, with caption, text for those who cannot see them, and numbers."""

from collections.abc import Sequence

from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from lookrep.analysis import figures
from lookrep.analysis.figures import style
from lookrep.analysis.figures.captions import CAPTIONS
from lookrep.analysis.report import svg, words
from lookrep.analysis.report.markup import Html, data_uri, tag
from lookrep.analysis.results import Results
from lookrep.errors import UserError
from lookrep.files import as_csv
from lookrep.studies.folder import VIDEOS, plain

INSIDE = ("fig5", "gap", "agreement", "residual")  # what happens inside the agents: a section of its own


def colours(results: Results) -> dict[str, str]:
    """Each variant's colour in the figures; black ones follow the theme."""
    found = {name: to_hex(look.color) for name, look in style.looks(results).items()}
    return {name: "var(--ink)" if colour == "#000000" else colour for name, colour in found.items()}


def section(results: Results, chosen: Sequence[str], letters: dict[str, str]) -> list[Html]:
    """`letters` gets the outlines that the figures use, for the page to hold once: `svg.alphabet`."""
    shown = figures.suitable(results)
    return [_figure(results, name, letters, shown) for name in chosen]


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


def _figure(results: Results, name: str, letters: dict[str, str], shown: Sequence[str]) -> Html:
    said = CAPTIONS[name]
    title = tag("h3", said.title)
    try:
        drawn, rows = figures.draw(name, results, beside=shown)
    except UserError as error:
        return tag("div", title, tag("p", f"It could not be drawn: {error}"), class_="warning figure")
    heading = getattr(drawn, "title", "")
    computed = said.computed
    if results.source == "run":  # captions speak of a study
        computed = computed.replace("over seeds", "over agents").replace("the runs of each", "the agents of each")
    notes = " ".join(getattr(drawn, "notes", ())).replace(" %", "\N{NO-BREAK SPACE}%")
    text = f"Figure: {said.title}. {said.seen} The numbers are in {name}.csv below it."
    paper = tag(
        "div",
        tag("p", heading, class_="heading") if heading not in ("", said.title, results.study.title) else "",
        *_drawings(drawn, name, text, letters),
        class_="paper",
    )
    link = tag("a", "Numbers as CSV", download=f"{name}.csv", href=data_uri("text/csv", as_csv(rows).encode()))
    command = tag("span", "lookrep figure ", tag("b", name), class_="soft")
    caption = tag(
        "figcaption",
        title,
        tag("p", said.seen),
        tag("p", link, command, class_="links"),
        tag("details", tag("summary", "How it was computed"), tag("p", computed), tag("p", notes) if notes else ""),
    )
    return tag("figure", paper, caption, class_="card figure", id=f"figure-{name}")


def _drawings(figure: Figure, name: str, text: str, letters: dict[str, str]) -> list[Html]:
    """For a wide page and for a narrow one, which shows its own alone."""
    found = []
    for kind in ("wide", "narrow"):
        if isinstance(figure, style.Drawing):  # what it says in words, the page says
            style.lay_out(figure, narrow=kind == "narrow", worded=False)
        elif kind == "narrow":
            style.stack(figure)
        else:
            figure.suptitle("")
        found.append(svg.drawing(figure, f"{name}-{kind}", letters, class_=kind, aria_label=text))
    return found
