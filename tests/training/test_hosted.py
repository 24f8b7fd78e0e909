"""The engine for environments on the host: what an agent sees and learns does not depend on how it is run."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hosted.toys import Walk

from lookrep import config as configs
from lookrep.config import RunConfig, preset
from lookrep.errors import UserError
from lookrep.training import checkpoint, frame_log, memory, pieces, run
from lookrep.training.hosted import HostedEngine, HostedState

pytestmark = pytest.mark.usefixtures("quick_compilation")

TESTS = Path(__file__).parents[1]
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


@cache
def engine_of(config: RunConfig) -> HostedEngine:
    """An engine is a pure function of its configuration, so tests can share its compiled programs."""
    return HostedEngine(config)


@pytest.fixture(scope="module", autouse=True)
def shared_engines() -> Iterator[None]:
    """Runs differ in their length alone, which an engine does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "make_engine", lambda config: engine_of(dataclasses.replace(config, steps=10**6)))
        yield
    engine_of.cache_clear()


def rows_of(config: RunConfig, watch: Callable[[HostedEngine, HostedState], None] | None = None) -> dict[str, Any]:
    """Every metric [rows, agents], without a run on disk."""
    engine = engine_of(dataclasses.replace(config, steps=10**6))
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


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Up to what rounding in differently batched matrix products may do."""
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.fixture(scope="module")
def walks() -> dict[str, Any]:
    """Four agents that walk, in two groups, stepped in this process."""
    return rows_of(small("hosted.toys:Walk", agents=4, groups=2))


# ---- scheduling


def test_there_is_one_update_per_four_steps_of_an_agent_and_three_of_the_target_per_ten(walks: dict[str, Any]) -> None:
    steps = np.arange(80, 401, 80)
    np.testing.assert_array_equal(walks["agent_steps"], np.tile(steps[:, None], 4))
    np.testing.assert_array_equal(walks["online_updates"], np.tile((steps[:, None] - 40) // 4, 4))
    np.testing.assert_array_equal(walks["target_updates"], 3 * (walks["online_updates"] // 10))
    assert (walks["episodes"] > 0).all()
    assert len(np.unique(walks["loss"][-1])) == 4


@pytest.mark.parametrize(("name", "workers"), [("Walk", 1), ("Unhurried", 2)])
def test_neither_workers_nor_delays_change_what_happens(walks: dict[str, Any], name: str, workers: int) -> None:
    """`Unhurried` is the same walk, whose steps now and then take milliseconds."""
    assert_same(rows_of(small(f"hosted.toys:{name}", agents=4, groups=2, workers=workers)), walks)


def test_how_many_groups_there_are_makes_no_difference(walks: dict[str, Any]) -> None:
    assert_alike(rows_of(small("hosted.toys:Walk", agents=4, groups=1)), walks)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_in_how_many_pieces_a_state_travels_makes_no_difference(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU small arrays travel as one."""
    changes = {"network": {"precision": precision}}
    plain = rows_of(small("hosted.toys:Walk", changes, agents=2))
    monkeypatch.setattr("lookrep.training.group.Packing", partial(pieces.Packing, small_bytes=2**20))
    engine_of.cache_clear()
    made: list[pieces.Pieces] = []
    pack = pieces.Packing.pack
    monkeypatch.setattr(pieces.Packing, "pack", lambda self, tree: (made.append(pack(self, tree)), made[-1])[1])
    packed = rows_of(small("hosted.toys:Walk", changes, agents=2))
    engine_of.cache_clear()
    assert made
    assert not any(one.large for one in made)
    assert_alike(packed, plain)


def test_agent_i_alone_is_agent_i_of_a_population(walks: dict[str, Any]) -> None:
    alone = rows_of(small("hosted.toys:Walk", agents=1, first_agent=3))
    assert_alike(alone, {name: values[:, [3]] for name, values in walks.items()})


