"""Every figure can be drawn from every study that has its numbers, is readable, and shows what its CSV says."""

import dataclasses
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
import study_results
from matplotlib.figure import Figure
from matplotlib.text import Text

from lookrep.analysis import figures, scores
from lookrep.analysis.figures import style
from lookrep.analysis.results import Results
from lookrep.errors import UserError
from lookrep.studies import definition

TRAINING = tuple(name for name in figures.NAMES if name not in ("fig1", "fig8"))
SWEEP: dict[str, dict[str, Any]] = {
    "hard": {"target": "hard"},
    "polyak": {"target": "polyak"},
    **{f"lr-{k}": {"target": "replicate", "replicate_updates": k} for k in (200, 2, 20)},
}
GAMES = definition.load("paper-55", "full").environments


def spread(env: str, variant: str, seed: int) -> float:
    """Levels that differ by all three, without a random number."""
    return 10.0 + 3.0 * len(variant) + 0.7 * seed + (hash_of(env) % 7)


def hash_of(text: str) -> int:
    return sum(ord(letter) * (place + 1) for place, letter in enumerate(text))


@pytest.fixture(scope="module")
def sweep() -> Results:
    return study_results.results(study_results.study(variants=SWEEP), spread)


@pytest.fixture(scope="module")
def paper55() -> Results:
    pair = {"rainbow": {"target": "hard"}, "lr": {"target": "replicate", "replicate_updates": 20}}
    return study_results.results(study_results.study(GAMES, pair, seeds=2), spread, rows=10)


def texts(figure: Figure) -> Iterator[Text]:
    return (text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible())


def words(figure: Figure) -> str:
    return re.sub(r"\s+", " ", " ".join(text.get_text() for text in texts(figure)))


def assert_readable(figure: Figure) -> None:
    """Type of at least 8 points; everything on the page; legend and notes below all panels."""
    figure.canvas.draw()
    assert min(text.get_fontsize() for text in texts(figure)) >= 8
    upper, lower = figure.subfigs
    panels = [axes.get_tightbbox() for axes in upper.axes]  # with those of their ticks that are in the picture
    below = [artist.get_window_extent() for artist in (*lower.legends, *lower.texts)]
    for box in (*panels, *below, *(text.get_window_extent() for text in upper.texts)):
        assert box is not None
        assert min(box.x0, box.y0) >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y1 <= figure.bbox.y1 + 1
    assert max((box.y1 for box in below), default=0.0) <= min(box.y0 for box in panels if box is not None)
    for legend in lower.legends:
        for text in lower.texts:
            assert text.get_window_extent().y1 <= legend.get_window_extent().y0 + 1


@pytest.mark.parametrize("name", [name for name in TRAINING if name not in ("fig9", "fig10", "curve")])
def test_every_figure_of_a_sweep_is_readable(name: str, sweep: Results) -> None:
    figure, rows = figures.draw(name, sweep)
    assert_readable(figure)
    assert rows
    assert all(row.keys() == rows[0].keys() for row in rows)


@pytest.mark.parametrize("name", ["fig5", "fig6", "fig7", "profiles", "improvement", "gap"])
def test_every_figure_of_55_games_is_readable(name: str, paper55: Results) -> None:
    figure, _ = figures.draw(name, paper55)
    assert_readable(figure)


