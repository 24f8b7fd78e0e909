"""The pictures of an agent at play: the numbers on them are the networks', the scales hold still, files are whole."""

import contextlib
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lookrep.envs import minatar
from lookrep.errors import UserError
from lookrep.playing import Distribution, Recording
from lookrep.playing.episodes import Screens
from lookrep.video import check_path, files, pending, write
from lookrep.video.frames import HEIGHT, LEFT, SIDE, TOP, WIDTH, Film, Labels
from lookrep.video.observations import FLOOR, MINATAR, screen
from lookrep.video.values import BINS, MOST_ROWS, histogram, rows

RANDOM = np.random.default_rng(7)


def recording(steps: int = 6, count: int = 3, **changes: Any) -> Recording:
    """Two episodes of a three-channel board, the second from step 4 on."""
    columns = {
        "observations": RANDOM.random((steps, 5, 4, 3)) < 0.3,
        "actions": np.arange(steps) % count,
        "rewards": np.arange(steps, dtype=np.float32),
        "ends": np.arange(steps) == 3,
        "episodes": (np.arange(steps) > 3).astype(int),
        "online_values": RANDOM.normal(size=(steps, count)),
        "target_values": RANDOM.normal(size=(steps, count)),
        "online_returns": None,
        "target_returns": None,
    }
    return Recording(**{**columns, **changes})


def names(count: int) -> tuple[str, ...]:
    return tuple(f"action {i}" for i in range(count))


def categorical(weights: np.ndarray, low: float, high: float) -> Distribution:
    return Distribution(np.broadcast_to(np.linspace(low, high, weights.shape[-1]), weights.shape), weights)


# ---- what is drawn of the networks


def test_values_have_a_row_each_on_one_axis_that_holds_all_of_them_and_zero() -> None:
    what = recording()
    drawn = rows(what, names(3))
    np.testing.assert_array_equal(drawn.online_values, what.online_values)
    np.testing.assert_array_equal(drawn.target_values, what.target_values)
    both = np.stack([what.online_values, what.target_values])
    assert drawn.low < both.min() < 0 < both.max() < drawn.high
    assert 0.0 in drawn.ticks
    assert drawn.edges is None


def test_positive_values_start_at_zero_and_equal_values_still_have_an_axis() -> None:
    positive = recording(online_values=np.full((6, 3), 2.0), target_values=np.full((6, 3), 4.0))
    assert rows(positive, names(3)).low == 0
    nothing = recording(online_values=np.zeros((6, 3)), target_values=np.zeros((6, 3)))
    assert rows(nothing, names(3)).low < 0 < rows(nothing, names(3)).high


@pytest.mark.parametrize(("largest", "decimals"), [(40.0, 2), (3.0, 2), (0.6, 3), (0.03, 4), (0.0, 2)])
def test_small_values_are_written_with_more_digits(largest: float, decimals: int) -> None:
    values = np.linspace(0, largest, 18).reshape(6, 3)
    assert rows(recording(online_values=values, target_values=values), names(3)).decimals == decimals


def test_categorical_rows_show_the_atoms_that_matter_anywhere_in_the_video_with_their_own_weights() -> None:
    online, target = np.zeros((6, 3, 21)), np.zeros((6, 3, 21))
    online[..., 4], target[..., 5] = 1.0, 1.0
    target[3, 1] = 0.0
    target[3, 1, 15:17] = 0.5  # in one frame only
    drawn = rows(
        recording(online_returns=categorical(online, -5, 5), target_returns=categorical(target, -5, 5)), names(3)
    )
    # atoms are 0.5 apart: number 4 is −3, number 16 is 3; one more on either side, edges half-way
    np.testing.assert_allclose(drawn.edges, np.arange(-3.75, 3.76, 0.5), atol=1e-12)
    assert (drawn.low, drawn.high) == (-3.75, 3.75)
    np.testing.assert_array_equal(drawn.online_weights, online[..., 3:18])
    np.testing.assert_array_equal(drawn.target_weights, target[..., 3:18])


