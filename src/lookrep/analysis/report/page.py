"""The whole page: head, sections in the order of a reader's questions, and a file that appears whole or not at all."""

import base64
import hashlib
from importlib import resources
from pathlib import Path

import lookrep
from lookrep.analysis import figures, statistics
from lookrep.analysis.report import answer, exact, games, pictures, provenance, svg, words
from lookrep.analysis.report.markup import Html, join, tag
from lookrep.analysis.results import Results
from lookrep.files import write_whole, writing

LARGE_BYTES = 20_000_000  # above this, mail programs and phones give up


def write(results: Results, out: Path) -> None:
    """Write the page to `out`."""
    content = build(results)
    with writing(f"report '{out}'"):
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, content)


def build(results: Results) -> str:
    """The page as text. Equal results give equal pages."""
    study = results.study
    letters: dict[str, str] = {}
    sections: list[tuple[str, str, Html]] = []  # anchor, title, content
    drawable = figures.suitable(results)
    outside = [name for name in drawable if name not in pictures.INSIDE]
    inside = [name for name in drawable if name in pictures.INSIDE]
    if study.kind == "training":
        headline = statistics.headline(results)
    if results.source == "run":
        sections.append(("answer", "Scores", games.section(study, headline, results.unit)))
        sections.append(("missing", "What is missing", answer.missing(results, headline)))
    elif study.kind == "training":
        sections.append(("answer", "Answer", answer.section(study, headline, pictures.colours(results))))
        sections.append(("missing", "What is missing", answer.missing(results, headline)))
    else:
        sections.append(("answer", "Answer", exact.section(results)))
    if outside:
        sections.append(("figures", "Figures", join(pictures.section(results, outside, letters))))
    if study.kind == "training" and results.source != "run":
        sections.append(("games", "Scores by game", games.section(study, headline)))
    if inside:
        sections.append(("networks", "Both networks over time", join(pictures.section(results, inside, letters))))
    films = pictures.films(results)
    if films:
        sections.append(
            ("films", "Agents at play", tag("div", *films, class_="films three" if len(films) % 3 == 0 else "films"))
        )
    sections.append(("run", "What was run", provenance.section(results)))
    return _document(results, sections, svg.alphabet(letters))


def _document(results: Results, sections: list[tuple[str, str, Html]], alphabet: Html) -> str:
    script, sheet = _file("report.js"), _file("report.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be fetched and no script but ours may run, whatever got into the text.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"lookrep {lookrep.__version__}"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", results.study.title),
        tag("style", Html(sheet)),
    )
    links = (tag("li", tag("a", title, href=f"#{anchor}")) for anchor, title, _ in sections)
    body = tag(
        "body",
        tag("a", "Skip to the answer", href="#content", class_="skip"),
        _header(results),
        tag("nav", tag("div", tag("ul", *links, class_="scroll"), class_="sideways"), aria_label="Sections"),
        tag("main", *(_section(*each) for each in sections), id="content"),
        tag("footer", f"Made by lookrep {lookrep.__version__}. Everything is inside this file: it needs no network."),
        alphabet,
        tag("script", Html(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _section(anchor: str, title: str, content: Html) -> Html:
    return tag("section", tag("h2", title, id=f"{anchor}-title"), content, id=anchor, aria_labelledby=f"{anchor}-title")


def _header(results: Results) -> Html:
    study = results.study
    kind = {"study": "study", "run": "run", "logs": "logs"}[results.source]
    size = f" · size {study.size}" if kind == "study" else ""
    eyebrow = tag("p", tag("b", f"lookrep {kind}"), f" · {study.name}{size}", class_="eyebrow")
    question = tag("p", study.question, class_="question") if study.question else ""
    return tag("header", eyebrow, tag("h1", study.title), question, _facts(results))


def _facts(results: Results) -> Html:
    study = results.study
    if study.kind == "exact":
        facts = [("Problems", str(len(study.environments))), ("Methods", str(len(study.variants)))]
    else:
        over = sum(member.status in ("finished", "diverged") for member in results.members)
        one = results.source == "run"
        facts = [
            ("Games", str(len(study.environments))),
            *([] if one else [("Variants", str(len(study.variants)))]),
            ("Agents of each game" if one else "Seeds each", str(study.seeds)),
            ("Agent steps each", words.large(study.steps)),
            ("Agents finished" if one else "Runs finished", f"{over:,} of {len(results.members):,}"),
        ]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts), class_="facts")


def _file(name: str) -> str:
    return (resources.files("lookrep.analysis.report") / name).read_text(encoding="utf-8")
