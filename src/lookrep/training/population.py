"""What both engines share: how a population of agents learns from its replay, follows its targets, and is measured.

`Population` holds what is fixed; its methods are pure functions of a state that has (at least) the fields of
`Learners`. Where the steps in the replay come from is the engine's business.

All randomness is a function of (seed, agent, counter): nothing about it needs saving, and agent i is the same run in
any population. The agents' axis is 0, except in the replay (`Replay.agent_axes`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap

from lookrep.agents import Agent, AgentState, Inputs, Numbers, Parts, numbers_of
from lookrep.config import RunConfig
from lookrep.errors import UserError
from lookrep.replay import FramesFrom, Replay, ReplayState, Steps

MEASURE_BATCH = 256  # transitions per agent behind each row's function gap and Bellman residual
STREAMS = 6  # random streams of an agent: its environment, its parameters, and `Keys`


class Spaces(Protocol):
    """What a population must know about its environment."""

    @property
    def observation_shape(self) -> tuple[int, ...]: ...

    @property
    def observation_dtype(self) -> Any: ...

    @property
    def num_actions(self) -> int: ...

    @property
    def can_truncate(self) -> bool: ...


class Keys(NamedTuple):
    """Each agent's random streams: key data, never changed."""

    act: jax.Array
    learn: jax.Array
    replicate: jax.Array
    measure: jax.Array


class Tally(NamedTuple):
    """What happened since the last row, per agent."""

    episodes: jax.Array
    return_sum: jax.Array
    return_max: jax.Array
    loss_sum: jax.Array
    updates: jax.Array


class Learners(NamedTuple):
    """The part of an engine's state that learns."""

    agents: AgentState
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: jax.Array | None  # [N]: how many of the network's actions each agent has; None: all of them
    agent_steps: jax.Array  # shared: all agents of a population are at the same step
    online_updates: jax.Array


State = TypeVar("State", bound=Any)  # any NamedTuple with the fields of Learners


