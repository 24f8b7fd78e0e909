"""A target rule of one's own, trained by lookrep: some steps in function space, and a hard copy on every fourth turn.

python examples/custom_rule.py
"""

import jax
import jax.numpy as jnp
import optax

import lookrep
from lookrep import distances, targets


class StepsAndCopies:
    """Cheap turns of a few Replicate steps; a copy now and then ends whatever lag they leave."""

    def __init__(self, distance: distances.Distance, every_updates: int = 250, steps: int = 25, copy_turns: int = 4):
        self.every_updates, self.steps_between_copies = every_updates, steps * copy_turns
        self.steps = targets.replicate(every_updates, steps, optax.adam(1e-3), distance)

    def init(self, online: targets.Params, target: targets.Params | None = None) -> targets.TargetState:
        return self.steps.init(online, target)

    def turn(
        self, state: targets.TargetState, online: targets.Params, batches: targets.Batches | None = None
    ) -> targets.TargetState:
        state = self.steps.turn(state, online, batches)
        copy = state.updates % self.steps_between_copies == 0
        return state._replace(params=jax.tree.map(lambda t, w: jnp.where(copy, w, t), state.params, online))


if __name__ == "__main__":
    lookrep.train(
        "minatar/breakout",
        agent="dqn",
        agents=2,
        steps=100_000,
        target=lambda agent: StepsAndCopies(agent.distance),  # the distance that goes with the agent's head
        on_row=lambda rows: print(rows[0]["agent_steps"], "steps, returns", *(f"{r['return_mean']:.2f}" for r in rows)),
    )
