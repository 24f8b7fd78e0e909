"""Whatever is said to the commands that only look, solve or print: a success or one line, and nothing that goes on for
ever. `LOOKREP_FUZZ=N` as in test_fuzz.py."""

from pathlib import Path
from typing import Any

import pytest
from fuzzing import HUGE, bounds, files, numbers, said, some, words  # noqa: F401 (a fixture)
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lookrep import api
from lookrep.benchmarks import atari, methods, minatar
from lookrep.errors import UserError
from lookrep.exact import solution
from lookrep.exact.methods import METHODS
from lookrep.exact.sizes import step_sizes

extreme = st.one_of(st.sampled_from(HUGE), st.integers(-3, 3), st.sampled_from(["nan", "inf", "-1e308", "", "0x10"]))


def text(value: Any) -> str:
    try:
        return str(value)
    except ValueError:  # Python writes no number of so many digits, and a shell can
        return "9" * 4400


def flags(names: list[str], values: st.SearchStrategy[Any] = extreme) -> st.SearchStrategy[list[str]]:
    """Up to three of these."""
    one = st.tuples(st.sampled_from(names), values).map(lambda pair: f"--{pair[0]}={text(pair[1])}")
    return st.lists(one, max_size=3).filter(lambda found: not any("\0" in word for word in found))


EXACT = [
    "outer-iterations", "lookahead-updates", "replicate-updates", "lookahead-step-size", "replicate-step-size", "tau",
    "kappa", "networks", "growth", "longest-period", "batch-size", "seed", "tolerance", "figure",
]  # fmt: skip
problems = st.sampled_from(["two-state", "baird", "boyan", "random:3,0", "random:,", "random:99999999999,0", "x.toml"])


@some
@given(problem=problems | words, method=st.sampled_from(sorted(METHODS)), more=flags(EXACT, extreme | numbers | words))
@example(problem="random:1000000,0", method="lr", more=[])
@example(problem="two-state", method="growing", more=[f"--outer-iterations={10**6}", "--growth=1e308"])
@example(problem="two-state", method="distilled", more=[f"--networks={2**62}"])
def test_exact(
    problem: str, method: str, more: list[str], capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """All but the solving, whose time is what one asks for."""
    assume("\0" not in problem and not set(problem) <= set("./"))

    def solve(problem: Any, settings: Any, *_: Any) -> None:
        step_sizes(problem, settings)
        raise UserError("solved")

    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("solve", "solve_sampled"):
            patch.setattr(solution, name, solve)
        assert said(["exact", problem, "--method", method, *more], capsys) in (0, 2)
    assert not files(folder)


BENCH = [
    "agents", "agent", "method", "target", "precision", "game", "groups", "workers", "replay-capacity-steps", "study",
    "size",
]  # fmt: skip


@some
@given(what=st.sampled_from(["minatar", "atari", "methods", "--help", ""]), more=flags(BENCH, extreme | words))
def test_bench_up_to_the_timing(what: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (atari, methods, minatar):
            patch.setattr(module, "run", lambda *_: [])
        assert said(["bench", what, *more], capsys) in (0, 2)


@some
@given(command=st.sampled_from(["completion", "study", "study list", "study plan", "study status", "", "--version"]),
       more=st.lists(words, max_size=3))  # fmt: skip
@example(command="completion", more=["bash"])
@example(command="study list", more=[])
@example(command="train --resume x --steps", more=["9" * 5000])
@example(command="study plan minatar-targets --seeds", more=["9" * 5000])
def test_commands_that_print(
    command: str, more: list[str], capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    typed = [*command.split(), *more]
    assume(not any("\0" in word for word in more) and typed not in ([], ["study"]))  # those two list what there is
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert said(typed, capsys) in (0, 2)
    assert not files(folder)


PLAN = ["seeds", "steps", "memory-gb", "size", "env", "variant"]


@some
@given(name=st.sampled_from(["minatar-targets", "exact", "paper-55"]), more=flags(PLAN, extreme | words))
def test_plans(name: str, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert said(["study", "plan", name, *more], capsys) in (0, 2)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "run"
    api.train("minatar/breakout", agent="dqn", agents=2, steps=400, warmup_steps=200, log_interval_steps=200, out=out,
              replay_capacity_steps=400, network="mlp:8", batch_size=4)  # fmt: skip
    return out


LOOKING = {
    "eval": ["episodes", "epsilon", "agent", "game", "seed", "max-steps"],
    "play": ["video", "agent", "game", "episodes", "max-steps", "epsilon", "seed", "fps"],
    "report": ["steps", "env", "variant", "out"],
}


@some
@given(data=st.data(), command=st.sampled_from(sorted(LOOKING)))
def test_looking_at_a_real_run(
    data: st.DataObject, command: str, run: Path, capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Numbers are tiny, which is quick, or so large that they are refused."""
    folder, before = tmp_path_factory.mktemp("fuzz"), files(run)
    small = {"eval": ["--episodes", "1", "--max-steps", "20"], "play": ["--max-steps", "20", "--video", "film.gif"]}
    more = data.draw(flags(LOOKING[command], extreme))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        words = [command, str(run), *small.get(command, ["--out", "report.html"]), *more]
        assert said(words, capsys) in (0, 2)
    assert files(run) == before
