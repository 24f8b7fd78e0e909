"""The report says what the numbers say, names what is missing, escapes all text, and refers to nothing outside."""

import base64
import csv
import dataclasses
import hashlib
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import study_results
from PIL import Image

from lookrep.analysis import figures, report, results, statistics
from lookrep.analysis.bootstrap import Estimate
from lookrep.analysis.figures.comparisons import score_rows
from lookrep.analysis.report import answer, games, pictures, provenance, words
from lookrep.analysis.results import Results
from lookrep.analysis.scores import Normalisation
from lookrep.analysis.statistics import EnvironmentScore, Headline, VariantScore
from lookrep.errors import UserError
from lookrep.studies import definition, exact_study

HOSTILE = """<script>alert("1")</script><img src=x onerror='alert(2)'>&amp;"'"""
NOTHING = Estimate(float("nan"), float("nan"), float("nan"))
GAMES = ("minatar/a", "minatar/b", "minatar/c", "minatar/d", "minatar/e")


def headline(iqm: Estimate, improvement: Estimate, seeds: int = 20, kind: Any = "baseline") -> Headline:
    """What statistics would give for one variant against hard copy."""

    def variant(name: str, label: str, score: Estimate, chance: Estimate | None) -> VariantScore:
        return VariantScore(name, label, seeds * len(GAMES), score, score, score, NOTHING, NOTHING, chance)

    return Headline(
        baseline="hard",
        normalisation=Normalisation(kind, "score", "a rule", dict.fromkeys(GAMES, 0.0), dict.fromkeys(GAMES, 1.0), ()),
        environments=GAMES,
        left_out=(),
        variants=(
            variant("hard", "Hard copy", Estimate(1.0, 0.97, 1.03), None),
            variant("all", "Replicate (all actions)", iqm, improvement),
        ),
        by_environment=tuple(
            EnvironmentScore(env, name, seeds, NOTHING, None, None) for env in GAMES for name in ("hard", "all")
        ),
        diverged=(),
        excluded=(),
        fewest_seeds=seeds,
        confidence=0.95,
        resamples=50_000,
    )


def only_answer(found: Headline) -> words.Answer:
    (one,) = words.answers(found)
    return one


def test_the_sentence_is_composed_of_the_numbers() -> None:
    found = only_answer(headline(Estimate(0.714, 0.66, 0.75), Estimate(0.21, 0.17, 0.25)))
    assert f"{found.label} {found.said}" == (
        "Replicate (all actions) reached 0.71 [0.66, 0.75] of Hard copy’s score (interquartile mean over 5 games, "
        "20 seeds each). Probability of improvement 0.21 [0.17, 0.25]: it is worse."
    )
    assert (found.verdict, found.notes) == ("worse", ())


@pytest.mark.parametrize(
    ("chance", "written"),
    [(Estimate(0.55, 0.499, 0.61), "0.550 [0.499, 0.610]"), (Estimate(0.4, 0.28, 0.52), "0.40 [0.28, 0.52]")],
)
def test_an_interval_across_one_half_decides_nothing(chance: Estimate, written: str) -> None:
    found = only_answer(headline(Estimate(1.1, 0.9, 1.3), chance))
    assert found.badge == "cannot tell"
    assert f"{written}: these runs cannot tell which is better." in found.said


@pytest.mark.parametrize(
    ("chance", "badge"),
    [
        (Estimate(0.61, 0.53, 0.69), "a little better"), (Estimate(0.61, 0.53, 0.76), "better"),
        (Estimate(0.31, 0.25, 0.38), "a little worse"), (Estimate(0.31, 0.24, 0.38), "worse"),
    ],
)  # fmt: skip
def test_a_small_effect_is_said_to_be_small(chance: Estimate, badge: str) -> None:
    found = only_answer(headline(Estimate(1.0, 0.99, 1.01), chance))
    assert found.badge == badge
    assert found.said.endswith(f": it is {badge}.")


@pytest.mark.parametrize(
    ("seeds", "chance", "badge", "told"),
    [
        (4, Estimate(0.0, 0.0, 0.0), "too few seeds to tell", "Too few seeds to tell which is better"),
        (5, Estimate(0.0, 0.0, 0.0), "worse", "Probability of improvement 0.00 [0.00, 0.00]: it is worse."),
        (1, Estimate(1.0, float("nan"), float("nan")), "too few seeds to tell", "that takes 5 per game."),
    ],
)
def test_below_five_seeds_there_is_no_verdict(seeds: int, chance: Estimate, badge: str, told: str) -> None:
    numbers = headline(Estimate(1.5, 1.4, 1.6), chance, seeds)
    found = only_answer(numbers)
    assert found.badge == badge
    assert told in found.said
    shown = visible(answer.section(study_results.study(variants={"hard": {}, "all": {}}), numbers, {}))
    assert ("robability of improvement" in shown) == (seeds >= 5)


