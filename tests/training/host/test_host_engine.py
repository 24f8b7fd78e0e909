"""The engine for environments on the host: what an agent sees and learns does not depend on how it is run."""

import dataclasses
import json
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from host_runs import (
    assert_alike,
    assert_goes_on_as_if_nothing_had_happened,
    assert_same,
    cut,
    engine_of,
    rows,
    rows_of,
    small,
)
from toys import Walk

from lookrep.config import AtariConfig
from lookrep.envs.host import check
from lookrep.envs.host.atari import Atari, AtariRules
from lookrep.envs.host.serial import episode_seed
from lookrep.errors import UserError
from lookrep.replay import TERMINATED
from lookrep.training import session
from lookrep.training.host import packing, programs
from lookrep.training.host.buffers import ObservationBuffer
from lookrep.training.host.engine import HostEngine, HostState
from lookrep.training.population import Population

pytestmark = pytest.mark.usefixtures("quick_compilation", "shared_engines")


@pytest.fixture(scope="module")
def walks() -> dict[str, Any]:
    """Four agents that walk, in two groups, stepped in this process."""
    return rows_of(small("toys:Walk", agents=4, groups=2))


# ---- scheduling


def test_there_is_one_update_per_four_steps_of_an_agent_and_three_of_the_target_per_ten(walks: dict[str, Any]) -> None:
    steps = np.arange(80, 401, 80)
    np.testing.assert_array_equal(walks["agent_steps"], np.tile(steps[:, None], 4))
    np.testing.assert_array_equal(walks["online_updates"], np.tile((steps[:, None] - 40) // 4, 4))
    np.testing.assert_array_equal(walks["target_updates"], 3 * (walks["online_updates"] // 10))
    assert (walks["episodes"] > 0).all()
    assert len(np.unique(walks["loss"][-1])) == 4


def test_a_turn_that_is_spread_over_its_whole_period_is_a_step_after_every_update() -> None:
    spread = {"target_period_updates": 10, "replicate_updates": 10, "replicate_spread_updates": 10}
    each = {"target_period_updates": 1, "replicate_updates": 1}
    found, expected = (rows_of(small("toys:Walk", {"target": target}, agents=2)) for target in (spread, each))
    assert_same(found, expected)
    np.testing.assert_array_equal(found["target_updates"], found["online_updates"])


def test_updates_in_a_row_are_counted_and_the_target_follows_after_them() -> None:
    rows = rows_of(small("toys:Walk", {"learning": {"updates_in_a_row": 5}}, agents=2))
    np.testing.assert_array_equal(rows["online_updates"], 5 * ((rows["agent_steps"] - 40) // 4))
    np.testing.assert_array_equal(rows["target_updates"], 3 * (rows["online_updates"] // 10))


@pytest.mark.parametrize(("name", "workers"), [("Walk", 1), ("Unhurried", 2)])
def test_neither_workers_nor_delays_change_what_happens(walks: dict[str, Any], name: str, workers: int) -> None:
    """`Unhurried` is the same walk, whose steps now and then take milliseconds."""
    assert_same(rows_of(small(f"toys:{name}", agents=4, groups=2, workers=workers)), walks)


def test_neither_groups_nor_other_agents_change_what_an_agent_does(walks: dict[str, Any]) -> None:
    assert_same(rows_of(small("toys:Walk", agents=4, groups=1)), walks)
    others = rows_of(small("toys:Walk", agents=2, first_agent=2))
    assert_same(others, {name: values[:, 2:] for name, values in walks.items()})


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_what_programs_give_is_what_they_take(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed arrays, with copies in low precision or without: the next call gets the same shapes."""
    monkeypatch.setattr(programs, "Packing", partial(packing.Packing, small_bytes=2**20))
    config = small("toys:Walk", {"network": {"precision": precision}})
    spec, population = check("toys:Walk"), Population(config, check("toys:Walk"))
    functions = programs.GroupFunctions(population, spec)
    snapshot = jax.eval_shape(lambda: functions.new(jnp.zeros((1, 2), jnp.uint32), None))
    compiled = programs.compiler(functions, snapshot.learner)()
    learner, (online, target) = (
        jax.eval_shape(f, snapshot.learner) for f in (compiled.pack, compiled.copies)
    )  # fmt: skip
    buffer = jax.eval_shape(lambda seen: ObservationBuffer.begin(seen, spec, 4), snapshot.observation)
    assert (online is None) == (target is None) == (precision == "f32")
    assert not any(leaf.size for leaf in jax.tree.leaves(learner.online.large))
    assert jax.eval_shape(compiled.remember, learner, buffer) == learner
    assert jax.eval_shape(compiled.learn, learner, online, target, buffer) == (learner, online)
    assert jax.eval_shape(compiled.follow, learner) == (learner, target)
    assert jax.eval_shape(compiled.unpack, learner) == snapshot.learner


def test_every_group_has_programs_of_its_own_from_one_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU they are compiled one for each group; to trace them as often would take most of a start."""
    traced: list[Any] = []
    learn = Population.learn
    monkeypatch.setattr(Population, "learn", lambda *given: (traced.append(given), learn(*given))[1])
    spec = check("toys:Walk")
    functions = programs.GroupFunctions(Population(small("toys:Walk"), spec), spec)
    snapshot = jax.eval_shape(lambda: functions.new(jnp.zeros((1, 2), jnp.uint32), None))
    new = programs.compiler(functions, snapshot.learner)
    one, other = new(), new()
    learner = jax.eval_shape(one.pack, snapshot.learner)
    buffer = jax.eval_shape(lambda seen: ObservationBuffer.begin(seen, spec, 4), snapshot.observation)
    assert one.learn.lower(learner, None, None, buffer).as_text() == (
        other.learn.lower(learner, None, None, buffer).as_text()
    )
    assert len(traced) == 1
    first, second = (each.remember.lower(learner, buffer).compile().runtime_executable() for each in (one, other))
    assert first is not second


# ---- what goes into the replay


def test_the_replay_knows_where_every_action_led_at_the_end_of_an_episode_and_before() -> None:
    """A walk shows how many steps it has taken: where an episode goes on, the replay's next observation is the one
    seen next; where it ends, by the edge or by the clock, it is one step further, not the first of the next episode."""

    def look(engine: HostEngine, state: HostState) -> None:
        replay = state.groups[0].snapshot().replay
        seen, led_to, flags = (
            np.asarray(part)[:160] for part in (replay.observation, replay.next_observation, replay.flags)
        )
        goes_on = flags[:-1] == 0
        np.testing.assert_array_equal(led_to[:-1][goes_on], seen[1:][goes_on])
        np.testing.assert_array_equal(led_to[..., 1], seen[..., 1] + 1)
        assert set(np.unique(flags)) == {0, 1, 2}  # under way, terminated, truncated

    rows_of(small("toys:Walk", agents=4, groups=2, steps=160), look)


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


def test_rewards_are_clipped_for_learning_alone() -> None:
    engine = HostEngine(small("gym/Generous-v0", {"learning": {"clip_rewards": True}, "replay": {"warmup_steps": 80}}))
    state, row = engine.measure(engine.advance(engine.init(), 80))
    assert (np.asarray(state.groups[0].snapshot().replay.reward)[:80] == 1.0).all()
    engine.close(state)
    assert (row["return_mean"], row["return_max"], row["episodes"]) == (15.0, 15.0, 80 // 3)


# ---- several games


class Narrow(Walk):
    """A walk with fewer (or more) actions, which takes none but these."""

    def __init__(self, actions: int, render_mode: str | None = None) -> None:
        self.action_space = Discrete(actions)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        assert action in self.action_space, action
        return super().step(action % 3 - 1)


MIXED = "gym/Wide-v0,Narrow-v0"


def poison(engine: HostEngine, state: HostState) -> None:
    """The outputs for actions 2 and 3 of the agents that have only two promise the most there is, in both networks."""
    atoms = engine.config.settings.learning.atoms

    def spoil(params: Any) -> Any:
        biases = [leaf for leaf in jax.tree.leaves(params) if leaf.shape == (4, 4 * atoms)]
        assert len(biases) == 1  # [agents, actions × atoms]
        promise = jnp.zeros((4, 4, atoms)).at[2:, 2:, -1].set(20.0).reshape(4, -1)
        return jax.tree.map(lambda leaf: leaf + promise if leaf.shape == promise.shape else leaf, params)

    group = state.groups[0]
    snapshot = group.snapshot()
    agents, target = snapshot.agents, snapshot.agents.target
    target = target._replace(params=spoil(target.params))
    group.load(snapshot._replace(agents=agents._replace(online=spoil(agents.online), target=target)))


def test_actions_that_a_game_lacks_are_never_taken_bootstrapped_from_or_compared() -> None:
    """However much the networks promise for them, all that happens and is learnt stays the same."""
    engine, found = engine_of(small(MIXED, agents=4)), []
    for poisoned in (False, True):
        state, rows = engine.init(), []
        if poisoned:
            poison(engine, state)
        for until in (80, 200, 400):
            state = engine.advance(state, until)
            state, row = engine.measure(state)
            rows.append(row)
        actions = np.asarray(state.groups[0].snapshot().replay.action)
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
    together = rows_of(small(MIXED, agents=4, steps=160))
    alone = rows_of(small("gym/Wide-v0", agents=2, steps=160))
    assert_alike(alone, {name: values[:, :2] for name, values in together.items()})


def test_rows_of_several_games_say_which_one_they_are_from(tmp_path: Path) -> None:
    session.start(small(MIXED, agents=4, steps=160), tmp_path / "run", quiet=True)
    assert [(row["env"], row["agent"]) for row in rows(tmp_path / "run")] == 2 * [
        ("gym/Wide-v0", 0), ("gym/Wide-v0", 1), ("gym/Narrow-v0", 0), ("gym/Narrow-v0", 1),
    ]  # fmt: skip


def test_games_that_look_different_are_not_trained_together() -> None:
    with pytest.raises(UserError, match="gym/CartPole-v1 and gym/Acrobot-v1 cannot share a population"):
        HostEngine(small("gym/CartPole-v1,Acrobot-v1", agents=2))


def test_a_run_on_the_host_uses_one_device() -> None:
    with pytest.raises(UserError, match="devices = 2: environments on the host train on one device"):
        HostEngine(small("gym/CartPole-v1", agents=2, devices=2))


# ---- cut and resumed

WALKS = small(
    "toys:Unhurried", agents=4, groups=2, workers=2, steps=800, log_interval_steps=40, checkpoint_interval_steps=160
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that never stopped."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert session.start(WALKS, out, quiet=True)
    assert not any("env" in row for row in rows(out))
    return out


def test_killed_and_resumed_a_run_ends_with_the_same_metrics(
    whole: Path, tmp_path: Path, quick_compilation: dict[str, str]
) -> None:
    """Two groups in two worker processes, episodes under way."""
    cut(WALKS, tmp_path / "cut", quick_compilation, signal.SIGKILL, after_rows=36)
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", whole)


def test_any_number_of_groups_goes_on_to_the_same_metrics(whole: Path, tmp_path: Path) -> None:
    """From two groups to one, and to two again. (Groups of one agent differ in rounding.)"""
    out = tmp_path / "run"
    assert session.start(dataclasses.replace(WALKS, steps=240, groups=None), out, quiet=True)
    assert json.loads((out / "config.json").read_text())["groups"] == 2  # what suits four agents is written down
    for groups, steps in ((1, 440), (2, 800)):
        config = json.loads((out / "config.json").read_text()) | {"groups": groups}
        (out / "config.json").write_text(json.dumps(config))
        assert session.resume(out, steps, quiet=True)
    assert rows(out) == rows(whole)


def test_a_run_need_not_wait_for_its_next_row_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of an Atari run may be minutes apart. Asked to stop between two, it saves there and goes on from there."""
    config = small("toys:Walk", agents=4, groups=2, steps=800, log_interval_steps=400, checkpoint_interval_steps=400)
    assert session.start(config, tmp_path / "whole", quiet=True)
    moved: list[int] = []

    def ask(display: Any, agent_steps: int) -> None:
        moved.append(agent_steps)
        if len(moved) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(session.progress.Progress, "moved", ask)
    assert not session.start(config, tmp_path / "cut", quiet=True)
    assert 0 < moved[-1] < 400
    assert moved == sorted(moved)
    assert [int(path.name) for path in (tmp_path / "cut" / "checkpoints").iterdir() if path.is_dir()] == [moved[-1]]
    assert "interrupted; go on with" in capsys.readouterr().out
    assert_goes_on_as_if_nothing_had_happened(tmp_path / "cut", tmp_path / "whole")


def test_a_users_environment_is_made_once_before_those_that_are_played(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("toys.Counted.__init__", lambda self: made.append(self))
    engine = HostEngine(small("toys:Counted", agents=3))
    assert len(made) == 1
    engine.close(engine.init())
    assert len(made) == 1 + 3


# ---- lives


def test_lost_lives_end_what_is_learned_from_and_not_the_returns() -> None:
    """The replay's actions, played again by hand: terminal where a life was lost, a return for each whole game."""
    base = small("atari/Breakout", {"replay": {"replay_capacity_steps": 1200}}, steps=1200, log_interval_steps=1200)
    atari = {"sticky_actions": 0.1, "life_loss_terminal": True}
    settings = dataclasses.replace(base.settings, atari=AtariConfig(**atari))
    exploring = dataclasses.replace(settings.exploration, epsilon_end=1.0)
    config = dataclasses.replace(base, settings=dataclasses.replace(settings, exploration=exploring))
    kept: list[Any] = []
    rows = rows_of(config, lambda engine, state: kept.append(jax.device_get(state.groups[0].snapshot().replay)))
    env, episode, earned, returns, terminal = Atari("Breakout", AtariRules(**atari)), 0, 0.0, [], []
    env.reset(episode_seed(config.seed, 0, 0))
    for action in kept[0].action[:, 0]:
        result = env.step(int(action))
        earned += result.reward
        terminal.append(result.terminated)
        if result.over:
            returns, earned, episode = [*returns, earned], 0.0, episode + 1
            env.reset(episode_seed(config.seed, 0, episode))
    assert (kept[0].flags[:, 0] & TERMINATED > 0).tolist() == terminal
    assert rows["episodes"][-1, 0] == len(returns) > 2
    assert sum(terminal) >= 5 * len(returns)
    assert rows["return_mean"][-1, 0] == pytest.approx(np.mean(returns))
