"""gymnax's interface: its environments by name where it is installed, and one of our own without it."""

import sys
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import lookrep
from lookrep import envs
from lookrep.errors import UserError

SMALL: dict[str, Any] = {
    "agent": "dqn", "agents": 2, "steps": 800, "warmup_steps": 200, "log_interval_steps": 400, "network": "mlp:8",
    "replay_capacity_steps": 800,
}  # fmt: skip


class Corridor:
    """Go right from cell 0 to cell 3 of 4; a time limit of 6. In gymnax's words, without gymnax."""

    default_params = SimpleNamespace(limit=6)

    def reset_env(self, key: jax.Array, params: Any) -> tuple[Any, Any]:
        del key, params
        return 0, {"cell": 0, "time": 0}

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: Any) -> tuple[Any, ...]:
        del key, params
        cell = jnp.clip(state["cell"] + 2 * action - 1, 0, 3)
        over = cell == 3
        return cell, {"cell": cell, "time": state["time"] + 1}, over.astype(int), over, {}

    def is_truncated(self, state: Any, params: Any) -> Any:
        return state["time"] >= params.limit

    def action_space(self, params: Any) -> Any:
        return type("Discrete", (), {"n": 2})()

    def observation_space(self, params: Any) -> Any:
        return type("Discrete", (), {"n": 4})()


def corridor() -> tuple[Corridor, Any]:
    return Corridor(), SimpleNamespace(limit=2)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "my_corridor", SimpleNamespace(Corridor=Corridor, corridor=corridor))
    return "my_corridor"


def test_an_environment_of_its_kind_is_told_apart_and_adapted(module: str) -> None:
    name = f"{module}:Corridor"
    assert not envs.on_host(name)
    env = envs.make(name)
    assert (env.observation_shape, env.num_actions, env.can_truncate) == ((4,), 2, True)
    state, seen = env.init(jax.random.key(0))
    assert seen.tolist() == [1, 0, 0, 0]
    for cell in (1, 2, 3):
        state, step = env.step(jax.random.key(0), state, jnp.int32(1))
        assert step.observation.argmax() == cell
    assert (float(step.reward), bool(step.terminated), bool(step.truncated)) == (1.0, True, False)
    short = envs.make(f"{module}:corridor")  # with its own parameters
    state, _ = short.init(jax.random.key(0))
    for _ in range(2):
        state, step = short.step(jax.random.key(0), state, jnp.int32(0))
    assert (bool(step.terminated), bool(step.truncated)) == (False, True)


def test_without_gymnax_the_name_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnax", None)
    with pytest.raises(UserError, match=r"^a gymnax/ environment needs more packages: pip install 'lookrep\[gymnax\]'"):
        envs.make("gymnax/CartPole-v1")


def test_its_environments_train_by_name() -> None:
    gymnax = pytest.importorskip("gymnax", reason="pip install 'lookrep[gymnax]'")
    run = lookrep.train("gymnax/CartPole-v1", **SMALL)
    assert [row["episodes"] > 0 for row in run.curves()] == [True] * 4
    assert envs.make("gymnax/FrozenLake-misc").observation_shape == (16,)
    fitting = {"Box": 0, "Discrete": 0}
    for name in gymnax.registered_envs:
        env, params = (None, None) if name == "MNISTBandit-bsuite" else gymnax.make(name)  # downloads its pictures
        kind = type(env.action_space(params)).__name__ if env else ""
        if kind == "Discrete":
            envs.make(f"gymnax/{name}")
        elif kind:
            with pytest.raises(UserError, match="actions must be Discrete, not Box"):
                envs.make(f"gymnax/{name}")
        fitting |= {kind: fitting[kind] + 1} if kind else {}
    assert fitting["Discrete"] >= 19
    with pytest.raises(UserError, match=r"unknown to gymnax: did you mean gymnax/CartPole-v1\?"):
        envs.make("gymnax/CartPole-v2")
