"""One agent, assembled from network, head, exploration and target update: `init`, `act`, `learn`, `measure`.

All functions are unbatched in agents (one agent, a batch of observations); a trainer vmaps them over a population. The
agent does not know where its batches come from, nor which target update runs.

A population may hold agents with fewer actions than its networks have outputs for; `legal` says how many of them exist
for this agent, None that all do. The others are never chosen, never bootstrapped from, and never compared.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from lookrep import heads, losses, networks, targets
from lookrep.config import AgentConfig
from lookrep.errors import UserError
from lookrep.replay import Batch


class AgentState(NamedTuple):
    online: Any
    optimizer: Any
    target: targets.TargetState


class Learned(NamedTuple):
    """What a learning step reports."""

    loss: jax.Array
    priority: jax.Array  # [batch]: what prioritised replay should remember


class Agent(NamedTuple):
    init: Callable[[jax.Array], AgentState]
    compute: Callable[[Any], Any]  # parameters → those that matrix products use: the same, or a bfloat16 copy
    act: Callable[..., jax.Array]  # (compute(online), observation, network_key, words, epsilon, legal) → action
    greedy: Callable[..., jax.Array]  # (compute(online), observation, network_key, legal) → action
    explore: Callable[..., tuple[jax.Array, jax.Array]]  # (words, epsilon, legal) → whether to, and which action
    learn: Callable[..., tuple[AgentState, Learned]]  # Lookahead: one update of `online`
    target_update: targets.TargetUpdate  # in population mode
    replicate_inputs: Callable[..., Any]  # (batch, key, legal) → what the target update's distance takes
    measure: Callable[..., dict[str, jax.Array]]  # (state, batch, key, legal)
    head: heads.Head
    online: networks.Network
    target: networks.Network


def build(config: AgentConfig, observation_shape: tuple[int, ...], num_actions: int) -> Agent:
    """The agent that `config` describes, for these observations and actions."""
    head = _head(config)
    online_torso = networks.Torso.parse(config.network.network, observation_shape)
    target_torso = online_torso
    if config.network.target_network != "same":
        target_torso = networks.Torso.parse(config.network.target_network, observation_shape)
    shape = networks.HeadShape(
        num_actions, head.size, config.network.dueling, config.network.noisy, implicit=config.learning.head == "iqn"
    )
    online, target = (networks.build(t, shape, observation_shape) for t in (online_torso, target_torso))
    same_shape = online_torso == target_torso
    if not same_shape and config.target.target != "replicate":
        raise UserError(
            f"target network '{config.network.target_network}' differs from '{config.network.network}': only --target "
            f"replicate can follow across networks, --target {config.target.target} needs the same"
        )
    if not same_shape and config.target.replicate_start == "online":
        raise UserError(
            f"replicate_start = 'online' copies: target network '{config.network.target_network}' cannot copy "
            f"'{config.network.network}', choose replicate_start = 'target'"
        )

    def compute(params: Any) -> Any:
        if config.network.precision == "f32":
            return params
        return jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)

    optimizer = optax.adam(config.learning.learning_rate, eps=config.learning.adam_epsilon)
    target_update = _target_update(config, head, online, target, compute)

    def init(key: jax.Array) -> AgentState:
        online_key, target_key = jax.random.split(key)
        params = online.init(online_key)
        copy = same_shape and config.target.target_init == "copy"
        other = params if copy else target.init(target_key)
        return AgentState(params, optimizer.init(params), target_update.init(params, other))

    def values(outputs: jax.Array, legal: jax.Array | None) -> jax.Array:
        """Action values [batch, actions]; of actions that do not exist, −∞."""
        q = head.values(outputs)
        return q if legal is None else jnp.where(jnp.arange(num_actions) < legal, q, -jnp.inf)

    def greedy(
        online_params: Any, observation: jax.Array, network_key: jax.Array | None, legal: jax.Array | None = None
    ) -> jax.Array:
        out = online.apply(online_params, observation[None], network_key).per_action
        # The barrier keeps the last layer, here a matrix times a vector, out of the softmax's kernel: faster on a GPU.
        return values(lax.optimization_barrier(out), legal)[0].argmax().astype(jnp.int32)

    def explore(words: jax.Array, epsilon: jax.Array, legal: jax.Array | None = None) -> tuple[jax.Array, jax.Array]:
        choices = num_actions if legal is None else legal.astype(jnp.uint32)
        return (words[0] >> 8).astype(jnp.float32) * 2.0**-24 < epsilon, (words[1] % choices).astype(jnp.int32)

    def act(
        online_params: Any, observation: jax.Array, network_key: jax.Array, words: jax.Array, epsilon: jax.Array,
        legal: jax.Array | None = None,
    ) -> jax.Array:  # fmt: skip
        """ε-greedy; `words` are two random uint32."""
        explores, random = explore(words, epsilon, legal)
        return jnp.where(explores, random, greedy(online_params, observation, network_key, legal))

    def bootstrap(
        online_params: Any, target_params: Any, batch: Batch, key: jax.Array, legal: jax.Array | None
    ) -> tuple[jax.Array, jax.Array]:
        """The target network's outputs at s' and the action to bootstrap from."""
        key_target, key_selector = jax.random.split(key)
        out_t = target.apply(target_params, batch.next_observation, key_target).per_action
        selector = out_t
        if config.learning.double:
            selector = online.apply(online_params, batch.next_observation, key_selector).per_action
        return out_t, values(selector, legal).argmax(axis=-1)

    def learn(
        state: AgentState, online_params: Any, target_params: Any, batch: Batch, key: jax.Array,
        legal: jax.Array | None = None,
    ) -> tuple[AgentState, Learned]:  # fmt: skip
        """`online_params` and `target_params` are `compute` of the state's, which callers keep across updates."""
        key_tm1, key_t = jax.random.split(key)
        out_t, a_t = bootstrap(online_params, target_params, batch, key_t, legal)

        def loss(params: Any) -> tuple[jax.Array, jax.Array]:
            out = online.apply(params, batch.observation, key_tm1)
            each = jax.vmap(head.loss)(out.per_action, out.taus, batch.action, batch.reward, batch.discount, out_t, a_t)
            return (batch.weight * each).mean(), each

        (value, each), gradient = jax.value_and_grad(loss, has_aux=True)(online_params)
        gradient = jax.tree.map(lambda g, p: g.astype(p.dtype), gradient, state.online)
        change, optimizer_state = optimizer.update(gradient, state.optimizer, state.online)
        params = optax.apply_updates(state.online, change)
        # Dopamine's priority: the root of the unweighted loss, with no further exponent.
        return state._replace(online=params, optimizer=optimizer_state), Learned(value, jnp.sqrt(each + 1e-10))

    def replicate_inputs(batch: Batch, key: jax.Array, legal: jax.Array | None = None) -> Any:
        inputs = (batch.observation, key, legal)
        return (inputs, batch.action) if config.target.replicate_actions == "one" else inputs

    def measure(
        state: AgentState, batch: Batch, key: jax.Array, legal: jax.Array | None = None
    ) -> dict[str, jax.Array]:
        """Diagnostics on a batch: function gap |q_θ − q_w|, Bellman residual, parameter norms and distance."""
        del key  # without noise and with even fractions, so that the gap is zero when the functions agree
        q_online = head.values(online.apply(state.online, batch.observation, None).per_action)
        q_target = head.values(target.apply(state.target.params, batch.observation, None).per_action)
        out_t = target.apply(state.target.params, batch.next_observation, None).per_action
        v_t = values(out_t, legal).max(axis=-1)
        gap = jnp.abs(q_target - q_online)
        chosen = jnp.take_along_axis(q_online, batch.action[:, None], axis=1)[:, 0]
        distance = (
            optax.tree.norm(jax.tree.map(jnp.subtract, state.online, state.target.params)) if same_shape else None
        )
        return {
            "function_gap": gap.mean() if legal is None else losses.mean_over_legal(gap, legal),
            "bellman_residual": jnp.abs(batch.reward + batch.discount * v_t - chosen).mean(),
            "norm_online": optax.tree.norm(state.online),
            "norm_target": optax.tree.norm(state.target.params),
            "parameter_distance": jnp.float32(jnp.nan) if distance is None else distance,
        }

    return Agent(
        init, compute, act, greedy, explore, learn, target_update, replicate_inputs, measure, head, online, target
    )


