"""`lookrep completion`: a script by which a shell completes commands, flags, names and files. tyro writes it, from the
commands' own flags; names of presets, environments, studies and the like, and words without a flag, are added to it.
"""

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
from lookrep.studies.definition import SIZES, names

Shell = Literal["bash", "zsh", "fish"]
ENVIRONMENTS = (*MINATAR, *(f"atari/{game}" for game in SCORES), *COMMON)
FILES = "__TYRO_COMPLETE_FILES__"  # at which a shell completes names of files and folders
SHELLS = get_args(Shell)
# Command → flag → names it may have. Others, such as my_rules:rule, can be typed all the same.
NAMES: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {
        "--env": ENVIRONMENTS,
        "--agent": AGENTS,
        "--method": methods.names(),
        "--target": get_args(TargetName),
        "--head": get_args(Head),
        "--bootstrap": get_args(Bootstrap),
        "--regulariser": get_args(Regulariser),
    },
    "bench": {"--agent": AGENTS, "--method": methods.names(), "--study": names(), "--size": SIZES},
    "study plan": {"--size": SIZES},
    "study run": {"--size": SIZES},
}
# Added to the script's Python. bash makes three words of --target=hard. In fish all of it stands in double quotes: none
# here, nor $ or a backslash.
ADDED = """
_NAMES, _PLACES = {names}, {places}
_of_flags = get_completions


def _prepare(part, command):
    for option in part['options']:
        option['description'] = ' '.join(option['description'].split())
        for flag in option['flags']:
            if flag in _NAMES.get(command, ()):
                option.update(type='choice', choices=_NAMES[command][flag])
    for name, inner in part['subcommands'].items():
        _prepare(inner, (command + ' ' + name).strip())


def _place(words, part):
    # The command, how many words without a flag it has, and how many values its last flag may still have.
    command, count, values = [], 0, 0
    for word in words:
        if word.startswith('-'):
            known = [option for option in part['options'] if word in option['flags']]
            takes = known and known[0]['type'] not in ('flag', 'boolean')
            values = (float('inf') if known[0].get('nargs') in ('*', '+') else 1) if takes else 0
        elif values:
            values -= 1
        elif word in part['subcommands']:
            part = part['subcommands'][word]
            command.append(word)
        else:
            count += 1
    return ' '.join(command), count, values


def get_completions(words, at, spec):
    typed = words[at] if at < len(words) and words[at] != '=' else ''
    before = [word for word in words[:at] if word != '=']
    found = _of_flags([*before, typed], len(before), spec)
    command, count, values = _place(before[1:], spec)
    if values or typed.startswith('-') or command not in _PLACES:
        return found
    here = dict(enumerate(_PLACES[command])).get(count, ())
    return [name for name in here if name == '{files}' or name.startswith(typed)] or found or ['{files}']


_prepare(COMPLETION_SPEC, '')

"""
START = re.compile(r"^(?=if __name__ == )", re.MULTILINE)
# Shell → what tyro writes → what stands there instead: folders and files are completed, also beside names.
MENDED: dict[str, dict[str, str]] = {
    "bash": {
        "complete -F ": "complete -o bashdefault -o default -F ",  # where there are no matches: files, with their /
        'COMPREPLY=($(compgen -f -- "$cur"))': "COMPREPLY=()",
        '    matches+=("$completion")\n': f"""\
    if [[ "$completion" == "{FILES}" ]]; then
      compopt -o filenames 2>/dev/null
      matches+=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
    elif [[ -n "$completion" ]]; then
      matches+=("$completion")
    fi
""",
    },
    "zsh": {
        '"$CURRENT"': '"$((CURRENT - 1))"',  # zsh counts from 1, the script's Python from 0
        "  while IFS= read -r line; do\n": f"""\
  local line files
  while IFS= read -r line; do
    [[ "$line" == "{FILES}" ]] && files=yes
    [[ -z "$line" || "$line" == "{FILES}" ]] && continue
""",
        "  _describe 'lookrep completions' completion_array\n": """\
  local none=1
  (( $#completion_array )) && _describe 'lookrep completions' completion_array && none=0
  [[ -n "$files" ]] && _files && none=0
  return none
""",
    },
    "fish": {
        "set -l current (count $words)\n": "set -l current (count $words)\n    set -a words (commandline -ct)\n",
        f"""\
    if test "$results" = {FILES}
        __fish_complete_path (commandline -ct)
    else
        for line in $results
            printf "%s\\n" $line
        end
    end
""": f"""\
    for line in $results
        if test "$line" = {FILES}
            __fish_complete_path (commandline -ct)
        else
            printf "%s\\n" $line
        end
    end
""",
    },
}


@dataclass(frozen=True)
class Arguments:
    """Print a script that completes lookrep's commands and flags.

    bash: lookrep completion bash > ~/.local/share/bash-completion/completions/lookrep

    zsh: lookrep completion zsh > ~/.zfunc/_lookrep (a folder in $fpath)

    fish: lookrep completion fish > ~/.config/fish/completions/lookrep.fish
    """

    shell: tyro.conf.Positional[Shell]


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
    text = out.getvalue()
    for written, mended in MENDED[shell].items():
        text = text.replace(written, mended)
    return START.sub(lambda _: added(), text, count=1)


def added() -> str:
    return ADDED.format(names=repr(NAMES), places=repr(places()), files=FILES)


def places() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Command → what each of its words without a flag may be: names, files. Further ones are taken for files."""
    from lookrep.analysis.figures import NAMES as FIGURES  # matplotlib and JAX: --help should not wait for them
    from lookrep.exact.builtin import BUILDERS

    study, files = (*names(), FILES), (FILES,)
    return {
        "train": (ENVIRONMENTS,),
        "bench": (("minatar", "atari", "methods"),),
        "study plan": (study,),
        "study run": (study,),
        "figure": (FIGURES, files),
        "exact": ((*BUILDERS, FILES),),
        "completion": (SHELLS,),
        **dict.fromkeys(("eval", "play", "study status", "report", "parity"), (files,)),
    }


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