@pytest.mark.parametrize("name", ["fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "profiles", "improvement", "gap"])
def test_one_seed_on_one_environment_has_no_interval_and_says_so(name: str) -> None:
    asked = study_results.study(("minatar/breakout",), SWEEP, seeds=1)
    figure, rows = figures.draw(name, study_results.results(asked, spread))
    assert_readable(figure)
    assert "One seed: no interval." in words(figure)
    assert {row[key] for row in rows for key in row if key.endswith(("low", "high"))} == {""}


def test_figures_9_and_10_show_all_games_once_and_are_readable(paper55: Results) -> None:
    parts = [figures.draw(name, paper55)[0] for name in ("fig9", "fig10")]
    titles = [axes.get_title() for figure in parts for axes in figure.axes]
    assert titles == [game.removeprefix("atari/") for game in GAMES]
    assert_readable(parts[1])


def test_the_lines_are_the_numbers_in_the_csv() -> None:
    asked = study_results.study(seeds=3)
    figure, rows = figures.draw("fig2", study_results.results(asked, spread))
    for env, axes in zip(asked.environments, figure.axes, strict=True):
        lines = {line.get_label(): line.get_xydata() for line in axes.lines}
        for variant in ("hard", "polyak", "replicate"):
            mine = [row for row in rows if row["environment"] == env and row["variant"] == variant]
            drawn = lines[variant]
            np.testing.assert_allclose(drawn[:, 0] * 1e3, [row["agent_steps"] for row in mine])  # type: ignore[index]
            np.testing.assert_allclose(drawn[:, 1], [row["mean"] for row in mine])  # type: ignore[index]
    last = next(row for row in reversed(rows) if row["variant"] == "hard" and "breakout" in row["environment"])
    assert last["mean"] == pytest.approx(np.mean([spread("minatar/breakout", "hard", seed) for seed in range(3)]))
    assert last["low"] < last["mean"] < last["high"]
    assert last["runs"] == 3


def test_figure_6_has_both_axes_and_one_if_asked() -> None:
    found = study_results.results(study_results.study(("atari/Pong", "atari/Breakout")))
    figure, rows = figures.draw("fig6", found)
    assert [axes.get_xlabel().split(" (")[0] for axes in figure.axes] == ["frames", "gradient steps of both networks"]
    ends = {(row["axis"], row["variant"]): row["x"] for row in rows}
    assert ends["frames", "hard"] == ends["frames", "replicate"] == 400_000
    assert ends["gradient-steps", "hard"] == ends["gradient-steps", "polyak"] == 25_000
    assert ends["gradient-steps", "replicate"] == 27_500  # ten per cent more: K_R = K_L / 10
    only, _ = figures.draw("fig6", found, axis="agent-steps")
    assert [axes.get_xlabel() for axes in only.axes] == ["agent steps (thousands)"]


def test_gradient_steps_of_a_renewed_network_count() -> None:
    """With settings as a study asks for them, by a method's name or one by one."""
    both = {"target": "replicate", "target_period_updates": 200, "replicate_updates": 20}
    variants = {
        "replicate": both,
        "renewed": both | {"method": "renewed", "reset_updates": 100},  # every 10,000 updates
        "learned": both | {"reset_period_updates": 5_000, "reset_updates": 10},
        "forgotten": both | {"reset_period_updates": 5_000, "reset_updates": 0},
    }
    found = study_results.results(study_results.study(("minatar/breakout",), variants))
    ends = {
        name: scores.curves(found, name, "return_mean", ["minatar/breakout"], "gradient-steps").x[-1]
        for name in variants
    }
    assert ends == {"replicate": 27_500, "renewed": 27_700, "learned": 27_550, "forgotten": 27_500}


def test_figure_4_has_a_point_for_each_k_r_in_order(sweep: Results) -> None:
    figure, rows = figures.draw("fig4", sweep)
    line = next(line for line in figure.axes[0].lines if line.get_label() == "replicate")
    areas = {row["replicate_updates"]: row["area"] for row in rows}
    np.testing.assert_allclose(line.get_xdata(), [2, 20, 200])
    np.testing.assert_allclose(line.get_ydata(), [areas[k] for k in (2, 20, 200)])


def test_figure_7_is_sorted_and_marks_better_and_worse() -> None:
    level = {"atari/Pong": 30.0, "atari/Breakout": 3.0, "atari/Boxing": 10.0}
    asked = study_results.study(tuple(level), {"a": {}, "b": {}}, seeds=5)
    found = study_results.results(asked, lambda env, v, s: (level[env] if v == "b" else 10.0) * (1 + 0.01 * s))
    figure, rows = figures.draw("fig7", found)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Breakout", "Boxing", "Pong"]
    hatches = [patch.get_hatch() for patch in axes.patches]
    assert [bool(hatch) for hatch in hatches] == [True, False, False]
    few = study_results.results(dataclasses.replace(asked, seeds=4), lambda env, v, s: 10.0 + (v == "b"))
    assert {patch.get_facecolor() for patch in figures.draw("fig7", few)[0].axes[0].patches} == {(0.85, 0.85, 0.85, 1)}
    signs = {row["environment"]: np.sign(row["relative_difference"]) for row in rows if row["variant"] == "b"}
    assert signs == {"atari/Pong": 1, "atari/Breakout": -1, "atari/Boxing": 0}


def test_exceptions_are_named_on_the_figure() -> None:
    asked = study_results.study(seeds=2)
    breakout, freeway = asked.environments
    odd = {
        (breakout, "hard", 0): "diverged",
        (freeway, "hard", 1): "missing",
        (freeway, "polyak", 0): "unfinished",
        (freeway, "polyak", 1): "unfinished",
    }
    found = study_results.results(asked, spread, statuses=odd)  # type: ignore[arg-type]
    said = words(figures.draw("fig2", found)[0])
    assert "Diverged, and counted as such: minatar/breakout hard seed 0." in said
    assert "drawn as far as they got: minatar/freeway polyak seed 0, minatar/freeway polyak seed 1." in said
    assert "Not counted, because unfinished or missing: minatar/freeway hard seed 1." in said
    said = words(figures.draw("fig6", found)[0])
    assert "Left out: minatar/freeway (no finished run of polyak)." in said


def test_environments_where_a_variant_is_missing_are_counted_although_three_are_named() -> None:
    games = tuple(f"atari/{name}" for name in ("Pong", "Boxing", "Krull", "Enduro", "Gopher", "Assault"))
    waiting = {(env, "polyak", 0): "missing" for env in games[1:]}
    found = study_results.results(study_results.study(games, seeds=1), spread, statuses=waiting)  # type: ignore[arg-type]
    said = words(figures.draw("gap", found)[0])
    assert "Mean over 1 environment, without atari/Boxing, atari/Krull, atari/Enduro and 2 more, where not" in said


def test_every_figure_can_be_laid_out_for_a_phone_and_back(sweep: Results) -> None:
    for name in ("fig2", "fig6", "fig7", "improvement", "gap"):
        figure, _ = figures.draw(name, sweep)
        assert isinstance(figure, style.Drawing)
        before = figure.get_size_inches().tolist()
        style.lay_out(figure, narrow=True, worded=False)
        assert figure.get_size_inches()[0] == style.PHONE
        assert not figure.subfigs[1].texts
        assert_readable(figure)
        style.lay_out(figure)
        assert figure.get_size_inches().tolist() == before
    lone, _ = figures.draw("fig8", None)
    style.stack(lone)
    lone.canvas.draw()
    boxes = [axes.get_tightbbox() for axes in lone.axes] + [legend.get_window_extent() for legend in lone.legends]
    assert all(box is not None and box.x0 >= -1 and box.x1 <= lone.bbox.x1 + 1 and box.y0 >= -1 for box in boxes)
    assert all(upper.y0 >= lower.y1 for upper, lower in itertools.pairwise(box for box in boxes if box is not None))


@pytest.mark.parametrize("name", ["fig2", "fig5", "fig6", "fig7", "profiles", "improvement", "gap", "residual"])
def test_text_from_users_is_no_formula_and_no_markup(name: str) -> None:
    nasty = r"_hidden $\frac{1}{$ <b>&amp; \alpha_{ ^" + "\n" + "x" * 30
    asked = study_results.study(("own/a_$b^$_{c", "own/_d"))
    variants = tuple(dataclasses.replace(v, label=f"{nasty} {v.name} $") for v in asked.variants)
    asked = dataclasses.replace(asked, title=nasty, variants=variants)
    figure, _ = figures.draw(name, study_results.results(asked, spread))
    assert_readable(figure)
    for legend in figure.subfigs[1].legends:
        if "fig7" not in name and "improvement" not in name:
            assert len(legend.get_texts()) == 3
    drawn = " ".join(text.get_text() for text in texts(figure))
    assert r"\$\frac{1}{\$" in drawn or name in ("improvement", "fig7", "gap", "residual", "fig5")


def test_variants_differ_in_line_and_in_greys_or_colours(sweep: Results) -> None:
    looks = style.looks(sweep)
    assert looks["hard"] == ("#000000", "-", "o")
    assert len({(str(look.linestyle), matplotlib.colors.to_hex(look.color)) for look in looks.values()}) == 5
    shades = [np.dot(matplotlib.colors.to_rgb(looks[f"lr-{k}"].color), [0.3, 0.59, 0.11]) for k in (2, 20, 200)]
    assert shades == sorted(shades)  # a sweep is dark to light, in grey print too


def test_a_study_gets_the_figures_it_names_as_far_as_it_has_the_numbers(sweep: Results) -> None:
    named = dataclasses.replace(
        sweep, study=dataclasses.replace(sweep.study, figures=("fig4", "fig10", "fig2", "nonsense"))
    )
    assert figures.suitable(named) == ("fig4", "fig2")
    assert figures.suitable(sweep) == (
        "fig2", "fig3", "fig4", "fig5", "fig6", "fig7", "profiles", "improvement", "gap", "agreement", "residual",
    )  # fmt: skip
    alone = study_results.results(study_results.study(variants={"hard": {"target": "hard"}}))
    assert figures.suitable(alone) == ("fig2", "fig5", "fig6", "profiles", "gap", "agreement", "residual")
    one = study_results.results(study_results.study(("minatar/breakout",), SWEEP, seeds=1), spread)
    assert figures.suitable(one)[:2] == ("fig2", "fig4")  # not its curves again: fig3, fig6
    assert len(figures.suitable(one)) == len(figures.suitable(sweep)) - 2
    empty = dataclasses.replace(
        sweep, members=tuple(dataclasses.replace(m, status="missing", columns={}) for m in sweep.members)
    )
    assert figures.suitable(empty) == ()
    exact = dataclasses.replace(
        sweep, study=dataclasses.replace(sweep.study, kind="exact", figures=("fig1", "fig8")), members=()
    )
    assert figures.suitable(exact) == ("fig1", "fig8")


def test_a_study_that_has_only_begun_shows_curves_but_no_comparison() -> None:
    asked = study_results.study(seeds=1)
    odd = {(env, v.name, 0): "unfinished" for env in asked.environments for v in asked.variants}
    odd[asked.environments[1], "polyak", 0] = "missing"
    found = study_results.results(asked, spread, statuses=odd)  # type: ignore[arg-type]
    assert figures.suitable(found) == ("fig2", "fig5", "gap", "agreement", "residual")
    for name in figures.suitable(found):
        assert_readable(figures.draw(name, found)[0])
    with pytest.raises(UserError, match=r"^fig7 cannot be drawn from this study: no environment can be compared, "):
        figures.draw("fig7", found)


@pytest.mark.parametrize("name", ["fig1", "fig8"])
def test_the_exact_examples_need_no_study(name: str) -> None:
    figure, rows = figures.draw(name, None)
    assert len(rows) == 801
    # Appendix B: what the paper says the examples converge to.
    ends = {"fig1": ([0.663, 0.445, 0.445], [-0.236, 0.745, 0.745]), "fig8": ([1.264, 0.245, 0.245], [2 / 3, 2 / 3])}
    for network, end in zip(("target", "online"), ends[name], strict=True):
        found = [rows[-1][f"{network}_{place + 1}"] for place in range(len(end))]
        np.testing.assert_allclose(found, end, atol=1e-3)
    assert figure.axes


def test_mistakes_are_one_line() -> None:
    with pytest.raises(UserError, match="unknown figure 'fig22': did you mean 'fig2'"):
        figures.draw("fig22", None)
    with pytest.raises(UserError, match="fig2 is drawn from a study, a run or logs: give its folder"):
        figures.draw("fig2", None)
    same = {name: {"target": "replicate", "replicate_updates": 5} for name in ("a", "b")}
    no_sweep = study_results.results(study_results.study(variants=same))
    with pytest.raises(UserError, match="no Replicate variants that differ"):
        figures.draw("fig3", no_sweep)


def test_equal_results_give_equal_files(tmp_path: Path, sweep: Results) -> None:
    from lookrep.files import save_figure

    for name in ("a.svg", "b.svg"):
        save_figure(figures.draw("fig6", sweep)[0], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_one_k_r_is_no_sweep() -> None:
    one = study_results.results(study_results.study(), spread)
    for name in ("fig3", "fig4"):
        with pytest.raises(UserError, match=r"no Replicate variants that differ in replicate_updates \(K_R\)"):
            figures.draw(name, one)


@pytest.mark.parametrize(("seeds", "few"), [(4, True), (5, False)])
def test_below_five_seeds_no_colour_says_who_is_better(seeds: int, few: bool) -> None:
    found = study_results.results(study_results.study(seeds=seeds), spread)
    figure, _ = figures.draw("improvement", found)
    assert ("too few seeds to tell" in words(figure)) == few
    colours = {line.get_color() for line in figure.axes[0].lines if line.get_label() in study_results.TARGETS}
    assert (colours == {"0.45"}) == few
