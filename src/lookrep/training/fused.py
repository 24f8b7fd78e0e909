"""The engine for environments on the device: N agents, environment, replay, learning and target update in one program.

A cycle is `steps_per_update` steps of every agent and one update of each. Cycles run inside `scan`, and a target's turn
comes after a static number of them, so the compiled program has no branch in it and never talks to the host between
two rows of metrics. The host loop, metrics and checkpoints are in `lookrep.training.run`.

Runs that differ in their target update alone can share a program: they act and learn as one population, and each has
its targets' turns for itself. Small populations leave a GPU idle between kernels; one large one does not.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lookrep import agent as agent_parts
from lookrep import config as configs
from lookrep.config import RunConfig
from lookrep.envs import Environment
from lookrep.errors import UserError
from lookrep.replay import ReplayState, Steps
from lookrep.targets import TargetState
from lookrep.training.population import Keys, Population, Tally, agent_key, chance, tallied

BLOCK_UPDATES = 250  # updates in one statically unrolled-by-scan block, when the target's period is shorter


class TrainState(NamedTuple):
    agents: agent_parts.AgentState
    environment: Any
    observation: jax.Array
    episode_return: jax.Array
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: None
    agent_steps: jax.Array
    online_updates: jax.Array
    target_optimizers: tuple[Any, ...] = ()  # of runs that share a program, which keep theirs apart


class FusedEngine:
    """Advances a population on the device; with `beside`, those of several runs as one.

    The state of several runs is theirs put together along the agents' axis: `joined` and `part` go to and fro.
    """

    can_pause = False  # what runs between two rows is one compiled loop

    def __init__(self, config: RunConfig, env: Environment, beside: Sequence[RunConfig] = ()) -> None:
        runs = (config, *beside)
        self.env = env
        self.config = configs.replace(config, agents=sum(run.agents for run in runs)) if beside else config
        if beside and (config.devices > 1 or len({configs.shared(run) for run in runs}) > 1):
            raise UserError("runs that share a program may differ in their target update alone, on one device")
        self.runs = tuple(Population(run, env) for run in runs)
        ends = np.cumsum([run.agents for run in runs]).tolist()
        self.spans = tuple(slice(end - run.agents, end) for run, end in zip(runs, ends, strict=True))
        self.population = Population(self.config, env)
        self.agent, self.replay = self.population.agent, self.population.replay
        self._periods = tuple(run.agent.target_update.every_updates for run in self.runs)
        turns = {period for period in self._periods if period is not None}
        self._period = math.gcd(*(turns - {1} or turns)) or None  # cycles between two looks at whose turn it is
        # Beside runs with longer periods, targets that follow every update do so within the cycle.
        self._always = tuple(i for i, period in enumerate(self._periods) if period == 1 != self._period)
        repeats = 1 if self._period is None else max(1, BLOCK_UPDATES // self._period)
        self._block_updates = BLOCK_UPDATES if self._period is None else self._period * repeats
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
        self._turn = self._compiled(self._turns, inputs=("state",))
        self._measure = self._compiled(self.population.row, inputs=("state",), outputs=("state", "per agent"))

    # What the host loop calls

    def init(self) -> TrainState:
        """Everything at step 0."""
        runs = (population.config for population in self.runs)
        numbers = ((run.seed, jnp.arange(run.agents, dtype=jnp.uint32) + run.first_agent) for run in runs)
        state: TrainState = self._init(jnp.concatenate([jax.vmap(partial(agent_key, seed))(n) for seed, n in numbers]))
        return state

    def shapes(self) -> TrainState:
        """What `init` would give, as shapes: for restoring a checkpoint."""
        shapes: TrainState = jax.eval_shape(self.init)
        return shapes

    def saved(self, state: TrainState, folder: Path) -> tuple[TrainState, dict[str, Any]]:
        """What a checkpoint must hold: the state is all there is."""
        del folder
        return state, {}

    def place(self, tree: TrainState | None, meta: dict[str, Any], folder: Path) -> TrainState:
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

    # Several runs in one program

    def joined(self, states: Sequence[TrainState]) -> TrainState:
        """The states of all runs, at the same step, as one."""
        if len(states) == 1:
            return states[0]
        optimizers = tuple(state.agents.target.optimizer for state in states)
        alike = [_with_target(state, optimizer=()) for state in states]
        whole: TrainState = jax.tree.map(
            lambda axis, *arrays: jnp.concatenate(arrays, axis) if axis >= 0 else arrays[0],
            self._axes(alike[0]),
            *alike,
        )
        return whole._replace(target_optimizers=optimizers)

    def part(self, state: TrainState, i: int) -> TrainState:
        """The state of run i, as if it had been trained by itself."""
        if len(self.runs) == 1:
            return state
        span, whole = self.spans[i], state._replace(target_optimizers=())
        part: TrainState = jax.tree.map(
            lambda axis, x: lax.slice_in_dim(x, span.start, span.stop, axis=axis) if axis >= 0 else x,
            self._axes(whole),
            whole,
        )
        return _with_target(part, optimizer=state.target_optimizers[i])

    def _axes(self, state: TrainState) -> TrainState:
        """Where each array counts agents; -1: nowhere."""
        axes: TrainState = jax.tree.map(lambda x: 0 if x.ndim else -1, state)
        return axes._replace(replay=self.replay.agent_axes())

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
                state = self._with_target_of(state, i, target)
                if low_target is not None:
                    low_target = self._put(i, low_target, self.agent.compute(target.params))
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
        now = (jax.vmap(partial(chance, state.keys.act))(times), times)
        carry, steps = lax.scan(step, carry, now, unroll=_unroll(count))
        state = state._replace(environment=carry[0], observation=carry[1], episode_return=carry[2], tally=carry[3])
        return self.population.remember(state, steps)

    # The target's turn

    def _block(self, state: TrainState, repeats: int) -> TrainState:
        if self._period is None:
            return self._cycles_scanned(state, self._block_updates)

        def period(state: TrainState, _: None) -> tuple[TrainState, None]:
            return self._turns(self._cycles_scanned(state, self._period)), None

        return lax.scan(period, state, length=repeats)[0]

    def _turns(self, state: TrainState) -> TrainState:
        """After a multiple of `_period` updates: the targets whose turn it is follow."""
        for i, period in enumerate(self._periods):
            if period is None or i in self._always:
                continue
            if period == self._period:
                target = self._target_after_turn(state, i)
            else:
                target = lax.cond(
                    state.online_updates % period == 0,
                    lambda i=i: self._target_after_turn(state, i),
                    lambda i=i: self.part(state, i).agents.target,
                )
            state = self._with_target_of(state, i, target)
        return state

    def _target_after_turn(self, state: TrainState, i: int) -> TargetState:
        target: TargetState = self.runs[i].target_turn(self.part(state, i)).agents.target
        return target

    def _with_target_of(self, state: TrainState, i: int, target: TargetState) -> TrainState:
        if len(self.runs) == 1:
            return state._replace(agents=state.agents._replace(target=target))
        before = state.agents.target
        optimizers = (*state.target_optimizers[:i], target.optimizer, *state.target_optimizers[i + 1 :])
        state = _with_target(
            state,
            params=self._put(i, before.params, target.params),
            updates=self._put(i, before.updates, target.updates),
        )
        return state._replace(target_optimizers=optimizers)

    def _put(self, i: int, whole: Any, part: Any) -> Any:
        """Arrays of all agents with those of run i replaced."""
        if len(self.runs) == 1:
            return part
        start = self.spans[i].start
        return jax.tree.map(lambda x, y: lax.dynamic_update_slice_in_dim(x, y, start, axis=0), whole, part)

    # The start

    def _new_state(self, keys: jax.Array) -> TrainState:
        if len(self.runs) == 1:  # on several devices `keys` are those of one of them
            return self._new_part(self.population, keys)
        spans = zip(self.runs, self.spans, strict=True)
        return self.joined([self._new_part(population, keys[span]) for population, span in spans])

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


def _with_target(state: TrainState, **changes: Any) -> TrainState:
    return state._replace(agents=state.agents._replace(target=state.agents.target._replace(**changes)))


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
