"""`lookrep completion`: a script by which a shell completes commands and flags. Made of the commands' real flags."""

import contextlib
import functools
import importlib
import io
import operator
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Literal

import tyro

from lookrep.cli import COMMANDS
from lookrep.cli.parsing import parse


@dataclass(frozen=True)
class Arguments:
    """Print a script that completes lookrep's commands and flags.

    bash: lookrep completion bash > ~/.local/share/bash-completion/completions/lookrep

    zsh: lookrep completion zsh > ~/.zfunc/_lookrep (a folder in $fpath)

    fish: lookrep completion fish > ~/.config/fish/completions/lookrep.fish
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]


def main(argv: Sequence[str]) -> int:
    shell = parse(Arguments, argv, "lookrep completion").shell
    print(script(shell), end="")
    return 0


def script(shell: str) -> str:
    """All commands as one parser, whose script tyro writes."""
    out = io.StringIO()
    words, config = ["--tyro-print-completion", shell], (tyro.conf.OmitArgPrefixes, tyro.conf.OmitSubcommandPrefixes)
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        tyro.cli(_commands(), prog="lookrep", args=words, config=config)
    return out.getvalue()


def _commands() -> Any:
    kinds = []
    for name, what in COMMANDS.items():
        module = importlib.import_module(f"lookrep.cli.{name}")
        kind = _study(module) if name == "study" else module.Arguments
        kinds.append(_subcommand(kind, name, what))
    return functools.reduce(operator.or_, kinds)


def _study(module: Any) -> Any:
    inner = [
        _subcommand(getattr(module, f"{name.title()}Arguments"), name, what) for name, what in module.COMMANDS.items()
    ]
    return make_dataclass("Study", [("command", functools.reduce(operator.or_, inner))])


def _subcommand(kind: Any, name: str, what: str) -> Any:
    return Annotated[kind, tyro.conf.subcommand(name=name, description=what)]