@pytest.mark.parametrize("atom", [0, 10, 20])
def test_a_distribution_on_one_atom_gets_some_room_without_leaving_the_support(atom: int) -> None:
    sure = np.zeros((6, 3, 21))
    sure[..., atom] = 1.0
    drawn = rows(recording(online_returns=categorical(sure, 0, 20), target_returns=categorical(sure, 0, 20)), names(3))
    assert drawn.edges is not None
    assert len(drawn.edges) >= 11
    assert -0.5 <= drawn.low <= atom <= drawn.high <= 20.5


def test_quantiles_become_a_histogram_with_their_weight_and_mean() -> None:
    quantiles = RANDOM.normal(3.0, 1.0, (6, 3, 32))
    returns = Distribution(quantiles, np.full_like(quantiles, 1 / 32))
    edges = np.linspace(-7, 13, 201)
    weights = histogram(returns, edges, smooth=True)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-4)
    np.testing.assert_allclose(weights @ ((edges[1:] + edges[:-1]) / 2), quantiles.mean(axis=-1), atol=1e-3)
    drawn = rows(recording(online_returns=returns, target_returns=returns), names(3))
    assert drawn.edges is not None
    assert len(drawn.edges) == BINS + 1


def test_of_very_many_actions_those_taken_most_have_rows() -> None:
    taken = np.array([90, 90, 7, 7, 50, 50])
    drawn = rows(
        recording(
            actions=taken, online_values=RANDOM.normal(size=(6, 100)), target_values=RANDOM.normal(size=(6, 100))
        ),
        names(100),
    )
    assert len(drawn.actions) == MOST_ROWS
    assert {7, 50, 90} <= set(drawn.actions.tolist())
    assert drawn.names == tuple(f"action {i}" for i in drawn.actions)


def test_the_function_gap_is_the_mean_over_actions() -> None:
    what = recording(2, 2, online_values=np.array([[1.0, 2.0], [0.0, 0.0]]), target_values=np.array([[1.5, 0.0]] * 2))
    np.testing.assert_allclose(what.function_gap, [1.25, 0.75])


# ---- the moment


def test_steps_and_return_count_within_the_episode_up_to_the_state_shown() -> None:
    film = Film(recording(), Labels("t", "s", names(3)))
    assert film.steps.tolist() == [0, 1, 2, 3, 0, 1]
    assert film.earned.tolist() == [0, 0, 1, 3, 0, 4]  # rewards are 0, 1, 2, 3 | 4, 5


def test_frames_have_one_size_and_only_what_moves_moves() -> None:
    film = Film(recording(), Labels("a title", "a subtitle", names(3)))
    frames = np.stack([np.asarray(frame) for frame in film])
    assert frames.shape == (6, HEIGHT, WIDTH, 3)
    assert (frames == frames[0]).all(axis=(0, 2, 3))[:48].all(), "the title moves"
    for one, other in itertools.pairwise(frames):
        assert (one != other).any()


def test_all_of_ataris_eighteen_actions_have_a_row() -> None:
    assert rows(recording(20, 18), names(18)).actions.tolist() == list(range(18))


def test_long_names_of_actions_push_the_plot_aside_up_to_a_limit() -> None:
    def drawn(name: str) -> tuple[float, str]:
        film = Film(recording(), Labels("t", "s", (name, "b", "c")))
        return film.plot_left, film.names[0]

    (left, _), (right, _), (door, whole), (longest, cut) = map(drawn, ("left", "right", "open doors", "x" * 50))
    assert left == right < door < longest == drawn("y" * 60)[0]
    assert whole == "open doors"
    assert 8 < len(cut) < 30
    assert cut.endswith("x…")


# ---- what a person would see


