"""What a network's K numbers per action mean: how to act on them, learn from them, and compare two networks by them.

One head each for expected values (DQN), categorical distributions (C51, Rainbow), and quantiles (QR-DQN, IQN); one's
own is one more `Head`. All functions are unbatched; the losses themselves are in `lookrep.losses`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from lookrep import distances, losses


class Head(NamedTuple):
    """Functions on one action's K numbers, or on one transition."""

    size: int
    values: Callable[[jax.Array], jax.Array]  # [..., K] → expected return [...]
    loss: Callable[..., jax.Array]  # (out_tm1 [A,K], taus_tm1 [K], a_tm1, r_t, discount_t, out_t [A,K], a_t) → number
    distance: Callable[[jax.Array, jax.Array], jax.Array]  # (target [K], online [K]) → number, for Replicate
    # [..., K] → possible returns [..., K] and their weights [..., K]; None: K says nothing but the expected return
    distribution: Callable[[jax.Array], tuple[jax.Array, jax.Array]] | None = None
    # (online [K], target [K]) → number, differentiated in the online network's; None: `distance`, with roles exchanged
    proximal: Callable[[jax.Array, jax.Array], jax.Array] | None = None
    # [networks, …, K] → [..., K]: what several networks say on average
    mixture: Callable[[jax.Array], jax.Array] = lambda outs: outs.mean(axis=0)


def value_head() -> Head:
    """One expected value per action; Huber loss as in DQN."""

    def loss(
        out_tm1: jax.Array, taus_tm1: jax.Array, a_tm1: jax.Array, r_t: jax.Array, discount_t: jax.Array,
        out_t: jax.Array, a_t: jax.Array,
    ) -> jax.Array:  # fmt: skip
        del taus_tm1
        error = losses.td_error(out_tm1[:, 0], a_tm1, r_t, discount_t, out_t[a_t, 0])
        return losses.huber(error)

    return Head(1, lambda out: out[..., 0], loss, distances.squared_error, proximal=distances.half_squared_error)


def categorical_head(atoms: int, v_min: float, v_max: float) -> Head:
    """Logits over evenly spaced returns (C51)."""
    support = jnp.linspace(v_min, v_max, atoms)

    def loss(
        out_tm1: jax.Array, taus_tm1: jax.Array, a_tm1: jax.Array, r_t: jax.Array, discount_t: jax.Array,
        out_t: jax.Array, a_t: jax.Array,
    ) -> jax.Array:  # fmt: skip
        del taus_tm1
        return losses.categorical_td(out_tm1, a_tm1, r_t, discount_t, out_t, a_t, support)

    def values(out: jax.Array) -> jax.Array:
        return (jax.nn.softmax(out) * support).sum(axis=-1)

    def distribution(out: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.broadcast_to(support, out.shape), jax.nn.softmax(out)

    def mixture(outs: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(jax.nn.log_softmax(outs), axis=0) - math.log(outs.shape[0])

    return Head(atoms, values, loss, distances.cross_entropy, distribution, distances.divergence, mixture)


def quantile_head(quantiles: int) -> Head:
    """Quantiles of the return, at fixed fractions (QR-DQN) or drawn ones (IQN)."""

    def distribution(out: jax.Array) -> tuple[jax.Array, jax.Array]:
        return out, jnp.full_like(out, 1 / quantiles)

    def values(out: jax.Array) -> jax.Array:
        return out.mean(axis=-1)

    near = distances.half_squared_error
    return Head(quantiles, values, losses.quantile_td, distances.squared_error, distribution, near)
