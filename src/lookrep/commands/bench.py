"""`lookrep bench`: how fast it is here, as one JSON object on stdout; progress goes to stderr."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from lookrep.commands.parsing import parse
from lookrep.config import AGENTS, ReplayMemory
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Time populations of agents: environment steps per second in all, learning on, compile time apart.

    Without flags it runs the cases behind docs/performance.md that suit this machine. On Atari the agent is Dopamine's
    Rainbow, and each figure stands beside what emulators alone reach, one on each core, in turns with it.
    """

    what: tyro.conf.Positional[Literal["minatar", "atari"]]
    agents: tuple[int, ...] = ()
    """population sizes to time instead of the default cases"""
    agent: str = "c51"
    """on MinAtar"""
    target: Literal["hard", "polyak", "replicate"] = "hard"
    precision: Literal["f32", "bf16"] = "f32"
    game: str = "breakout"
    groups: int | None = None
    """parts of an Atari population that take turns (default: what training would choose)"""
    workers: int | None = None
    """processes for the emulators of an Atari population (default: what training would choose)"""
    processes: int = 1
    """so many Atari populations at the same time, each in a process of its own (on a GPU better under NVIDIA MPS)"""
    replay_capacity_steps: int = 1_000_000
    """of each Atari agent"""
    replay_memory: ReplayMemory = "auto"
    """where frames of Atari are kept"""
    peer: Literal["none", "rejax", "dopamine"] = "none"
    """also time this library, in turns with ours: rejax's DQN on MinAtar, Dopamine's Rainbow on Atari"""
    peer_python: Path | None = None
    """the Python of an environment with dopamine-rl (it wants TensorFlow: better not in ours)"""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Arguments, argv, "lookrep bench")
    if arguments.agent not in AGENTS:
        raise UserError(f"agent '{arguments.agent}' is unknown: choose from {', '.join(AGENTS)}")
    if any(n < 1 for n in arguments.agents):
        raise UserError("--agents: every population needs at least 1 agent")
    if arguments.processes < 1 or (arguments.processes > 1 and arguments.what != "atari"):
        raise UserError(f"--processes {arguments.processes}: at least 1, and more only for lookrep bench atari")
    suits = {"none": arguments.what, "rejax": "minatar", "dopamine": "atari"}[arguments.peer]
    if suits != arguments.what:
        raise UserError(f"--peer {arguments.peer} is for lookrep bench {suits}, not {arguments.what}")
    if (arguments.peer == "dopamine") != (arguments.peer_python is not None):
        raise UserError("--peer dopamine and --peer-python go together: the Python of an environment with dopamine-rl")
    if arguments.what == "atari":
        return _atari(arguments)
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


def _atari(arguments: Arguments) -> int:
    if arguments.processes > 1:
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # nobody takes memory that others need
    import jax

    from lookrep import hosted
    from lookrep.benchmarks import atari, minatar, peer_dopamine

    game = hosted.canonical(f"atari/{arguments.game}").removeprefix("atari/")
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
    report: dict[str, Any] = {"machine": minatar.machine(), "rows": []}
    _say(json.dumps(report["machine"]))
    for row in atari.run([asked._replace(agents=n) for n in sizes], arguments.processes):
        report["rows"].append(row)
        _say(json.dumps(row))
    if arguments.peer_python is not None:
        report["peers"] = [peer_dopamine.compare(asked, arguments.peer_python)]
        _say(json.dumps(report["peers"][0]))
    print(json.dumps(report, indent=2))
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
