"""The `lookrep` command: picks a subcommand, and turns a UserError into one line and exit status 2."""

import importlib
import os
import sys
from collections.abc import Sequence

import lookrep
from lookrep.errors import UserError, hint, missing, refusal
from lookrep.streams import outlets
from lookrep.training.interrupt import INTERRUPTED, heard_anywhere

COMMANDS = {
    "train": "train a population of agents, or go on with a run",
    "eval": "let a run's agents play, and report their returns",
    "play": "film one agent with both networks' values beside the game",
    "bench": "time it on this machine, beside its limits",
    "study": "run the paper's experiments, or your own: list, plan, run, status",
    "figure": "draw a figure of a study or a run, with its numbers as CSV beside it",
    "report": "turn a study, a run or other software's logs into one page that opens offline",
    "parity": "compare a run's training scores with published curves",
    "exact": "solve a finite Markov problem exactly, draw it, audit the theory",
    "completion": "print a script that completes commands and flags in bash, zsh or fish",
}


def _usage() -> str:
    lines = [
        f"lookrep {lookrep.__version__}: target networks learned in function space (Lookahead-Replicate)",
        "",
        "usage: lookrep COMMAND [options]      (lookrep COMMAND --help says more)",
        "",
    ]
    width = max(map(len, COMMANDS))
    return "\n".join(lines + [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()])


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    with outlets(), heard_anywhere():
        status = _status(words)
    if status == INTERRUPTED and argv is None:
        os._exit(status)  # the usual end would wait for whatever native code is still at, such as compiling
    return status


def _status(words: list[str]) -> int:
    try:
        status = _run(words)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:  # the second Ctrl-C, or the first where there is nothing to save
        print("lookrep: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        said = refusal(error)
        if isinstance(error, ModuleNotFoundError):
            said = missing(f"lookrep {words[0]}", error)
        if said is None:
            raise
        print(f"lookrep: {said}", file=sys.stderr)
        return 2


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(lookrep.__version__)
        return 0
    if words[0] not in COMMANDS:
        raise UserError(f"unknown command '{words[0]}': {hint(words[0], COMMANDS)}")
    status: int = importlib.import_module(f"lookrep.cli.{words[0]}").main(words[1:])
    return status
