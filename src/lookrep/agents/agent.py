"""One agent, put together from network, head, exploration, optimiser and target rule: act, learn, follow, measure.

All methods are unbatched in agents (one agent, a batch of observations); a trainer vmaps them over a population. The
agent does not know where its batches come from.

A population may hold agents with fewer actions than its networks have outputs for; `legal` says how many of them exist
for this agent, None that all do. The others are never chosen, never bootstrapped from, and never compared.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lookrep import distances, networks, targets
from lookrep.agents import rules
from lookrep.agents.measures import agreement
from lookrep.agents.numbers import Numbers, numbers_of
from lookrep.agents.parts import Parts, complete, head_of, mix_of, networks_of, optimizer_of, regulariser_of
from lookrep.config import AgentConfig
from lookrep.methods import optimisers
from lookrep.methods.regularisers import Pair
from lookrep.replay import Batch


class Memory(NamedTuple):
    """What some methods remember from one update to the next."""

    before: Any = None  # the online network one update ago
    target_updates: jax.Array | None = None  # how often the target had changed


class AgentState(NamedTuple):
    online: Any
    optimizer: Any
    target: targets.TargetState
    memory: Memory = Memory()


class Learned(NamedTuple):
    """What a learning step reports."""

    loss: jax.Array  # without a regulariser's term
    priority: jax.Array  # [batch]: what prioritised replay should remember


class Agent:
    """The agent that `settings` and `parts` describe, for these observations and actions."""

    def __init__(
        self, settings: AgentConfig, observation_shape: tuple[int, ...], num_actions: int, parts: Parts | None = None
    ) -> None:
        parts = complete(settings, parts or Parts())
        method = settings.method
        self.settings, self.num_actions = settings, num_actions
        self.observation_shape = observation_shape
        self.head = head_of(settings, parts.head)
        self.online, self.target, self.one_architecture = networks_of(
            settings, parts, observation_shape, num_actions, self.head
        )
        # Whether the target's parameters can be compared with the online network's, leaf by leaf.
        self.same_shape = self.one_architecture and (method.averaged_networks == 1 or settings.target.target != "hard")
        self.optimizer = optimizer_of(parts.optimizer, "learning_rate", "adam_epsilon")
        self.target_optimizer = optimizer_of(
            parts.replicate_optimizer, "replicate_learning_rate", "replicate_adam_epsilon"
        )
        self.distance = rules.distance(self)
        self.rule = rules.rule(self, parts.target)
        self._numbers = numbers_of(settings)
        self.schedule = targets.as_schedule(self.rule(self._numbers).every_updates)
        self._mix = mix_of(settings, parts.bootstrap)
        self._regulariser = regulariser_of(settings, parts.regulariser)
        self.wants_reference = method.regulariser == "churn"  # `learn` needs a second batch
        self._check()

    def _check(self) -> None:
        method = self.settings.method
        params = jax.eval_shape(self.online.init, jax.random.key(0))
        if method.shared_trunk:
            networks.check_last(params)
        if method.optimizer_at_turn == "relative":
            optimisers.check_clock(jax.eval_shape(self.optimizer(self._numbers).init, params))

    def init(self, key: jax.Array) -> AgentState:
        method = self.settings.method
        online_key, target_key = jax.random.split(key)
        params = self.online.init(online_key)
        copy = self.one_architecture and self.settings.target.target_init == "copy"
        other = None if copy else self.target.init(target_key)
        optimizer = self.optimizer(self._numbers).init(params)
        memory = Memory(
            before=jax.tree.map(jnp.array, params) if self.wants_reference else None,
            target_updates=None if method.optimizer_at_turn == "keep" else jnp.int32(0),
        )
        target = rules.checked("init", self.rule(self._numbers).init(params, other))
        return AgentState(params, optimizer, target, memory)

    def compute(self, params: Any) -> Any:
        """The parameters that matrix products use: themselves, or a bfloat16 copy."""
        if self.settings.network.precision == "f32":
            return params
        return jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)

    def target_params(self, online: Any, target: Any) -> Any:
        """The target's parameters as they are used: with a shared trunk, all but the last layer is the online one's."""
        return networks.with_trunk(online, target) if self.settings.method.shared_trunk else target

    # Acting

    def values(self, outputs: jax.Array, legal: jax.Array | None) -> jax.Array:
        """Action values [batch, actions]; of actions that do not exist, −∞."""
        q = self.head.values(outputs)
        return q if legal is None else jnp.where(jnp.arange(self.num_actions) < legal, q, -jnp.inf)

    def greedy(
        self, online_params: Any, observation: jax.Array, network_key: jax.Array | None, legal: jax.Array | None = None
    ) -> jax.Array:
        out = self.online.apply(online_params, observation[None], network_key).per_action
        # The barrier keeps the last layer, here a matrix times a vector, out of the softmax's kernel: faster on a GPU.
        return self.values(lax.optimization_barrier(out), legal)[0].argmax().astype(jnp.int32)

    def explore(
        self, words: jax.Array, epsilon: jax.Array, legal: jax.Array | None = None
    ) -> tuple[jax.Array, jax.Array]:
        """Whether to, and which action; `words` are two random uint32."""
        choices = self.num_actions if legal is None else legal.astype(jnp.uint32)
        return (words[0] >> 8).astype(jnp.float32) * 2.0**-24 < epsilon, (words[1] % choices).astype(jnp.int32)

    def act(
        self, online_params: Any, observation: jax.Array, network_key: jax.Array | None, words: jax.Array, epsilon: Any,
        legal: jax.Array | None = None,
    ) -> jax.Array:  # fmt: skip
        """ε-greedy."""
        explores, random = self.explore(words, epsilon, legal)
        return jnp.where(explores, random, self.greedy(online_params, observation, network_key, legal))

    # Learning

    def learn(
        self, state: AgentState, online_params: Any, target_params: Any, batch: Batch, key: jax.Array,
        legal: jax.Array | None = None, numbers: Numbers | None = None, reference: Batch | None = None,
    ) -> tuple[AgentState, Learned]:  # fmt: skip
        """Lookahead: one update of the online network. `online_params` and `target_params` are `compute` of the
        state's, which callers keep across updates; `reference` is a second batch, for agents that want one."""
        numbers = self._numbers if numbers is None else numbers
        key_tm1, key_t = jax.random.split(key)
        target_params = self.target_params(online_params, target_params)
        out_t, a_t = self._bootstrap(online_params, target_params, batch, key_t, legal)
        states = batch if reference is None else reference
        other = self._held_to(state, target_params, states, key_tm1)

        def loss(params: Any) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            out = self.online.apply(params, batch.observation, key_tm1)
            each = jax.vmap(self.head.loss)(
                out.per_action, out.taus, batch.action, batch.reward, batch.discount, out_t, a_t
            )
            learned = (batch.weight * each).mean()
            if self._regulariser is None:
                return learned, (learned, each)
            here = out if reference is None else self.online.apply(params, reference.observation, key_tm1)
            term = self._regulariser(self.head, Pair(here.per_action, other, states.action, legal))
            return learned + numbers.kappa * (states.weight * term).mean(), (learned, each)

        (_, (value, each)), gradient = jax.value_and_grad(loss, has_aux=True)(online_params)
        gradient = jax.tree.map(lambda g, p: g.astype(p.dtype), gradient, state.online)
        params, optimizer_state = self._step(state, gradient, numbers)
        learnt = state._replace(online=params, optimizer=optimizer_state, memory=self._remembered(state))
        # Dopamine's priority: the root of the unweighted loss, with no further exponent.
        return learnt, Learned(value, jnp.sqrt(each + 1e-10))

    def _bootstrap(
        self, online_params: Any, target_params: Any, batch: Batch, key: jax.Array, legal: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """What is learned from: outputs at s' and the action to bootstrap from."""
        key_target, key_selector = jax.random.split(key)
        out_t = self._next_outputs(online_params, target_params, batch.next_observation, key_target)
        selector = out_t
        if self.settings.learning.double:
            selector = self.online.apply(online_params, batch.next_observation, key_selector).per_action
        return out_t, self.values(selector, legal).argmax(axis=-1)

    def _next_outputs(
        self, online_params: Any, target_params: Any, observation: jax.Array, key: jax.Array | None
    ) -> jax.Array:
        """The outputs that are bootstrapped from: the target's, the online network's, or what is mixed of both."""
        reads = self.settings.method.bootstrap
        if reads == "online":
            return self.online.apply(online_params, observation, key).per_action
        out = self.target.apply(target_params, observation, key).per_action
        if reads == "target":
            return out
        return self._mix(self.head.values, out, self.online.apply(online_params, observation, key).per_action)

    def _held_to(self, state: AgentState, target_params: Any, batch: Batch, key: jax.Array) -> Any:
        """What the network says that the regulariser holds the online one to; None if there is no such term."""
        if self._regulariser is None:
            return None
        if self.wants_reference:
            return self.online.apply(self.compute(state.memory.before), batch.observation, key).per_action
        return self.target.apply(target_params, batch.observation, key).per_action

    def _step(self, state: AgentState, gradient: Any, numbers: Numbers) -> tuple[Any, Any]:
        """The online network and its optimiser after one step."""
        method, optimizer, before = self.settings.method, self.optimizer(numbers), state.optimizer
        if state.memory.target_updates is not None:
            turned = state.target.updates != state.memory.target_updates
            before = optimisers.after_turn(method.optimizer_at_turn, optimizer, before, state.online, turned)
        change, after = optimizer.update(gradient, before, state.online)
        params = optax.apply_updates(state.online, change)
        if method.regulariser == "parameters":
            share = numbers.learning_rate * numbers.kappa
            target = self.target_params(state.online, state.target.params)
            params = optimisers.drawn(params, state.online, target, share)
        return params, after

    def _remembered(self, state: AgentState) -> Memory:
        return Memory(
            before=state.online if self.wants_reference else None,
            target_updates=None if state.memory.target_updates is None else state.target.updates,
        )

    def renewed(
        self, key: jax.Array, target_params: Any, batches: Callable[[Any], Any], numbers: Numbers
    ) -> tuple[Any, Any]:
        """A new online network that has learned the target's function from `batches` of `Inputs` (in no steps, if so
        asked), and its optimiser."""
        params = self.online.init(key)
        if self.settings.method.reset_updates:
            rule = rules.towards_target(self, numbers)
            params = rule.turn(rule.init(target_params, params), target_params, batches).params
        return params, self.optimizer(numbers).init(params)

    # The target's turn

    def turn_inputs(self, batch: Batch, key: jax.Array, legal: jax.Array | None = None) -> Any:
        """A batch as `distance` takes it; with its transitions where the target learns from them."""
        inputs = rules.Inputs(batch.observation, key, legal)
        if self.settings.method.symmetric:
            return inputs, batch
        return (inputs, batch.action) if self.settings.target.replicate_actions == "one" else inputs

    def turn(
        self, target: targets.TargetState, online: Any, batches: Callable[[Any], Any], numbers: Numbers | None = None
    ) -> targets.TargetState:
        """The target follows: a copy, or K_R gradient steps on `batches(0)`, `batches(1)` …"""
        return rules.checked("turn", self.rule(numbers or self._numbers).turn(target, online, batches), target)

    # Diagnostics

    def measure(self, state: AgentState, batch: Batch, legal: jax.Array | None = None) -> dict[str, jax.Array]:
        """How far the networks are apart as functions and as parameters, and how far the online one is from its
        bootstrap. Without noise and with even fractions, so that there is no gap where the functions agree."""
        target = self.target_params(state.online, state.target.params)
        q_online = self.head.values(self.online.apply(state.online, batch.observation, None).per_action)
        q_target = self.head.values(self.target.apply(target, batch.observation, None).per_action)
        out_t = self._next_outputs(state.online, target, batch.next_observation, None)
        v_t = self.values(out_t, legal).max(axis=-1)
        gap = jnp.abs(q_target - q_online)
        chosen = jnp.take_along_axis(q_online, batch.action[:, None], axis=1)[:, 0]
        apart = jax.tree.map(jnp.subtract, state.online, target) if self.same_shape else None
        stacked = self.settings.method.averaged_networks if self.settings.target.target == "hard" else 1
        return {
            "function_gap": gap.mean() if legal is None else distances.mean_over_legal(gap, legal),
            "bellman_residual": jnp.abs(batch.reward + batch.discount * v_t - chosen).mean(),
            "norm_online": optax.tree.norm(state.online),
            "norm_target": optax.tree.norm(target) / stacked**0.5,
            "parameter_distance": jnp.float32(jnp.nan) if apart is None else optax.tree.norm(apart),
            **agreement(q_online, q_target, legal),
        }
