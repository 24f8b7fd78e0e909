"""What a group of agents whose environments are on the host does on the device.

Looking, remembering, learning, and letting targets follow are pure functions of a group's state; `compiled` makes
programs of them, which take and give it in few pieces. When they run, and what happens on the host meanwhile, is in
`lookrep.training.hosted`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import SingleDeviceSharding

from lookrep import agent as agent_parts
from lookrep.config import RunConfig
from lookrep.hosted.protocol import Spaces
from lookrep.replay import ReplayState, Steps
from lookrep.training.pieces import Packing, Pieces
from lookrep.training.population import Keys, Population, Tally, chance, tallied

CHANCES = 1024  # steps for which exploration is drawn at a time
TAIL = 8  # bytes behind a frame: action, terminated, truncated, nothing, and the reward as a float32

Parcel = Any  # uint8 [n, cells + TAIL], or (observation, outcome, led_to)


class GroupState(NamedTuple):
    """What the device knows of a group: its learners, and what they see."""

    agents: agent_parts.AgentState
    replay: ReplayState
    tally: Tally
    keys: Keys
    legal: jax.Array | None
    agent_steps: jax.Array
    online_updates: jax.Array
    episode_return: jax.Array  # [n]
    # Under way these two are None here: `Group` has them, where every step changes them.
    seen: jax.Array | None  # [n, stack, …] or [n, …]: what each agent sees now
    greedy: jax.Array | None  # int32 [n]: what it thinks best to do about it


class Eyes(NamedTuple):
    """What a step changes on the device: what was seen, and what actions led to, newest last."""

    seen: jax.Array
    recent: jax.Array  # [steps + 1, n, …]: the frames of the last cycle, and the one after
    outcome: jax.Array  # float32 [steps, n, 4]: action, reward, terminated, truncated
    led_to: jax.Array | None  # [steps, n, …]: next observations, never a reset's; None where the replay has no use for


class Packed(NamedTuple):
    """A group's state under way, in few pieces."""

    online: Pieces  # apart, because a look needs nothing else of it
    others: Pieces
    replay: ReplayState


class Copies(NamedTuple):
    """Both networks' parameters in the precision of matrix products. None: their own will do."""

    online: Pieces | None
    target: Pieces | None


class Programs(NamedTuple):
    """The compiled functions of a group."""

    pack: Callable[[GroupState], Packed]
    unpack: Callable[[Packed], GroupState]
    copies: Any  # GroupState → Copies
    look: Any
    remember: Any
    learn: Any
    turn: Any


