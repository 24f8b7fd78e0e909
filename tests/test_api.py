"""Training from Python: the page that a user reads first, parts of one's own, what is promised to be left alone."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import lookrep
from lookrep import heads, targets
from lookrep.cli import main
from lookrep.errors import UserError
from lookrep.training.fused import FusedEngine

SMALL: dict[str, Any] = {
    "agents": 2, "steps": 800, "warmup_steps": 400, "replay_capacity_steps": 1000, "log_interval_steps": 200,
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("quick_compilation")
NOTHING = np.zeros((3, 10, 10, 4), bool)


class MyTorso(nn.Module):
    """What users bring most often."""

    width: int = 32

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(8, (3, 3), strides=2)(x))
        return nn.relu(nn.Dense(self.width)(x.reshape(len(x), -1)))


def equinox_torso(key: jax.Array) -> eqx.Module:
    return eqx.nn.Sequential([eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(400, 64, key=key), eqx.nn.Lambda(jax.nn.relu)])


class NnxTorso(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layer = nnx.Linear(400, 16, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return nnx.relu(self.layer(x.reshape(len(x), -1)))


class Half:
    """A target rule of one's own: half of the way, every 20 updates."""

    every_updates = 20

    def init(self, online: Any, target: Any = None) -> targets.TargetState:
        return targets.TargetState(jax.tree.map(jnp.array, online), (), jnp.int32(0))

    def turn(self, state: targets.TargetState, online: Any, batches: Any = None) -> targets.TargetState:
        middle = jax.tree.map(lambda theta, w: (theta + w) / 2, state.params, online)
        return targets.TargetState(middle, (), state.updates + 1)


COUNTS = (lambda key: (jnp.ones((400, 8)), jnp.int32(0)), lambda params, x: x.reshape(len(x), -1) @ params[0])


def test_the_first_page_works_as_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    observations = NOTHING
    run = lookrep.train("minatar/breakout", agent="rainbow", **SMALL)
    assert not list(tmp_path.iterdir())  # nothing on disk unless out= is given
    rows = run.curves()
    assert [(row["agent"], row["agent_steps"]) for row in rows[-2:]] == [(0, 800), (1, 800)]
    assert run.q_values(observations).shape == (2, 3, 3)
    assert run.q_values(observations, "target").shape == (2, 3, 3)
    atoms, weights = run.distributions(observations)
    np.testing.assert_allclose((atoms * weights).sum(-1), run.q_values(observations), rtol=1e-4)
    some = np.arange(3 * 400).reshape(3, 10, 10, 4) % 3 == 0
    for dtype in (np.uint8, np.float64):  # bytes are no fractions of 255 where the environment gives bits
        np.testing.assert_array_equal(run.q_values(some.astype(dtype)), run.q_values(some))
    with pytest.raises(UserError, match="observations hold values that are not bool"):
        run.q_values(some * 0.5)
    assert run.evaluate(episodes=2)["agents"][1]["agent"] == 1
    assert run.film("first.gif", max_steps=3).stat().st_size > 1000
    assert run.plot("curve.png").stat().st_size > 1000
    assert {len(leaf) for leaf in jax.tree.leaves(run.parameters())} == {2}

    heard: list[Any] = []
    parts: dict[str, Any] = {
        "network": MyTorso(16),
        "optimizer": optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3)),
        "target": targets.replicate(every_updates=25, updates=3, optimizer=optax.adam(1e-3)),
    }
    first = lookrep.train("minatar/breakout", agent="c51", out="runs/first", on_row=heard.append, **parts, **SMALL)
    assert [rows[0]["agent_steps"] for rows in heard] == [200, 400, 600, 800]
    assert first.curves()[-1]["target_updates"] == 4 * 3
    again = lookrep.load("runs/first", network=MyTorso(16))
    np.testing.assert_array_equal(again.q_values(observations), first.q_values(observations))
    assert len(again.curves()) == 8
    on = lookrep.load(Path("runs/first"), **parts).resume(steps=1000)
    assert on.curves()[-1]["agent_steps"] == 1000
    with pytest.raises(UserError, match=r"network was given as an object \(MyTorso\)"):
        lookrep.load("runs/first").q_values(observations)
    with pytest.raises(UserError, match=r"optimizer was given as an object"):
        lookrep.load("runs/first", network=MyTorso(16)).resume(steps=2000)


@pytest.mark.parametrize(
    "part",
    [{"network": MyTorso()}, {"network": equinox_torso}, {"network": "mlp:64", "target": Half()}],
    ids=["flax", "equinox", "rule"],
)
def test_own_parts_learn_breakout(part: dict[str, Any]) -> None:
    run = lookrep.train(
        "minatar/breakout", agent="dqn", agents=2, steps=12_000, warmup_steps=1000, epsilon_decay_steps=4000,
        learning_rate=1e-3, adam_epsilon=1e-8, replay_capacity_steps=12_000, log_interval_steps=1000,
        target_period_updates=100, seed=1, **part,
    )  # fmt: skip
    returns = [row["return_mean"] for row in run.curves()]
    random, learned = np.mean(returns[:2]), np.mean(returns[-6:])
    assert random < 0.8
    assert learned > 1.25
    assert learned > 2 * random


