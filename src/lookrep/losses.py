"""Losses of value-based agents, and the function-space distance that goes with each.

Losses are small, pure and **unbatched**: one transition in, one number out; the caller vmaps. `_tm1` is the state the
action was taken in, `_t` the one it led to. Distances come in two layers: between the outputs of two networks for one
action, and (`Distance`) between two networks on a batch, which is what `lookrep.targets.replicate` descends.
No networks, no parameters updated here.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lookrep.errors import UserError

Apply = Callable[[Any, Any], jax.Array]
Actions = Literal["all", "all-summed", "one"]


# Losses on one transition


def td_error(q_tm1: jax.Array, a_tm1: jax.Array, r_t: jax.Array, discount_t: jax.Array, v_t: jax.Array) -> jax.Array:
    """r + γ v(s') − q(s, a), with no gradient through the bootstrap.

    >>> round(float(td_error(jnp.array([1.0, 2.0]), 1, 0.5, 0.9, jnp.array(3.0))), 5)
    1.2
    """
    return r_t + discount_t * lax.stop_gradient(v_t) - q_tm1[a_tm1]


def huber(error: jax.Array, delta: float = 1.0) -> jax.Array:
    """½e² within `delta`, linear beyond (so that its slope is at most `delta`)."""
    size = jnp.abs(error)
    inside = jnp.minimum(size, delta)
    return 0.5 * inside**2 + delta * (size - inside)


def project(atoms_from: jax.Array, probabilities: jax.Array, atoms_to: jax.Array) -> jax.Array:
    """Move a distribution from one support to another, evenly spaced one, keeping its mean where they overlap (C51).

    References: Bellemare et al. 2017, eq. 7.
    """
    last = atoms_to.shape[0] - 1
    place = jnp.clip((atoms_from - atoms_to[0]) / (atoms_to[-1] - atoms_to[0]) * last, 0, last)
    # The barrier and the written-out sum keep this one elementwise kernel on a GPU: a reduction over pairs of atoms
    # takes 2.5 times as long, and without the barrier the softmax before it is computed anew for each pair (65 times).
    place, probabilities = lax.optimization_barrier((place, probabilities))
    to = jnp.arange(last + 1, dtype=place.dtype)
    moved = sum(probabilities[i] * jnp.maximum(1.0 - jnp.abs(place[i] - to), 0.0) for i in range(atoms_from.shape[0]))
    # Without the second one XLA tries so many ways to fuse this sum with the softmax it is compared with that compiling
    # takes 192 seconds of a core instead of 6 (JAX 0.11.2, Rainbow on Atari, for an H200).
    return lax.optimization_barrier(jnp.asarray(moved))


def categorical_td(
    logits_tm1: jax.Array,
    a_tm1: jax.Array,
    r_t: jax.Array,
    discount_t: jax.Array,
    logits_t: jax.Array,
    a_t: jax.Array,
    atoms: jax.Array,
) -> jax.Array:
    """Cross-entropy between the projected bootstrap distribution of (s', a_t) and the one predicted for (s, a)."""
    bootstrap = jax.nn.softmax(logits_t[a_t])
    target = lax.stop_gradient(project(r_t + discount_t * atoms, bootstrap, atoms))
    return -(target * jax.nn.log_softmax(logits_tm1[a_tm1])).sum()


def quantile_td(
    quantiles_tm1: jax.Array,
    taus_tm1: jax.Array,
    a_tm1: jax.Array,
    r_t: jax.Array,
    discount_t: jax.Array,
    quantiles_t: jax.Array,
    a_t: jax.Array,
    delta: float = 1.0,
) -> jax.Array:
    """Quantile Huber loss of every predicted quantile against every bootstrapped one (QR-DQN, IQN).

    `quantiles_*` are `[actions, K]`, `taus_tm1` the K fractions that the predictions stand for.

    References: Dabney et al. 2018a, eq. 10; 2018b, eq. 3 (mean over targets, sum over predictions).
    """
    target = lax.stop_gradient(r_t + discount_t * quantiles_t[a_t])
    error = target[None, :] - quantiles_tm1[a_tm1][:, None]
    weight = jnp.abs(taus_tm1[:, None] - (lax.stop_gradient(error) < 0.0))
    return (weight * huber(error, delta) / delta).mean(axis=1).sum()


# Distance between two networks' outputs for one action: (target, online) → number


def squared_error(target: jax.Array, online: jax.Array) -> jax.Array:
    """(q_θ − q_w)², the paper's G for one state."""
    return jnp.mean((target - lax.stop_gradient(online)) ** 2)


def cross_entropy(target: jax.Array, online: jax.Array) -> jax.Array:
    """−Σ p_i(w) log p_i(θ) from two vectors of logits."""
    return -(jax.nn.softmax(lax.stop_gradient(online)) * jax.nn.log_softmax(target)).sum()


def quantile_error(target: jax.Array, online: jax.Array) -> jax.Array:
    """Mean squared difference of quantiles at the same fractions: the squared 2-Wasserstein distance."""
    return squared_error(target, online)


# Distance between two networks on a batch


class Distance(NamedTuple):
    """Functions of (target_params, online_params, batch): what Replicate descends, and how far apart they are."""

    loss: Callable[[Any, Any, Any], jax.Array]
    gap: Callable[[Any, Any, Any], jax.Array]  # mean |q_θ − q_w|, in units of value


def mean_over_legal(per_action: jax.Array, legal: jax.Array) -> jax.Array:
    """Mean of [batch, actions] over the first `legal` actions.

    >>> float(mean_over_legal(jnp.array([[1.0, 3.0, 100.0]]), jnp.int32(2)))
    2.0
    """
    exists = jnp.arange(per_action.shape[1]) < legal
    return jnp.where(exists, per_action, 0.0).sum() / (legal * per_action.shape[0])


def between(
    per_action: Callable[[jax.Array, jax.Array], jax.Array],
    values: Callable[[jax.Array], jax.Array],
    outputs_rank: int,
    target_apply: Apply,
    online_apply: Apply | None = None,
    actions: Actions = "all",
    legal: Callable[[Any], jax.Array | None] = lambda inputs: None,
) -> Distance:
    """Distance between two networks whose outputs for one action have `outputs_rank` axes.

    `apply(params, inputs)` gives `[batch, actions, …]`. With `actions="all"` a batch is the inputs, and the distance is
    the mean over batch and actions; with `"all-summed"` it is that times the number of actions, a sum over them, whose
    longer gradient matters to optimisers that mind (Adam does, where ε is large). With `"one"` a batch is
    `(inputs, actions taken)` and only those actions count.
    `values` maps outputs to action values, for the gap. `legal(inputs)` may say how many of the actions exist; the mean
    is over the first so many.
    """
    if actions not in ("all", "all-summed", "one"):
        raise UserError(f"actions = '{actions}': must be 'all', 'all-summed' or 'one'")
    apply_online = target_apply if online_apply is None else online_apply

    def outputs(target_params: Any, online_params: Any, batch: Any) -> tuple[jax.Array, jax.Array]:
        inputs = batch[0] if actions == "one" else batch
        target = target_apply(target_params, inputs)
        online = lax.stop_gradient(apply_online(online_params, inputs))
        if actions == "one":
            taken = jnp.asarray(batch[1])
            target, online = (jax.vmap(lambda out, a: out[a])(outs, taken) for outs in (target, online))
        return target, online

    def mean(distances: jax.Array, batch: Any) -> jax.Array:
        exist = None if actions == "one" else legal(batch)
        return distances.mean() if exist is None else mean_over_legal(distances, exist)

    def loss(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        target, online = outputs(target_params, online_params, batch)
        function = per_action
        for _ in range(target.ndim - outputs_rank):
            function = jax.vmap(function)
        distances = function(target, online)
        found = mean(distances, batch)
        if actions != "all-summed" or distances.ndim == 1:  # V(s) has no actions
            return found
        exist = legal(batch)
        return found * (distances.shape[1] if exist is None else exist)

    def gap(target_params: Any, online_params: Any, batch: Any) -> jax.Array:
        target, online = outputs(target_params, online_params, batch)
        return mean(jnp.abs(values(target) - values(online)), batch)

    return Distance(loss, gap)


def squared_distance(target_apply: Apply, online_apply: Apply | None = None, actions: Actions = "all") -> Distance:
    """For networks that give one value per action (or one value: V(s)).

    >>> distance = squared_distance(lambda w, x: x @ w)
    >>> x, w, theta = jnp.eye(2), jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.zeros((2, 2))
    >>> float(distance.loss(theta, w, x)), float(distance.gap(theta, w, x))
    (7.5, 2.5)
    """
    return between(squared_error, lambda q: q, 0, target_apply, online_apply, actions)


def categorical_distance(
    atoms: jax.Array, target_apply: Apply, online_apply: Apply | None = None, actions: Actions = "all"
) -> Distance:
    """For networks that give logits over `atoms` for each action (C51, Rainbow): the paper's choice on Atari."""
    return between(cross_entropy, lambda logits: jax.nn.softmax(logits) @ atoms, 1, target_apply, online_apply, actions)


def quantile_distance(target_apply: Apply, online_apply: Apply | None = None, actions: Actions = "all") -> Distance:
    """For networks that give quantiles for each action (QR-DQN, IQN with the same fractions on both sides)."""
    return between(quantile_error, lambda z: z.mean(axis=-1), 1, target_apply, online_apply, actions)
