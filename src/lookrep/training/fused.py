"""The engine for environments on the device: N agents, environment, replay, learning and target update in one program.

A cycle is `steps_per_update` steps of every agent and one update of each. Cycles run inside `scan`, and a target's turn
comes after a static number of them, so the compiled program never talks to the host between two rows of metrics. The
host loop, metrics and checkpoints are in `lookrep.training.loop`.

Several runs can share a program (`lookrep.training.sharing`). Small populations leave a GPU idle between kernels; one
large one does not.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lookrep.agents import AgentState, Parts
from lookrep.config import RunConfig
from lookrep.envs import Environment
from lookrep.errors import UserError
from lookrep.replay import ReplayState, Steps
from lookrep.training.population import Keys, Population, Tally, agent_key, step_draws, tallied
from lookrep.training.sharing import Sharing

TELL_SECONDS = 0.5  # between two words about how far it is
BLOCK_UPDATES = 250  # updates in one statically unrolled-by-scan block, when the target's period is shorter


class TrainState(NamedTuple):
    agents: AgentState
    environment: Any
    observation: jax.Array
    episode_return: jax.Array
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: None
    agent_steps: jax.Array
    online_updates: jax.Array
    target_optimizers: tuple[Any, ...] = ()  # by group, where targets have several ways to follow


class FusedEngine:
    """Advances a population on the device; with `beside`, those of several runs as one."""

    can_pause = False  # what runs between two rows is one compiled loop

    def __init__(
        self, config: RunConfig, env: Environment, beside: Sequence[RunConfig] = (), parts: Parts | None = None
    ) -> None:
        self.env = env
        self.sharing = Sharing((config, *beside), env, parts)
        self.population = self.sharing.population
        self.config = self.population.config
        self.agent, self.replay = self.population.agent, self.population.replay
        self._schedules = [group.schedule for group in self.sharing.groups]
        # Turns inside the compiled loop come every so many cycles: the largest step that meets all of them.
        periods = {schedule.period for schedule in self._schedules if schedule.period is not None}
        self._steady = all(schedule.period or schedule.never for schedule in self._schedules)
        self._period = math.gcd(*(periods - {1} or (periods if self._steady else ()))) or None
        # Beside longer periods, targets that follow every update do so within the cycle.
        self._always = tuple(i for i, s in enumerate(self._schedules) if s.period == 1 != self._period)
        self._in_a_row = self.config.settings.learning.updates_in_a_row
        repeats = 1 if self._period is None else max(1, BLOCK_UPDATES // self._period)
        block = max(1, BLOCK_UPDATES // self._in_a_row) * self._in_a_row
        self._block_updates = block if self._period is None else self._period * repeats
        self._mesh = _mesh(config.devices)
        self.moved: Callable[[int], None] = lambda agent_steps: None  # is told how far it is between two rows

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
        self._turn = self._compiled(self._turns, inputs=("state",))
        self._measure = self._compiled(self.population.row, inputs=("state",), outputs=("state", "per agent"))

    # What the host loop calls

    def init(self) -> TrainState:
        """Everything at step 0."""
        state: TrainState = self._init(self.sharing.keys(agent_key))
        return state

    def shapes(self) -> TrainState:
        """What `init` would give, as shapes: for restoring a checkpoint."""
        shapes: TrainState = jax.eval_shape(self.init)
        return shapes

    def joined(self, states: Sequence[TrainState]) -> TrainState:
        """The states of all runs, at the same step, as one."""
        state: TrainState = self.sharing.joined(states)
        return state

    def part(self, state: TrainState, i: int) -> TrainState:
        """The state of run i, as if it had been trained by itself."""
        part: TrainState = self.sharing.part(state, i)
        return part

    def agents(self, state: TrainState) -> AgentState:
        """All agents' networks and optimisers, of the state of one run."""
        return state.agents

    def saved(self, state: TrainState, folder: Path) -> tuple[TrainState, dict[str, Any]]:
        """What a checkpoint must hold: the state is all there is."""
        del folder
        return state, {}

    def place(self, tree: TrainState | None, meta: dict[str, Any], folder: Path | None) -> TrainState:
        """Put a restored state where it is computed on; without one, begin."""
        del meta, folder
        if tree is None:
            return self.init()
        if self._mesh is None:
            placed: TrainState = jax.tree.map(jnp.asarray, tree)
            return placed
        specs = self._state_specs()
        mesh = self._mesh
        placed = jax.tree.map(lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)), tree, specs)
        return placed

    def close(self, state: TrainState) -> None:
        """Nothing of it is outside this process."""

    def advance(self, state: TrainState, until_steps: int) -> TrainState:
        """Train until every agent has taken `until_steps` steps. The state passed in is consumed."""
        learning, replay = self.config.settings.learning, self.config.settings.replay
        cycle = learning.steps_per_update
        steps, updates = int(state.agent_steps), int(state.online_updates)
        if steps < replay.warmup_steps:
            until = min(until_steps, replay.warmup_steps)
            state = self._in_pieces(self._explore, state, (until - steps) // cycle, cycle)
            steps = until
        row = self._in_a_row
        end = updates + (until_steps - steps) // cycle * row
        while updates < end:
            whole = (end - updates) // self._block_updates if self._steady else 0
            if whole and (self._period is None or updates % self._period == 0):
                state = self._in_pieces(self._blocks, state, whole, self._block_updates // row * cycle)
                updates += whole * self._block_updates
                continue
            turns = (s.next_after(updates) for i, s in enumerate(self._schedules) if i not in self._always)
            until = min((turn for turn in turns if turn is not None), default=end)
            state = self._cycles(state, (min(until, end) - updates) // row)
            updates = min(until, end)
            if updates == until:
                state = self._turn(state)
        return state

    def _in_pieces(self, run: Callable[..., TrainState], state: TrainState, count: int, steps_each: int) -> TrainState:
        """`run(state, count)` in calls that take half a second or so. It is the same program for any count."""
        at_steps, done, piece = int(state.agent_steps), 0, 1
        while done < count:
            began = time.perf_counter()
            piece = min(piece, count - done)
            state = jax.block_until_ready(run(state, piece))
            done += piece
            self.moved(at_steps + done * steps_each)
            piece = max(1, min(2 * piece, int(piece * TELL_SECONDS / (time.perf_counter() - began))))
        return state

    def measure(self, state: TrainState) -> tuple[TrainState, dict[str, Any]]:
        """A row of metrics per agent since the last one, and the state with its tally cleared."""
        state, row = self._measure(state)
        return state, jax.device_get(row)

    # One cycle

    def _cycles_scanned(self, state: TrainState, count: int | None, times: jax.Array | None = None) -> TrainState:
        """`count` (static) or `times` (traced) cycles, with the turns of targets that follow every update. The
        networks' low-precision copies, where there are any, live only here, and are made when the networks change."""

        def cycle(carry: tuple[TrainState, Any, Any]) -> tuple[TrainState, Any, Any]:
            state, low, low_target = carry
            online_params = state.agents.online if low is None else low
            target_params = state.agents.target.params if low_target is None else low_target
            state = self._interact(state, online_params)
            state = self.population.learn(state, online_params, target_params)
            for i in self._always:
                target = self._target_after_turn(state, i)
                state = self.sharing.with_target(state, i, target)
                if low_target is not None:
                    low_target = self.sharing.with_part(low_target, i, self.agent.compute(target.params))
            return state, None if low is None else self.agent.compute(state.agents.online), low_target

        carry: tuple[TrainState, Any, Any] = (state, None, None)
        if self.config.settings.network.precision != "f32":
            carry = (state, self.agent.compute(state.agents.online), self.agent.compute(state.agents.target.params))
        if count is not None:
            return lax.scan(lambda c, _: (cycle(c), None), carry, length=count)[0][0]
        return lax.fori_loop(0, times, lambda _, c: cycle(c), carry)[0]

    def _interact(self, state: TrainState, online_params: Any) -> TrainState:
        """Every agent takes `steps_per_update` steps, which go into the replay."""
        count = self.config.settings.learning.steps_per_update
        times = state.agent_steps + jnp.arange(count)

        def step(carry: Any, now: tuple[tuple[jax.Array, jax.Array], jax.Array]) -> tuple[Any, Steps]:
            environment, observation, episode_return, tally = carry
            (keys, words), t = now
            action = self.population.act(online_params, observation, keys[:, 0], words, t, state.legal)
            environment, seen = jax.vmap(self.env.step)(keys[:, 1], environment, action)
            done = seen.terminated | seen.truncated
            episode_return = episode_return + seen.reward
            tally = tallied(tally, done, episode_return)
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
        # Random numbers for all steps of a cycle at once: fewer kernels.
        now = (jax.vmap(partial(step_draws, state.keys.act))(times), times)
        carry, steps = lax.scan(step, carry, now, unroll=_unroll(count))
        state = state._replace(environment=carry[0], observation=carry[1], episode_return=carry[2], tally=carry[3])
        return self.population.remember(state, steps)

    # The target's turn

    def _block(self, state: TrainState, repeats: int) -> TrainState:
        if self._period is None:
            return self._cycles_scanned(state, self._block_updates // self._in_a_row)
        cycles = self._period // self._in_a_row

        def period(state: TrainState, _: None) -> tuple[TrainState, None]:
            return self._turns(self._cycles_scanned(state, cycles)), None

        return lax.scan(period, state, length=repeats)[0]

    def _turns(self, state: TrainState) -> TrainState:
        """The targets whose turn it is follow."""
        for i, schedule in enumerate(self._schedules):
            if i in self._always or schedule.never:
                continue
            if self._steady and schedule.period == self._period:  # it always is
                target = self._target_after_turn(state, i)
            else:
                target = lax.cond(
                    schedule.due(state.online_updates),
                    lambda i=i: self._target_after_turn(state, i),
                    lambda i=i: self.sharing.of_group(state, i).agents.target,
                )
            state = self.sharing.with_target(state, i, target)
        return state

    def _target_after_turn(self, state: TrainState, i: int) -> Any:
        return self.sharing.groups[i].population.target_turn(self.sharing.of_group(state, i)).agents.target

    # The start

    def _new_state(self, keys: jax.Array) -> TrainState:
        state: TrainState = self.sharing.new(self._new_part, keys)  # on several devices `keys` are those of one of them
        return state

    def _new_part(self, population: Population, keys: jax.Array) -> TrainState:
        learners, environment_keys = population.new(keys)
        environment, observation = jax.vmap(self.env.init)(environment_keys)
        return TrainState(
            environment=environment,
            observation=observation,
            episode_return=jnp.zeros(keys.shape[0]),
            **learners._asdict(),
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


def _where(condition: jax.Array, yes: Any, no: Any) -> Any:
    """Choose whole members of a population."""

    def choose(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(condition.reshape(condition.shape + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, yes, no)
