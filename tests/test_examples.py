"""The examples learn, with every target rule they offer, and stay as short as the documents say.

Each learns clearly more than a policy of random actions reaches. With a frozen target none of them does.
"""

import ast
import importlib.util
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import probes
import pytest

import lookrep

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES = {"own_agent": 150, "sac": 250, "host_replay": 150, "custom_rule": 40, "torch_recipe": 60}


def load(name: str) -> ModuleType:
    """An example as a fresh module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# A policy of random actions: 22 steps on CartPole, a return of −1200 on the pendulum.


@pytest.mark.parametrize(("target", "target_updates"), [("hard", 90), ("polyak", 9_000), ("replicate", 9_000)])
def test_own_agent_learns(target: str, target_updates: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert load("own_agent").train(target, steps=10_000, seed=0) > 60
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1_000, 10_001, 1_000))
    assert lines[-1].endswith(f"target updates {target_updates}")


@pytest.mark.parametrize("target", ["hard", "polyak", "replicate"])
def test_sac_learns(target: str) -> None:
    before, after = load("sac").train(target, steps=6_000, seed=0)
    assert before < -1_000
    assert after > -400


@pytest.mark.parametrize("target", ["hard", "replicate"])
def test_host_replay_learns(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    example = load("host_replay")
    for name, value in {"LEARNING_STARTS": 500, "TRAIN_EVERY": 2, "STEP_SIZE": 1e-3}.items():
        monkeypatch.setattr(example, name, value)  # larger and more frequent steps than CleanRL's, to be quick
    assert example.train(target, steps=5_000, seed=1) > 80


def test_the_custom_rule_brings_known_values_to_the_start_of_a_chain(quick_compilation: dict[str, str]) -> None:
    """Four steps to the end, reward 1 with the last: ⅛ at the start, which takes four generations of targets."""
    example = load("custom_rule")
    run = lookrep.train(
        "probes:Museum", agent="dqn", steps=6_000, target=lambda agent: example.StepsAndCopies(agent.distance, 50),
        network="mlp:32", discount=0.5, learning_rate=2e-3, adam_epsilon=1e-8, warmup_steps=1_000, epsilon_end=1.0,
        replay_capacity_steps=4_096, log_interval_steps=6_000,
    )  # fmt: skip
    places = np.eye(probes.PLACES, dtype=bool)[list(probes.CHAIN)]
    for network in ("online", "target"):
        values = run.q_values(places, network)[0]
        np.testing.assert_allclose(values, np.array([[0.125], [0.25], [0.5], [1.0]]).repeat(2, axis=1), atol=0.1)
    updates = 5_000 // 4
    assert run.curves()[-1]["target_updates"] == 25 * (updates // 50)


def test_the_recipe_for_torch_follows_as_replicate_does() -> None:
    torch = pytest.importorskip("torch")
    import optax

    from lookrep import targets

    recipe = load("torch_recipe")
    rng = np.random.default_rng(0)
    online, start = rng.normal(size=(2, 2, 4)).astype(np.float32)
    states = rng.normal(size=(7, 16, 4)).astype(np.float32)

    def network(weights: np.ndarray) -> "torch.nn.Linear":
        layer = torch.nn.Linear(4, 2, bias=False)
        layer.weight.data = torch.tensor(weights)
        return layer

    ours, theirs = network(online), network(start)
    rule = recipe.Replicate(theirs, torch.optim.Adam(theirs.parameters(), 0.05), every_updates=10, updates=7)
    ahead = iter(torch.tensor(states))
    rule.update(ours, 9, batch=lambda: next(ahead))
    np.testing.assert_array_equal(theirs.weight.detach(), start)  # not its turn
    rule.update(ours, 10, batch=lambda: next(ahead))
    np.testing.assert_array_equal(ours.weight.detach(), online)
    assert ours.weight.grad is None

    def squares(target: jax.Array, online: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.mean((x @ target.T - x @ online.T) ** 2)

    jax_rule = targets.replicate(10, 7, optax.adam(0.05), squares)
    state = jax_rule.init(jnp.array(online), jnp.array(start))
    state = jax_rule.turn(state, jnp.array(online), batches=lambda k: jnp.array(states)[k])
    np.testing.assert_allclose(theirs.weight.detach(), state.params, atol=1e-5)


# Their environments are the well-known ones.


def test_cartpole_takes_gymnasiums_steps() -> None:
    cartpole = load("own_agent").cartpole
    environment = gymnasium.make("CartPole-v1")
    state, _ = environment.reset(seed=0)
    fell = False
    for _ in range(50):
        after, ours = cartpole(jnp.array(state), jnp.int32(1))
        state, _, fell, _, _ = environment.step(1)
        np.testing.assert_allclose(after, state, rtol=1e-4, atol=1e-6)
        assert bool(ours) == fell
        if fell:
            break
    assert fell


def test_pendulum_takes_gymnasiums_steps() -> None:
    sac = load("sac")
    environment = gymnasium.make("Pendulum-v1")
    environment.reset(seed=0)
    angle, speed = environment.unwrapped.state
    state = jnp.array([angle, speed])
    for t in range(60):
        action = math.sin(t / 3)
        state, reward = jax.jit(sac.pendulum)(state, jnp.array([action]))
        observation, expected, *_ = environment.step(np.array([2 * action], np.float32))
        np.testing.assert_allclose(reward, expected, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(sac.observe(state), observation, rtol=1e-3, atol=1e-3)


# What the documents say of them


@pytest.mark.parametrize(("name", "lines"), LINES.items())
def test_they_are_as_short_as_promised(name: str, lines: int) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= lines


@pytest.mark.parametrize("name", ["own_agent", "sac", "host_replay"])
def test_of_lookrep_they_use_the_target_update_alone_and_mark_where(name: str) -> None:
    source = (EXAMPLES / f"{name}.py").read_text()
    used = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lookrep":
            used |= {f"{node.module}.{alias.name}" for alias in node.names}
        if isinstance(node, ast.Import):
            used |= {alias.name for alias in node.names if alias.name.split(".")[0] == "lookrep"}
    assert used == {"lookrep.distances", "lookrep.targets"}
    marked = [line for line in source.splitlines() if re.search(r"# <-", line)]
    assert any("rule.init" in line for line in marked)
    assert any(re.search(r"rule\.(update|turn)", line) for line in marked)
