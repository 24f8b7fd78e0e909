"""What people see during a run: a live display that fits the terminal, or a few plain lines, or nothing."""

import io
import math
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from lookrep.training.progress import Progress, Summary, finished, summarise

LAST = Summary(1_000_000, 41_600.0, 21.93, 0.88, 8, 0.042, 0)


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def at(agent_steps: int, **changes: Any) -> Summary:
    return Summary(**{**vars(LAST), "agent_steps": agent_steps, **changes})


def console(terminal: bool, width: int = 80) -> tuple[Console, io.StringIO]:
    stream = io.StringIO()
    made = Console(
        file=stream, force_terminal=terminal, width=width, height=24, legacy_windows=False, _environ={"TERM": "xterm"}
    )
    return made, stream


# ---- without a terminal


def test_without_a_terminal_there_is_a_line_every_two_seconds_and_the_last() -> None:
    clock, (out, stream) = Clock(), console(terminal=False)
    with Progress(1000, 8, "breakout", console=out, clock=clock) as progress:
        for steps in range(100, 1001, 100):
            clock.seconds += 0.75
            progress.update(at(steps))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "breakout: 0/1,000 steps"
    assert [line.split()[0] for line in lines[1:]] == ["100/1,000", "400/1,000", "700/1,000", "1,000/1,000"]
    assert lines[2] == "400/1,000 steps  40%  return 21.9 ± 0.9  gap 0.042  41,600 steps/s  4s left"
    assert "\x1b" not in stream.getvalue()


def test_between_rows_that_are_minutes_apart_there_is_a_line_a_minute() -> None:
    clock, (out, stream) = Clock(), console(terminal=False)
    with Progress(1000, 8, "Pong", console=out, clock=clock) as progress:
        for steps in range(4, 401, 4):
            clock.seconds += 2.0
            progress.moved(steps)
        progress.update(at(400))
    lines = stream.getvalue().splitlines()
    assert lines[1:4] == [
        "120/1,000 steps  12%  7m20s left",
        "240/1,000 steps  24%  6m20s left",
        "360/1,000 steps  36%  5m20s left",
    ]
    assert len(lines) == 5


def test_a_line_that_was_printed_is_not_repeated_at_the_end() -> None:
    out, stream = console(terminal=False)
    with Progress(1000, 8, "t", console=out) as progress:
        progress.update(at(1000))
    assert len(stream.getvalue().splitlines()) == 2


def test_long_lines_are_not_wrapped_in_a_log_file() -> None:
    out, stream = console(terminal=False, width=30)
    with Progress(200_000_000, 512, "t", console=out) as progress:
        progress.note("agent 3 turned NaN at step 512,000 [not markup]: the others go on")
        progress.update(at(100_000_000, diverged=2))
    assert stream.getvalue().splitlines()[1:] == [
        "agent 3 turned NaN at step 512,000 [not markup]: the others go on",
        "100,000,000/200,000,000 steps  50%  return 21.9 ± 0.9  gap 0.042  41,600 steps/s  2 diverged  14d05h left",
    ]  # fmt: skip


def test_what_is_not_known_yet_is_not_shown() -> None:
    out, stream = console(terminal=False)
    with Progress(1000, 1, "t", console=out) as progress:
        progress.update(
            at(10, return_mean=math.nan, return_error=math.nan, function_gap=math.nan, steps_per_second=math.nan)
        )
    assert stream.getvalue().splitlines()[1] == "10/1,000 steps  1%  return –"


def test_quiet_prints_nothing() -> None:
    for terminal in (True, False):
        out, stream = console(terminal)
        with Progress(1000, 8, "t", quiet=True, console=out) as progress:
            progress.update(at(500))
            progress.note("x")
        assert stream.getvalue() == ""


# ---- on a terminal


def screen(progress: Progress, width: int) -> list[str]:
    """The live display as it is drawn at this moment, without colours."""
    out, stream = console(terminal=False, width=width)
    out.print(progress)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_live_display_is_three_lines_that_fit_the_terminal(width: int) -> None:
    out, _ = console(terminal=True, width=width)
    big = Progress(200_000_000, 1024, "minatar/space_invaders · full-rainbow · replicate", console=out)
    big.update(at(123_456_789, steps_per_second=1_523_000.0, return_mean=12_345.6, return_error=123.4, diverged=17))
    lines = screen(big, width)
    assert len(lines) == 3
    assert max(cell_len(line) for line in lines) <= width


def test_the_live_display_shows_what_matters() -> None:
    clock, (out, _) = Clock(), console(terminal=True)
    progress = Progress(1_000_000, 8, "minatar/breakout · rainbow", console=out, clock=clock)
    clock.seconds = 12.0
    assert screen(progress, 80)[2].strip() == "starting … 12s"
    progress.update(at(100_000))
    clock.seconds += 10.0
    progress.update(at(200_000, diverged=1))
    clock.seconds += 5.0
    title, bar, figures = screen(progress, 80)
    assert title.strip() == "minatar/breakout · rainbow  8 agents"
    assert re.fullmatch(r"━+[╸╺]?━+ +20% +200,000/1,000,000 steps +1m15s left", bar.strip())
    assert figures.strip() == "return 21.9 ± 0.9  gap 0.042  41,600 steps/s  1 diverged"


