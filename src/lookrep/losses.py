"""Losses of value-based agents on one transition.

They are small, pure and **unbatched**: one transition in, one number out; the caller vmaps. `_tm1` is the state the
action was taken in, `_t` the one it led to. Distances between two networks are in `lookrep.distances`.
"""

import jax
import jax.numpy as jnp
from jax import lax


def td_error(q_tm1: jax.Array, a_tm1: jax.Array, r_t: jax.Array, discount_t: jax.Array, v_t: jax.Array) -> jax.Array:
    """r + γ v(s') − q(s, a), with no gradient through the bootstrap.

    >>> round(float(td_error(jnp.array([1.0, 2.0]), 1, 0.5, 0.9, jnp.array(3.0))), 5)
    1.2
    """
    return r_t + discount_t * lax.stop_gradient(v_t) - q_tm1[a_tm1]


def huber(error: jax.Array, delta: float = 1.0) -> jax.Array:
    """½e² within `delta`, linear beyond (so that its slope is at most `delta`).

    >>> float(huber(jnp.array(0.5))), float(huber(jnp.array(-3.0)))
    (0.125, 2.5)
    """
    size = jnp.abs(error)
    inside = jnp.minimum(size, delta)
    return 0.5 * inside**2 + delta * (size - inside)


def project(atoms_from: jax.Array, probabilities: jax.Array, atoms_to: jax.Array) -> jax.Array:
    """Move a distribution from one support to another, evenly spaced one, keeping its mean where they overlap (C51).

    References: Bellemare et al. 2017, eq. 7.

    >>> project(jnp.array([0.25, 5.0]), jnp.array([0.5, 0.5]), jnp.array([0.0, 1.0, 2.0])).tolist()
    [0.375, 0.125, 0.5]
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
    """Cross-entropy between the projected bootstrap distribution of (s', a_t) and the one predicted for (s, a).

    >>> logits, atoms = jnp.zeros((2, 3)), jnp.array([-1.0, 0.0, 1.0])
    >>> round(float(categorical_td(logits, 0, 0.0, 1.0, logits, 1, atoms)), 4)  # log 3
    1.0986
    """
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

    >>> float(quantile_td(jnp.zeros((1, 1)), jnp.array([0.25]), 0, 0.0, 1.0, jnp.array([[1.0, -1.0]]), 0))
    0.25
    """
    target = lax.stop_gradient(r_t + discount_t * quantiles_t[a_t])
    error = target[None, :] - quantiles_tm1[a_tm1][:, None]
    weight = jnp.abs(taus_tm1[:, None] - (lax.stop_gradient(error) < 0.0))
    return (weight * huber(error, delta) / delta).mean(axis=1).sum()
