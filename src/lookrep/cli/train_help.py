"""`lookrep train --help` on one screen: the names there are, and the flags that people use most.

`--help-all` has every flag; both know a flag's names and defaults from the settings themselves.
"""

import textwrap
from collections.abc import Iterable, Sequence

from lookrep import methods
from lookrep.config import AGENTS, RunConfig
from lookrep.envs.names import MINATAR

WIDTH = 80
COLUMN = 26

# Flag and value → one sentence. A default that is not said here stands in --help-all.
FLAGS: dict[str, dict[str, str]] = {
    "the run": {
        "--out DIR": "folder of the new run",
        "--resume DIR": "go on with a run; --steps: further, --restart: anew",
        "--steps N": f"agent steps of each agent (default: {RunConfig.steps:,})",
        "--agents N": f"how many agents to train side by side (default: {RunConfig.agents})",
        "--seed N": f"of all random numbers (default: {RunConfig.seed})",
        "--agent NAME": f"preset that settings start from (default: {RunConfig.agent})",
        "--method NAME": "published way to stabilise (default: plain)",
        "--config FILE": "start from a run's settings, not from a preset",
        "--quiet": "no progress, only the last line",
    },
    "learning": {
        "--learning-rate X": "Adam's step size",
        "--n-steps N": "rewards summed before bootstrapping",
        "--network NAME": "cnn16:128, nature:512, mlp:64x64, my_nets:Torso; auto by default",
        "--warmup-steps N": "agent steps of exploration before the first update",
        "--epsilon-decay-steps N": "agent steps over which exploration then falls",
        "--replay-capacity-steps N": "agent steps that each agent remembers",
    },
    "the target network": {
        "--target NAME": "hard (copy), polyak, replicate (gradient steps), frozen, my_rules:rule",
        "--target-period-updates N": "online updates between turns of the target (K_L)",
        "--replicate-updates N": "gradient steps on the target in each turn (K_R)",
        "--target-network NAME": "another architecture; goes with --target replicate",
        "--tau X": "polyak's fraction",
    },
}


def short_help() -> str:
    """At most 45 lines of 80 columns."""
    small = "minatar/" + ", ".join(name.removeprefix("minatar/") for name in MINATAR)
    lines = [
        "usage: lookrep train ENVIRONMENT --out DIR [options]   (--help-all: every flag)",
        "",
        "  lookrep train minatar/breakout --target replicate --agents 8 --out runs/first",
        "  lookrep train --resume runs/first --steps 2e6",
        "",
        *_listed("environments", [small, "atari/GAME or atari/GAME,GAME", "gym/NAME", "gymnax/NAME", "my_envs:MyEnv"]),
        *_listed("presets", AGENTS),
        *_listed("methods", methods.names()),
    ]
    for title, flags in FLAGS.items():
        lines += ["", f"{title}:", *(line for flag in flags.items() for line in _told(*flag))]
    return "\n".join(lines)


def _listed(title: str, names: Iterable[str]) -> Sequence[str]:
    start, separator = f"{title + ':':<14}", "; " if title == "environments" else ", "
    text = separator.join(names)
    return _wrapped(start, text)


def _told(flag: str, text: str) -> Sequence[str]:
    return _wrapped(f"  {flag:<{COLUMN}} ", text)


def _wrapped(start: str, text: str) -> Sequence[str]:
    indent = " " * len(start)
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)
