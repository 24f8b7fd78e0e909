"""`lookrep train`: start a run, or go on with one."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from lookrep import config as configs
from lookrep.commands.parsing import parse
from lookrep.config import RunConfig
from lookrep.errors import UserError


@dataclass(frozen=True)
class Arguments:
    """Train a population of agents.

    lookrep train minatar/breakout --agent rainbow --target replicate --agents 8 --steps 1_000_000 --out runs/first

    lookrep train atari/Breakout,Freeway,RoadRunner --agents-per-game 4 --target replicate --out runs/atari

    lookrep train --resume runs/first
    """

    out: Path | None = None
    """folder of the new run"""
    resume: Path | None = None
    """folder of a run to go on with, with its own settings; only --steps may be given another value"""
    config: Path | None = None
    """a config.json (or a run that has one) to start the settings from, instead of a preset"""
    agents_per_game: int | None = None
    """instead of --agents: how many to train on each of several games (default: 1)"""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """no progress"""
    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: RunConfig(env=""))


def main(argv: Sequence[str]) -> int:
    words = list(argv)
    if words and not words[0].startswith("-"):
        words[:1] = ["--env", words[0]]
    arguments = parse(Arguments, words, "lookrep train", default=Arguments(run=_base(words)), flat=True)
    if arguments.agents_per_game is not None:
        if _given(words, "--agents") is not None:
            raise UserError("--agents counts all agents, --agents-per-game those of each game: give one of them")
        agents = arguments.agents_per_game * len(arguments.run.games)
        arguments = dataclasses.replace(arguments, run=configs.replace(arguments.run, agents=agents))
    from lookrep.training import run  # imports JAX: --help and bad flags should not wait for it

    if arguments.resume is not None:
        kept = configs.load(arguments.resume)
        steps = arguments.run.steps
        if arguments.out or arguments.config or arguments.run != configs.replace(kept, steps=steps):
            raise UserError("--resume goes on with the settings of that run: only --steps and --quiet go with it")
        return 0 if run.resume(arguments.resume, steps, quiet=arguments.quiet) else 130
    if not arguments.run.env:
        raise UserError("say what to train on: lookrep train minatar/breakout … (or --resume RUN)")
    if arguments.out is None:
        raise UserError("say where the run should go: --out runs/first")
    return 0 if run.start(arguments.run, arguments.out, quiet=arguments.quiet) else 130


def _base(words: list[str]) -> RunConfig:
    """The settings that flags are changes to: a run's or a file's, or those of the agent named."""
    run, file, agent = (_given(words, flag) for flag in ("--resume", "--config", "--agent"))
    if run is not None:
        return configs.load(Path(run))
    if file is not None:
        loaded = configs.load(Path(file))
        env = _given(words, "--env") or loaded.env
        return dataclasses.replace(loaded, agent=agent, settings=configs.preset(agent, env)) if agent else loaded
    agent, env = agent or "rainbow", _given(words, "--env") or ""
    return RunConfig(env="", agent=agent, agents=len(configs.games(env)), settings=configs.preset(agent, env))


def _given(words: list[str], flag: str) -> str | None:
    for i, word in enumerate(words):
        if word == flag and i + 1 < len(words):
            return words[i + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None