def test_the_replay_knows_where_every_action_led_at_the_end_of_an_episode_and_before() -> None:
    """A walk shows how many steps it has taken: where an episode goes on, the replay's next observation is the one
    seen next; where it ends, by the edge or by the clock, it is one step further, not the first of the next episode."""

    def look(engine: HostedEngine, state: HostedState) -> None:
        replay = state.groups[0].state.replay
        seen, led_to, flags = (
            np.asarray(part)[:160] for part in (replay.observation, replay.next_observation, replay.flags)
        )
        goes_on = flags[:-1] == 0
        np.testing.assert_array_equal(led_to[:-1][goes_on], seen[1:][goes_on])
        np.testing.assert_array_equal(led_to[..., 1], seen[..., 1] + 1)
        assert set(np.unique(flags)) == {0, 1, 2}  # under way, terminated, truncated

    rows_of(small("hosted.toys:Walk", agents=4, groups=2, steps=160), look)


def test_cart_pole_is_an_environment_like_any_other() -> None:
    found = rows_of(small("gym/CartPole-v1", agents=1, steps=160))
    assert found["episodes"].sum() > 2
    assert (found["return_mean"] * found["episodes"]).sum() <= 160  # a reward of 1 a step
    assert np.isfinite(found["loss"][-1]).all()


# ---- rewards


class Generous(Walk):
    """Three steps of reward 5, then the end: a return of 15."""

    def __init__(self, render_mode: str | None = None) -> None:
        pass

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        return self.observation(), 5.0, self.steps == 3, False, {}


@pytest.fixture(scope="module", autouse=True)
def games() -> Iterator[None]:
    """Walks that differ in their actions, and one that rewards."""
    makers = {"Generous": Generous, "Wide": partial(Narrow, 4), "Narrow": partial(Narrow, 2)}
    for name, make in makers.items():
        gymnasium.register(f"{name}-v0", make, disable_env_checker=True)
    yield
    for name in makers:
        del gymnasium.registry[f"{name}-v0"]


@pytest.mark.parametrize(("clip", "learnt_from"), [(True, 1.0), (False, 5.0)])
def test_rewards_are_clipped_for_learning_alone(clip: bool, learnt_from: float) -> None:
    def look(engine: HostedEngine, state: HostedState) -> None:
        assert (np.asarray(state.groups[0].state.replay.reward) == learnt_from).all()

    found = rows_of(small("gym/Generous-v0", {"learning": {"clip_rewards": clip}}, steps=240), look)
    np.testing.assert_array_equal(found["return_mean"], 15.0)
    np.testing.assert_array_equal(found["return_max"], 15.0)
    assert found["episodes"].sum() == 240 // 3


# ---- several games


class Narrow(Walk):
    """A walk with fewer (or more) actions, which takes none but these."""

    def __init__(self, actions: int, render_mode: str | None = None) -> None:
        self.action_space = Discrete(actions)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in self.action_space, action
        return super().step(action % 3 - 1)


MIXED = "gym/Wide-v0,Narrow-v0"


def poisoned(engine: HostedEngine, state: HostedState) -> HostedState:
    """The outputs for actions 2 and 3 of the agents that have only two promise the most there is, in both networks."""
    atoms = engine.config.settings.learning.atoms

    def spoil(params: Any) -> Any:
        biases = [leaf for leaf in jax.tree.leaves(params) if leaf.shape == (4, 4 * atoms)]
        assert len(biases) == 1  # [agents, actions × atoms]
        promise = jnp.zeros((4, 4, atoms)).at[2:, 2:, -1].set(20.0).reshape(4, -1)
        return jax.tree.map(lambda leaf: leaf + promise if leaf.shape == promise.shape else leaf, params)

    group = state.groups[0]
    agents = group.state.agents
    target = agents.target._replace(params=spoil(agents.target.params))
    group.state = group.state._replace(agents=agents._replace(online=spoil(agents.online), target=target))
    return state