class Population:
    """What is fixed about the learning of some agents with one configuration but for their `numbers`."""

    def __init__(
        self,
        config: RunConfig,
        spaces: Spaces,
        agents: int | None = None,
        frame_stack: int = 1,
        parts: Parts | None = None,
        numbers: Numbers | None = None,
        frames_from: FramesFrom | None = None,
    ) -> None:
        settings = config.settings
        self.config = config
        self.numbers = numbers_of(settings) if numbers is None else numbers
        stacked = (frame_stack, *spaces.observation_shape) if frame_stack > 1 else spaces.observation_shape
        self.agent = Agent(settings, stacked, spaces.num_actions, parts)
        self._in_a_row = settings.learning.updates_in_a_row
        if not self.agent.schedule.multiple_of(self._in_a_row):
            raise UserError(
                f"updates_in_a_row = {self._in_a_row}: a target's turns come after such a row, so their period must be "
                f"a multiple of it (target_period_updates, polyak_period_updates)"
            )
        self.replay = Replay(
            spaces.observation_shape,
            spaces.observation_dtype,
            config.agents if agents is None else agents,
            settings.replay.replay_capacity_steps,
            settings.learning.n_steps,
            self.numbers.discount,
            spaces.can_truncate,
            settings.replay.prioritised,
            frame_stack,
            frames_from,
        )

    def new(self, keys: jax.Array, legal: jax.Array | None = None) -> tuple[Learners, jax.Array]:
        """Learners at step 0, and each agent's key for its environment. `keys` may be of some of the agents."""
        agents = keys.shape[0]
        streams = jax.vmap(partial(jax.random.split, num=STREAMS))(typed(keys))
        learners = Learners(
            agents=jax.vmap(self.agent.init)(streams[:, 1]),
            replay=Replay(**{**vars(self.replay), "agents": agents}).init(),
            tally=no_tally(agents),
            keys=Keys(*(jax.random.key_data(streams[:, i]) for i in range(2, STREAMS))),
            legal=legal,
            agent_steps=jnp.int32(0),
            online_updates=jnp.int32(0),
        )
        return learners, streams[:, 0]

    def act(
        self, online_params: Any, observation: jax.Array, keys: jax.Array, words: jax.Array, t: jax.Array, legal: Any
    ) -> jax.Array:
        """Every agent's action at step t."""
        epsilon = self.epsilon(t)
        return jax.vmap(self.agent.act, in_axes=(0, 0, 0, 0, 0 if epsilon.ndim else None, 0))(
            online_params, observation, keys, words, epsilon, legal
        )

    def epsilon(self, t: jax.Array) -> jax.Array:
        """Dopamine's schedule: constant in the warm-up, then linear. One number, or one for each agent."""
        numbers = self.numbers
        since = t - self.config.settings.replay.warmup_steps
        left = jnp.clip(1.0 - since / np.maximum(numbers.epsilon_decay_steps, 1), 0.0, 1.0)
        return jnp.asarray(numbers.epsilon_end + (numbers.epsilon_start - numbers.epsilon_end) * left)

    def remember(self, state: State, steps: Steps) -> State:
        """What every agent just did goes into its replay."""
        if self.config.settings.learning.clip_rewards:
            steps = steps._replace(reward=jnp.clip(steps.reward, -1.0, 1.0))
        remembered: State = state._replace(
            replay=self.replay.add(state.replay, steps), agent_steps=state.agent_steps + steps.reward.shape[0]
        )
        return remembered

    def learn(self, state: State, online_params: Any, target_params: Any) -> State:
        """Every agent makes the updates of its online network that follow a cycle."""
        state = self._update(state, online_params, target_params)
        if self._in_a_row == 1:
            return state

        def again(_: jax.Array, state: State) -> State:
            return self._update(state, self.agent.compute(state.agents.online), target_params)

        more: State = lax.fori_loop(1, self._in_a_row, again, state)
        return more

    def _update(self, state: State, online_params: Any, target_params: Any) -> State:
        sample_keys, learn_keys = subkeys(state.keys.learn, state.online_updates)
        batch_size = self.config.settings.learning.batch_size
        batch, reference = self.replay.sample(state.replay, sample_keys, batch_size), None
        if self.agent.wants_reference:
            other_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(sample_keys, 1)
            reference = self.replay.sample(state.replay, other_keys, batch_size)
        agents, learned = jax.vmap(self.agent.learn, in_axes=(*[0] * 6, self.numbers.axes, 0))(
            state.agents, online_params, target_params, batch, learn_keys, state.legal, self.numbers, reference
        )
        learnt: State = state._replace(
            agents=agents,
            replay=self.replay.set_priorities(state.replay, batch.position, learned.priority),
            tally=state.tally._replace(loss_sum=state.tally.loss_sum + learned.loss, updates=state.tally.updates + 1),
            online_updates=state.online_updates + 1,
        )
        return self._renewed(learnt)

    def target_turn(self, state: State) -> State:
        """The targets follow: a copy, or K_R gradient steps."""
        batch = self._batches(state, self.agent.turn_inputs)

        def turn(agent: jax.Array, target: Any, online: Any, numbers: Numbers) -> Any:
            return self.agent.turn(target, online, partial(batch, agent), numbers)

        agents = jnp.arange(state.tally.updates.shape[0])
        target = jax.vmap(turn, in_axes=(0, 0, 0, self.numbers.axes))(
            agents, state.agents.target, state.agents.online, self.numbers
        )
        turned: State = state._replace(agents=state.agents._replace(target=target))
        return turned

    def _renewed(self, state: State) -> State:
        """At intervals the online networks start anew, and learn from their targets first."""
        period = self.config.settings.method.reset_period_updates
        if period is None:
            return state
        # Other random numbers than those of a turn at the same update.
        batch = self._batches(state, lambda batch, key, legal: Inputs(batch.observation, key, legal), 1)
        keys, _ = subkeys(state.keys.replicate, ~state.online_updates)

        def renew(agent: jax.Array, key: jax.Array, target: Any, numbers: Numbers) -> Any:
            return self.agent.renewed(key, target, partial(batch, agent), numbers)

        def anew(agents: AgentState) -> AgentState:
            count = jnp.arange(state.tally.updates.shape[0])
            online, optimizer = jax.vmap(renew, in_axes=(0, 0, 0, self.numbers.axes))(
                count, keys, agents.target.params, self.numbers
            )
            before = None if agents.memory.before is None else online  # of the old network nothing is left
            return agents._replace(online=online, optimizer=optimizer, memory=agents.memory._replace(before=before))

        agents = lax.cond(state.online_updates % period == 0, anew, lambda agents: agents, state.agents)
        renewed: State = state._replace(agents=agents)
        return renewed

    def _batches(self, state: State, inputs: Callable[..., Any], stream: int = 0) -> Callable[..., Any]:
        """A function from (agent, k) to the agent's batch number k of this turn. What asks for it is of one agent; its
        batches are drawn for all agents at once."""
        settings = self.config.settings.target
        prioritised = None if settings.replicate_sampler == "agent" else False
        phase_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(typed(state.keys.replicate), state.online_updates)
        if stream:
            phase_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(phase_keys, stream)
        source = (state.replay, jax.random.key_data(phase_keys), state.legal)

        def batches_of_all(k: jax.Array, source: Any) -> Any:
            replay, keys, legal = source
            sample_keys, network_keys = subkeys(keys, k)
            batch = self.replay.sample(replay, sample_keys, settings.replicate_batch_size, prioritised)
            return jax.vmap(inputs)(batch, network_keys, legal)

        @custom_vmap
        def batch(agent: jax.Array, k: jax.Array, source: Any) -> Any:
            return jax.tree.map(lambda x: x[agent], batches_of_all(k, source))

        @batch.def_vmap
        def _(agents: int, batched: Any, agent: jax.Array, k: jax.Array, source: Any) -> Any:
            if any(jax.tree.leaves(batched[2])):  # it could be followed, with a copy of the replay for each agent
                raise UserError(
                    "the target rule branches on an agent's own state (lax.cond, lax.switch): choose with jnp.where"
                )
            if not batched[0]:  # one rule asks for many batches at once
                drawn = lax.map(lambda number: batch(agent, number, source), k)
                return drawn, jax.tree.map(lambda _: True, drawn)
            # Agents that still take steps are all at the same one; others have stopped at an earlier one.
            drawn = batches_of_all(k.max() if batched[1] else k, source)
            return drawn, jax.tree.map(lambda _: True, drawn)

        return lambda agent, k: batch(agent, jnp.asarray(k), source)

    def row(self, state: State) -> tuple[State, dict[str, jax.Array]]:
        """A row of metrics per agent, and the state with its tally cleared."""
        sample_keys, _ = subkeys(state.keys.measure, state.agent_steps)
        batch = self.replay.sample(state.replay, sample_keys, MEASURE_BATCH, prioritised=False)
        row = jax.vmap(self.agent.measure)(state.agents, batch, state.legal)
        tally = state.tally
        row |= {
            "agent_steps": jnp.broadcast_to(state.agent_steps, tally.episodes.shape),
            "online_updates": jnp.broadcast_to(state.online_updates, tally.episodes.shape),
            "target_updates": state.agents.target.updates,
            "episodes": tally.episodes,
            "return_mean": tally.return_sum / tally.episodes,  # NaN, a null in the file, if none ended
            "return_max": jnp.where(tally.episodes > 0, tally.return_max, jnp.nan),
            "loss": tally.loss_sum / tally.updates,
            "diverged": ~jnp.isfinite(row["norm_online"] + row["norm_target"]),
        }
        return state._replace(tally=no_tally(tally.episodes.shape[0])), row


