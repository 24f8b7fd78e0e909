"""`lookrep play`: a video of one agent at play, with what both of its networks think."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from lookrep.cli.parsing import parse
from lookrep.config.playing import check_playing
from lookrep.errors import UserError

if TYPE_CHECKING:
    from lookrep.playing import Recording, Trained


def _count(default: str) -> Any:
    return tyro.conf.arg(metavar="N", help_behavior_hint=f"(default: {default})")


@dataclass(frozen=True)
class Arguments:
    """Film an agent of a run, from its last checkpoint, with both networks' values or return distributions.

    lookrep play runs/first --video first.gif
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    video: Path
    """file to write: .gif, or .mp4 where ffmpeg is installed"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run the modules that its config.json names, for an environment or parts of one's own"""
    agent: Annotated[int | None, tyro.conf.arg(metavar="I", help_behavior_hint="(default: the first)")] = None
    """number of the agent that plays"""
    game: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the first)")] = None
    """the game, of a run with several"""
    episodes: Annotated[int | None, _count("1, or what fits --max-steps")] = None
    """stop after this many episodes"""
    max_steps: Annotated[int | None, _count("500")] = None
    """stop after this many steps in all, one frame each"""
    epsilon: float = 0.001
    """how often a random action is taken; noisy layers are off"""
    seed: int = 0
    """of the environment's randomness: the first episodes of lookrep eval with the same seed"""
    fps: int = 15
    """frames per second"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep play")
    counts = {"episodes": arguments.episodes, "max_steps": arguments.max_steps}
    check_playing(arguments.epsilon, arguments.seed, **counts)
    if not 1 <= arguments.fps <= 50:
        raise UserError(f"fps = {arguments.fps}: must be from 1 to 50 (players slow faster gifs down)")
    from lookrep import playing, video  # JAX and matplotlib: --help and bad flags should not wait for them
    from lookrep.video import film

    video.check_path(arguments.video)
    trained = playing.load(arguments.run, trusted=arguments.trust)
    number = int(trained.numbers[0]) if arguments.agent is None else arguments.agent
    trained = playing.choose(trained, number, arguments.game or trained.games[0])
    if playing.diverged(trained).any():
        raise UserError(f"{_who(trained)} of {arguments.run} has turned NaN: there are no values to draw")
    recording = film.make(
        trained,
        arguments.video,
        episodes=arguments.episodes,
        max_steps=arguments.max_steps,
        epsilon=arguments.epsilon,
        seed=arguments.seed,
        fps=arguments.fps,
    )
    _report(arguments, trained, recording)
    return 0


def _who(trained: "Trained") -> str:
    several = len(trained.config.games) > 1
    return f"agent {trained.numbers[0]}" + (f" in {trained.games[0]}" if several else "")


def _report(arguments: Arguments, trained: "Trained", recording: "Recording") -> None:
    import numpy as np

    returns = np.bincount(recording.episodes, recording.rewards)
    listed = ", ".join(f"{x:.6g}" for x in returns[:20]) + (", …" if len(returns) > 20 else "")
    size = arguments.video.stat().st_size
    frames = f"{len(recording.actions)} frames, {size / 1e6:.1f} MB"
    earned = f"return{'s' if len(returns) > 1 else ''} {listed}"
    cut = "" if recording.ends[-1] else " (the last episode is cut: --max-steps)"
    print(f"{arguments.video}: {_who(trained)}, {frames}, {earned}{cut}")
    if trained.warning:
        print(trained.warning)
