"""`lookrep bench`: how fast it is here, as one JSON object on stdout; progress goes to stderr."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from lookrep.commands.parsing import parse
from lookrep.config import AGENTS
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Time populations of agents on MinAtar: environment steps per second in all, learning on, compile time apart.

    Without flags it runs the cases behind docs/performance.md that suit this machine.
    """

    what: tyro.conf.Positional[Literal["minatar"]]
    agents: tuple[int, ...] = ()
    """population sizes to time instead of the default cases"""
    agent: str = "c51"
    target: Literal["hard", "polyak", "replicate"] = "hard"
    precision: Literal["f32", "bf16"] = "f32"
    game: str = "breakout"
    peer: Literal["none", "rejax"] = "none"
    """also time this library's DQN on the same task, in turns with ours"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep bench")
    if arguments.agent not in AGENTS:
        raise UserError(f"agent '{arguments.agent}' is unknown: choose from {', '.join(AGENTS)}")
    if any(n < 1 for n in arguments.agents):
        raise UserError("--agents: every population needs at least 1 agent")
    import jax  # after the flags are known to be right

    from lookrep import envs
    from lookrep.benchmarks import minatar, peer_rejax

    envs.make(f"minatar/{arguments.game}")
    cases = minatar.default_cases(jax.default_backend())
    if arguments.agents:
        asked = minatar.Case(1, arguments.agent, arguments.target, arguments.precision, arguments.game)
        cases = [asked._replace(agents=n) for n in arguments.agents]
    report: dict[str, Any] = {"machine": minatar.machine(), "rows": []}
    _say(json.dumps(report["machine"]))
    for row in minatar.run(cases):
        report["rows"].append(row)
        _say(json.dumps(row))
    report["ratios"] = minatar.ratios(report["rows"])
    if arguments.peer == "rejax":
        report["peers"] = []
        for agents in sorted({case.agents for case in cases}):
            ours = minatar.prepare(minatar.Case(agents, "dqn"))()
            theirs = peer_rejax.measure(agents)
            theirs["ours"] = ours["env_steps_per_second"]
            theirs["ratio"] = round(ours["env_steps_per_second"] / theirs["env_steps_per_second"], 2)
            report["peers"].append(theirs)
            _say(json.dumps(theirs))
    print(json.dumps(report, indent=2))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
