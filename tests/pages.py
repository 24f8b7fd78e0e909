"""Commands of a page, run as a reader would type them: in order, in one folder, with fewer steps.

Only numbers change, by the rules below; what stays untouched is everything that a page can get wrong.
"""

import hashlib
import shutil
from pathlib import Path

from lookrep import cli

SMALL = {
    "train": {"--warmup-steps": "100", "--log-interval-steps": "100", "--replay-capacity-steps": "400",
              "--epsilon-decay-steps": "200", "--batch-size": "8", "--network": "mlp:8"},
    "play": {"--max-steps": "4"},
    "eval": {"--episodes": "1", "--max-steps": "40"},
    "study run": {"--size": "smoke", "--no-film": ""},
}  # fmt: skip
OWN = "my_"  # what a page brings itself, my_nets:Torso, stays
A_HUNDREDTH = 100


def shortened(words: list[str]) -> list[str]:
    """The words after `lookrep`, for a run of seconds: a hundredth of the steps, and what belongs to so few."""
    words = list(words)
    kind = " ".join(words[:2]) if words[0] == "study" else words[0]
    goes_on = "--resume" in words or (kind == "study run" and "/" in words[2])
    if "--steps" in words:
        place = words.index("--steps") + 1
        words[place] = str(int(words[place].replace("_", "")) // A_HUNDREDTH)
        if kind == "study run" and not goes_on:
            del words[place - 1 : place + 1]  # the size has its own
    for flag, value in {} if goes_on else SMALL.get(kind, {}).items():
        if flag not in words:
            words += [flag, value]
        elif not words[words.index(flag) + 1].startswith(OWN):
            words[words.index(flag) + 1] = value
    if kind == "study run":
        words += ["--together", "100"]  # one process instead of one for each variant
    return [word for word in words if word]


def run(words: list[str], kept: Path) -> None:
    """A `lookrep …` line of a page, shortened; the words as they stand on the page, `lookrep` among them.

    What a command makes with `--out` is kept, and copied where another page has the same command.
    """
    assert words[0] == "lookrep"
    short = shortened(words[1:])
    if "--out" not in short or any(word.startswith(OWN) for word in short):
        succeed(short)
        return
    place = short.index("--out")
    out, made = short[place + 1], kept / hashlib.sha1(repr(short[:place] + short[place + 2 :]).encode()).hexdigest()
    if not made.exists():
        succeed([*short[:place], *short[place + 2 :], "--out", str(made)])
    shutil.copytree(made, out)


def succeed(words: list[str]) -> None:
    assert cli.main(words) == 0, " ".join(words)