def test_nothing_jumps_about_while_the_numbers_grow() -> None:
    clock, (out, _) = Clock(), console(terminal=True)
    progress = Progress(1_000_000, 8, "t", console=out, clock=clock)
    places = set()
    for steps in (1, 50_000, 1_000_000):
        clock.seconds += 1.0
        progress.update(at(steps))
        bar = screen(progress, 80)[1]
        places.add((bar.index("%"), bar.index(" steps"), bar.index(" left")))
    assert len(places) == 1


def test_time_left_follows_recent_speed_not_the_fast_start() -> None:
    clock, (out, _) = Clock(), console(terminal=True)
    progress = Progress(1_000_000, 1, "t", console=out, clock=clock)
    for step in range(1, 51):  # warm-up: 1000 steps a second; then 100 a second
        clock.seconds += 1.0 if step <= 20 else 10.0
        progress.update(at(1000 * step))
    assert progress._left() == "2h38m left"  # 950,000 steps at 100 a second are 9500 s


def test_it_says_that_it_is_about_to_stop() -> None:
    out, _ = console(terminal=True)
    asked = False
    progress = Progress(1000, 8, "t", console=out, stopping=lambda: asked)
    progress.update(at(10))
    assert "stopping" not in " ".join(screen(progress, 80))
    asked = True
    assert screen(progress, 80)[2].strip() == "stopping after this interval (Ctrl-C again: at once)"


def test_notes_stay_on_the_terminal_and_the_display_goes() -> None:
    out, stream = console(terminal=True)
    with Progress(1000, 8, "t", console=out) as progress:
        progress.update(at(500))
        progress.note("agent 3 turned NaN at step 500")
    assert "agent 3 turned NaN at step 500" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")  # the last thing it does is to clear its lines


DEMO = """
from lookrep.training.progress import Progress, Summary
with Progress(1000, 8, "demo") as progress:
    progress.update(Summary(500, 1e4, 2.0, 1.0, 8, 0.5, 0))
    progress.note("a note")
print("result")
"""


def test_a_real_terminal_gets_the_display_and_a_pipe_gets_lines(tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "NO_COLOR")}
    environment |= {"TERM": "xterm", "COLUMNS": "80"}
    piped = subprocess.run([sys.executable, "-c", DEMO], capture_output=True, text=True, env=environment, check=True)
    assert piped.stdout == "result\n"
    assert piped.stderr.splitlines()[0] == "demo: 0/1,000 steps"
    assert piped.stderr.splitlines()[-1] == "a note"

    coloured = subprocess.run(
        [sys.executable, "-c", DEMO], capture_output=True, env={**environment, "FORCE_COLOR": "1"}
    )
    assert b"demo: 0/1,000 steps" in coloured.stderr
    assert b"\x1b[2K" not in coloured.stderr

    ours, theirs = pty.openpty()
    shown = subprocess.run([sys.executable, "-c", DEMO], stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    received = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert shown.stdout == b"result\n"
    assert "━" in received
    assert "a note" in received


# ---- numbers


def test_a_summary_leaves_out_diverged_members_and_missing_returns() -> None:
    summary = summarise(
        {
            "agent": np.arange(5),
            "agent_steps": 300,
            "steps_per_second": np.full(5, 99.0, np.float32),
            "return_mean": np.array([1.0, 2.0, 6.0, np.nan, 1e9], np.float32),
            "function_gap": np.array([0.1, 0.2, 0.3, 0.4, np.nan]),
            "diverged": np.array([False, False, False, False, True]),
        }
    )
    assert summary == Summary(
        agent_steps=300,
        steps_per_second=99.0,
        return_mean=3.0,
        return_error=pytest.approx(math.sqrt(7 / 3)),  # variance ((−2)² + (−1)² + 3²) / 2 = 7 over 3 agents
        return_agents=3,
        function_gap=pytest.approx(0.25),
        diverged=1,
    )


@pytest.mark.parametrize(
    ("summary", "agents", "options", "line"),
    [
        (
            LAST, 8, {},
            "finished 1,000,000 steps × 8 agents in 3m20s (40,000 steps/s): return 21.9 ± 0.9 (s.e., 8 agents), "
            "function gap 0.042 → runs/first",
        ),
        (
            Summary(500, 9.0, 3.25, math.nan, 1, math.nan, 0), 1, {"started_at_steps": 300},
            "finished 500 steps × 1 agent in 3m20s (1 steps/s): return 3.2 → runs/first",
        ),
        (
            Summary(1_000_000, 9.0, math.nan, math.nan, 0, 0.0, 2), 2, {"verb": "stopped after"},
            "stopped after 1,000,000 steps × 2 agents in 3m20s (10,000 steps/s): return –, function gap 0, 2 diverged "
            "→ runs/first",
        ),
    ],
)  # fmt: skip
def test_the_last_line_says_it_all(summary: Summary, agents: int, options: dict[str, Any], line: str) -> None:
    assert finished(summary, agents, 200.0, Path("runs/first"), **options) == line
