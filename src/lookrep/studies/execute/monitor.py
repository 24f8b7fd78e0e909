"""What a study looks like while it runs: a table of its populations, live on a terminal, plain lines elsewhere.

Everything is read from the study's folder, so it does not matter who trains, or where.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from lookrep.runs import folder as runs
from lookrep.runs import names
from lookrep.studies import folder as folders
from lookrep.studies.plan import PlannedPopulation
from lookrep.training import progress

State = Literal["finished", "running", "stopped", "failed", "waiting"]
STYLES = {"finished": "green", "running": "bold cyan", "stopped": "yellow", "failed": "bold red", "waiting": "dim"}
LINE_INTERVAL_SECONDS = 10.0
EARLY = 0.05  # of the steps: before that, time left is anyone's guess
BAR_CELLS = 12
SHOWN = 12  # populations in the live table of a run


@dataclass(frozen=True)
class Row:
    """A population, now."""

    name: str
    agents: int
    steps: int  # that each agent has taken
    total_steps: int
    state: State
    summary: progress.Summary | None  # of its last interval
    error: str | None = None

    @property
    def seconds_left(self) -> float:
        """NaN where there is nothing to go by: the first rows are slowed down by compiling."""
        speed = self.summary.steps_per_second if self.summary else math.nan
        known = speed > 0 and self.steps >= EARLY * self.total_steps
        return (self.total_steps - self.steps) * self.agents / speed if known else math.nan


def survey(folder: Path, steps: int, populations: Mapping[str, PlannedPopulation]) -> list[Row]:
    """Every population in the order given."""
    return [_row(folder, name, population.agents, steps) for name, population in populations.items()]


def totals(rows: list[Row]) -> tuple[int, int]:
    """Agent steps done, and in all."""
    return sum(row.steps * row.agents for row in rows), sum(row.total_steps * row.agents for row in rows)


def overview(rows: list[Row]) -> str:
    """
    >>> overview([Row("a", 2, 50, 100, "running", None), Row("b", 2, 100, 100, "finished", None)])
    '1 of 2 populations finished, 1 running: 300/400 agent steps (75%)'
    """
    done, total = totals(rows)
    counts = [(state, sum(row.state == state for row in rows)) for state in ("running", "stopped", "failed")]
    others = "".join(f", {count} {state}" for state, count in counts if count)
    finished = sum(row.state == "finished" for row in rows)
    share = 100 * done // max(1, total)
    return f"{finished} of {len(rows)} populations finished{others}: {done:,}/{total:,} agent steps ({share}%)"


def as_json(row: Row) -> dict[str, Any]:
    """One population as plain values; None for what is not known."""
    last = row.summary
    numbers = {
        "return_mean": last.return_mean if last else math.nan,
        "steps_per_second": last.steps_per_second if last else math.nan,
        "seconds_left": row.seconds_left,
    }
    return {
        "name": row.name,
        "state": row.state,
        "agents": row.agents,
        "steps": row.steps,
        "total_steps": row.total_steps,
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
        "error": row.error,
    }


def line(row: Row) -> str:
    """One population in plain text."""
    figures = [row.state, f"{row.steps:,}/{row.total_steps:,} steps × {row.agents}"]
    if row.summary is not None:
        figures += [f"return {progress.mean_return(row.summary)}", f"{row.summary.steps_per_second:,.0f} steps/s"]
    if row.state == "running" and math.isfinite(row.seconds_left):
        figures.append(f"{progress.duration(row.seconds_left)} left")
    return f"{row.name}: {', '.join(figures)}" + (f": {row.error}" if row.error else "")


def table(rows: list[Row], title: str) -> Table:
    grid = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("population", overflow="fold")
    grid.add_column("agents", justify="right")
    grid.add_column("progress", width=BAR_CELLS)
    for name in ("%", "return", "steps/s", "left"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("state", no_wrap=True)
    for row in rows:
        left = row.seconds_left if row.state == "running" else math.nan
        grid.add_row(
            escape(row.name),
            str(row.agents),
            ProgressBar(total=row.total_steps, completed=row.steps, width=BAR_CELLS),
            f"{100 * row.steps // row.total_steps}",
            progress.mean_return(row.summary) if row.summary else "–",
            f"{row.summary.steps_per_second:,.0f}" if row.summary else "–",
            progress.duration(left) if math.isfinite(left) else "",
            Text(row.state, STYLES[row.state]),
        )
    return grid


class StudyDisplay(progress.Display):
    """Shows a study while it is going on. The caller says when something happened, and `tick`s in between."""

    def __init__(
        self, title: str, rows: Callable[[], list[Row]], *, quiet: bool = False, console: Console | None = None
    ) -> None:
        super().__init__(title, quiet=quiet, console=console, refreshes_per_second=1)
        self._rows = rows
        self._began = time.monotonic()
        self._recent: deque[tuple[float, int]] = deque(maxlen=60)
        self._printed_at, self._printed = self._began, ""

    def tick(self) -> None:
        now = time.monotonic()
        if self._live is None and now - self._printed_at >= LINE_INTERVAL_SECONDS:
            rows = self._rows()
            left = self._left(rows)
            lines = [overview(rows) + (f", {left} left" if left else "")]
            text = "\n  ".join(lines + [line(row) for row in rows if row.state == "running"])
            if text != self._printed:
                self.line(text)
            self._printed_at, self._printed = now, text

    def _so_far(self) -> str:
        return overview(self._rows())

    def _left(self, rows: list[Row]) -> str:
        """From how fast the whole study has moved in the last minute."""
        now, (done, total) = time.monotonic(), totals(rows)
        self._recent.append((now, done))
        then, before = self._recent[0]
        known = before < done < total and done >= EARLY * total
        return progress.duration((total - done) * (now - then) / (done - before)) if known else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._rows()
        done, total = totals(rows)
        bar = Table.grid(padding=(0, 2, 0, 0), expand=True)
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True, justify="right", min_width=16)
        left = self._left(rows)
        spent = progress.duration(time.monotonic() - self._began)
        bar.add_row(ProgressBar(total=max(1, total), completed=done), f"{left} left" if left else spent)
        interesting = [row for row in rows if row.state in ("running", "failed", "stopped")]
        rest = [row for row in rows if row not in interesting]
        finished = [row for row in rest if row.state == "finished"][-SHOWN // 2 :]
        waiting = [row for row in rest if row.state == "waiting"]
        shown = (finished + interesting + waiting)[:SHOWN]
        yield Group(table(shown, self._title), Text(overview(rows), overflow="ellipsis", no_wrap=True), bar)


def _row(folder: Path, name: str, agents: int, total_steps: int) -> Row:
    run = folder / folders.POPULATIONS / name
    rows = runs.last_rows(run, agents)
    error = folders.failure(folder, name)
    state: State = "waiting"
    if runs.is_running(run):
        state = "running"
    elif runs.finished(run) and runs.last_steps(run) >= total_steps:
        state = "finished"  # one that others have outgrown is not: a later `study run` takes it further
    elif (lost := runs.lost_rows(run)) is not None:
        state, error = "failed", lost
    elif error is not None:
        state = "failed"
    elif (run / names.CONFIG).exists():
        state = "stopped"
    if not rows:
        return Row(name, agents, 0, total_steps, state, None, error if state == "failed" else None)
    numbers = ("agent", "agent_steps", "steps_per_second", "return_mean", "function_gap")
    columns = {key: [math.nan if row.get(key) is None else row[key] for row in rows] for key in numbers}
    columns["diverged"] = [row.get("diverged", False) for row in rows]
    summary = progress.summarise(columns)
    return Row(name, agents, summary.agent_steps, total_steps, state, summary, error if state == "failed" else None)