@pytest.mark.parametrize(
    ("screen_shape", "drawn_shape", "frame_height"),
    [
        ((210, 160), (420, 320), 570),  # Atari: twice as large
        ((20, 20), (320, 320), 470),
        ((400, 600), (213, 320), 470),  # Gymnasium's classic control: smaller, in the middle
        ((250, 160), (420, 269), 570),
    ],
)
def test_the_environments_own_pictures_are_as_large_as_fits(
    screen_shape: tuple[int, int], drawn_shape: tuple[int, int], frame_height: int
) -> None:
    pictures = Screens(np.full((*screen_shape, 3), 40 * t, np.uint8) for t in range(6))
    film = Film(recording(screens=pictures), Labels("t", "s", names(3)))
    frame = np.asarray(film.frame(5))
    assert frame.shape == (frame_height, WIDTH, 3)
    view = (frame[TOP : TOP + frame_height - HEIGHT + SIDE, LEFT : LEFT + SIDE] == 200).all(axis=2)
    down, across = np.flatnonzero(view.any(axis=1)), np.flatnonzero(view.any(axis=0))
    assert (len(down), len(across)) == pytest.approx(drawn_shape, abs=1)
    assert view[down[0] : down[-1] + 1, across[0] : across[-1] + 1].all()
    assert abs(down[0] - (len(view) - 1 - down[-1])) <= 1
    assert abs(across[0] - (SIDE - 1 - across[-1])) <= 1


# ---- what the agent sees


def test_every_minatar_channel_has_a_colour_of_its_own_in_its_game() -> None:
    for game in minatar.GAMES:
        channels = minatar.make(game).rules.channels
        directions = {"alien_left"}  # an alien is always on one of its directions' channels as well
        colours = [MINATAR[name] for name in channels if name not in directions]
        assert len(set(colours)) == len(colours), game


def test_the_legend_names_what_can_be_seen() -> None:
    channels = minatar.make("space_invaders").rules.channels
    seen = [name for name, _ in screen(np.zeros((1, 10, 10, 6), bool), 640, channels).legend]
    assert seen == ["cannon", "alien left", "alien right", "friendly bullet", "enemy bullet"]


def test_a_board_is_enlarged_by_whole_cells_and_the_ball_lies_over_the_bricks() -> None:
    channels = minatar.make("breakout").rules.channels
    board = np.zeros((1, 10, 10, 4), bool)
    board[0, 2, 3, [channels.index("ball"), channels.index("brick")]] = True
    board[0, 2, 4, channels.index("brick")] = True
    picture = screen(board, 640, channels).paint(board[0])
    assert picture.shape == (640, 640, 3)
    inside = picture[2 * 64 + 2 : 3 * 64]
    assert (inside[:, 3 * 64 + 2 : 4 * 64] == MINATAR["ball"]).all()
    assert (inside[:, 4 * 64 + 2 : 5 * 64] == MINATAR["brick"]).all()
    assert (inside[:, 5 * 64 + 2 : 6 * 64] == FLOOR).all()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), np.float32), ((1,), np.float32), ((4,), np.float32), ((200,), np.float32), ((7,), bool),
        ((6, 9), np.uint8),
        ((3, 4, 1), np.float32), ((3, 4, 5), np.float32), ((2, 3, 4, 5), np.float32), ((84, 84, 4), np.uint8),
        ((1000, 30, 3), np.uint8),
    ],
)  # fmt: skip
def test_any_observation_becomes_a_picture_of_the_right_size(shape: tuple[int, ...], dtype: Any) -> None:
    seen = (RANDOM.normal(size=(3, *shape)) * 50).astype(dtype)
    if dtype == np.float32:
        seen.reshape(-1)[0] = np.nan
    drawn = screen(seen, 640)
    pictures = np.stack([drawn.paint(x) for x in seen])
    assert pictures.shape == (3, 640, 640, 3)
    assert pictures.dtype == np.uint8
    assert (pictures[1] != pictures[2]).any() or dtype is bool


def test_grey_frames_show_the_newest_and_colour_is_left_alone() -> None:
    stack = RANDOM.integers(0, 256, (1, 10, 10, 4), np.uint8)
    colour = RANDOM.integers(0, 256, (1, 10, 10, 3), np.uint8)
    np.testing.assert_array_equal(screen(stack, 640).paint(stack[0])[::64, ::64, 1], stack[0, ..., 3])
    np.testing.assert_array_equal(screen(colour, 640).paint(colour[0])[::64, ::64], colour[0])


