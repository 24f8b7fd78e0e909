"""A study of seconds, run by the real command in processes of its own; for the tests of the backends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent
COMMAND = "import sys; from lookrep.cli.study import main; sys.exit(main(sys.argv[1:]))"
POPULATIONS = ("probes_Museum--hard--0-1", "probes_Museum--learned--0-1")
STUDY = """
title = "Two targets"
environments = ["probes:Museum"]
agent = "rainbow"
seeds = 2
steps = 6000

[overrides]
network = "mlp:8"
atoms = 5
v_min = -2
v_max = 4
batch_size = 8
replicate_batch_size = 8
replay_capacity_steps = 2000
warmup_steps = 1000
epsilon_decay_steps = 2000
target_period_updates = 30
replicate_updates = 5
log_interval_steps = 200
checkpoint_interval_steps = 400

[variants.hard]
target = "hard"

[variants.learned]
target = "replicate"
"""


def write_study(folder: Path, **changes: str) -> Path:
    """The definition as a file, with some of its text replaced."""
    text = STUDY
    for before, after in changes.items():
        text = text.replace(before, after)
    path = folder / "two-targets.toml"
    path.write_text(text)
    return path


def start(*words: str | Path, environment: dict[str, str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        command,
        cwd=TESTS,
        env=clean | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": path} | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def completed(*words: str | Path, environment: dict[str, str], status: int = 0) -> str:
    """What it said, with its errors, if it ended as it should."""
    process = start(*words, environment=environment)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == status, said + errors
    return said + errors


def wait_until(condition: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def saved(run: Path) -> list[str]:
    """Checkpoints of a population."""
    return sorted(path.parent.name for path in run.glob("checkpoints/*/manifest.json"))


def rows(run: Path) -> list[dict[str, Any]]:
    """The metrics without the one column that says how fast the machine was."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "steps_per_second"} for line in lines]


def kill(run: Path) -> int:
    """SIGKILL to whoever trains this population, by the process number in its lock."""
    number = int((run / ".lock").read_text().split()[1])
    os.kill(number, signal.SIGKILL)
    return number
