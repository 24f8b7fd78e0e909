"""`lookrep eval`: how well the agents of a run play, as a table or one JSON object."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from lookrep.commands.parsing import parse
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Let the agents of a run play with their online network, from its last checkpoint.

    lookrep eval runs/first --episodes 100
    """

    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")]
    """folder of the run"""
    episodes: int = 10
    """episodes of each agent"""
    epsilon: float = 0.001
    """how often a random action is taken; noisy layers are off"""
    agent: Annotated[int | None, tyro.conf.arg(metavar="I", help_behavior_hint="(default: all)")] = None
    """number of one agent to play alone; its episodes are the same as among all"""
    seed: int = 0
    """of the environment's randomness: equal seeds play equal episodes"""
    max_steps: int = 10_000
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


def check_playing(epsilon: float, seed: int, **counts: int | None) -> None:
    """What is wrong with the flags, before anything is computed."""
    for name, count in counts.items():
        if count is not None and not 1 <= count < 2**31:
            raise UserError(f"{name} = {count}: must be at least 1" + (" and below 2³¹" if count > 1 else ""))
    if not 0 <= epsilon <= 1:
        raise UserError(f"epsilon = {epsilon}: must be between 0 and 1")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed = {seed}: must be from 0 to 2³² − 1")


def evaluate(arguments: Arguments) -> dict[str, Any]:
    """Everything the command reports, as data."""
    from lookrep import playing  # imports JAX: --help and bad flags should not wait for it

    trained = playing.load(arguments.run)
    if arguments.agent is not None:
        trained = playing.choose(trained, arguments.agent)
    played = playing.play_episodes(
        trained, arguments.episodes, epsilon=arguments.epsilon, seed=arguments.seed, max_steps=arguments.max_steps
    )
    gone = playing.diverged(trained)
    agents = [
        {
            "agent": int(number),
            "episodes": arguments.episodes,
            "return_mean": _number(returns.mean()),
            "return_std": _spread(returns),
            "return_min": _number(returns.min()),
            "return_max": _number(returns.max()),
            "length_mean": float(lengths.mean()),
            "cut_episodes": int((~ended).sum()),
            "diverged": bool(bad),
            "returns": [_number(x) for x in returns],
        }
        for number, returns, lengths, ended, bad in zip(
            trained.numbers, *map(np.asarray, (played.returns.astype(float), *played[1:], gone)), strict=True
        )
    ]
    means = played.returns.astype(float).mean(axis=1)
    spread = _spread(means)
    return {
        "run": str(arguments.run),
        "env": trained.config.env,
        "preset": trained.config.agent,
        "target": trained.config.settings.target.target,
        "agent_steps": trained.agent_steps,
        "episodes": arguments.episodes,
        "epsilon": arguments.epsilon,
        "seed": arguments.seed,
        "max_steps": arguments.max_steps,
        "agents": agents,
        "return_mean": _number(means.mean()),
        "return_standard_error": None if spread is None else spread / math.sqrt(len(means)),
        "warning": trained.warning,
    }


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _spread(values: np.ndarray) -> float | None:
    """The sample's standard deviation, where there is one."""
    return _number(values.std(ddof=1)) if len(values) > 1 else None


def _print_table(result: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    agents = result["agents"]
    console = Console(highlight=False)
    title = f"{result['env']} · {result['preset']} · {result['target']}, after {result['agent_steps']:,} steps"
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, show_footer=len(agents) > 1)
    error = result["return_standard_error"]
    whole = _text(result["return_mean"]) + ("" if error is None else f" ± {error:.2f}")
    for name, footer in (
        ("agent", "all"),
        ("episodes", str(sum(agent["episodes"] for agent in agents))),
        ("mean return", whole),
        ("std", ""),
        ("min", ""),
        ("max", ""),
        ("mean length", f"{np.mean([agent['length_mean'] for agent in agents]):.1f}"),
    ):
        table.add_column(name, footer, justify="right")
    for agent in agents:
        numbers = [_text(agent[f"return_{name}"]) for name in ("mean", "std", "min", "max")]
        table.add_row(str(agent["agent"]), str(agent["episodes"]), *numbers, f"{agent['length_mean']:.1f}")
    console.print(table)
    notes = [f"online network, epsilon {result['epsilon']:g}, seed {result['seed']}"]
    if error is not None:
        notes[0] += "; ± is the standard error over agents"
    cut = sum(agent["cut_episodes"] for agent in agents)
    if cut:
        notes.append(
            f"{cut} of {len(agents) * result['episodes']} episodes were cut after {result['max_steps']:,} steps"
        )
    notes += [
        f"agent {agent['agent']} has turned NaN: its actions mean nothing" for agent in agents if agent["diverged"]
    ]
    notes += [result["warning"]] if result["warning"] else []
    for note in notes:
        console.print(escape(note), soft_wrap=True)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
