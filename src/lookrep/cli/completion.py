"""`lookrep completion`: a script by which a shell completes commands, flags and names. Flags are the commands' own;
names of presets, methods and environments are added to what tyro writes, which takes any text for a path."""

import contextlib
import functools
import importlib
import io
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Literal, get_args

import tyro

from lookrep import methods
from lookrep.analysis.human_scores import SCORES
from lookrep.cli import COMMANDS
from lookrep.cli.parsing import parse
from lookrep.config import AGENTS, TargetName
from lookrep.config.method import Bootstrap, Regulariser
from lookrep.config.schema import Head
from lookrep.envs.names import MINATAR
from lookrep.envs.spelling import COMMON
from lookrep.studies.definition import SIZES

# Command → flag → names it may have. Others, such as my_rules:rule, can be typed all the same.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {
        "--env": (*MINATAR, *(f"atari/{game}" for game in SCORES), *COMMON),
        "--agent": AGENTS,
        "--method": methods.names(),
        "--target": get_args(TargetName),
        "--head": get_args(Head),
        "--bootstrap": get_args(Bootstrap),
        "--regulariser": get_args(Regulariser),
    },
    "bench": {"--agent": AGENTS, "--method": methods.names()},
    "study plan": {"--size": SIZES},
    "study run": {"--size": SIZES},
}
# What the script's Python does with them. In fish it stands in double quotes: none here, nor $ or a backslash.
SPECIFICATION = re.compile(r"^COMPLETION_SPEC = .*$", re.MULTILINE)
ADD_NAMES = f"""
for _command, _flags in {NAMES!r}.items():
    _part = COMPLETION_SPEC
    for _word in _command.split():
        _part = _part['subcommands'][_word]
    for _option in _part['options']:
        for _flag in _option['flags']:
            if _flag in _flags:
                _option.update(type='choice', choices=_flags[_flag])"""


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
    return SPECIFICATION.sub(lambda found: found[0] + ADD_NAMES, out.getvalue())


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
