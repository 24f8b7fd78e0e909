"""The `lookrep` command: picks a subcommand, and turns a UserError into one line and exit status 2."""

import difflib
import importlib
import sys
from collections.abc import Sequence

import lookrep
from lookrep.errors import UserError

COMMANDS = {
    "train": "train a population of agents, or go on with a run",
    "eval": "let a run's agents play, and report their returns",
    "play": "film one agent with both networks' values beside the game",
    "bench": "time it on this machine, beside its limits and peers",
    "study": "run the paper's experiments, or your own: list, plan, run, status",
    "figure": "draw a figure of a study, with its numbers as CSV beside it",
    "report": "turn a study into one page that opens offline",
    "parity": "compare a run's training scores with published curves",
    "exact": "solve a finite Markov problem exactly, draw it, audit the theory",
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
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(lookrep.__version__)
        return 0
    try:
        if words[0] not in COMMANDS:
            near = difflib.get_close_matches(words[0], COMMANDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {', '.join(COMMANDS)}"
            raise UserError(f"unknown command '{words[0]}': {hint}")
        command = importlib.import_module(f"lookrep.commands.{words[0]}")
        status: int = command.main(words[1:])
        return status
    except UserError as error:
        print(f"lookrep: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:  # the second Ctrl-C, or the first where there is nothing to save
        print("lookrep: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