def _head(config: AgentConfig) -> heads.Head:
    settings = config.learning
    if settings.head == "dqn":
        return heads.value_head()
    if settings.head == "c51":
        return heads.categorical_head(settings.atoms, settings.v_min, settings.v_max)
    return heads.quantile_head(settings.quantiles)


def _target_update(
    config: AgentConfig,
    head: heads.Head,
    online: networks.Network,
    target: networks.Network,
    compute: Callable[[Any], Any],
) -> targets.TargetUpdate:
    settings = config.target
    if settings.target == "hard":
        return targets.hard(settings.target_period_updates)
    if settings.target == "polyak":
        return targets.polyak(settings.tau, settings.polyak_period_updates)
    if settings.target == "frozen":
        return targets.frozen()
    distance = losses.between(
        head.distance,
        head.values,
        1,
        target_apply=lambda params, inputs: target.apply(compute(params), *inputs[:2]).per_action,
        online_apply=lambda params, inputs: online.apply(compute(params), *inputs[:2]).per_action,
        actions=settings.replicate_actions,
        legal=lambda inputs: inputs[2],
    )
    until_gap = settings.replicate_until_gap
    return targets.replicate(
        settings.target_period_updates,
        None if until_gap is not None else settings.replicate_updates,
        optax.adam(
            settings.replicate_learning_rate or config.learning.learning_rate,
            eps=settings.replicate_adam_epsilon or config.learning.adam_epsilon,
        ),
        distance,
        until_gap=until_gap,
        max_updates=None if until_gap is None else settings.replicate_max_updates,
        reset_optimizer=settings.replicate_reset_optimizer,
        start=settings.replicate_start,
        population=True,
    )
