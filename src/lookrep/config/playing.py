"""How episodes of trained agents may be played: limits, known before anything is computed."""

from lookrep.errors import UserError

MOST_EPISODES = 2**20  # of all agents together: they are played side by side, in memory
MOST_FILM_STEPS = 50_000  # an hour; a film is in memory before it is written
DEFAULT_MAX_STEPS = 10_000  # agent steps after which an episode is cut


def check_playing(epsilon: float, seed: int, **counts: int | None) -> None:
    """What is wrong with these numbers."""
    for name, count in counts.items():
        if count is not None and not 1 <= count < 2**31:
            raise UserError(f"{name} = {count}: must be at least 1" + (" and below 2³¹" if count > 1 else ""))
    if not 0 <= epsilon <= 1:
        raise UserError(f"epsilon = {epsilon}: must be between 0 and 1")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed = {seed}: must be from 0 to 2³² − 1")
