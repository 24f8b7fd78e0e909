"""The page in a real browser: no error, no request, tables that sort, pictures that show, light, dark, small, on paper.

Needs Chromium (`apt install chromium`). Where there is none the tests are skipped, unless LOOKREP_NEEDS_BROWSER=1.
"""

import dataclasses
import io
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import study_results
from PIL import Image

from lookrep.analysis import report

HOSTILE = """<script>window.broken = 1</script><img src="https://example.org/x.png" onerror='window.broken = 2'>"""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NEEDED = os.environ.get("LOOKREP_NEEDS_BROWSER") == "1"
FINAL = {"minatar/breakout": (30, 20), "minatar/asterix": (5, 9), "minatar/space_invaders": (100, 101)}


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("study")
    asked = study_results.study(
        tuple(FINAL),
        {"hard": {"target": "hard"}, "replicate": {"target": "replicate"}},
        seeds=5,
        title=f"Title {HOSTILE}",
        question=HOSTILE,
        figures=("fig2", "improvement", "gap"),
    )
    labels = ("Hard copy", f"Replicate {HOSTILE}")
    variants = (dataclasses.replace(v, label=label) for v, label in zip(asked.variants, labels, strict=True))
    asked = dataclasses.replace(asked, variants=tuple(variants))
    found = study_results.results(asked, lambda env, variant, seed: FINAL[env][variant == "replicate"] + seed / 10)
    (folder / "videos").mkdir()
    frames = [Image.new("RGB", (64, 36), color) for color in ("#102030", "#e0a040")]
    film = folder / "videos" / "minatar_breakout--replicate.gif"
    frames[0].save(film, save_all=True, append_images=frames[1:], duration=100, loop=0)
    out = folder / "report.html"
    report.write(dataclasses.replace(found, folder=folder), out)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        assert not NEEDED, "LOOKREP_NEEDS_BROWSER=1, but no chromium is installed"
        pytest.skip("no chromium on this machine")
    if not NEEDED:
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Containers run as root, where Chromium's own sandbox cannot.
        flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield found
        found.close()


class Visit:
    """An open page, with all it asked for and complained about since."""

    def __init__(self, browser: Any, file: Path, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.context.set_default_timeout(10_000)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())

    def column(self, number: int) -> list[str]:
        cells = self.page.locator(f"table.sortable tbody tr > :nth-child({number})")
        return [str(cell.get_attribute("data-value")) for cell in cells.all()]


@pytest.fixture
def visit(browser: Any, page_file: Path) -> Iterator[Any]:
    opened: list[Visit] = []

    def open_page(**settings: Any) -> Visit:
        opened.append(Visit(browser, page_file, **settings))
        return opened[-1]

    yield open_page
    for each in opened:
        each.context.close()


def test_it_loads_without_an_error_and_without_any_network_request(visit: Any, page_file: Path) -> None:
    here = visit()
    here.page.wait_for_load_state("networkidle")
    assert here.complaints == []
    assert page_file.as_uri() in here.requests
    assert [url for url in here.requests if not url.startswith("data:")] == [page_file.as_uri()]


def test_hostile_text_is_shown_and_not_run(visit: Any) -> None:
    page = visit().page
    assert page.evaluate("window.broken") is None
    assert HOSTILE in page.locator("h1").inner_text()
    assert page.title() == f"Title {HOSTILE}"
    assert HOSTILE in page.locator("table.sortable thead").inner_text()
    assert page.locator("img:not([src^='data:'])").count() == 0


def test_pictures_are_there(visit: Any) -> None:
    page = visit().page
    widths = page.eval_on_selector_all("img", "async (all) => { await Promise.all(all.map((i) => i.decode()));"
                                              " return all.map((i) => i.naturalWidth) }")  # fmt: skip
    assert widths == [64]
    sizes = "(all) => all.map((e) => e.getBoundingClientRect().width)"
    assert min(page.eval_on_selector_all("svg.wide", sizes)) > 400
    assert min(page.eval_on_selector_all("svg.wide path, svg.wide use", sizes)) >= 0
    assert max(page.eval_on_selector_all("svg.wide use", sizes)) > 0  # letters, whose outlines are elsewhere
    assert set(page.eval_on_selector_all("svg.narrow", sizes)) == {0}


def test_the_table_sorts_by_click_both_ways(visit: Any) -> None:
    here = visit()
    assert here.column(1) == ["breakout", "asterix", "space invaders"]
    game, hard = (here.page.get_by_role("button", name=name, exact=True) for name in ("Game", "Hard copy"))
    head = here.page.locator("table.sortable thead th")
    hard.click()  # numbers begin with the largest, and 5 < 30 < 100 is no order of text
    assert here.column(1) == ["space invaders", "breakout", "asterix"]
    assert head.nth(1).get_attribute("aria-sort") == "descending"
    hard.click()
    assert here.column(1) == ["asterix", "breakout", "space invaders"]
    assert [head.nth(i).get_attribute("aria-sort") for i in range(4)] == ["none", "ascending", "none", "none"]
    game.click()
    assert here.column(1) == ["asterix", "breakout", "space invaders"]
    game.click()
    assert here.column(1) == ["space invaders", "breakout", "asterix"]


