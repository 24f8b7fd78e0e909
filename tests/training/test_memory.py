"""What does not fit is refused by arithmetic; running out of memory all the same is one line."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lookrep import api
from lookrep import config as configs
from lookrep.cli import main
from lookrep.errors import UserError
from lookrep.studies import definition, hardware, plan
from lookrep.studies.execute import worker
from lookrep.training import memory
from lookrep.training.engines import make_engine

XLA = "INTERNAL: Error dispatching computation: Out of memory allocating 70437096960 bytes."
# The system gives it a gigabyte more than it has with JAX loaded: too little for the first update.
SHORT_OF_MEMORY = """
import resource, sys
from pathlib import Path
import jax.numpy
from lookrep.cli import main
from lookrep.training import session
jax.numpy.zeros(3) + 1
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30), -1))
sys.exit(main(sys.argv[1:]))
"""
WIDE = {
    "agent": "dqn", "batch-size": 32768, "network": "mlp:4096", "steps": 400, "warmup-steps": 200,
    "replay-capacity-steps": 400, "log-interval-steps": 100, "checkpoint-interval-steps": 100, "out": "run",
}  # fmt: skip


def test_out_of_memory_in_a_compiled_loop_on_a_cpu_is_one_line(
    tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    out, words = tmp_path / "run", [f"--{name}={value}" for name, value in WIDE.items()]
    done = subprocess.run(
        [sys.executable, "-c", SHORT_OF_MEMORY, "train", "minatar/breakout", "--quiet", *words],
        env={**os.environ, **quick_compilation},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("lookrep: out of memory (")
    assert done.stderr.endswith("what was saved before is good\n")
    assert done.stderr.count("\n") == 1
    assert json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["agent_steps"] == 200
    assert (out / "checkpoints" / "000000000200" / "manifest.json").exists()


ERRORS = [
    (RuntimeError(XLA), f"out of memory ({XLA})"),
    (RuntimeError("RESOURCE_EXHAUSTED: no room\nHBM usage"), "out of memory (RESOURCE_EXHAUSTED: no room)"),
    (MemoryError(), "out of memory (MemoryError)"),
    (OSError(28, "No space left on device", "a/b"), "a/b: No space left on device"),
]


@pytest.mark.parametrize(("error", "said"), ERRORS)
def test_every_command_says_it_in_one_line(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise error

    for command in ("eval", "play"):
        monkeypatch.setattr(f"lookrep.cli.{command}.main", fails)
        assert main([command, "somewhere"]) == 2
        assert capsys.readouterr().err == f"lookrep: {said}\n"
    monkeypatch.setattr(worker, "train", fails)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"folder": "x", "populations": {}, "keep_replay": false}'))
    assert worker.main() == worker.WRONG
    assert capsys.readouterr().err == f"lookrep: {said}\n"


def test_mistakes_of_this_program_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("INVALID_ARGUMENT")

    monkeypatch.setattr("lookrep.cli.eval.main", fails)
    with pytest.raises(RuntimeError, match="INVALID"):
        main(["eval", "somewhere"])


def test_from_python_it_is_one_line_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError(XLA)

    run = api.train("minatar/breakout", agent="dqn", steps=40, warmup_steps=20, log_interval_steps=40,
                    replay_capacity_steps=400, network="mlp:8", batch_size=4)  # fmt: skip
    monkeypatch.setattr("lookrep.playing.evaluation.evaluate", fails)
    monkeypatch.setattr(api.Run, "_outputs", fails)
    for use in (run.evaluate, lambda: run.q_values([]), lambda: run.distributions([])):
        with pytest.raises(UserError, match=r"^out of memory .*: fewer agents, episodes or observations at once"):
            use()


# Arithmetic


def ask(config: configs.RunConfig, gigabytes: float) -> None:
    """What a command asks before it makes anything, on a machine with so much memory."""
    with pytest.MonkeyPatch.context() as patch:
        for name, found in (("available", (int(gigabytes * 1e9), "of free memory")), ("host_available", 2**37)):
            patch.setattr(memory, name, lambda found=found: found)
        engine = make_engine(config)
        memory.check(config, engine.shapes(), engine.agent)


# (changes to a DQN on MinAtar's breakout, what a batch takes in GB by its least arithmetic): observations twice, layers
# three times, all float32 but Atari's frames.
TOO_MUCH = [
    ({"batch_size": 2**20, "network": "mlp:4096"}, 2**20 * (2 * 1600 + 12 * (4096 + 3))),
    ({"batch_size": 2**20}, 2**20 * (2 * 1600 + 12 * (8 * 8 * 16 + 128 + 3))),
    ({"batch_size": 2**17, "agent": "rainbow", "atoms": 4096}, 2**17 * (3200 + 12 * (8 * 8 * 16 + 128 + 3 * 4096))),
    ({"batch_size": 2**14, "agents": 64}, 2**20 * (2 * 1600 + 12 * (8 * 8 * 16 + 128 + 3))),
    ({"target": "replicate", "replicate_batch_size": 2**20}, 2**20 * (2 * 1600 + 12 * (8 * 8 * 16 + 128 + 3))),
    ({"env": "gym/CartPole-v1", "batch_size": 2**20, "network": "mlp:4096x4096"}, 2**20 * (2 * 16 + 12 * 8194)),
    (
        {"env": "atari/Freeway", "batch_size": 2**20},
        2**20 * (2 * 4 * 84**2 + 12 * (21**2 * 32 + 2 * 11**2 * 64 + 512 + 3)),
    ),
]


@pytest.mark.parametrize(("changes", "takes"), TOO_MUCH)
def test_a_batch_that_no_memory_holds_is_refused_with_what_would_fit(changes: dict[str, Any], takes: int) -> None:
    settings = {"env": "minatar/breakout", "agent": "dqn", "replay_capacity_steps": 1000} | changes
    with pytest.raises(UserError, match=r"batch_size = [\d,]+: a batch takes .* but there are 16.00 GB") as refused:
        ask(configs.from_flat(settings), 16)
    assert f"a batch takes {takes / 1e9:,.2f} GB, beside " in str(refused.value)
    name, fits = re.search(r"; (\w+) = ([\d,]+) would fit$", str(refused.value)).groups()  # type: ignore[union-attr]
    ask(configs.from_flat(settings | {name: int(fits.replace(",", ""))}), 16)


def test_a_batch_of_replicate_counts_only_where_there_is_one() -> None:
    ask(configs.from_flat({"env": "minatar/breakout", "target": "hard", "replicate_batch_size": 2**20}), 16)


@pytest.mark.parametrize("agent", configs.AGENTS)
@pytest.mark.parametrize("env", ["minatar/seaquest", "gym/CartPole-v1", "atari/Breakout"])
def test_every_preset_fits_an_ordinary_machine(env: str, agent: str) -> None:
    try:
        config = configs.from_flat({"env": env, "agent": agent})
        make_engine(config)
    except UserError:
        assert not env.startswith("atari")  # presets of Atari alone
        return
    ask(config, 16)


@pytest.mark.parametrize("name", ["paper-55", "minatar-scaling", "minatar-recipe", "atari-parity"])
def test_the_largest_populations_of_studies_fit_an_h200(name: str) -> None:
    study = definition.load(name, "gpu")
    largest = max(plan.populations(study, hardware.H200.usable_bytes), key=lambda one: one.agents)
    ask(plan.run_config(study, largest), 0.9 * hardware.H200.memory_bytes / 1e9)