def test_actions_that_a_game_lacks_are_never_taken_bootstrapped_from_or_compared() -> None:
    """However much the networks promise for them, all that happens and is learnt stays the same."""
    config = small(MIXED, agents=4)
    found = []
    for change in (lambda engine, state: state, poisoned):
        engine = engine_of(dataclasses.replace(config, steps=10**6))
        state = change(engine, engine.init())
        rows = []
        for until in (80, 200, 400):
            state = engine.advance(state, until)
            state, row = engine.measure(state)
            rows.append(row)
        actions = np.asarray(state.groups[0].state.replay.action)
        assert actions[:, :2].max() == 3
        assert actions[:, 2:].max() == 1
        engine.close(state)
        found.append({name: np.stack([row[name] for row in rows]) for name in rows[0]})
    healthy, spoilt = found
    moved = {"norm_online", "norm_target"}  # the promises are parameters, and stay
    assert (spoilt["norm_target"][:, 2:] > healthy["norm_target"][:, 2:] + 10).all()
    assert_same(*({k: v for k, v in rows.items() if k not in moved} for rows in (spoilt, healthy)))


def test_an_agent_of_one_game_is_the_same_whatever_is_played_beside_it() -> None:
    """Its network has outputs for the other game's actions, so the widest game stands for itself."""
    together = rows_of(small(MIXED, agents=4))
    alone = rows_of(small("gym/Wide-v0", agents=2))
    assert_alike(alone, {name: values[:, :2] for name, values in together.items()})


def test_rows_of_several_games_say_which_one_they_are_from(tmp_path: Path) -> None:
    run.start(small(MIXED, agents=4, steps=160), tmp_path / "run", quiet=True)
    found = rows(tmp_path / "run")
    assert [(row["env"], row["agent"]) for row in found] == 2 * [
        ("gym/Wide-v0", 0), ("gym/Wide-v0", 1), ("gym/Narrow-v0", 0), ("gym/Narrow-v0", 1),
    ]  # fmt: skip


def test_games_that_look_different_are_not_trained_together() -> None:
    with pytest.raises(UserError, match="gym/CartPole-v1 and gym/Acrobot-v1 cannot share a population"):
        HostedEngine(small("gym/CartPole-v1,Acrobot-v1", agents=2))


def test_a_run_on_the_host_uses_one_device() -> None:
    with pytest.raises(UserError, match="devices = 2: environments on the host train on one device"):
        HostedEngine(small("gym/CartPole-v1", agents=2, devices=2))


# ---- cut and resumed


def rows(out: Path) -> list[dict[str, Any]]:
    """The metrics without the one column that says how fast the machine was."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "steps_per_second"} for line in lines]


def cut(config: RunConfig, out: Path, environment: dict[str, str], how: signal.Signals, after_rows: int) -> None:
    """`lookrep train` in a process of its own, which does not get to its end."""
    file = out.with_suffix(".json")
    file.write_text(json.dumps(configs.to_json(config)))
    command = [sys.executable, "-m", "lookrep.cli", "train", "--config", str(file), "--out", str(out), "--quiet"]
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
    assert run.resume(out, quiet=True)
    assert rows(out) == expected


WALKS = small(
    "hosted.toys:Unhurried", agents=4, groups=2, workers=2, steps=800, log_interval_steps=40,
    checkpoint_interval_steps=160,
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that never stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert run.start(WALKS, out, quiet=True)
    assert not any("env" in row for row in rows(out))
    return out


@pytest.mark.parametrize(("how", "after_rows"), [(signal.SIGKILL, 8), (signal.SIGKILL, 36), (signal.SIGINT, 24)])
def test_killed_or_interrupted_and_resumed_a_run_ends_with_the_same_metrics(
    how: signal.Signals, after_rows: int, whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    """Two groups in two worker processes, episodes under way; before and after the first checkpoint."""
    cut(WALKS, tmp_path / "cut", quick_compilation, how, after_rows)
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", whole)


def test_a_run_need_not_wait_for_its_next_row_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of an Atari run may be minutes apart. Asked to stop between two, it saves there and goes on from there."""
    config = small("hosted.toys:Walk", agents=2, steps=800, log_interval_steps=400, checkpoint_interval_steps=400)
    assert run.start(config, tmp_path / "whole", quiet=True)
    moved: list[int] = []

    def ask(display: Any, agent_steps: int) -> None:
        moved.append(agent_steps)
        if len(moved) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(run.progress.Progress, "moved", ask)
    assert not run.start(config, tmp_path / "cut", quiet=True)
    assert 0 < moved[-1] < 400
    assert moved == sorted(moved)
    assert [int(path.name) for path in (tmp_path / "cut" / "checkpoints").iterdir() if path.is_dir()] == [moved[-1]]
    assert "interrupted; go on with" in capsys.readouterr().out
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", tmp_path / "whole")