class OnDevice:
    """The functions of groups of `agents` agents each."""

    def __init__(self, config: RunConfig, spaces: Spaces, agents: int) -> None:
        self._spaces = spaces
        self.population = Population(config, spaces, agents, spaces.frame_stack)
        self.agent = self.population.agent
        self.low = config.settings.network.precision != "f32"  # then products use copies of the parameters

    def new(self, keys: jax.Array, legal: jax.Array | None) -> GroupState:
        """A group at step 0."""
        learners, _ = self.population.new(keys, legal)
        spaces, agents = self._spaces, keys.shape[0]
        stack = (spaces.frame_stack,) if spaces.frame_stack > 1 else ()
        return GroupState(
            **learners._asdict(),
            seen=jnp.zeros((agents, *stack, *spaces.observation_shape), spaces.observation_dtype),
            greedy=jnp.zeros(agents, jnp.int32),
            episode_return=jnp.zeros(agents),
        )

    def compiled(self, shapes: GroupState) -> Callable[[], Programs]:
        """Makes programs for one group after another: what is compiled for one is never another's."""
        agents = shapes.agents
        computed = (jax.eval_shape(self.agent.compute, p) for p in (agents.online, agents.target.params))
        online, target = map(Packing, computed)
        exact, others = Packing(agents.online), Packing(_without(shapes))

        def pack(state: GroupState) -> Packed:
            return Packed(exact.pack(state.agents.online), others.pack(_without(state)), state.replay)

        def unpack(packed: Packed) -> GroupState:
            rest: GroupState = others.unpack(packed.others)
            agents = rest.agents._replace(online=exact.unpack(packed.online))
            return rest._replace(agents=agents, replay=packed.replay)

        def copies(state: GroupState) -> Copies:
            agents, compute = state.agents, self.agent.compute
            return Copies(online.pack(compute(agents.online)), target.pack(compute(agents.target.params)))

        def look(network: Pieces, *arguments: Any) -> tuple[Eyes, jax.Array]:
            return self.look(online.unpack(network), *arguments)

        def remember(packed: Packed, eyes: Eyes) -> Packed:
            return pack(self.remember(unpack(packed), eyes))

        def learn(packed: Packed, low: Pieces | None, following: Pieces | None, eyes: Eyes) -> tuple[Packed, Any]:
            if low is None or following is None:
                return pack(self.learn(unpack(packed), None, None, eyes)[0]), None
            state, new = self.learn(unpack(packed), online.unpack(low), target.unpack(following), eyes)
            return pack(state), online.pack(new)

        def turn(packed: Packed) -> tuple[Packed, Any]:
            state, new = self.turn(unpack(packed))
            return pack(state), None if new is None else target.pack(new)

        # To trace an update takes seconds; every group's compiler takes up the same trace.
        learn, turn = jax.jit(learn, inline=True), jax.jit(turn, inline=True)

        def own() -> Programs:
            return Programs(
                pack,
                unpack,
                jax.jit(copies),
                jax.jit(_another(look), donate_argnums=(1, 2), keep_unused=True, **_for_a_look()),
                jax.jit(_another(remember), donate_argnums=0),
                jax.jit(_another(learn), donate_argnums=(0, 1)),
                jax.jit(_another(turn), donate_argnums=0),
            )

        return own

    def draw_chances(
        self, keys: jax.Array, first_step: jax.Array, legal: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        def at(t: jax.Array) -> tuple[jax.Array, jax.Array]:
            _, words = chance(keys, t)
            return jax.vmap(self.agent.explore, in_axes=(0, None, 0))(words, self.population.epsilon(t), legal)

        return jax.vmap(at)(first_step + jnp.arange(CHANCES))

    def look(
        self,
        online: Any,
        eyes: Eyes,
        before: jax.Array,
        parcel: Parcel,
        noise: tuple[jax.Array, jax.Array] | None,
        legal: Any,
    ) -> tuple[Eyes, jax.Array]:
        """What each agent sees now, and what it thinks best."""
        del before  # what it thought best before: its memory is used again
        observation, outcome, led_to = self._unpacked(parcel)
        ended = outcome[:, 2:].any(axis=-1)
        seen = self._stacked(eyes.seen, ended, observation)
        recent, outcomes = _pushed(eyes.recent, observation), _pushed(eyes.outcome, outcome)
        later = None if eyes.led_to is None else _pushed(eyes.led_to, jnp.asarray(led_to))
        network_keys = None if noise is None else chance(*noise)[0][:, 0]
        greedy = jax.vmap(self.agent.greedy)(online, seen, network_keys, legal)
        return Eyes(seen, recent, outcomes, later), greedy

    def _unpacked(self, parcel: Parcel) -> tuple[jax.Array, jax.Array, jax.Array | None]:
        if isinstance(parcel, tuple):
            return parcel
        tail = parcel[:, -TAIL:]
        flags = tail[:, :3].astype(jnp.float32)
        reward = lax.bitcast_convert_type(tail[:, 4:], jnp.float32)
        outcome = jnp.stack([flags[:, 0], reward, flags[:, 1], flags[:, 2]], axis=1)
        return parcel[:, :-TAIL].reshape(-1, *self._spaces.observation_shape), outcome, None

    def _stacked(self, seen: jax.Array, ended: jax.Array, observation: jax.Array) -> jax.Array:
        """The newest frame behind those before it, or behind zeros where an episode begins."""
        if self._spaces.frame_stack == 1:
            return observation
        before = jnp.where(ended.reshape(-1, *[1] * (seen.ndim - 1)), 0, seen[:, 1:])
        return jnp.concatenate([before, observation[:, None]], axis=1)

    def remember(self, state: GroupState, eyes: Eyes) -> GroupState:
        tally, earned = state.tally, state.episode_return
        action, reward, terminated, truncated = jnp.moveaxis(eyes.outcome, -1, 0)
        terminated, truncated = terminated > 0, truncated > 0
        for k in range(len(reward)):
            done = terminated[k] | truncated[k]
            tally = tallied(tally, done, earned + reward[k])
            earned = jnp.where(done, 0.0, earned + reward[k])
        state = state._replace(tally=tally, episode_return=earned)
        return self.population.remember(
            state, Steps(eyes.recent[:-1], action, reward, terminated, truncated, eyes.led_to)
        )

    def learn(self, state: GroupState, online: Any, target: Any, eyes: Eyes) -> tuple[GroupState, Any]:
        """`online` and `target` are the copies; None: the parameters themselves."""
        agents = state.agents
        exact = online is None
        state = self.remember(state, eyes)
        state = self.population.learn(
            state, agents.online if exact else online, agents.target.params if exact else target
        )
        return state, None if exact else self.agent.compute(state.agents.online)

    def turn(self, state: GroupState) -> tuple[GroupState, Any]:
        state = self.population.target_turn(state)
        return state, self.agent.compute(state.agents.target.params) if self.low else None


def _without(state: GroupState) -> GroupState:
    """All but the online network and the replay."""
    none: Any = None
    return state._replace(agents=state.agents._replace(online=none), replay=none)


def _pushed(recent: jax.Array, newest: jax.Array) -> jax.Array:
    return jnp.concatenate([recent[1:], newest[None].astype(recent.dtype)])


def _another(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which JAX takes for another one: it compiles it anew."""

    @functools.wraps(function)
    def another(*arguments: Any) -> Any:
        return function(*arguments)

    return another


def _for_a_look() -> dict[str, Any]:
    """All kernels go into one CUDA graph, also where XLA thinks it too small to be worth it (285 not 329 µs a look)."""
    memory = memory_of_actions()
    if memory is None:
        return {}
    outputs = SingleDeviceSharding(jax.devices()[0]), memory
    return {"out_shardings": outputs, "compiler_options": {"xla_gpu_graph_min_graph_size": 1}}


def memory_of_actions() -> SingleDeviceSharding | None:
    """A GPU writes actions to the host's memory: reading them then costs a third (71 of 216 µs). None: no matter where.

    It is the same memory in every step, like all else that a compiled function gets and gives: where any address
    changes, XLA rewrites the CUDA graph.
    """
    gpu = jax.default_backend() == "gpu"
    return SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host") if gpu else None
