"""Dopamine's JAX Rainbow on the same game and cores as ours, in turns with ours. Prints one JSON object.

    python -m venv dopamine && dopamine/bin/pip install dopamine-rl==4.1.2
    python benchmarks/peers/dopamine_rainbow.py dopamine/bin/python --game Breakout --capacity-steps 20000

Dopamine wants TensorFlow and more, so it lives in an environment of its own, and `dopamine_driver.py` steps it there.
What is timed is what a training run does: warm, learning on, one update per four agent steps, which is checked by its
optimiser's count.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from lookrep.benchmarks import atari
from lookrep.errors import UserError

REPEATS = 5
STEPS_A_TURN = 200  # a multiple of the four that an update takes
STEPS_AN_UPDATE = 4
DRIVER = Path(__file__).with_name("dopamine_driver.py")


class Turn(NamedTuple):
    """What the driver answers when it has taken some steps."""

    seconds: float
    updates: int  # of its online network, since the start


class Dopamine:
    """Its agent in a process of its own, which sleeps between requests."""

    def __init__(self, python: Path, game: str, warmup_steps: int, capacity_steps: int, repaired: bool = False) -> None:
        options = {"--game": game, "--warmup-steps": warmup_steps, "--capacity-steps": capacity_steps}
        command = [str(python), str(DRIVER), *(str(part) for option in options.items() for part in option)]
        self._python, self._log = python, tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed in __exit__)
        try:
            self._process = subprocess.Popen(
                command + repaired * ["--repair-priorities"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            )
        except OSError as error:
            self._log.close()
            raise UserError(f"{python}: cannot be started ({error.strerror})") from error
        self.description = self._answer()

    def __enter__(self) -> "Dopamine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def step(self, steps: int) -> Turn:
        """Take this many agent steps, updates included."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        with contextlib.suppress(BrokenPipeError):  # then there is no answer, but last words
            self._process.stdin.flush()
        return Turn(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            last = (self._log.read().strip().splitlines() or ["it said nothing"])[-1]
            self._end()
            raise UserError(f"{self._python}: Dopamine does not run there: {last}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def compare(case: atari.Case, python: Path, repeats: int = REPEATS, steps: int = STEPS_A_TURN) -> dict[str, Any]:
    """Both trained in turns, several times; the ratio is that of the medians."""
    ours, theirs = [], []
    with (
        Dopamine(python, case.game, atari.WARMUP_STEPS, case.capacity_steps) as peer,
        atari.Trainer(case) as trainer,
    ):
        trainer.advance(atari.FIRST_STEPS)  # compiled, and learning
        updates = peer.step(atari.FIRST_STEPS).updates
        for _ in range(repeats):
            ours.append(steps / trainer.advance(steps))
            turn = peer.step(steps)
            theirs.append(steps / turn.seconds)
            if turn.updates - updates != steps // STEPS_AN_UPDATE:
                raise UserError(
                    f"Dopamine made {turn.updates - updates} updates in {steps} steps where {steps // STEPS_AN_UPDATE} "
                    "were due: this is no comparison"
                )
            updates = turn.updates
        description = peer.description
    return {
        "peer": f"dopamine-rl {description['version']}, {description['agent']}, jax {description['jax']}",
        "peer_replay_scheme": description["replay_scheme"],
        "game": case.game,
        "capacity_steps": case.capacity_steps,
        "agent_steps_per_second": round(statistics.median(theirs), 1),
        "spread": [round(min(theirs), 1), round(max(theirs), 1)],
        "ours": round(statistics.median(ours), 1),
        "ours_spread": [round(min(ours), 1), round(max(ours), 1)],
        "ratio": round(statistics.median(ours) / statistics.median(theirs), 2),
        "ratio_of_each_turn": [round(a / b, 2) for a, b in zip(ours, theirs, strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path, help="the Python of an environment with dopamine-rl")
    parser.add_argument("--game", default="Breakout")
    parser.add_argument("--capacity-steps", type=int, default=1_000_000, help="of each replay")
    words = parser.parse_args()
    try:
        case = atari.Case(1, words.game, capacity_steps=words.capacity_steps)
        print(json.dumps(compare(case, words.python), indent=2))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
