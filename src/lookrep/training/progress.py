"""What is said on the terminal while something trains: a live display, or plain lines where there is no terminal.

`Display` is what a run's `Progress` and a study's table (`lookrep.studies.execute.monitor`) share. All of it goes to
stderr, so that stdout stays free for results. The numbers arrive as the columns that also go to `metrics.jsonl`; how
they are measured, and what is trained, is not known here.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

LINE_INTERVAL_SECONDS = 2.0  # between plain lines
QUIET_INTERVAL_SECONDS = 60.0  # … where nothing but the number of steps is new
RATE_INTERVALS = 16  # time left is guessed from this many last intervals: early ones, without learning, are faster


@dataclass(frozen=True)
class Summary:
    """One interval of a population in a few numbers; NaN where there is nothing to say yet."""

    agent_steps: int
    steps_per_second: float  # of all agents together
    return_mean: float  # over the agents that have one
    return_error: float  # standard error of that mean; NaN for fewer than two agents
    return_agents: int  # how many agents the mean is over
    function_gap: float
    diverged: int


def summarise(columns: Mapping[str, Any]) -> Summary:
    """The columns of one interval (one value per agent, or one for all) as a Summary. Diverged members are left out.

    >>> summarise({"agent": [0, 1], "agent_steps": 500, "steps_per_second": 1e4, "return_mean": [1.0, 3.0],
    ...            "function_gap": [0.25, 0.5], "diverged": False})
    Summary(agent_steps=500, steps_per_second=10000.0, return_mean=2.0, return_error=1.0, return_agents=2, \
function_gap=0.375, diverged=0)
    """
    agents = len(np.atleast_1d(np.asarray(columns["agent"])))
    diverged = np.broadcast_to(np.asarray(columns["diverged"], bool), agents)

    def healthy(name: str) -> np.ndarray:
        values = np.broadcast_to(np.asarray(columns[name], np.float64), agents)
        return values[np.isfinite(values) & ~diverged]

    returns, gaps = healthy("return_mean"), healthy("function_gap")
    several = len(returns) > 1
    return Summary(
        agent_steps=int(np.max(np.asarray(columns["agent_steps"]))),
        steps_per_second=float(np.max(np.asarray(columns["steps_per_second"], np.float64))),
        return_mean=float(returns.mean()) if len(returns) else math.nan,
        return_error=float(returns.std(ddof=1) / math.sqrt(len(returns))) if several else math.nan,
        return_agents=len(returns),
        function_gap=float(gaps.mean()) if len(gaps) else math.nan,
        diverged=int(diverged.sum()),
    )


def finished(
    summary: Summary, agents: int, seconds: float, run: Path, *, started_at_steps: int = 0, verb: str = "finished"
) -> str:
    """The line at the end of a run; the speed is that of this process, which may have started in the middle.

    >>> last = Summary(1_000_000, 41_000.0, 21.93, 0.88, 8, 0.0417, 0)
    >>> print(finished(last, agents=8, seconds=192.3, run=Path("runs/first")))
    finished 1,000,000 steps × 8 agents in 3m12s (41,602 steps/s): return 21.9 ± 0.9 (s.e., 8 agents), \
function gap 0.0417 → runs/first
    """
    speed = (summary.agent_steps - started_at_steps) * agents / max(seconds, 1e-9)
    parts = [f"return {mean_return(summary)}"]
    if summary.return_agents > 1:
        parts[0] += f" (s.e., {summary.return_agents} agents)"
    if math.isfinite(summary.function_gap):
        parts.append(f"function gap {summary.function_gap:.3g}")
    if summary.diverged:
        parts.append(f"{summary.diverged} diverged")
    size = f"{summary.agent_steps:,} steps × {agents} agent{'s' if agents > 1 else ''}"
    return f"{verb} {size} in {duration(seconds)} ({speed:,.0f} steps/s): {', '.join(parts)} → {run}"


def duration(seconds: float) -> str:
    """Seconds for people, in at most two units.

    >>> duration(7.6), duration(192), duration(4 * 3600 + 61), duration(200_000)
    ('8s', '3m12s', '4h01m', '2d07h')
    """
    whole = round(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // smaller:02d}{name}"
    return f"{whole}s"


class Display:
    """Something that rich can draw, kept in place on a terminal and gone at the end; elsewhere plain lines."""

    def __init__(self, title: str, *, quiet: bool, console: Console | None, refreshes_per_second: float) -> None:
        self._title, self._quiet = title, quiet
        self._console = console or Console(stderr=True)
        # rich takes FORCE_COLOR, common in CI, for a terminal; a log file must not get the cursor's moves.
        terminal = self._console.is_interactive and (console is not None or sys.stderr.isatty())
        self._live: Live | None = None
        if terminal and not quiet:
            self._live = Live(self, console=self._console, refresh_per_second=refreshes_per_second, transient=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            self.line(f"{self._title}: {self._so_far()}")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live:
            self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The live display."""
        raise NotImplementedError

    def line(self, text: str, style: str | None = None) -> None:
        """A line that stays."""
        if not self._quiet:
            self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def note(self, text: str) -> None:
        """A message that stays on the screen, such as that a member has turned NaN."""
        self.line(text, style="yellow")

    def _so_far(self) -> str:
        raise NotImplementedError


