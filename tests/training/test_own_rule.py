"""What a user's target rule may do with its batches in an engine, where agents are computed side by side."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.agents import Parts
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.targets import TargetState
from lookrep.training.engines import make_engine


class Rule:
    """Remembers what it saw in place of learning from it."""

    every_updates = 10

    def __init__(self, see: Callable[..., jax.Array]) -> None:
        self.see = see

    def init(self, online: Any, target: Any = None) -> TargetState:
        return TargetState(online if target is None else target, jnp.zeros((2, 2, 32, 12)), jnp.int32(0))

    def turn(self, state: TargetState, online: Any, batches: Any = None) -> TargetState:
        return state._replace(optimizer=self.see(state, lambda k: batches(k).observation.astype(jnp.float32)))


def seen(see: Callable[..., jax.Array]) -> np.ndarray:
    config = RunConfig("probes:Museum", "dqn", agents=3, steps=5_200)
    engine = make_engine(config, Parts(target=Rule(see)))
    return np.asarray(engine.agents(engine.advance(engine.init(), 5_200)).target.optimizer)


@pytest.mark.usefixtures("quick_compilation")
def test_many_batches_at_once_are_those_taken_one_by_one() -> None:
    def see(state: TargetState, batches: Any) -> jax.Array:
        return jnp.stack([jnp.stack([batches(0), batches(1)]), jax.vmap(batches)(jnp.arange(2))])

    found = seen(see)
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    assert not np.array_equal(found[:, 0, 0], found[:, 0, 1])  # batches differ
    assert not np.array_equal(found[0], found[1])  # and agents


def test_a_branch_on_an_agents_own_state_is_refused_before_it_costs_a_replay_for_each_agent() -> None:
    def see(state: TargetState, batches: Any) -> jax.Array:
        first = lambda: jnp.broadcast_to(batches(0), (2, 2, 32, 12))  # noqa: E731
        return jax.lax.cond(state.updates % 2 == 0, first, lambda: jnp.zeros((2, 2, 32, 12)))

    with pytest.raises(UserError, match=r"branches on an agent's own state .*: choose with jnp\.where"):
        seen(see)
