"""What `lookrep train` does around the loop: progress on the terminal, Ctrl-C that saves first, the last lines."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lookrep.config import RunConfig
from lookrep.runs import trust
from lookrep.training import engines, loop, opening, progress
from lookrep.training.advice import Advice
from lookrep.training.interrupt import Stop, graceful
from lookrep.training.loop import Watch
from lookrep.training.opening import OpenRun


def start(config: RunConfig, out: Path, *, quiet: bool = False) -> bool:
    """Train from scratch into a new folder; whether it reached its end (or was interrupted)."""
    engines.keep_what_is_compiled()
    with opening.started(config, out) as run, graceful() as stop:
        return _trained([run], stop, quiet)


def resume(
    out: Path, steps: int | None = None, *, restart: bool = False, refill: bool = False, quiet: bool = False
) -> bool:
    """Go on from the last checkpoint; `steps` sets a new end. With `restart`, from the start; with `refill`, also
    without the frames of its replay, if they are damaged."""
    engines.keep_what_is_compiled()
    with opening.resumed(out, steps, restart=restart, refill=refill) as run, graceful() as stop:
        return _trained([run], stop, quiet)


def together(runs: Sequence[tuple[Path, RunConfig | None]]) -> bool:
    """Train runs in one program, each with its own folder, which whoever asks holds: new ones by their configuration,
    others (None) from where they are. Several must be alike in what `config.shared` says. There is no progress; notes
    go to stderr, which studies keep as a log. Whether all reached their end."""
    engines.keep_what_is_compiled()
    opened = [opening.begun(out) if config is None else OpenRun(config, out) for out, config in runs]
    with graceful() as stop:
        return all(not stop.requested and _trained(group, stop, True, _to_stderr) for group in loop.programs(opened))


def _to_stderr(line: str) -> None:
    print(f"note: {line}", file=sys.stderr, flush=True)


def _trained(runs: list[OpenRun], stop: Stop, quiet: bool, say: Callable[[str], None] | None = None) -> bool:
    program = loop.prepare(runs)
    config, agents, started_at_steps = program.config, program.agents, runs[0].at_steps
    targets = dict.fromkeys(run.config.settings.target.target for run in runs)
    title = f"{config.env} · {config.agent} · {', '.join(targets)}"
    summary: progress.Summary | None = None
    advice = Advice(config.settings)
    with progress.Progress(
        config.steps, agents, title, start_steps=started_at_steps, quiet=quiet, stopping=lambda: stop.requested
    ) as display:
        note = say or display.note
        if len(targets) == 1 and not started_at_steps and (line := advice.at_start()):
            note(line)

        def row(columns: dict[str, Any]) -> None:
            nonlocal summary
            summary = progress.summarise(columns)
            display.update(summary)
            if len(targets) == 1 and (line := advice.on(columns)):
                note(line)

        at_steps = loop.train(program, stop, Watch(note, display.moved, row))
        seconds = display.seconds
    complete = at_steps == config.steps
    outs = [run.out for run in runs if run.out]
    if summary is not None:
        verb, place = "finished" if complete else "stopped after", outs[0] if len(outs) == 1 else outs[0].parent
        print(progress.finished(summary, agents, seconds, place, started_at_steps=started_at_steps, verb=verb))
    if not complete:
        for out in outs:
            again = f"lookrep train --resume {out}{trust.flag(config)}"
            saved = config.checkpoint_interval_steps
            print(f"interrupted; go on with: {again}" if saved else f"interrupted; begin anew with: {again} --restart")
    return complete
