"""`lookrep eval`: how well the agents of a run play, as a table or one JSON object."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import tyro

from lookrep.cli.parsing import parse
from lookrep.config.playing import DEFAULT_MAX_STEPS, check_playing
from lookrep.envs.host.atari import MAX_STEPS as ATARI_MAX_STEPS

if TYPE_CHECKING:
    from lookrep.playing import Standing

CUTS = f"{DEFAULT_MAX_STEPS:,}; on Atari {ATARI_MAX_STEPS:,}, as in training"


@dataclass(frozen=True)
class Arguments:
    """Let the agents of a run play with their online network, from its last checkpoint.

    lookrep eval runs/first --episodes 100
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """run the modules that its config.json names, for an environment or parts of one's own"""
    episodes: int = 10
    """episodes of each agent"""
    epsilon: float = 0.001
    """how often a random action is taken; noisy layers are off"""
    agent: Annotated[int | None, tyro.conf.arg(metavar="I", help_behavior_hint="(default: all)")] = None
    """number of one agent to play alone; its episodes are the same as among all"""
    game: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: all)")] = None
    """one game, of a run with several"""
    seed: int = 0
    """of the environment's randomness: equal seeds play equal episodes"""
    max_steps: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint=f"(default: {CUTS})")] = None
    """agent steps after which an episode is cut"""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """print one JSON object and nothing else"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep eval")
    check_playing(arguments.epsilon, arguments.seed, episodes=arguments.episodes, max_steps=arguments.max_steps)
    result = evaluate(arguments)
    if arguments.json:
        print(json.dumps(result, allow_nan=False))
    else:
        _print_table(result)
    return 0


def evaluate(arguments: Arguments) -> dict[str, Any]:
    """Everything the command reports, as data."""
    from lookrep import playing  # imports JAX: --help and bad flags should not wait for it
    from lookrep.playing import evaluation

    trained = playing.choose(playing.load(arguments.run, trusted=arguments.trust), arguments.agent, arguments.game)
    with _progress(arguments.max_steps or evaluation.most_steps(trained)) as watch:
        result = evaluation.evaluate(
            trained,
            arguments.episodes,
            epsilon=arguments.epsilon,
            seed=arguments.seed,
            max_steps=arguments.max_steps,
            watch=watch,
        )
    return {"run": str(arguments.run)} | result


@contextlib.contextmanager
def _progress(max_steps: int) -> Iterator[Callable[["Standing"], None]]:
    """One line on a terminal that says how far the episodes are, and goes when they are over."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("playing") as status:

        def watch(now: "Standing") -> None:
            status.update(f"{now.over} of {now.of} episodes over, step {now.steps:,} of at most {max_steps:,}")

        yield watch


def _print_table(result: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    title = f"{result['env']} · {result['preset']} · {result['target']}, after {result['agent_steps']:,} steps"
    several = len(result["games"]) > 1  # then a game's name takes the place of the episodes, which all have alike
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    for name in ("game", "agent") if several else ("agent", "episodes"):
        table.add_column(name, justify="left" if name == "game" else "right", no_wrap=True)
    for name in ("mean return", "std", "min", "max", "mean length"):
        table.add_column(name, justify="right", no_wrap=name == "mean return")
    for game in result["games"]:
        agents = [agent for agent in result["agents"] if agent["game"] == game["game"]]
        name = escape(game["game"].partition("/")[2])
        for agent in agents:
            numbers = [_text(agent[f"return_{measure}"]) for measure in ("mean", "std", "min", "max")]
            first = [name, str(agent["agent"])] if several else [str(agent["agent"]), str(agent["episodes"])]
            table.add_row(*first, *numbers, f"{agent['length_mean']:.1f}", end_section=agent is agents[-1])
            name = ""
        if len(agents) > 1:
            first = ["", "all"] if several else ["all", str(sum(agent["episodes"] for agent in agents))]
            error = game["return_standard_error"]
            whole = _text(game["return_mean"]) + ("" if error is None else f" ± {_text(error)}")
            length = f"{np.mean([agent['length_mean'] for agent in agents]):.1f}"
            table.add_row(*first, whole, "", "", "", length, end_section=True)
    console.print(table)
    for note in _notes(result):
        console.print(escape(note), soft_wrap=True)


def _notes(result: dict[str, Any]) -> list[str]:
    agents = result["agents"]
    each = f"{result['episodes']} episodes each, " if len(result["games"]) > 1 else ""
    notes = [f"{each}online network, epsilon {result['epsilon']:g}, seed {result['seed']}"]
    if any(game["return_standard_error"] is not None for game in result["games"]):
        notes[0] += "; ± is the standard error over agents"
    cut = sum(agent["cut_episodes"] for agent in agents)
    if cut:
        notes.append(
            f"{cut} of {len(agents) * result['episodes']} episodes were cut after {result['max_steps']:,} steps"
        )
    for agent in agents:
        where = f" in {agent['game']}" if len(result["games"]) > 1 else ""
        if agent["diverged"]:
            notes.append(f"agent {agent['agent']}{where} has turned NaN: its actions mean nothing")
    return notes + ([result["warning"]] if result["warning"] else [])


def _text(value: float | None) -> str:
    """Two digits after the point, none where there are four before it.

    >>> _text(31.25), _text(41234.5), _text(None)
    ('31.25', '41234', '–')
    """
    return "–" if value is None else f"{value:.{2 if abs(value) < 1000 else 0}f}"