def test_other_kinds_of_networks_heads_and_optimisers_train_in_both_engines() -> None:
    def whole(key: jax.Array, observations: jax.Array) -> Any:
        return jax.random.normal(key, (observations[0].size, 6))

    def apply(params: Any, x: jax.Array) -> jax.Array:
        return (x.reshape(len(x), -1) @ params).reshape(len(x), 2, 3)

    def squared(out_tm1: Any, taus: Any, a_tm1: Any, r_t: Any, discount_t: Any, out_t: Any, a_t: Any) -> jax.Array:
        target = jax.lax.stop_gradient(r_t + discount_t * out_t[a_t].mean())
        return ((out_tm1[a_tm1].mean() - target) ** 2) / 2

    mean_of_three = heads.Head(3, lambda out: out.mean(-1), squared, lambda t, w: ((t - w) ** 2).mean())
    run = lookrep.train(
        "gym/CartPole-v1", agent="dqn", network=(whole, apply), head=mean_of_three, optimizer=optax.sgd(1e-4),
        target="replicate", replicate_optimizer=optax.adam(1e-3), replicate_updates=2, target_period_updates=20,
        **SMALL,
    )  # fmt: skip
    assert run.q_values(np.zeros((5, 4), np.float32)).shape == (2, 5, 2)
    assert run.curves()[-1]["target_updates"] == 2 * 5
    with pytest.raises(UserError, match="knows expected returns alone"):
        run.distributions(np.zeros((5, 4), np.float32))
    small = SMALL | {"agents": 1, "log_interval_steps": 800}
    run = lookrep.train("minatar/breakout", agent="full-rainbow", network=NnxTorso, precision="bf16", **small)
    assert {x.dtype for x in jax.tree.leaves(run.parameters())} == {jnp.dtype("bfloat16")}


def test_a_network_whose_own_convolutions_see_pictures_channels_last_as_floats() -> None:
    seen = []

    class Looks(nn.Module):
        @nn.compact
        def __call__(self, x: jax.Array) -> jax.Array:
            seen.append((x.shape[1:], x.dtype))
            return nn.Dense(2)(x.reshape(len(x), -1))

    from lookrep.agents import Agent, Parts
    from lookrep.config import preset

    for shape in ((4, 84, 84), (10, 10, 4)):
        Agent(preset("dqn"), shape, 3, Parts(network=Looks()))
    assert seen[0] == ((84, 84, 4), jnp.float32)
    assert seen[-1] == ((10, 10, 4), jnp.float32)


def test_nothing_is_said_and_nothing_global_is_changed(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT), dict(jax.config.values)
    lookrep.train("minatar/breakout", agent="dqn", network="mlp:8", **SMALL)
    assert (signal.getsignal(signal.SIGINT), dict(jax.config.values)) == before
    said = capfd.readouterr()
    assert said.out + said.err == ""


def test_a_target_that_will_fall_behind_is_a_warning_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    starved: dict[str, Any] = {"agent": "dqn", "network": "mlp:8", "method": "paper-replicate"}
    lookrep.train("minatar/breakout", **starved, **SMALL)
    assert [(record.name, record.levelname) for record in caplog.records] == [("lookrep", "WARNING")]
    assert "the target will fall behind" in caplog.text
    assert "raise --replicate-updates" in caplog.text


def test_an_exception_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    def fails(rows: Any) -> None:
        if rows[0]["agent_steps"] == 400:
            raise ZeroDivisionError

    settings: dict[str, Any] = {"agent": "dqn", "network": "mlp:8", **SMALL}
    with pytest.raises(ZeroDivisionError):
        lookrep.train("minatar/breakout", out=tmp_path / "run", on_row=fails, **settings)
    rest: list[Any] = []
    run = lookrep.load(tmp_path / "run").resume(on_row=rest.append)
    assert [rows[0]["agent_steps"] for rows in rest] == [600, 800]
    whole = lookrep.train("minatar/breakout", **settings)

    def told(rows: list[dict[str, Any]]) -> str:
        return json.dumps([{k: v for k, v in row.items() if k != "steps_per_second"} for row in rows])

    written = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert told(written) == told(whole.curves())
    np.testing.assert_array_equal(run.q_values(NOTHING), whole.q_values(NOTHING))