FRAMES = {
    "network": {"network": "nature:16"},
    "learning": {"batch_size": 4},
    "replay": {"replay_capacity_steps": 80, "warmup_steps": 200},
    "target": {"target_period_updates": 4, "replicate_batch_size": 4, "replicate_updates": 1},
}


def test_so_does_a_run_on_atari(tmp_path: Path, quick_compilation: dict[str, str]) -> None:
    """Killed in the middle of an episode, after the replay has been written over twice."""
    config = small("atari/Breakout", FRAMES, workers=1, steps=240, log_interval_steps=80, checkpoint_interval_steps=80)
    assert run.start(config, tmp_path / "whole", quiet=True)
    cut(config, tmp_path / "cut", quick_compilation, signal.SIGKILL, after_rows=2)
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", tmp_path / "whole")


# ---- frames, which checkpoints leave out

SEEN = FRAMES | {"network": {"network": "mlp:8"}, "replay": {"replay_capacity_steps": 120, "warmup_steps": 40}}
FREEWAY = small(
    "atari/Freeway", SEEN, agents=2, groups=2, workers=1, steps=320, log_interval_steps=40, checkpoint_interval_steps=80
)


@pytest.fixture(scope="module")
def freeway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole run, in segments of 20 steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_log.FrameLog.__init__, "__defaults__", (0, (), 20 * 84 * 84))
        out = tmp_path_factory.mktemp("runs") / "freeway"
        assert run.start(FREEWAY, out, quiet=True)
        yield out


