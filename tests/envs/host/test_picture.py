"""A picture that keeps what has not changed is, byte by byte, the one that OpenCV makes of the whole screen."""

import cv2
import numpy as np
import pytest

from lookrep.envs.host.picture import SIDE, Picture


def expected(earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    return cv2.resize(np.maximum(earlier, later), (SIDE, SIDE), interpolation=cv2.INTER_AREA)


def changed(screen: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A few rectangles of noise, of any size, somewhere."""
    new = screen.copy()
    for _ in range(random.integers(4)):
        (top, bottom), (left, right) = (np.sort(random.integers(side + 1, size=2)) for side in screen.shape)
        new[top:bottom, left:right] = random.integers(256, size=(bottom - top, right - left))
    return new


@pytest.mark.parametrize("rows", [210, 250])  # the second's scale is no binary fraction
def test_a_picture_is_that_of_the_whole_screen(rows: int) -> None:
    random = np.random.default_rng(0)
    screens = [random.integers(256, size=(rows, 160), dtype=np.uint8)]
    picture = Picture(screens[0])
    for _ in range(300):
        screens.append(changed(screens[-1], random))
        earlier, later = screens[-2:]
        np.testing.assert_array_equal(picture.of(earlier, later), expected(earlier, later))


@pytest.mark.parametrize("row", range(10))
def test_no_change_is_too_small(row: int) -> None:
    screen = np.full((210, 160), 100, np.uint8)
    picture = Picture(screen)
    for column in range(0, 160, 7):
        screen[20 * row + row, column] = 250
        np.testing.assert_array_equal(picture.of(screen, screen), expected(screen, screen))


def test_what_has_not_changed_is_not_made_again() -> None:
    """Or this would be slow, and no other test would notice."""
    screen = np.zeros((210, 160), np.uint8)
    picture = Picture(screen)
    picture.of(screen, screen)[:] = 7
    screen[103, 80] = 255
    rows = np.flatnonzero((picture.of(screen, screen) != 7).any(axis=1))
    assert rows.tolist() == [40, 41]
