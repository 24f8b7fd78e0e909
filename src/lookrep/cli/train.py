"""`lookrep train`: start a run, or go on with one."""

import dataclasses
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from lookrep import config as configs
from lookrep.cli.parsing import optional, parse
from lookrep.cli.train_help import short_help
from lookrep.cli.train_words import in_order, settings_given, without_effect
from lookrep.config import RunConfig
from lookrep.envs import spelling
from lookrep.errors import UserError
from lookrep.runs import folder, names, trust
from lookrep.runs.wandb import PROJECT

HELP_ALL = "--help-all"


@dataclass(frozen=True)
class Arguments:
    """Train a population of agents.

    lookrep train minatar/breakout --agent rainbow --target replicate --agents 8 --steps 1_000_000 --out runs/first

    lookrep train atari/Breakout,Freeway,RoadRunner --agents-per-game 4 --target replicate --out runs/atari

    lookrep train --resume runs/first
    """

    out: Annotated[Path | None, optional("DIR", "none, it must be given")] = None
    """folder of the new run"""
    resume: Annotated[Path | None, optional("DIR", "none")] = None
    """folder of a run to go on with, with its own settings; only --steps may be given another value"""
    restart: tyro.conf.FlagCreatePairsOff[bool] = False
    """with --resume: begin that run anew; what it has come to is kept in a folder inside its own"""
    refill_replay: tyro.conf.FlagCreatePairsOff[bool] = False
    """with --resume: if frames of its replay are damaged, go on without, and fill the replay again before learning"""
    trust: tyro.conf.FlagCreatePairsOff[bool] = False
    """with --resume or --config: run the modules that are named there, and not here"""
    config: Annotated[Path | None, optional("FILE", "none")] = None
    """a config.json (or a run that has one) to start the settings from, instead of a preset"""
    agents_per_game: Annotated[int | None, optional("N", "1")] = None
    """instead of --agents: how many to train on each of several games"""
    wandb: Annotated[str | None, optional("PROJECT", "none")] = None
    """project in Weights & Biases that rows of metrics go to as well (or the variable LOOKREP_WANDB)"""
    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """no progress and no notes, only the last line"""
    help_all: tyro.conf.FlagCreatePairsOff[bool] = False
    """show this: every flag, with its default under the preset and method that are named"""
    run: Annotated[RunConfig, tyro.conf.arg(name="")] = field(default_factory=lambda: RunConfig(env=""))


def main(argv: Sequence[str]) -> int:
    if {"-h", "--help"} & set(argv) and HELP_ALL not in argv:
        print(short_help())
        return 0
    words = in_order(argv, Arguments)
    if words[:1] == ["--env"]:
        words[1] = _right_name(words[1], quiet="--quiet" in words)
    if HELP_ALL in words:
        words = [word for word in words if word != HELP_ALL] + ["--help"]
    _check_new_end(words)
    arguments = parse(Arguments, words, "lookrep train", default=Arguments(run=_base(words)), flat=True)
    if arguments.wandb:
        os.environ[PROJECT] = arguments.wandb
    if arguments.agents_per_game is not None:
        if _given(words, "--agents") is not None:
            raise UserError("--agents counts all agents, --agents-per-game those of each game: give one of them")
        agents = arguments.agents_per_game * len(arguments.run.games)
        arguments = dataclasses.replace(arguments, run=configs.replace(arguments.run, agents=agents))
    from lookrep.training import session as run  # imports JAX: --help and bad flags should not wait for it

    trusted = arguments.trust or {word.rpartition("=")[2] for word in words}
    if arguments.resume is not None:
        kept = configs.load(arguments.resume)
        steps = arguments.run.steps
        if arguments.out or arguments.config or arguments.run != configs.replace(kept, steps=steps):
            raise UserError(
                "--resume goes on with the settings of that run: only --steps, --restart, --refill-replay, --trust and "
                "--quiet go with it"
            )
        trust.check(kept, arguments.resume / names.CONFIG, trusted)
        how = {"restart": arguments.restart, "refill": arguments.refill_replay, "quiet": arguments.quiet}
        asked = None if _given(words, "--steps") is None else steps
        if not run.resume(arguments.resume, asked, **how):
            return 130
        _show(kept, arguments.resume, arguments.quiet)
        return 0
    for flag, given in (("--restart", arguments.restart), ("--refill-replay", arguments.refill_replay)):
        if given:
            raise UserError(f"{flag} goes with --resume RUN")
    if arguments.trust and arguments.config is None:
        raise UserError("--trust goes with --resume RUN or --config FILE: what is typed here is trusted")
    if not arguments.run.env:
        raise UserError("say what to train on: lookrep train minatar/breakout … (or --resume RUN)")
    if arguments.out is None:
        raise UserError("say where the run should go: --out runs/first")
    if arguments.config is not None:
        trust.check(arguments.run, arguments.config, trusted)
    for line in () if arguments.quiet else without_effect(words, arguments.run):
        print(f"note: {line}", file=sys.stderr)
    if not run.start(arguments.run, arguments.out, quiet=arguments.quiet):
        return 130
    _show(arguments.run, arguments.out, arguments.quiet)
    return 0