def test_an_error_before_the_first_checkpoint_leaves_a_run_that_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within an interval the state has no rest: there is nothing to save. Rows are kept all the same."""
    out, settings = tmp_path / "run", {"agent": "dqn", "network": "mlp:8", **SMALL}
    advance = FusedEngine.advance

    def interrupted(engine: FusedEngine, state: Any, until: int) -> Any:
        if until == 600:
            raise KeyboardInterrupt
        return advance(engine, state, until)

    with monkeypatch.context() as patched:
        patched.setattr(FusedEngine, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lookrep.train("minatar/breakout", out=out, **settings)
    run = lookrep.load(out).resume()
    assert [row["agent_steps"] for row in run.curves()[::2]] == [200, 400, 600, 800]
    assert [row["agent_steps"] for row in lookrep.load(out / "before-restart-1").curves()[::2]] == [200, 400]
    # Where there was a checkpoint, its loss is no such thing.
    shutil.rmtree(out / "checkpoints")
    with pytest.raises(UserError, match="has rows of metrics, but no checkpoint to go on from"):
        lookrep.load(out).resume(steps=1000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"target": targets.averaged(10, 3)}, "what agents read: say method='averaged'"),
        (
            {"target": targets.replicate(10, 1, optax.sgd(0.1), axis_name="i")},
            "target: axis_name = 'i' is for shard_map",
        ),
        ({"agnets": 2}, "train: unknown setting 'agnets', did you mean 'agents'?"),
        ({"steps": 1e6 + 0.5}, "train: steps = 1000000.5: must be int"),
        ({"learning_rate": [1e-3, 1e-4]}, "learning_rate = [0.001, 0.0001]: must be one value, all agents have it"),
        ({"agent": "dqm"}, "agent 'dqm' is unknown: did you mean 'dqn'?"),
        ({"network": 3}, "network int: every agent starts from its own random numbers"),
        ({"network": equinox_torso(jax.random.key(0))}, "has parameters already"),
        ({"network": COUNTS}, "network tuple: init gives an array of int32: all its arrays are learned"),
        ({"network": lambda key: 3}, "makes no module but int"),
        ({"network": (lambda key: 1.0, lambda p, x: x)}, "for one observation: give features"),
        ({"optimizer": 3}, "optimizer = 3: neither what is needed nor a function"),
        ({"target": 3}, "target = 3: must be a rule with init, turn and every_updates"),
        ({"target": targets.hard}, "target: a function must take the agent and give a rule"),
        ({"head": "c52"}, "head = 'c52': did you mean 'c51'?"),
        ({"optimizer": "sgd"}, "optimizer = 'sgd': choose from adam, or write my_module:thing"),
        ({"network": "nowhere:Net"}, "network 'nowhere:Net': cannot import nowhere"),
        ({"target_network": MyTorso()}, "only --target replicate can follow"),
        ({"env": 3}, "env = 3: must be a name, such as minatar/breakout"),
        ({"on_row": 3}, "on_row = 3: must be a function of a list of rows"),
    ],
)
def test_wrong_parts_are_refused_in_one_line(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as caught:
        lookrep.train(**({"env": "minatar/breakout", "steps": 100_000} | arguments))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match="'optimiser' is no part: give network, target_network"):
        lookrep.load(".", optimiser=3)


class GivesParameters(Half):
    """The usual mistake: the new parameters, and not the state."""

    def turn(self, state: Any, online: Any, batches: Any = None) -> Any:
        return online


class BeginsWithParameters(Half):
    def init(self, online: Any, target: Any = None) -> Any:
        return online


class Grows(Half):
    def turn(self, state: Any, online: Any, batches: Any = None) -> Any:
        return state._replace(updates=state.updates + 0.5)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (BeginsWithParameters(), "target rule: init gives a dict, must give a lookrep.targets.TargetState"),
        (GivesParameters(), "target rule: turn gives a dict, must give a lookrep.targets.TargetState"),
        (Grows(), "target rule: after turn, state.updates is float32[], must be as before: int32[]"),
    ],
)
def test_what_a_rule_of_ones_own_gives_is_checked_before_jax_does(rule: Any, words: str) -> None:
    with pytest.raises(UserError) as caught:
        lookrep.train("minatar/breakout", agent="dqn", network="mlp:8", target=rule, **SMALL)
    assert str(caught.value) == words


def test_own_parts_have_names_on_the_command_line(tmp_path: Path) -> None:
    parts = [f"--{part} own_parts:{name}".split() for part, name in
             {"network": "Torso", "optimizer": "optimizer", "head": "head", "target": "rule"}.items()]  # fmt: skip
    small = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    words = ["train", "minatar/breakout", "--agent", "c51", *small, *[word for part in parts for word in part]]
    assert main([*words, "--quiet", "--out", str(tmp_path / "run")]) == 0
    run = lookrep.load(tmp_path / "run", trust=True)
    assert run.config.settings.network.network == "own_parts:Torso"
    assert run.distributions(NOTHING)[0].shape == (2, 3, 3, 5)
    # 100 updates, turns at 10, 30, 70: growing periods of 10, 20, 40
    assert [row["target_updates"] for row in run.curves()[::2]] == [0, 0, 6, 9]