def test_a_bar_is_as_long_as_its_number_on_a_scale_that_stays() -> None:
    seen = np.array([[0.0, 1.0], [-1.0, 0.5]], np.float32)
    drawn = screen(seen, 640)

    def lengths(x: np.ndarray) -> list[int]:
        picture = drawn.paint(x)
        return [int((picture[y] == (120, 200, 180)).all(axis=-1).sum()) for y in (160, 480)]

    # 560 pixels for the range from −1 to 1, less the two of the zero line
    assert lengths(seen[1])[0] == pytest.approx(280, abs=2)
    assert lengths(seen[1])[1] == pytest.approx(140, abs=2)
    assert lengths(seen[0])[1] == pytest.approx(280, abs=2)


# ---- files


def film(steps: int = 6) -> Film:
    return Film(recording(steps), Labels("a title", "a subtitle", names(3)))


def test_a_gif_has_every_frame_at_its_pace_and_looks_like_what_was_drawn(tmp_path: Path) -> None:
    pictures = film(9)
    write(tmp_path / "a.gif", pictures, fps=10)
    with Image.open(tmp_path / "a.gif") as gif:
        assert (gif.n_frames, gif.size, gif.info["loop"]) == (9, (WIDTH, HEIGHT), 0)
        for t in range(9):
            gif.seek(t)
            assert gif.info["duration"] == 100
            error = np.abs(np.asarray(gif.convert("RGB"), int) - np.asarray(pictures.frame(t), int))
            assert error.mean() < 1
            assert np.quantile(error, 0.999) < 32


def test_equal_pictures_give_equal_files(tmp_path: Path) -> None:
    pictures = film(3)
    for name in ("a.gif", "b.gif"):
        write(tmp_path / name, pictures, fps=15)
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()


def test_a_gif_of_one_frame_works(tmp_path: Path) -> None:
    write(tmp_path / "a.gif", film(1), fps=15)
    with Image.open(tmp_path / "a.gif") as gif:
        assert (gif.n_frames, gif.size) == (1, (WIDTH, HEIGHT))


@pytest.mark.skipif(files.ffmpeg() is None, reason="needs ffmpeg, on the PATH or from imageio-ffmpeg")
def test_an_mp4_has_every_frame(tmp_path: Path) -> None:
    pictures = film(9)
    write(tmp_path / "a.mp4", pictures, fps=15)
    program = files.ffmpeg()
    assert program is not None
    command = [program, "-loglevel", "error", "-i", str(tmp_path / "a.mp4"), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    frames = np.frombuffer(subprocess.run(command, capture_output=True, check=True).stdout, np.uint8)
    frames = frames.reshape(-1, HEIGHT, WIDTH, 3)
    assert len(frames) == 9
    for t, frame in enumerate(frames):
        assert np.abs(frame.astype(int) - np.asarray(pictures.frame(t), int)).mean() < 6


def test_what_ffmpeg_complains_about_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\necho first >&2\necho 'No space left on device' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"^ffmpeg could not write the video: No space left on device$"):
        write(tmp_path / "a.mp4", film(), fps=15)


def test_without_ffmpeg_mp4_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(UserError, match=r"apt install ffmpeg, or pip install imageio-ffmpeg\); \.gif works without$"):
        check_path(tmp_path / "a.mp4")
    check_path(tmp_path / "a.gif")


def test_names_that_cannot_be_videos_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the name should end in \.gif or \.mp4"):
        check_path(tmp_path / "a.avi")
    (tmp_path / "b.gif").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_path(tmp_path / "b.gif")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.gif"
    with contextlib.suppress(KeyboardInterrupt), pending(path) as temporary:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt
    assert list(path.parent.iterdir()) == []
    path.write_bytes(b"old")
    with pending(path) as temporary:
        temporary.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
    assert path.read_bytes() == b"new"
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_place_where_nothing_can_be_written_is_an_error_for_people(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"a.gif' cannot be written: "):
        with pending(tmp_path / "file" / "a.gif"):
            pass