def test_measures_that_contradict_each_other_are_not_smoothed_over() -> None:
    found = only_answer(headline(Estimate(0.8, 0.7, 0.9), Estimate(0.7, 0.6, 0.8)))
    assert "opposite directions" in found.notes[0]


def test_human_normalised_scores_are_called_so() -> None:
    found = only_answer(headline(Estimate(2.0, 1.9, 2.1), Estimate(0.9, 0.8, 1.0), kind="human"))
    assert found.said.startswith("reached a human-normalised score of 2.00 [1.90, 2.10], Hard copy 1.00 [0.97, 1.03]")


def test_every_run_that_is_missing_unfinished_or_diverged_is_named() -> None:
    asked = study_results.study(seeds=6)
    statuses: dict[tuple[str, str, int], results.Status] = {
        ("minatar/breakout", "polyak", 1): "missing",
        ("minatar/freeway", "replicate", 2): "unfinished",
        ("minatar/freeway", "replicate", 3): "unfinished",
        ("minatar/freeway", "hard", 5): "diverged",
    }
    some = study_results.results(asked, statuses=statuses)
    text = visible(answer.missing(some, statistics.headline(some, resamples=50)))
    assert "3 runs of 36 not counted" in text
    assert "breakout · Polyak target, seed 1: missing" in text
    assert "freeway · Replicate target, seeds 2, 3: unfinished, at 50,000 steps" in text
    assert "freeway · Hard target, seed 5: diverged" in text
    every = study_results.results(asked)
    complete = statistics.headline(every, resamples=50)
    assert visible(answer.missing(every, complete)) == "Nothing: all 36 runs finished, and none diverged."


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A study whose every text tries to break out of the page."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    asked = study_results.study(seeds=5, figures=("fig2", "improvement", "gap"), title=HOSTILE, question=HOSTILE)
    asked = dataclasses.replace(
        asked,
        name="n<b>",
        environments=("minatar/breakout", "x<script>/y'\"&"),
        variants=tuple(dataclasses.replace(v, label=v.label + HOSTILE) for v in asked.variants),
    )
    configs = {
        name: {"env": "e", "agent": HOSTILE, "settings": {"target": target, "network": {"network": HOSTILE}}}
        for name, target in study_results.TARGETS.items()
    }
    (folder / "videos").mkdir()
    Image.new("P", (8, 6)).save(folder / "videos" / "a'b\"&<i>.gif")
    level = {"hard": 20.0, "polyak": 20.0, "replicate": 10.0}
    found = study_results.results(asked, lambda env, variant, seed: level[variant] * (1 + seed / 100))
    sitting = {"start": "2026-01-01T00:00:00+00:00", "end": "2026-01-01T01:01:00+00:00", "command": HOSTILE}
    return dataclasses.replace(
        found, folder=folder, sittings=({**sitting, "hardware": {"device": HOSTILE, "cores": 2}},),
        versions=({"jax": HOSTILE},), configs=configs,
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(hostile: Results) -> str:
    return report.build(hostile)


class Reader(HTMLParser):
    """All tags with their attributes, and the text in between."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def visible(page: str) -> str:
    return " ".join(" ".join(read(page).texts).split())


def test_no_text_of_a_study_becomes_markup(page: str, hostile: Results) -> None:
    reader = read(page)
    assert sum(tag == "script" for tag, _ in reader.tags) == 1
    assert not [key for _, attributes in reader.tags for key in attributes if key.startswith("on")]
    assert {tag for tag, _ in reader.tags}.isdisjoint({"iframe", "object", "embed", "form", "base"})
    assert all(str(attributes["src"]).startswith("data:") for tag, attributes in reader.tags if tag == "img")
    assert visible(page).count(HOSTILE) > 10  # it is there, as text
    assert "a'b\"&<i>" in visible(page)


def test_the_page_refers_to_nothing_outside_itself(page: str) -> None:
    for _, attributes in read(page).tags:
        for key in ("src", "href", "srcset", "data", "action", "poster"):
            value = attributes.get(key)
            assert value is None or value.startswith(("data:", "#"))
    styles = re.findall(r"<style>(.*?)</style>", page, re.S)
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]


def test_the_policy_lets_our_script_run_and_no_other(page: str) -> None:
    policy = next(a["content"] for t, a in read(page).tags if a.get("http-equiv") == "Content-Security-Policy")
    script = re.findall(r"<script>(.*?)</script>", page, re.S)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert f"script-src 'sha256-{digest}'" in policy


def test_figures_come_with_their_words_and_their_numbers(page: str, hostile: Results) -> None:
    tags = read(page).tags
    downloads = {str(a["download"]): str(a["href"]) for t, a in tags if t == "a" and "download" in a}
    assert list(downloads) == ["fig2.csv", "improvement.csv", "games.csv", "gap.csv"]
    _, rows = figures.draw("improvement", hostile)
    text = base64.b64decode(downloads["improvement.csv"].split(",")[1]).decode()
    assert list(csv.DictReader(io.StringIO(text))) == [{k: str(v) for k, v in row.items()} for row in rows]
    images = [a for t, a in tags if t == "img"]
    assert [str(a["src"]).partition(";")[0] for a in images] == ["data:image/gif"]
    assert all(a["alt"] for a in images)
    drawings = [a for t, a in tags if t == "svg" and a.get("role") == "img"]
    assert [a["class"] for a in drawings] == ["wide", "narrow"] * 3
    assert all(str(a["aria-label"]).startswith("Figure: ") for a in drawings)
    assert "5 seeds; intervals: 95 %, stratified bootstrap over seeds." in visible(page)


def test_the_page_answers_in_the_order_of_a_readers_questions(page: str) -> None:
    assert [a["id"] for t, a in read(page).tags if t == "section"] == [
        "answer", "missing", "figures", "games", "networks", "films", "run",
    ]  # fmt: skip
    text = visible(page)
    assert "Of 2 variants compared with Hard target" in text
    assert "reached 0.50 [0.49, 0.51] of Hard target" in text
    assert "Probability of improvement 0.00 [0.00, 0.00]: it is worse." in text
    assert "1h01m in 1 session" in text
    assert "While resampling that mean stays as it is" in text  # the baseline's


def test_a_study_looked_at_before_its_end_is_said_to_be(hostile: Results) -> None:
    early = dataclasses.replace(hostile, whole=dataclasses.replace(hostile.study, steps=2 * hostile.study.steps))
    assert "as if it ended there, not at" in visible(provenance.section(early))
    assert "as if it ended there" not in visible(provenance.section(hostile))
    steps = f"Steps {hostile.study.steps:,} to {2 * hostile.study.steps:,}"
    found = statistics.headline(hostile, resamples=50)
    assert steps in visible(answer.missing(early, found))
    assert steps not in visible(answer.missing(hostile, found))


def test_what_is_not_looked_at_is_named() -> None:
    whole = study_results.study(seeds=1)
    found = study_results.results(definition.narrow(whole, environments=["freeway"], variants=["hard", "polyak"]))
    numbers = statistics.headline(found, resamples=50)
    text = visible(answer.missing(dataclasses.replace(found, whole=whole), numbers))
    assert "1 variant of 3 not looked at Replicate target" in text
    assert "1 game of 2 not looked at minatar/breakout" in text
    assert "1 game of" not in visible(answer.missing(found, numbers))


def test_the_time_of_a_killed_sitting_is_not_made_up(hostile: Results) -> None:
    killed = {"start": "2026-01-02T00:00:00+00:00", "command": "lookrep study run …"}
    text = visible(provenance.section(dataclasses.replace(hostile, sittings=(*hostile.sittings, killed))))
    assert "at least 1h01m in 2 sessions" in text
    assert "# 2026-01-02 00:00, did not end cleanly" in text


def test_equal_results_give_equal_pages(page: str, hostile: Results) -> None:
    assert report.build(hostile) == page


def test_the_table_has_what_statistics_says() -> None:
    asked = study_results.study(seeds=5)
    level = {"hard": 20.0, "polyak": 25.0, "replicate": 10.0}
    found = statistics.headline(study_results.results(asked, lambda env, variant, seed: level[variant]), resamples=50)
    table = visible(games.section(asked, found))
    # Levels rise linearly over 20 rows: the last 10 % are the mean of 0.95 and 1 times the level.
    assert "The last columns are the differences from Hard target, in percent of its own score." in table
    assert "breakout 19.5 [19.5, 19.5] 24.4 [24.4, 24.4] 9.75 [9.75, 9.75]" in table
    assert "▲ better: +25 % [+25, +25] ▼ worse: −50 % [−50, −50]" in table.replace("\xa0", " ")
    fewer = dataclasses.replace(asked, seeds=4)
    found = statistics.headline(study_results.results(fewer, lambda env, variant, seed: level[variant]), resamples=50)
    assert "▲ better:" not in visible(games.section(fewer, found))
    assert score_rows(found.by_environment)[0]["final_score"] == pytest.approx(19.5)


def test_a_game_without_runs_has_no_number_and_is_sorted_below() -> None:
    asked = study_results.study(seeds=1)
    statuses: dict[Any, results.Status] = {("minatar/freeway", "polyak", 0): "missing"}
    found = statistics.headline(study_results.results(asked, statuses=statuses), resamples=50)
    cells = [a.get("data-value") for t, a in read(games.section(asked, found)).tags if t in ("td", "th")]
    assert cells[6:] == ["breakout", "9.75", "9.75", "9.75", "0", "0", "freeway", "9.75", "", "9.75", "", ""]


def test_settings_that_differ_are_those_of_the_runs() -> None:
    asked, configs = study_results.study(), {}
    for name, tau in (("hard", 0.1), ("polyak", 0.25), ("replicate", 0.1)):
        target = {"target": name, "tau": tau, "replicate_updates": 7, "target_period_updates": 250}
        configs[name] = {"agent": "rainbow", "settings": {"target": target}}
    assert provenance.differences(asked, configs) == {
        "target": ["hard", "polyak", "replicate"],
        "replicate_updates": ["–", "–", "7"],
    }
    other = dataclasses.replace(asked, overrides={"tau": 0.25})
    assert provenance.differences(other, configs)["tau"] == ["–", "0.25", "–"]


@pytest.fixture
def begun(tmp_path: Path) -> Results:
    """A study of which nothing has been run yet."""
    asked = study_results.study(seeds=1)
    statuses: dict[Any, results.Status] = {
        (env, v.name, 0): "missing" for env in asked.environments for v in asked.variants
    }
    return dataclasses.replace(study_results.results(asked, statuses=statuses), folder=tmp_path)


def test_a_study_that_has_only_begun_has_a_page(begun: Results) -> None:
    text = visible(report.build(begun))
    assert "Nothing can be compared yet" in text
    assert "6 runs of 6 not counted" in text


def test_an_exact_study_says_where_the_networks_end(tmp_path: Path) -> None:
    exact_study.run(definition.load("exact", "smoke"), tmp_path / "exact", "lookrep study run exact")
    text = visible(report.build(results.load(tmp_path / "exact")))
    # App. B of the paper: θ = [0.6636, 0.4455, 0.4455] and w = [−0.2364, 0.7455, 0.7455] are 0.995 apart.
    assert re.search(r"two-state Lookahead-Replicate reaches the true values \S+ 0\.995", text)
    assert "two-state-two-spaces" in text
    assert "Seeds each" not in text


def test_films_are_in_the_studys_order_and_carry_its_labels(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    for stem in ("another", "minatar_breakout--replicate", "minatar_breakout--hard"):
        Image.new("P", (8, 6)).save(tmp_path / "videos" / f"{stem}.gif")
    found = dataclasses.replace(study_results.results(study_results.study()), folder=tmp_path)
    assert [visible(film).partition(" Pause")[0] for film in pictures.films(found)] == [
        "breakout · Hard target", "breakout · Replicate target", "another",
    ]  # fmt: skip


def test_drawings_have_the_pages_colours_and_no_background(page: str) -> None:
    drawn = re.findall(r"<svg viewBox.*?</svg>", page, re.S)
    assert len(drawn) == 6
    for each in drawn:
        palette, rest = re.findall(r'style="(--c[^"]*)"', each)[0], re.sub(r'style="--c[^"]*"', "", each)
        assert "--c000000:var(--ink)" in palette
        assert not re.findall(r"#[0-9a-f]{6}|<image|<style|<metadata|<!--", rest)
        assert set(re.findall(r"var\(--c(\w+)\)", rest)) == set(re.findall(r"--c(\w+):", palette))


def test_what_a_drawing_refers_to_is_on_the_page_once(page: str) -> None:
    ids = [str(a["id"]) for _, a in read(page).tags if "id" in a]
    assert len(ids) == len(set(ids))
    used = {str(a["href"])[1:] for t, a in read(page).tags if t == "use"} | set(re.findall(r"url\(#([^)]+)\)", page))
    assert len(used) > 50
    assert used <= set(ids)


def test_a_page_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, begun: Results) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match=r"report '.*page\.html' cannot be written"):
        report.write(begun, tmp_path / "file" / "page.html")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        report.write(begun, tmp_path / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "page.html"]


def test_numbers_of_any_size_fit_their_place() -> None:
    rng = np.random.default_rng(0)
    for value in 10.0 ** rng.uniform(-3, 6, 200):
        assert len(words.number(-value).replace(",", "")) <= 8
