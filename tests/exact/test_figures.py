"""The figures show the paths, their ends and the true value, in every format, for every shape of problem."""

from pathlib import Path

import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.exact import Settings, linear, markov_chain, problem, solve
from lookrep.exact.builtin import baird, random_chain, tsitsiklis_van_roy, two_state, two_state_two_spaces
from lookrep.exact.figures import draw
from lookrep.files import check_figure_path, save_figure

SHORT = Settings(outer_iterations=40, lookahead_updates=20, replicate_updates=2)
STARTS = {b"\x89PNG": "png", b"%PDF": "pdf", b"<?xml": "svg"}


def test_figure_1_has_value_space_and_one_3d_parameter_space() -> None:
    task = two_state()
    trace = solve(task, SHORT)
    values, parameters = draw(task, trace, "").axes
    assert parameters.name == "3d"
    drawn = [line.get_xydata() for line in values.lines]
    assert any(np.array_equal(line, trace.value_target) for line in drawn)
    assert any(np.array_equal(line, trace.value_online) for line in drawn)
    assert any(line.shape == (1, 2) and np.allclose(line, [[2.0, 2.0]]) for line in drawn)  # v*
    for end in (trace.value_target[0], trace.value_target[-1], trace.value_online[0], trace.value_online[-1]):
        assert any(line.shape == (1, 2) and np.array_equal(line[0], end) for line in drawn)


def test_figure_8_has_a_space_for_each_network() -> None:
    task = two_state_two_spaces()
    axes = draw(task, solve(task, SHORT), "").axes
    assert [panel.name for panel in axes] == ["rectilinear", "3d", "rectilinear"]


def test_the_legend_covers_no_panel() -> None:
    figure = draw(two_state(), solve(two_state(), SHORT), "")
    figure.canvas.draw()
    legend = figure.legends[0].get_window_extent()
    for axes in figure.axes:
        assert legend.y1 <= axes.get_window_extent().y0
    assert legend.x0 >= 0
    assert legend.x1 <= figure.bbox.width


@pytest.mark.parametrize(
    "task",
    [
        random_chain(5, 0),
        random_chain(4, 1, 1, 6),
        tsitsiklis_van_roy(),
        baird(),
        problem(markov_chain([[1.0]], [1.0], 0.5), linear([[1.0]]), linear([[2.0]])),
    ],
    ids=["more states than fit", "one and six parameters", "diverging", "seven states", "one state"],
)
def test_every_shape_of_problem_can_be_drawn(task, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "figure.png"
    save_figure(draw(task, solve(task, SHORT), "title"), path)
    assert path.stat().st_size > 5_000


def test_a_diverging_path_is_cut_and_says_so() -> None:
    task = tsitsiklis_van_roy()
    settings = Settings("td", outer_iterations=500, lookahead_updates=10)
    trace = solve(task, settings)
    assert not np.isfinite(trace.value_online[-1]).all()
    figure = draw(task, trace, "td")
    assert "diverges" in figure.get_suptitle()


@pytest.mark.parametrize("kind", ["png", "pdf", "svg"])
def test_the_suffix_decides_the_format_and_equal_input_gives_equal_bytes(tmp_path: Path, kind: str) -> None:
    trace = solve(two_state(), SHORT)
    paths = [tmp_path / f"{name}.{kind}" for name in ("a", "b")]
    for path in paths:
        save_figure(draw(two_state(), trace, "t"), path)
    content = [path.read_bytes() for path in paths]
    assert content[0] == content[1]
    assert any(content[0].startswith(start) for start, name in STARTS.items() if name == kind)


def test_a_place_where_no_figure_can_go_is_refused_before_computing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"should end in \.png, \.pdf, \.svg"):
        check_figure_path(tmp_path / "figure.gif")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_figure_path(tmp_path / "folder.png")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        check_figure_path(tmp_path / "file" / "figure.png")
    check_figure_path(tmp_path / "new" / "deep" / "figure.png")
    assert (tmp_path / "new" / "deep").is_dir()
    assert not (tmp_path / "new" / "deep" / "figure.png").exists()
