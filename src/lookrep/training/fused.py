"""The engine for environments on the device: N agents, environment, replay, learning and target update in one program.

A cycle is `steps_per_update` steps of every agent and one update of each. Cycles run inside `scan`, and a target's turn
comes after a static number of them, so the compiled program has no branch in it and never talks to the host between
two rows of metrics. The host loop, metrics and checkpoints are in `lookrep.training.run`.

All randomness is a function of (seed, agent, counter): nothing about it needs saving, and agent i is the same run in
any population. The agents' axis is 0, except in the replay (`Replay.agent_axes`).
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lookrep import agent as agent_parts
from lookrep.config import RunConfig
from lookrep.envs import Environment
from lookrep.errors import UserError
from lookrep.replay import Replay, ReplayState, Steps

MEASURE_BATCH = 256  # transitions per agent behind each row's function gap and Bellman residual
BLOCK_UPDATES = 250  # updates in one statically unrolled-by-scan block, when the target's period is shorter


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


class TrainState(NamedTuple):
    agents: agent_parts.AgentState
    environment: Any
    observation: jax.Array
    episode_return: jax.Array
    replay: ReplayState
    tally: Tally
    keys: Keys
    agent_steps: jax.Array  # shared: all agents of a population are at the same step
    online_updates: jax.Array


class FusedEngine:
    """Advances a population on the device."""

    def __init__(self, config: RunConfig, env: Environment) -> None:
        settings = config.settings
        self.config, self.env = config, env
        self.agent = agent_parts.build(settings, env.observation_shape, env.num_actions)
        self.replay = Replay(
            env.observation_shape,
            env.observation_dtype,
            config.agents,
            settings.replay.replay_capacity_steps,
            settings.learning.n_steps,
            settings.learning.discount,
            env.can_truncate,
            settings.replay.prioritised,
        )
        period = self.agent.target_update.every_updates
        self._period = period
        repeats = 1 if period is None else max(1, BLOCK_UPDATES // period)
        self._block_updates = BLOCK_UPDATES if period is None else period * repeats
        self._mesh = _mesh(config.devices)

        def blocks(state: TrainState, count: jax.Array) -> TrainState:
            return lax.fori_loop(0, count, lambda _, s: self._block(s, repeats), state)

        def cycles(state: TrainState, count: jax.Array) -> TrainState:
            return self._cycles_scanned(state, None, count)

        def explore(state: TrainState, count: jax.Array) -> TrainState:
            return lax.fori_loop(0, count, lambda _, s: self._interact(s, s.agents.online), state)

        self._init = self._compiled(self._new_state, inputs=("keys",))
        self._blocks, self._cycles, self._explore = (
            self._compiled(f, inputs=("state", "shared")) for f in (blocks, cycles, explore)
        )
        self._turn = self._compiled(self._target_turn, inputs=("state",))
        self._measure = self._compiled(self._row, inputs=("state",), outputs=("state", "per agent"))

    # What the host loop calls

    def init(self) -> TrainState:
        """Everything at step 0."""
        numbers = jnp.arange(self.config.agents, dtype=jnp.uint32) + self.config.first_agent
        state: TrainState = self._init(jax.vmap(partial(_agent_key, self.config.seed))(numbers))
        return state

    def shapes(self) -> TrainState:
        """What `init` would give, as shapes: for restoring a checkpoint."""
        shapes: TrainState = jax.eval_shape(self.init)
        return shapes

    def place(self, state: TrainState) -> TrainState:
        """Put a restored state where it is computed on."""
        if self._mesh is None:
            placed: TrainState = jax.tree.map(jnp.asarray, state)
            return placed
        specs = self._state_specs()
        mesh = self._mesh
        placed = jax.tree.map(lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)), state, specs)
        return placed

    def advance(self, state: TrainState, until_steps: int) -> TrainState:
        """Train until every agent has taken `until_steps` steps. The state passed in is consumed."""
        learning, replay = self.config.settings.learning, self.config.settings.replay
        cycle = learning.steps_per_update
        steps, updates = int(state.agent_steps), int(state.online_updates)
        if steps < replay.warmup_steps:
            until = min(until_steps, replay.warmup_steps)
            state = self._explore(state, (until - steps) // cycle)
            steps = until
        end = updates + (until_steps - steps) // cycle
        while updates < end:
            whole = (end - updates) // self._block_updates
            if whole and (self._period is None or updates % self._period == 0):
                state = self._blocks(state, whole)
                updates += whole * self._block_updates
                continue
            if self._period is None:
                state = self._cycles(state, end - updates)
                break
            some = min(self._period - updates % self._period, end - updates)
            state = self._cycles(state, some)
            updates += some
            if updates % self._period == 0:
                state = self._turn(state)
        return state

    def measure(self, state: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state with its tally cleared."""
        state, row = self._measure(state)
        return state, jax.device_get(row)

    # One cycle

    def _cycles_scanned(self, state: TrainState, count: int | None, times: jax.Array | None = None) -> TrainState:
        """`count` (static) or `times` (traced) cycles. The networks' low-precision copies, where there are any, live
        only here: made once for the target, and by each update for the online network."""
        target_params = self.agent.compute(state.agents.target.params)

        def cycle(carry: tuple[TrainState, Any]) -> tuple[TrainState, Any]:
            state, low = carry
            online_params = state.agents.online if low is None else low
            state = self._interact(state, online_params)
            state = self._learn(state, online_params, target_params)
            return state, None if low is None else self.agent.compute(state.agents.online)

        is_low = self.config.settings.network.precision != "f32"
        carry = (state, self.agent.compute(state.agents.online) if is_low else None)
        if count is not None:
            return lax.scan(lambda c, _: (cycle(c), None), carry, length=count)[0][0]
        return lax.fori_loop(0, times, lambda _, c: cycle(c), carry)[0]

    def _learn(self, state: TrainState, online_params: Any, target_params: Any) -> TrainState:
        """Every agent makes one update of its online network."""
        sample_keys, learn_keys = _subkeys(state.keys.learn, state.online_updates)
        batch = self.replay.sample(state.replay, sample_keys, self.config.settings.learning.batch_size)
        agents, learned = jax.vmap(self.agent.learn)(state.agents, online_params, target_params, batch, learn_keys)
        return state._replace(
            agents=agents,
            replay=self.replay.set_priorities(state.replay, batch.position, learned.priority),
            tally=state.tally._replace(loss_sum=state.tally.loss_sum + learned.loss, updates=state.tally.updates + 1),
            online_updates=state.online_updates + 1,
        )

    def _interact(self, state: TrainState, online_params: Any) -> TrainState:
        """Every agent takes `steps_per_update` steps, which go into the replay."""
        count = self.config.settings.learning.steps_per_update

        times = state.agent_steps + jnp.arange(count)

        def random_at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
            """Three keys and two words for each agent, drawn for all steps of a cycle at once: fewer kernels."""
            keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, t), 4))(_typed(state.keys.act))
            return keys[:, :3], jax.vmap(lambda key: jax.random.bits(key, (2,)))(keys[:, 3])

        def step(carry: Any, now: tuple[tuple[jax.Array, jax.Array], jax.Array]) -> tuple[Any, Steps]:
            environment, observation, episode_return, tally = carry
            (keys, words), epsilon = now
            action = jax.vmap(self.agent.act, in_axes=(0, 0, 0, 0, None))(
                online_params, observation, keys[:, 0], words, epsilon
            )
            environment, seen = jax.vmap(self.env.step)(keys[:, 1], environment, action)
            done = seen.terminated | seen.truncated
            episode_return = episode_return + seen.reward
            tally = Tally(
                tally.episodes + done,
                tally.return_sum + jnp.where(done, episode_return, 0.0),
                jnp.where(done, jnp.maximum(tally.return_max, episode_return), tally.return_max),
                tally.loss_sum,
                tally.updates,
            )
            fresh = jax.vmap(self.env.init)(keys[:, 2])
            environment, next_observation = _where(done, fresh, (environment, seen.observation))
            record = Steps(
                observation,
                action,
                seen.reward,
                seen.terminated,
                seen.truncated,
                seen.observation if self.env.can_truncate else None,
            )
            return (environment, next_observation, jnp.where(done, 0.0, episode_return), tally), record

        carry = (state.environment, state.observation, state.episode_return, state.tally)
        now = (jax.vmap(random_at)(times), self._epsilon(times))
        carry, steps = lax.scan(step, carry, now, unroll=_unroll(count))
        return state._replace(
            environment=carry[0],
            observation=carry[1],
            episode_return=carry[2],
            tally=carry[3],
            replay=self.replay.add(state.replay, steps),
            agent_steps=state.agent_steps + count,
        )

    def _epsilon(self, t: jax.Array) -> jax.Array:
        """Dopamine's schedule: constant in the warm-up, then linear."""
        settings = self.config.settings.exploration
        since = t - self.config.settings.replay.warmup_steps
        left = jnp.clip(1.0 - since / max(settings.epsilon_decay_steps, 1), 0.0, 1.0)
        return settings.epsilon_end + (settings.epsilon_start - settings.epsilon_end) * left

    # The target's turn

    def _block(self, state: TrainState, repeats: int) -> TrainState:
        if self._period is None:
            return self._cycles_scanned(state, self._block_updates)

        def period(state: TrainState, _: None) -> tuple[TrainState, None]:
            return self._target_turn(self._cycles_scanned(state, self._period)), None

        return lax.scan(period, state, length=repeats)[0]

    def _target_turn(self, state: TrainState) -> TrainState:
        settings = self.config.settings.target
        prioritised = None if settings.replicate_sampler == "agent" else False
        phase_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(_typed(state.keys.replicate), state.online_updates)

        def batches(k: jax.Array) -> Any:
            sample_keys, network_keys = _subkeys(jax.random.key_data(phase_keys), k)
            batch = self.replay.sample(state.replay, sample_keys, settings.replicate_batch_size, prioritised)
            return jax.vmap(self.agent.replicate_inputs)(batch, network_keys)

        target = self.agent.target_update.turn(state.agents.target, state.agents.online, batches)
        return state._replace(agents=state.agents._replace(target=target))

    # The row

    def _row(self, state: TrainState) -> tuple[TrainState, dict[str, jax.Array]]:
        sample_keys, measure_keys = _subkeys(state.keys.measure, state.agent_steps)
        batch = self.replay.sample(state.replay, sample_keys, MEASURE_BATCH, prioritised=False)
        row = jax.vmap(self.agent.measure)(state.agents, batch, measure_keys)
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
        return state._replace(tally=_no_tally(tally.episodes.shape[0])), row

    # The start

    def _new_state(self, keys: jax.Array) -> TrainState:
        agents = keys.shape[0]
        streams = jax.vmap(partial(jax.random.split, num=6))(_typed(keys))
        environment, observation = jax.vmap(self.env.init)(streams[:, 0])
        return TrainState(
            agents=jax.vmap(self.agent.init)(streams[:, 1]),
            environment=environment,
            observation=observation,
            episode_return=jnp.zeros(agents),
            replay=Replay(**{**vars(self.replay), "agents": agents}).init(),
            tally=_no_tally(agents),
            keys=Keys(*(jax.random.key_data(streams[:, i]) for i in range(2, 6))),
            agent_steps=jnp.int32(0),
            online_updates=jnp.int32(0),
        )

    # Compilation, and several devices

    def _compiled(
        self, function: Callable[..., Any], inputs: tuple[str, ...], outputs: tuple[str, ...] = ("state",)
    ) -> Any:
        donate = tuple(i for i, name in enumerate(inputs) if name == "state")
        if self._mesh is None:
            return jax.jit(function, donate_argnums=donate)
        spec = {"shared": PartitionSpec(), "keys": PartitionSpec("agents"), "per agent": PartitionSpec("agents")}
        specs = spec | {"state": self._state_specs()}
        out = tuple(specs[name] for name in outputs)
        sharded = jax.shard_map(
            function,
            mesh=self._mesh,
            in_specs=tuple(specs[name] for name in inputs),
            out_specs=out[0] if len(out) == 1 else out,
            check_vma=False,
        )
        return jax.jit(sharded, donate_argnums=donate)

    def _state_specs(self) -> TrainState:
        shapes: TrainState = jax.eval_shape(self._new_state, jax.ShapeDtypeStruct((self.config.agents, 2), jnp.uint32))
        leading = jax.tree.map(lambda x: PartitionSpec("agents") if x.ndim else PartitionSpec(), shapes)
        replay = jax.tree.map(
            lambda axis: PartitionSpec(*[None] * axis, "agents") if axis >= 0 else PartitionSpec(),
            self.replay.agent_axes(),
        )
        specs: TrainState = leading._replace(replay=replay)
        return specs


def _mesh(devices: int) -> Mesh | None:
    if devices == 1:
        return None
    found = jax.devices()
    if len(found) < devices:
        raise UserError(f"devices = {devices}: this machine has {len(found)} ({found[0].platform})")
    return Mesh(np.array(found[:devices]), ("agents",))


def _unroll(count: int) -> int:
    # On a GPU the loop's own overhead is worth saving; on a CPU unrolling multiplies the compile time.
    return count if jax.default_backend() == "gpu" else 1


def _agent_key(seed: int, number: jax.Array) -> jax.Array:
    return jax.random.key_data(jax.random.fold_in(jax.random.key(seed), number))


def _typed(key_data: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(key_data)


def _subkeys(key_data: jax.Array, counter: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two fresh keys per agent."""
    pairs = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, counter)))(_typed(key_data))
    return pairs[:, 0], pairs[:, 1]


def _no_tally(agents: int) -> Tally:
    none, zero = jnp.zeros(agents, jnp.int32), jnp.zeros(agents)
    return Tally(none, zero, jnp.full(agents, -math.inf, jnp.float32), zero, none)


def _where(condition: jax.Array, yes: Any, no: Any) -> Any:
    """Choose whole members of a population."""

    def choose(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, yes, no)
