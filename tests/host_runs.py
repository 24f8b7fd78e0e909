"""Small runs on the host: their configuration, engines that tests share, and what came of them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lookrep import config as configs
from lookrep.config import RunConfig, preset
from lookrep.training import session
from lookrep.training.host.engine import HostEngine, HostState

TESTS = Path(__file__).parent
SMALL: dict[str, dict[str, Any]] = {
    "network": {"network": "mlp:8"},
    "learning": {"atoms": 5, "v_min": -5.0, "v_max": 5.0, "batch_size": 8, "learning_rate": 1e-3},
    "replay": {"replay_capacity_steps": 200, "warmup_steps": 40},
    "target": {"target": "replicate", "target_period_updates": 10, "replicate_updates": 3, "replicate_batch_size": 8},
    "exploration": {"epsilon_decay_steps": 200},
}


def small(env: str, changes: dict[str, dict[str, Any]] | None = None, **fields: Any) -> RunConfig:
    """A prioritised three-step C51 with Replicate, as small as it can be."""
    base, changes = preset("rainbow"), changes or {}
    settings = dataclasses.replace(
        base,
        **{
            name: dataclasses.replace(getattr(base, name), **SMALL[name] | changes.get(name, {}))
            for name in SMALL
        },
    )  # fmt: skip
    defaults = {"steps": 400, "seed": 5, "log_interval_steps": 80, "workers": 0, "groups": 1, "settings": settings}
    return RunConfig(env, **{**defaults, **fields})


def engine_of(config: RunConfig, *_: Any) -> HostEngine:
    """An engine is a pure function of its configuration, so tests can share its compiled programs. Runs differ in their
    length alone, which an engine does not know."""
    return _engine_of(dataclasses.replace(config, steps=10**6))


@cache
def _engine_of(config: RunConfig) -> HostEngine:
    return HostEngine(config)


def rows_of(config: RunConfig, watch: Callable[[HostEngine, HostState], None] | None = None) -> dict[str, Any]:
    """Every metric [rows, agents], without a run on disk."""
    engine = engine_of(config)
    state = engine.init()
    try:
        rows = []
        for until in range(config.log_interval_steps, config.steps + 1, config.log_interval_steps):
            state = engine.advance(state, until)
            state, row = engine.measure(state)
            rows.append(row)
        if watch is not None:
            watch(engine, state)
    finally:
        engine.close(state)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


def rows(out: Path) -> list[dict[str, Any]]:
    """The metrics on disk without the one column that says how fast the machine was."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "steps_per_second"} for line in lines]


def cut(config: RunConfig, out: Path, environment: dict[str, str], how: signal.Signals, after_rows: int) -> None:
    """`lookrep train` in a process of its own, which does not get to its end."""
    file = out.with_suffix(".json")
    file.write_text(json.dumps(configs.to_json(config)))
    flags = ("--trust", "--quiet")  # some environments are the tests' own
    command = [sys.executable, "-m", "lookrep.cli", "train", "--config", str(file), "--out", str(out), *flags]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_"))}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=TESTS, env=clean | environment, text=True, **pipes)
    while not (out / "metrics.jsonl").exists() or len((out / "metrics.jsonl").read_text().splitlines()) < after_rows:
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    process.send_signal(how)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == (130 if how == signal.SIGINT else -how), errors


def assert_goes_on_as_if_nothing_had_happened(out: Path, whole: Path) -> None:
    before, expected = rows(out), rows(whole)
    assert before == expected[: len(before)]
    assert len(before) < len(expected)
    assert session.resume(out, quiet=True)
    assert rows(out) == expected


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def assert_alike(found: dict[str, Any], expected: dict[str, Any], tolerance: float = 2e-3) -> None:
    """Up to what rounding in differently batched matrix products may do."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=tolerance, atol=tolerance, err_msg=name)
