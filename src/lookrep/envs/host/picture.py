"""An Atari screen as agents see it: the brighter of two screens, area-resized to 84×84, byte by byte as OpenCV does it.

Most of a screen is what it was a step ago, and resizing is a fifth of an emulator's step. Two rows of the picture are
made of five of the screen, so a band of five that has not changed keeps its two, and the others are resized by OpenCV.
"""

import numpy as np

from lookrep.envs.host import atari_roms

SIDE = 84
BAND_ROWS = 5  # of a screen of 210 rows
BRIDGE = 2  # bands: a gap as narrow as this costs less than another call


class Picture:
    """Of the screens of one emulator, one after the other. The array it gives is overwritten by the next."""

    def __init__(self, screen: np.ndarray) -> None:
        rows = len(screen)
        # Only a scale that floating point has exactly puts every band at the same place between pixels.
        self._band_rows = BAND_ROWS if rows == SIDE // 2 * BAND_ROWS else rows
        self._bands = rows // self._band_rows
        self._cv2 = atari_roms.libraries().cv2
        self._picture = self.whole(screen)
        self._now, self._before = np.zeros_like(screen), screen.copy()

    def whole(self, screen: np.ndarray) -> np.ndarray:
        """A picture of its own, whatever was seen before."""
        return self._cv2.resize(screen, (SIDE, SIDE), interpolation=self._cv2.INTER_AREA)

    def of(self, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        now, before, resize = self._now, self._before, self._cv2.resize
        self._now, self._before = before, now
        np.maximum(earlier, later, out=now)
        for first, end in self._changed(now, before):
            band = self._picture[first * SIDE // self._bands : end * SIDE // self._bands]
            screen = now[first * self._band_rows : end * self._band_rows]
            resize(screen, band.shape[::-1], band, 0, 0, self._cv2.INTER_AREA)
        return self._picture

    def _changed(self, now: np.ndarray, before: np.ndarray) -> list[list[int]]:
        """Runs of bands that are not what they were: [first, end]."""
        words = now.view(np.uint64) != before.view(np.uint64)
        runs: list[list[int]] = []
        for band in words.reshape(self._bands, -1).any(axis=1).nonzero()[0].tolist():
            if runs and band <= runs[-1][1] + BRIDGE:
                runs[-1][1] = band + 1
            else:
                runs.append([band, band + 1])
        return runs