def stopped_at(until: int, freeway: Path, folder: Path) -> Path:
    """A run as if it had been killed just after its checkpoint of that step, the next ones not yet made."""
    out = folder / "run"
    assert run.start(dataclasses.replace(FREEWAY, steps=until), out, quiet=True)
    configuration = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps(configuration | {"steps": FREEWAY.steps}))
    assert rows(out) == rows(freeway)[: 2 * until // 40]
    return out


def segments(out: Path) -> list[str]:
    return sorted(str(path.relative_to(out)) for path in (out / "replay").glob("*/*"))


def test_a_checkpoint_holds_no_frame_and_the_log_just_those_of_the_last_two(freeway: Path) -> None:
    """They are of steps 240 and 320, and look back 120 steps: the frames from 120 on, in segments of 20."""
    tree, meta = checkpoint.restore(freeway / "checkpoints" / "000000000320", run.make_engine(FREEWAY).shapes())
    assert [group.replay.observation for group in tree] == [None, None]
    first_layers = 2 * 6 * 4 * 28_224 * 8  # two agents; two networks, each with Adam's two moments; float32
    frames = 2 * 120 * 84 * 84
    size = (freeway / "checkpoints" / "000000000320" / "arrays.bin").stat().st_size
    assert first_layers < size < first_layers + frames // 10
    expected = [f"replay/{group}/{step:012d}" for group in (0, 1) for step in range(120, 320, 20)]
    assert [name.split("-")[0] for name in segments(freeway)] == expected
    assert {name for group in meta["frames"] for name, *_ in group} < {Path(name).name for name in segments(freeway)}


def test_a_replay_from_the_log_is_the_replay_that_was(freeway: Path, tmp_path: Path) -> None:
    engine = run.make_engine(FREEWAY)
    state = engine.place(None, {}, tmp_path)
    state = engine.advance(state, 200)
    tree, meta = engine.saved(state, tmp_path)
    checkpoint.save(tmp_path / "checkpoints", 200, tree, meta)
    again = engine.place(*checkpoint.restore(tmp_path / "checkpoints" / "000000000200", engine.shapes()), tmp_path)
    for ours, theirs in zip(again.groups, state.groups, strict=True):
        jax.tree.map(np.testing.assert_array_equal, ours.state, theirs.state)
        assert len(np.unique(ours.state.replay.observation)) > 10
    engine.close(state)
    engine.close(again)


def test_frames_that_are_seen_through_a_window_are_the_same_frames(freeway: Path) -> None:
    """On a GPU they are not handed over but written where it can read them; here it is made to do so, too."""
    engine = HostedEngine(dataclasses.replace(FREEWAY, steps=10**6))
    engine._has_window = True
    state = engine.init()
    for until in range(40, 161, 40):
        state = engine.advance(state, until)
        state, row = engine.measure(state)
        expected = [found for found in rows(freeway) if found["agent_steps"] == until]
        for name in ("function_gap", "bellman_residual", "norm_online", "loss"):
            known = [np.nan if found[name] is None else found[name] for found in expected]
            np.testing.assert_allclose(row[name], known, rtol=1e-5)
    engine.close(state)


ON_HOST = small(
    "atari/Freeway", SEEN | {"replay": SEEN["replay"] | {"replay_memory": "host"}}, agents=2, groups=2, workers=1,
    steps=320, log_interval_steps=40, checkpoint_interval_steps=80,
)  # fmt: skip


def test_where_frames_are_kept_makes_no_difference(freeway: Path, tmp_path: Path) -> None:
    """Batches, Replicate's and those behind the metrics included; nor does a stop on the way."""
    assert run.start(dataclasses.replace(ON_HOST, steps=200), tmp_path / "run", quiet=True)
    assert rows(tmp_path / "run") == rows(freeway)[: 2 * 200 // 40]
    assert run.resume(tmp_path / "run", ON_HOST.steps, quiet=True)
    assert rows(tmp_path / "run") == rows(freeway)


def test_after_a_kill_leftovers_are_ignored_and_then_cleared(freeway: Path, tmp_path: Path) -> None:
    out = stopped_at(160, freeway, tmp_path)
    for name in ("000000000160-00000000.seg", "000000000180-00000000.seg.tmp"):
        (out / "replay" / "0" / name).write_bytes(b"of a life that is over")
    assert run.resume(out, quiet=True)
    assert rows(out) == rows(freeway)
    assert segments(out) == segments(freeway)


def test_a_damaged_segment_costs_time_and_nothing_else(
    freeway: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = stopped_at(240, freeway, tmp_path)
    newest = next((out / "replay" / "1").glob("000000000220-*"))
    newest.write_bytes(newest.read_bytes()[:-1])
    assert run.resume(out)
    said = capsys.readouterr().err
    assert f"replay file {newest} is damaged: it does not match its checksum; went back to checkpoint" in said
    assert rows(out) == rows(freeway)


def test_without_any_whole_replay_nothing_is_started(freeway: Path, tmp_path: Path) -> None:
    out = stopped_at(160, freeway, tmp_path)
    for file in (out / "replay" / "0").glob("*.seg"):
        file.unlink()
    with pytest.raises(UserError, match=r"cannot read replay file .* no intact checkpoint is left"):
        run.resume(out, quiet=True)


# ---- memory


def gigabytes(monkeypatch: pytest.MonkeyPatch, number: float) -> None:
    monkeypatch.setattr(memory, "available", lambda: (int(number * 1e9), "of device memory that JAX may use"))


def test_a_population_that_does_not_fit_is_refused_with_the_arithmetic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At Dopamine's scale: a million frames of 84 × 84 bytes, and 10 more for action, reward, flags and priority; four
    times the parameters (two networks, two moments) of the Nature CNN for Breakout's four actions, 16.6 MB."""
    config = RunConfig("atari/Breakout", "dopamine-rainbow", agents=16, groups=2, settings=preset("dopamine-rainbow"))
    gigabytes(monkeypatch, 80)
    with pytest.raises(UserError) as error:
        run.start(config, tmp_path / "run", quiet=True)
    assert str(error.value) == (
        "agents = 16 × 7.13 GB (replay_capacity_steps = 1,000,000: 7.07 GB, networks: the rest) = 114.1 GB, but there "
        "are 80.0 GB of device memory that JAX may use, a tenth of it for computing; 10 agents or "
        "--replay-capacity-steps 624000 would fit"
    )
    assert not (tmp_path / "run").exists()
    gigabytes(monkeypatch, 130)
    HostedEngine(config).shapes()
    gigabytes(monkeypatch, 0.5)
    with pytest.raises(UserError, match="nothing would fit"):
        HostedEngine(config).shapes()


@pytest.mark.parametrize("change", [{"agents": 10}, {"steps": 624_000}])
def test_what_is_said_to_fit_does(monkeypatch: pytest.MonkeyPatch, change: dict[str, int]) -> None:
    gigabytes(monkeypatch, 80)
    settings = preset("dopamine-rainbow")
    replay = dataclasses.replace(settings.replay, replay_capacity_steps=change.get("steps", 1_000_000))
    settings = dataclasses.replace(settings, replay=replay)
    HostedEngine(
        RunConfig("atari/Breakout", "dopamine-rainbow", change.get("agents", 16), groups=2, settings=settings)
    ).shapes()


def test_this_machine_has_some_memory() -> None:
    has, called = memory.available()
    assert 1e8 < has < 1e14
    assert called


def test_frames_that_the_device_has_no_room_for_go_to_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    config = RunConfig("atari/Breakout", "dopamine-rainbow", agents=16, groups=2, settings=preset("dopamine-rainbow"))
    shapes = HostedEngine(dataclasses.replace(config, agents=1, groups=1))._shapes() * 16
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for device_gigabytes, host_gigabytes, where in [(130, 1, "device"), (80, 130, "host"), (80, 120, None)]:
        gigabytes(monkeypatch, device_gigabytes)
        monkeypatch.setattr(memory, "host_available", lambda host=host_gigabytes: host * 10**9)
        if where is None:
            with pytest.raises(
                UserError, match=r"80.0 GB of device memory .* \(and 108.0 GB of the host's for frames\)"
            ):
                memory.place(config, shapes, frames=True)
        else:
            assert memory.place(config, shapes, frames=True) == where


def test_only_frames_can_be_kept_on_the_host() -> None:
    with pytest.raises(UserError, match="replay_memory = 'host' is for stacked frames, such as Atari's"):
        HostedEngine(small("gym/CartPole-v1", {"replay": {"replay_memory": "host"}}))


def test_every_group_has_programs_of_its_own_from_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU they are compiled one for each group; to trace them as often would take most of a start."""
    engine, traced = HostedEngine(small("hosted.toys:Walk")), []
    learn = engine._device.learn
    monkeypatch.setattr(engine._device, "learn", lambda *given: (traced.append(given), learn(*given))[1])
    state = engine.init()
    engine.close(state)
    group = state.groups[0]
    new = engine._device.compiled(group.state)
    programs = [new() for _ in range(2)]
    arguments = programs[0].pack(group.state), None, None, group.eyes
    one, other = (each.learn.lower(*arguments).compile().runtime_executable() for each in programs)
    assert len(traced) == 1
    assert one is not other