def _check_new_end(words: list[str]) -> None:
    run, steps = _given(words, "--resume"), (_given(words, "--steps") or "").replace("_", "")
    if run is None or not steps.isdecimal() or "--restart" in words:
        return
    done = folder.saved_at(Path(run))
    if int(steps) < done:
        raise UserError(f"{run} has done {done:,} steps: --steps goes on to a larger number, --restart begins it anew")


def _right_name(typed: str, *, quiet: bool) -> str:
    name = spelling.meant(typed)
    if name != typed and not quiet:
        print(f"note: {typed} is {name} here", file=sys.stderr)
    return name


def _show(config: RunConfig, out: Path, quiet: bool) -> None:
    """The curve of a finished run, and what to do with it next."""
    if quiet or not (out / names.METRICS).exists():
        return
    from lookrep.agents import Parts
    from lookrep.api import Run

    print(f"curve: {Run(config, out, Parts()).plot(out / 'curve.png')}")
    run = shlex.quote(str(out))
    ours = trust.flag(config)
    play = (
        f"  ·  lookrep eval {run}{ours}  ·  lookrep play {run}{ours} --video film.gif"
        if config.checkpoint_interval_steps
        else ""
    )
    print(f"next: lookrep report {run}{play}")


def _base(words: list[str]) -> RunConfig:
    """The settings that flags are changes to: a run's or a file's, or those of the agent named."""
    run, file, agent, method = (_given(words, flag) for flag in ("--resume", "--config", "--agent", "--method"))
    # What a method derives from other settings follows the flags. Help says what there is without them.
    given = {} if "--help" in words else settings_given(words, Arguments)
    if run is not None:
        return configs.load(Path(run))
    if file is not None:
        loaded = configs.load(Path(file), {} if agent or method else given)
        if _given(words, "--agents") or _given(words, "--agents-per-game"):
            loaded = dataclasses.replace(loaded, groups=None)  # what suited that many need not suit these
        env = _given(words, "--env") or loaded.env
        settings = configs.preset(agent, env) if agent else loaded.settings
        settings = configs.with_method(settings, method or "plain", given)
        return dataclasses.replace(loaded, agent=agent or loaded.agent, settings=settings)
    agent, env = agent or "rainbow", _given(words, "--env") or ""
    settings = configs.preset(agent, env, method or "plain", given)
    return RunConfig(env="", agent=agent, agents=len(configs.games(env)), settings=settings)


def _given(words: list[str], flag: str) -> str | None:
    for i, word in enumerate(words):
        if word == flag and i + 1 < len(words):
            return words[i + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None
