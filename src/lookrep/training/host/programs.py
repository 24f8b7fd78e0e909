"""What the device does for a group of agents whose environments are on the host.

`GroupFunctions` are pure functions of the group's arrays; `compiler` makes programs of them, which take and give those
arrays packed. When they run, and what happens on the host meanwhile, is in `lookrep.training.host.group`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding

from lookrep.agents import AgentState
from lookrep.envs.host import EnvSpec
from lookrep.replay import ReplayState
from lookrep.training.host.buffers import ObservationBuffer
from lookrep.training.host.packing import PackedArrays, Packing
from lookrep.training.population import Keys, Population, Tally, step_draws, tallied

DRAWN_STEPS = 1024  # steps for which exploration is drawn at a time

Noise = tuple[jax.Array, Any]  # the agents' `Keys.act`, and the step: what noisy networks act by


class LearnerState(NamedTuple):
    """What learning changes."""

    agents: AgentState
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: jax.Array | None
    agent_steps: jax.Array
    online_updates: jax.Array
    episode_return: jax.Array  # [n]


class Snapshot(NamedTuple):
    """All arrays of a group, or of a whole population: what a checkpoint holds."""

    agents: AgentState
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: jax.Array | None
    agent_steps: jax.Array
    online_updates: jax.Array
    episode_return: jax.Array  # [n]
    observation: jax.Array  # [n, stack, …] or [n, …]: what each agent sees now
    greedy: jax.Array  # int32 [n]: what it thinks best to do about it

    @property
    def learner(self) -> LearnerState:
        fields = self._asdict()
        return LearnerState(**{name: fields[name] for name in LearnerState._fields})


class PackedLearner(NamedTuple):
    """A LearnerState in few arrays."""

    online: PackedArrays  # apart, because acting needs nothing else of it
    others: PackedArrays
    replay: ReplayState


class GroupPrograms(NamedTuple):
    """The compiled functions of one group. Low-precision copies of both networks' parameters are None where products
    are in full precision: then the parameters themselves are used."""

    pack: Callable[[LearnerState], PackedLearner]
    unpack: Callable[[PackedLearner], LearnerState]
    copies: Callable[[LearnerState], tuple[PackedArrays | None, PackedArrays | None]]  # of online and target
    # keys, first step, legal → [DRAWN_STEPS, n]: whether to explore, and by which action
    draw: Callable[[jax.Array, Any, jax.Array | None], tuple[jax.Array, jax.Array]]
    # online parameters, buffer, greedy (its memory is used again), packet, noise, legal → buffer, greedy
    observe: Callable[
        [PackedArrays, ObservationBuffer, jax.Array, Any, Noise | None, jax.Array | None],
        tuple[ObservationBuffer, jax.Array],
    ]
    remember: Callable[[PackedLearner, ObservationBuffer], PackedLearner]
    # learner, copies, buffer → learner, new copy of online
    learn: Callable[
        [PackedLearner, PackedArrays | None, PackedArrays | None, ObservationBuffer],
        tuple[PackedLearner, PackedArrays | None],
    ]
    follow: Callable[[PackedLearner], tuple[PackedLearner, PackedArrays | None]]  # → learner, new copy of target
    measure: Callable[[PackedLearner], tuple[PackedLearner, dict[str, jax.Array]]]


class GroupFunctions:
    """What is computed for a group of a population's agents."""

    def __init__(self, population: Population, spec: EnvSpec) -> None:
        self.population, self.agent, self.spec = population, population.agent, spec
        settings = population.config.settings
        self.cycle_steps = settings.learning.steps_per_update
        self.low_precision = settings.network.precision != "f32"  # then products use copies of the parameters

    def new(self, keys: jax.Array, legal: jax.Array | None) -> Snapshot:
        """Agents at step 0, before the first observation."""
        learners, _ = self.population.new(keys, legal)
        spec, agents = self.spec, keys.shape[0]
        stack = (spec.frame_stack,) if spec.frame_stack > 1 else ()
        return Snapshot(
            **learners._asdict(),
            episode_return=jnp.zeros(agents),
            observation=jnp.zeros((agents, *stack, *spec.observation_shape), spec.observation_dtype),
            greedy=jnp.zeros(agents, jnp.int32),
        )

    def draw(self, keys: jax.Array, first_step: jax.Array, legal: jax.Array | None) -> tuple[jax.Array, jax.Array]:
        """What exploration does in `DRAWN_STEPS` steps."""

        def at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
            _, words = step_draws(keys, t)
            return jax.vmap(self.agent.explore, in_axes=(0, None, 0))(words, self.population.epsilon(t), legal)

        return jax.vmap(at)(first_step + jnp.arange(DRAWN_STEPS))

    def observe(
        self, online: Any, buffer: ObservationBuffer, packet: jax.Array, noise: Noise | None, legal: jax.Array | None
    ) -> tuple[ObservationBuffer, jax.Array]:
        """What each agent sees now, and what it thinks best."""
        buffer = buffer.pushed(packet, self.spec)
        network_keys = None if noise is None else step_draws(*noise)[0][:, 0]
        return buffer, jax.vmap(self.agent.greedy)(online, buffer.observation, network_keys, legal)

    def remember(self, state: LearnerState, buffer: ObservationBuffer) -> LearnerState:
        """The cycle goes into the replay."""
        steps, over = buffer.steps(), buffer.over()
        tally, earned = state.tally, state.episode_return
        for k in range(self.cycle_steps):
            tally = tallied(tally, over[k], earned + steps.reward[k])
            earned = jnp.where(over[k], 0.0, earned + steps.reward[k])
        return self.population.remember(state._replace(tally=tally, episode_return=earned), steps)

    def learn(self, state: LearnerState, online: Any, target: Any, buffer: ObservationBuffer) -> LearnerState:
        """… and every agent makes an update. `online` and `target` are copies of the parameters, or themselves."""
        return self.population.learn(self.remember(state, buffer), online, target)


