"""`lookrep bench`: how fast it is here, as a table or one JSON object on stdout; progress goes to stderr."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import tyro

from lookrep.cli.parsing import parse, spelt
from lookrep.config import AGENTS, ReplayMemory
from lookrep.errors import UserError

if TYPE_CHECKING:
    from lookrep.benchmarks.methods import Comparison

PROG = "lookrep bench"


@dataclass(frozen=True)
class Arguments:
    """Time populations of agents: environment steps per second in all, learning on, compile time apart.

    Without flags it runs the cases behind docs/performance.md that suit this machine. On Atari the agent is Dopamine's
    Rainbow, and each figure stands beside what emulators alone reach, one on each core, in turns with it.

    Scripts that time other software in turns with ours are in a checkout's benchmarks/peers: rejax and Dopamine.
    """

    what: tyro.conf.Positional[Literal["minatar", "atari", "methods"]]
    """methods: each on MinAtar, relative to hard copy, or a study's variants relative to its baseline"""
    agents: tuple[int, ...] = ()
    """population sizes to time instead of the default cases, which on MinAtar have settings of their own; of a study,
    instead of its seeds"""
    agent: str = "c51"
    """on MinAtar"""
    method: tuple[str, ...] = ()
    """of methods: these instead of all, for instance minto no-target; of a study, these variants"""
    study: str | None = None
    """of methods: the variants of this study of MinAtar, with the study's numbers"""
    size: str = "gpu"
    """of the study: smoke, laptop, gpu or full"""
    target: Literal["hard", "polyak", "replicate"] = "hard"
    """how the target network follows; of methods, each has its own"""
    precision: Literal["f32", "bf16"] = "f32"
    """what matrix products are computed in"""
    game: str = "breakout"
    """one of MinAtar's (breakout, freeway …) or of Atari's (Pong, RoadRunner …)"""
    groups: int | None = None
    """parts of an Atari population that take turns (default: what training would choose)"""
    workers: int | None = None
    """processes for the emulators of an Atari population (default: what training would choose)"""
    replay_capacity_steps: int = 1_000_000
    """of each Atari agent"""
    replay_memory: ReplayMemory = "auto"
    """where frames of Atari are kept"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print one JSON object with everything measured; each row goes to stderr as it comes"""


WORDS = ("agent", "target", "method", "precision", "game")  # columns without numbers
# Title → keys of a row, as a table for people shows them.
COLUMNS = {
    "agents": ("agents",),
    "agent": ("agent",),
    "target": ("target",),
    "method": ("method",),
    "precision": ("precision",),
    "game": ("game",),
    "steps/s in all": ("env_steps_per_second", "agent_steps_per_second"),
    "range": ("spread",),
    "of emulators alone": ("ratio_to_emulators",),
    "cycle, µs": ("cycle_microseconds",),
    "× baseline": ("times_hard",),
    "range of ×": ("times_hard_spread",),
    "memory ×": ("memory_times_hard",),
    "compile, s": ("compile_seconds", "first_steps_seconds"),
}
WITH_STUDY = ("--study", "--size", "--method", "--game", "--agents", "--json")  # the rest is in its variants' settings


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, PROG)
    _check_study(arguments, [piece.flag.name for piece in spelt(argv, Arguments, PROG) if piece.flag is not None])
    if arguments.agent not in AGENTS:
        raise UserError(f"agent '{arguments.agent}' is unknown: choose from {', '.join(AGENTS)}")
    if any(n < 1 for n in arguments.agents):
        raise UserError("--agents: every population needs at least 1 agent")
    if arguments.what == "atari":
        return _atari(arguments)
    import jax  # after the flags are known to be right

    from lookrep import envs
    from lookrep.benchmarks import minatar

    envs.make(f"minatar/{arguments.game}")
    asked = minatar.Case(1, arguments.agent, arguments.target, arguments.precision, arguments.game)
    cases = [asked._replace(agents=n) for n in arguments.agents]
    if arguments.what == "minatar":
        return _report(minatar.run(cases or minatar.default_cases(jax.default_backend())), arguments.json)
    from lookrep.benchmarks import methods

    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # each method has a process of its own
    if arguments.study is not None:
        return _report(methods.run(_of_study(arguments, arguments.study)), arguments.json)
    names = arguments.method or methods.default_names()
    cases = cases or [asked._replace(agents=512 if jax.default_backend() == "gpu" else 1)]
    return _report(methods.run([methods.of_case(case, names) for case in cases]), arguments.json)