def test_the_table_sorts_by_keyboard(visit: Any) -> None:
    here = visit()
    here.page.get_by_role("button", name="Game", exact=True).focus()
    here.page.keyboard.press("Enter")
    assert here.column(1) == ["asterix", "breakout", "space invaders"]
    here.page.keyboard.press("Tab")
    here.page.keyboard.press("Space")
    assert here.column(1) == ["space invaders", "breakout", "asterix"]


def test_dark_is_dark_and_so_are_the_figures(visit: Any) -> None:
    colours, pixels = {}, {}
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme).page
        look = "(e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
        colours[scheme] = page.eval_on_selector("body", look)
        for place, figure in enumerate(page.locator(".paper:has(svg)").all()):
            picture = Image.open(io.BytesIO(figure.screenshot())).convert("L")
            pixels[scheme, place] = np.bincount(np.asarray(picture).ravel(), minlength=256)
    for (scheme, _), found in pixels.items():
        background = int(found.argmax())
        assert background > 240 if scheme == "light" else background < 60
        ink = found[:80] if scheme == "light" else found[200:]  # axes and letters
        assert ink.sum() > 100
        assert scheme == "light" or found[200:].sum() < 0.1 * found.sum()
    light, dark = ([_brightness(colour) for colour in colours[scheme]] for scheme in ("light", "dark"))
    assert light[0] > 200 > 60 > light[1]
    assert dark[0] < 60 < 200 < dark[1]


@pytest.mark.parametrize("width", [320, 390, 768])
def test_it_fits_a_phone(visit: Any, width: int) -> None:
    from playwright.sync_api import expect

    page = visit(viewport={"width": width, "height": 740}).page
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("window.scrollTo(500, 0)")
    assert page.evaluate("window.scrollX") == 0
    wide = "(all) => all.filter((e) => e.scrollWidth > e.clientWidth).map((e) => getComputedStyle(e).overflowX)"
    assert page.eval_on_selector_all(".paper, pre, figure", wide) == []
    ends = "(all) => all.map((e) => e.getBoundingClientRect()).filter((r) => r.width).map((r) => [r.left, r.right])"
    figures = page.eval_on_selector_all(".paper svg", ends)  # of each drawing for wide and narrow pages one is shown
    assert len(figures) == 3
    assert all(left >= 0 and right <= width for left, right in figures)
    boxes = page.eval_on_selector_all(".scroll", wide)  # what is wider than the page scrolls in its box, and says so
    assert set(boxes) <= {"auto"}
    assert boxes or width > 390
    hinted = page.locator(".sideways.more")
    expect(hinted).to_have_count(len(boxes))
    page.eval_on_selector_all(".scroll", "(all) => all.forEach((e) => e.scrollTo(e.scrollWidth, 0))")
    expect(hinted).to_have_count(0)


def test_films_can_be_stopped(visit: Any) -> None:
    page = visit().page
    image = page.locator(".film img")
    page.get_by_role("button", name="Pause breakout").click()
    assert str(image.get_attribute("src")).startswith("data:image/png")
    page.get_by_role("button", name="Play breakout").click()
    assert str(image.get_attribute("src")).startswith("data:image/gif")
    calm = visit(reduced_motion="reduce").page
    calm.wait_for_selector(".film img[src^='data:image/png']")
    assert calm.get_by_role("button", name="Play breakout").is_visible()


def test_numbers_can_be_downloaded(visit: Any, tmp_path: Path) -> None:
    page = visit().page
    with page.expect_download() as waiting:
        page.locator("a[download='improvement.csv']").click()
    waiting.value.save_as(tmp_path / "improvement.csv")
    assert "replicate" in (tmp_path / "improvement.csv").read_text()


def test_everything_that_can_be_operated_has_a_name(visit: Any) -> None:
    page = visit().page
    names = page.eval_on_selector_all(
        "a, button, summary, [tabindex], img", "(all) => all.map((e) => e.ariaLabel || e.alt || e.textContent.trim())"
    )
    assert len(names) > 15
    assert all(names)
    levels = page.eval_on_selector_all("h1, h2, h3", "(all) => all.map((e) => Number(e.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_paper_gets_the_content_without_the_controls_and_always_in_light_colours(visit: Any) -> None:
    look = "(e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e).color]"
    looks = []
    for scheme in ("light", "dark"):
        page = visit(color_scheme=scheme).page
        page.emulate_media(media="print")
        assert page.locator("nav").is_hidden()
        assert page.locator(".film button").is_hidden()
        looks.append([page.eval_on_selector(part, look) for part in ("body", ".verdict", ".card", ".eyebrow b")])
    assert looks[0] == looks[1]
    assert [_brightness(colour) for colour in looks[0][0]] == [255, 0]


def test_it_is_complete_without_scripts(visit: Any) -> None:
    page = visit(java_script_enabled=False).page
    assert page.locator("table.sortable tbody tr").count() == 3
    assert page.locator(".film button").is_hidden()


def _brightness(colour: str) -> float:
    red, green, blue = json.loads(f"[{colour.removeprefix('rgb(').removesuffix(')')}]")
    return (red + green + blue) / 3