def compiler(functions: GroupFunctions, shapes: LearnerState) -> Callable[[], GroupPrograms]:
    """Makes programs for one group after another: what is compiled for one is never another's."""
    agents, compute, low = shapes.agents, functions.agent.compute, functions.low_precision
    online, others = Packing(agents.online), Packing(_without_online(shapes))
    low_online, low_target = (Packing(jax.eval_shape(compute, p)) for p in (agents.online, agents.target.params))

    def pack(state: LearnerState) -> PackedLearner:
        return PackedLearner(online.pack(state.agents.online), others.pack(_without_online(state)), state.replay)

    def unpack(learner: PackedLearner) -> LearnerState:
        state: LearnerState = others.unpack(learner.others)
        return state._replace(
            agents=state.agents._replace(online=online.unpack(learner.online)), replay=learner.replay
        )  # fmt: skip

    def online_copy(state: LearnerState) -> PackedArrays | None:
        return low_online.pack(compute(state.agents.online)) if low else None

    def target_copy(state: LearnerState) -> PackedArrays | None:
        return low_target.pack(compute(state.agents.target.params)) if low else None

    def copies(state: LearnerState) -> tuple[PackedArrays | None, PackedArrays | None]:
        return online_copy(state), target_copy(state)

    def observe(
        params: PackedArrays, buffer: ObservationBuffer, greedy: jax.Array, packet: Any, noise: Any, legal: Any
    ) -> tuple[ObservationBuffer, jax.Array]:
        del greedy  # its memory is used again
        return functions.observe(low_online.unpack(params), buffer, packet, noise, legal)

    def remember(learner: PackedLearner, buffer: ObservationBuffer) -> PackedLearner:
        return pack(functions.remember(unpack(learner), buffer))

    def learn(
        learner: PackedLearner, params: PackedArrays | None, target: PackedArrays | None, buffer: ObservationBuffer
    ) -> tuple[PackedLearner, PackedArrays | None]:
        state = unpack(learner)
        by = state.agents.online if params is None else low_online.unpack(params)
        to = state.agents.target.params if target is None else low_target.unpack(target)
        state = functions.learn(state, by, to, buffer)
        return pack(state), online_copy(state)

    def follow(learner: PackedLearner) -> tuple[PackedLearner, PackedArrays | None]:
        state = functions.population.target_turn(unpack(learner))
        return pack(state), target_copy(state)

    def measure(learner: PackedLearner) -> tuple[PackedLearner, dict[str, jax.Array]]:
        state, row = functions.population.row(unpack(learner))
        return pack(state), row

    # Tracing an update takes seconds: every group's compiler takes up the same trace.
    learn, follow = jax.jit(learn, inline=True), jax.jit(follow, inline=True)
    # These run once in a while, so groups share them.
    shared = {
        "draw": jax.jit(functions.draw),
        "copies": jax.jit(copies),
        "measure": jax.jit(measure, donate_argnums=0),
    }

    def compiled() -> GroupPrograms:
        return GroupPrograms(
            pack=pack,
            unpack=unpack,
            observe=jax.jit(_fresh(observe), donate_argnums=(1, 2), keep_unused=True, **_low_latency()),
            remember=jax.jit(_fresh(remember), donate_argnums=0),
            learn=jax.jit(_fresh(learn), donate_argnums=(0, 1)),
            follow=jax.jit(_fresh(follow), donate_argnums=0),
            **shared,
        )

    return compiled


def _without_online(state: LearnerState) -> LearnerState:
    """… and without the replay, which travels by itself, too."""
    none: Any = None
    return state._replace(agents=state.agents._replace(online=none), replay=none)


def _fresh(function: Callable[..., Any]) -> Callable[..., Any]:
    """A fresh function object, so that each group gets its own jit cache entry."""

    @functools.wraps(function)
    def fresh(*arguments: Any) -> Any:
        return function(*arguments)

    return fresh


def _low_latency() -> dict[str, Any]:
    """All kernels go into one CUDA graph, also where XLA thinks it too small to be worth it (285 not 329 µs a call)."""
    memory = action_memory()
    if memory is None:
        return {}
    outputs = SingleDeviceSharding(jax.devices()[0]), memory
    return {"out_shardings": outputs, "compiler_options": {"xla_gpu_graph_min_graph_size": 1}}


def action_memory() -> SingleDeviceSharding | None:
    """A GPU writes actions to the host's memory: reading them then costs a third (71 of 216 µs). None: no matter where.

    It is the same memory in every step, like all else that a compiled function gets and gives: where any address
    changes, XLA rewrites the CUDA graph.
    """
    gpu = jax.default_backend() == "gpu"
    return SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host") if gpu else None