def _check_study(arguments: Arguments, given: Sequence[str]) -> None:
    """Refuse flags that a study leaves nothing to say for, and those that need one."""
    if arguments.study is None:
        if "--size" in given:
            raise UserError("--size is that of a study: it goes with --study NAME")
        return
    if arguments.what != "methods":
        raise UserError(f"--study: its variants are timed by {PROG} methods, not {PROG} {arguments.what}")
    for flag in given:
        if flag not in WITH_STUDY:
            raise UserError(f"{flag} does not go with --study, whose variants have their own settings")


def _of_study(arguments: Arguments, name: str) -> "list[Comparison]":
    from lookrep.benchmarks import methods
    from lookrep.studies import choice

    study = choice.chosen(name, arguments.size)  # whole: the baseline need not be one of those that are timed
    variants = [variant.name for variant in choice.chosen(name, arguments.size, variants=arguments.method).variants]
    return [methods.of_study(study, variants, arguments.game, n) for n in arguments.agents or (study.seeds,)]


def _atari(arguments: Arguments) -> int:
    import jax

    from lookrep.benchmarks import atari
    from lookrep.envs import host as host_envs

    game = host_envs.canonical(f"atari/{arguments.game}").removeprefix("atari/")
    sizes = arguments.agents or ((1, 16) if jax.default_backend() == "gpu" else (1,))
    asked = atari.Case(
        1,
        game,
        arguments.target,
        arguments.precision,
        arguments.groups,
        arguments.workers,
        capacity_steps=arguments.replay_capacity_steps,
        replay_memory=arguments.replay_memory,
    )
    return _report(atari.run([asked._replace(agents=n) for n in sizes]), arguments.json)


def _report(rows: Iterable[dict[str, Any]], as_json: bool) -> int:
    """All rows at the end, and each as it comes to stderr: compiling and timing take a while."""
    from lookrep.benchmarks import minatar

    report: dict[str, Any] = {"machine": minatar.machine(), "rows": []}
    print(json.dumps(report["machine"]) if as_json else "compiling and timing", file=sys.stderr, flush=True)
    for row in rows:
        report["rows"].append(row)
        print(json.dumps(row) if as_json else " · ".join(_cells(row).values()), file=sys.stderr, flush=True)
    print(json.dumps(report, indent=2)) if as_json else _print_table(report)
    return 0


def _print_table(report: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    machine = report["machine"]
    title = f"{machine['device']}, {os.cpu_count()} CPU cores · JAX {machine['jax']} · lookrep {machine['lookrep']}"
    found = [_cells(row) for row in report["rows"]]
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in dict.fromkeys(name for cells in found for name in cells):
        table.add_column(name, justify="left" if name in WORDS else "right", overflow="fold")
    for cells in found:
        table.add_row(*cells.values())
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=160)).print(table)


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """
    >>> _cells({"agents": 16, "game": "breakout", "env_steps_per_second": 51234, "spread": [50000, 52000]})
    {'agents': '16', 'game': 'breakout', 'steps/s in all': '51,234', 'range': '50,000 – 52,000'}
    """
    found = {}
    for title, keys in COLUMNS.items():
        for value in (row[key] for key in keys if key in row):
            parts = value if isinstance(value, list) else [value]
            found[title] = " – ".join(f"{part:,}" if isinstance(part, int | float) else str(part) for part in parts)
    return found