class Progress(Display):
    """Shows a run while it is going on: `with Progress(...) as progress: ... progress.update(summarise(columns))`.

    On a terminal: a display of three lines that stays in place and is gone at the end. Elsewhere: a line per interval,
    not more than one every two seconds, and always the last. `stopping` is asked whether the run is about to stop.
    """

    def __init__(
        self,
        total_steps: int,
        agents: int,
        title: str,
        *,
        start_steps: int = 0,
        quiet: bool = False,
        console: Console | None = None,
        stopping: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(title, quiet=quiet, console=console, refreshes_per_second=4)
        self._total_steps, self._agents = total_steps, agents
        self._stopping, self._clock = stopping, clock
        self._start = clock()
        self._steps = start_steps
        self._summary: Summary | None = None
        self._recent: deque[tuple[float, int]] = deque(maxlen=RATE_INTERVALS + 1)
        self._deadline: float | None = None
        self._printed_at = -math.inf
        self._unprinted = False

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self._unprinted:
            self.line(self._report())

    @property
    def seconds(self) -> float:
        """Since this object was made."""
        return self._clock() - self._start

    def update(self, summary: Summary) -> None:
        now = self._clock()
        self._summary, self._steps = summary, summary.agent_steps
        self._recent.append((now, self._steps))
        self._deadline = self._estimate(now)
        if self._live:
            return  # redrawn four times a second, however short the intervals are
        self._unprinted = True
        if now - self._printed_at >= LINE_INTERVAL_SECONDS:
            self.line(self._report())
            self._printed_at, self._unprinted = now, False

    def moved(self, agent_steps: int) -> None:
        """So far, with nothing measured yet."""
        now = self._clock()
        self._steps = agent_steps
        self._recent.append((now, agent_steps))
        self._deadline = self._estimate(now)
        if self._live is None and now - max(self._printed_at, self._start) >= QUIET_INTERVAL_SECONDS:
            self.line(self._report())
            self._printed_at = now

    def _estimate(self, now: float) -> float | None:
        (then, before), steps = self._recent[0], self._steps
        left = self._total_steps - steps
        if steps > before and now > then:
            return now + left * (now - then) / (steps - before)
        speed = self._summary.steps_per_second if self._summary else math.nan
        return now + left * self._agents / speed if speed > 0 and math.isfinite(speed) else None

    def _report(self) -> str:
        parts = [self._so_far(), self._percent(), *self._figures(), self._diverged(), self._left()]
        return "  ".join(part for part in parts if part)

    def _so_far(self) -> str:
        return f"{self._steps:,}/{self._total_steps:,} steps"

    def _percent(self) -> str:
        return f"{100 * self._steps // max(1, self._total_steps)}%"

    def _left(self) -> str:
        if self._stopping():
            return "stopping"
        return "" if self._deadline is None else f"{duration(max(0.0, self._deadline - self._clock()))} left"

    def _figures(self) -> list[str]:
        now = self._summary
        if now is None:
            return []
        figures = [f"return {mean_return(now)}"]
        if math.isfinite(now.function_gap):
            figures.append(f"gap {now.function_gap:.3g}")
        if math.isfinite(now.steps_per_second):
            figures.append(f"{now.steps_per_second:,.0f} steps/s")
        return figures

    def _diverged(self) -> str:
        return f"{self._summary.diverged} diverged" if self._summary and self._summary.diverged else ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The live display: title, bar, figures."""
        agents = f"{self._agents} agent{'s' if self._agents > 1 else ''}"
        yield Text.assemble((self._title, "bold"), (f"  {agents}", "dim"), overflow="ellipsis", no_wrap=True)
        bar = Table.grid(padding=(0, 2, 0, 0), expand=True)
        bar.add_column(ratio=1)
        for width in (4, 2 * len(f"{self._total_steps:,}") + 7, 10):  # fixed, or the bar's end would jump about
            bar.add_column(no_wrap=True, justify="right", min_width=width)
        bar.add_row(
            ProgressBar(total=max(1, self._total_steps), completed=self._steps, pulse=not self._recent),
            self._percent(),
            self._so_far(),
            Text(self._left(), "cyan"),
        )
        yield bar
        yield self._status()

    def _status(self) -> Text:
        text = Text(overflow="ellipsis", no_wrap=True)
        if self._stopping():
            return text.append("stopping after this interval (Ctrl-C again: at once)", "yellow")
        if self._summary is None and len(self._recent) < 2:
            return text.append(f"starting … {duration(self.seconds)}", "dim")
        return text.append("  ".join(self._figures())).append(f"  {self._diverged()}", "bold red")


def mean_return(summary: Summary) -> str:
    """Mean ± standard error, to the error's first digit but at least one decimal.

    >>> mean_return(Summary(1, 1.0, 21.93, 0.88, 8, 0.0, 0)), mean_return(Summary(1, 1.0, 0.12345, 0.0031, 8, 0.0, 0))
    ('21.9 ± 0.9', '0.123 ± 0.003')
    """
    mean, error = summary.return_mean, summary.return_error
    if math.isnan(mean):
        return "–"  # no episode has ended yet
    if not math.isfinite(error):
        return f"{mean:,.1f}"
    decimals = min(4, max(1, -math.floor(math.log10(error)))) if error > 0 else 1
    return f"{mean:,.{decimals}f} ± {error:,.{decimals}f}"