def tallied(tally: Tally, done: jax.Array, episode_return: jax.Array) -> Tally:
    """After a step of every agent: which episodes ended, and with what return."""
    return tally._replace(
        episodes=tally.episodes + done,
        return_sum=tally.return_sum + jnp.where(done, episode_return, 0.0),
        return_max=jnp.where(done, jnp.maximum(tally.return_max, episode_return), tally.return_max),
    )


def no_tally(agents: int) -> Tally:
    none, zero = jnp.zeros(agents, jnp.int32), jnp.zeros(agents)
    return Tally(none, zero, jnp.full(agents, -math.inf, jnp.float32), zero, none)


def agent_key(seed: int, number: jax.Array) -> jax.Array:
    """The key that everything about an agent follows from."""
    return jax.random.key_data(jax.random.fold_in(jax.random.key(seed), number))


def typed(key_data: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(key_data)


def subkeys(key_data: jax.Array, counter: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two fresh keys per agent."""
    pairs = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, counter)))(typed(key_data))
    return pairs[:, 0], pairs[:, 1]


def step_draws(key_data: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
    """For step t, three keys [N, 3] (network, environment, next episode) and two random words [N, 2] of each agent."""
    keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t), 4))(typed(key_data))
    return keys[:, :3], jax.vmap(lambda key: jax.random.bits(key, (2,)))(keys[:, 3])
