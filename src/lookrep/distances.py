"""How far two networks are apart, as functions: what Replicate descends, and what is logged of it.

*Point distances* compare the outputs of two networks for one action. `build` makes of one a `Distance` between two
networks on a batch; everything goes through it. `squared`, `categorical` and `quantile` are it for the usual networks.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jax import lax

from lookrep.errors import UserError

Apply = Callable[[Any, Any], jax.Array]  # (params, inputs) → [batch, actions, K]
Point = Callable[[jax.Array, jax.Array], jax.Array]  # (target [K], online [K]) → number
Actions = Literal["all", "all-summed", "one"]


class Distance(NamedTuple):
    """Functions of (target_params, online_params, batch), from `lookrep.distances` or made by hand.

    >>> def largest(theta, w, x):
    ...     return jnp.abs(x @ theta - x @ w).max()
    >>> distance = squared(lambda w, x: x @ w)._replace(gap=largest)
    >>> float(distance.gap(jnp.zeros(2), jnp.ones(2), 3.0 * jnp.eye(2)))
    3.0
    """

    loss: Callable[[Any, Any, Any], jax.Array]  # what a step of Replicate descends
    gap: Callable[[Any, Any, Any], jax.Array]  # mean |q_θ − q_w|, in units of value
    two_networks: bool = False  # target and online differ in architecture, so that neither can start as a copy


# Point distances


def squared_error(target: jax.Array, online: jax.Array) -> jax.Array:
    """Mean of (θ − w)²: of one value, the paper's G for one state; of quantiles at the same fractions, the squared
    2-Wasserstein distance.

    >>> float(squared_error(jnp.array([1.0, 2.0]), jnp.array([2.0, 4.0])))
    2.5
    """
    return jnp.mean((target - lax.stop_gradient(online)) ** 2)


def cross_entropy(target: jax.Array, online: jax.Array) -> jax.Array:
    """−Σ p_i(w) log p_i(θ) from two vectors of logits: the paper's choice on Atari.

    >>> round(float(cross_entropy(jnp.zeros(4), jnp.zeros(4))), 4)  # log 4
    1.3863
    """
    return -(jax.nn.softmax(lax.stop_gradient(online)) * jax.nn.log_softmax(target)).sum()


def half_squared_error(online: jax.Array, target: jax.Array) -> jax.Array:
    """½ of the mean of (w − θ)², differentiated in w: as long a step as the squared TD error's.

    >>> float(half_squared_error(jnp.array([1.0, 2.0]), jnp.array([2.0, 4.0])))
    1.25
    """
    return squared_error(online, target) / 2


def divergence(online: jax.Array, target: jax.Array) -> jax.Array:
    """KL(p_w ‖ p_θ) of two vectors of logits, differentiated in w.

    >>> float(divergence(jnp.zeros(2), jnp.zeros(2)))
    0.0
    >>> round(float(divergence(jnp.log(jnp.array([0.9, 0.1])), jnp.zeros(2))), 4)  # log 2 less the entropy, 0.3251
    0.3681
    """
    of_target = jax.nn.log_softmax(lax.stop_gradient(target))
    of_online = jax.nn.log_softmax(online)
    return (jnp.exp(of_online) * (of_online - of_target)).sum()


# Distances between two networks on a batch


def squared(apply: Apply, online_apply: Apply | None = None, actions: Actions = "all") -> Distance:
    """For networks that give one value per action, [batch, actions], or one value V(s), [batch].

    >>> distance = squared(lambda w, x: x @ w)
    >>> x, w, theta = jnp.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.zeros((2, 2))
    >>> float(distance.loss(theta, w, x)), float(distance.gap(theta, w, x))
    (7.5, 2.5)
    """

    def single(function: Apply) -> Apply:
        _function(function)
        return lambda params, inputs: function(params, inputs)[..., None]

    online = None if online_apply is None else single(online_apply)
    return build(squared_error, lambda value: value[..., 0], single(apply), online, actions=actions)


def categorical(
    atoms: jax.Array, apply: Apply, online_apply: Apply | None = None, actions: Actions = "all"
) -> Distance:
    """For networks that give logits over `atoms` for each action (C51, Rainbow).

    >>> distance = categorical(jnp.array([0.0, 1.0]), lambda logits, x: logits)
    >>> round(float(distance.gap(jnp.array([[[0.0, 0.0]]]), jnp.array([[[0.0, 9.0]]]), None)), 3)
    0.5
    """
    if jnp.ndim(atoms) != 1:
        raise UserError(f"atoms = {atoms!r:.60}: must be the returns of all logits, as jnp.linspace(-10, 10, 51)")
    return build(cross_entropy, lambda logits: jax.nn.softmax(logits) @ atoms, apply, online_apply, actions=actions)


def quantile(apply: Apply, online_apply: Apply | None = None, actions: Actions = "all") -> Distance:
    """For networks that give quantiles for each action (QR-DQN, IQN with the same fractions on both sides).

    >>> distance = quantile(lambda quantiles, x: quantiles)
    >>> float(distance.loss(jnp.array([[[0.0, 1.0]]]), jnp.array([[[2.0, 3.0]]]), None))
    4.0
    """
    return build(squared_error, lambda quantiles: quantiles.mean(axis=-1), apply, online_apply, actions=actions)


def build(
    point: Point,
    values: Callable[[jax.Array], jax.Array],
    apply: Apply,
    online_apply: Apply | None = None,
    *,
    actions: Actions = "all",
    legal: Callable[[Any], jax.Array | None] | None = None,
) -> Distance:
    """A distance between two networks on a batch, from one between their outputs for one action.

    Args:
      point: (target [K], online [K]) → number.
      values: outputs [..., K] → action values [...], for the gap.
      apply: the target network's, (params, inputs) → [batch, actions, K], or [batch, K] without actions.
      online_apply: the online network's where it is another one.
      actions: `"all"`: a batch is the inputs, and the distance is the mean over batch and actions. `"all-summed"`: it
        is that times the number of actions, a sum over them; its longer gradient matters to optimisers that mind
        (Adam does, where ε is large). `"one"`: a batch is a pair `(inputs, actions taken [batch])`, and only those
        actions count.
      legal: inputs → how many of the actions exist, None for all; the mean is over the first so many.

    >>> distance = build(squared_error, lambda z: z.mean(-1), lambda z, x: z, actions="all-summed")  # [batch, 3, 2]
    >>> float(distance.loss(jnp.ones((1, 3, 2)), jnp.zeros((1, 3, 2)), None))
    3.0
    """
    if actions not in get_args(Actions):
        raise UserError(f"actions = {actions!r}: must be 'all', 'all-summed' or 'one'")
    apply = _function(apply)
    apply_online = apply if online_apply is None else _function(online_apply)

    def outputs(target_params: Any, online_params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
        inputs, taken = _pair(batch) if actions == "one" else (batch, None)
        target = apply(target_params, inputs)
        online = lax.stop_gradient(apply_online(online_params, inputs))
        if target.shape != online.shape:
            raise UserError(f"the target network gives {target.shape}, the online network {online.shape}: must agree")
        if taken is not None:
            target, online = (jax.vmap(lambda out, a: out[a])(outs, taken) for outs in (target, online))
        return target, online

    def existing(batch: Any) -> jax.Array | None:
        return None if legal is None or actions == "one" else legal(batch)

    def mean(distances: jax.Array, exist: jax.Array | None) -> jax.Array:
        return distances.mean() if exist is None else mean_over_legal(distances, exist)

    def loss(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        target, online = outputs(target_params, online_params, batch)
        function = point
        for _ in range(target.ndim - 1):
            function = jax.vmap(function)
        distances, exist = function(target, online), existing(batch)
        found = mean(distances, exist)
        if actions != "all-summed" or distances.ndim == 1:  # V(s) has no actions
            return found
        return found * (distances.shape[1] if exist is None else exist)

    def gap(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        target, online = outputs(target_params, online_params, batch)
        return mean(jnp.abs(values(target) - values(online)), existing(batch))

    return Distance(loss, gap, two_networks=online_apply is not None)


def mean_over_legal(per_action: jax.Array, legal: jax.Array) -> jax.Array:
    """Mean of [batch, actions] over the first `legal` actions.

    >>> float(mean_over_legal(jnp.array([[1.0, 3.0, 100.0]]), jnp.int32(2)))
    2.0
    """
    exists = jnp.arange(per_action.shape[1]) < legal
    return jnp.where(exists, per_action, 0.0).sum() / (legal * per_action.shape[0])


def _function(apply: Any) -> Apply:
    if not callable(apply):
        raise UserError(f"a distance needs functions apply(params, inputs), not {apply!r:.60}")
    return apply


def _pair(batch: Any) -> tuple[Any, jax.Array]:
    """The inputs and the actions of a batch for `actions="one"`."""
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        actions = jnp.asarray(batch[1])
        if actions.ndim == 1 and jnp.issubdtype(actions.dtype, jnp.integer):
            return batch[0], actions
    raise UserError("actions = 'one': a batch must be a pair (inputs, actions taken), with one whole number per input")
