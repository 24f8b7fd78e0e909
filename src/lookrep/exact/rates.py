"""The convergence rate seen in a trace, measured without knowing the map that made it.

A ratio of successive step lengths oscillates for ever when the dominant eigenvalues are a complex pair. So we fit the
smallest linear map that carries each step z_{t+1} − z_t onto the next over the tail of the trace, and take its
spectral radius.
"""

import numpy as np

from lookrep.exact.checks import Floats

ROUNDING = 1e-11  # steps shorter than this, relative to the iterate, are mostly rounding
WEAK = 1e-3  # directions of the tail's steps weaker than this, relative to the strongest, have died out
LONGEST_TAIL = 200  # steps


def measured_rate(states: Floats) -> float | None:
    """The factor by which steps shrink per iteration; above 1 they grow; None when nothing moved measurably.

    >>> turn = 0.9 * np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> path = [np.array([1.0, 0.0])]
    >>> for _ in range(50):
    ...     path.append(turn @ path[-1])
    >>> round(measured_rate(np.array(path)), 6)
    0.9
    """
    with np.errstate(all="ignore"):
        size = np.abs(states).max(axis=1)
        usable = np.flatnonzero(~(np.isfinite(size) & (size < 1e140)))  # squares must not overflow
        states = states[: usable[0]] if usable.size else states
    if len(states) < 3:
        return None
    steps = np.diff(states, axis=0)
    length = np.linalg.norm(steps, axis=1)
    scale = np.maximum.accumulate(np.linalg.norm(states, axis=1))[1:]
    still = np.flatnonzero(length <= ROUNDING * scale)
    end = int(still[0]) if still.size else len(steps)
    if end < 2:
        return None
    begin = max(end // 2, end - LONGEST_TAIL) if end > 8 else max(0, end - 4)
    tail, length = steps[begin:end], length[begin:end]
    # Every step counts the same, however small: divide each pair (before, after) by the length before.
    before = (tail[:-1] / length[:-1, None]).T
    after = (tail[1:] / length[:-1, None]).T
    left, strength, right = np.linalg.svd(before, full_matrices=False)
    rank = int((strength > WEAK * strength[0]).sum())
    left, strength, right = left[:, :rank], strength[:rank], right[:rank]
    fitted = left.T @ after @ right.T / strength
    return float(np.abs(np.linalg.eigvals(fitted)).max())
