"""Terms in the online loss: functions of what w and another network say about some states, with a number for each.

`values` and `function` hold w to the target, on the update's own batch; `churn` to what it was one update ago, on
another batch. `parameters`, which is no function of outputs, is `lookrep.methods.optimisers.drawn`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from lookrep.heads import Head


class Pair(NamedTuple):
    """What two networks say about a batch of states."""

    online: jax.Array  # [batch, actions, K]: w's, which is differentiated
    other: jax.Array  # [batch, actions, K]
    action: jax.Array  # [batch]: the stored ones
    legal: jax.Array | None  # how many actions exist; None: all


Regulariser = Callable[[Head, Pair], jax.Array]  # → [batch]


def values(head: Head, pair: Pair) -> jax.Array:
    """½(q_w(s, a) − q_θ(s, a))² (Piché et al., arXiv 2106.02613, with κ/2 beside ½ of the squared TD error).

    >>> from lookrep.heads import value_head
    >>> outs = jnp.array([[[1.0], [5.0]]]), jnp.array([[[9.0], [3.0]]])
    >>> values(value_head(), Pair(*outs, action=jnp.array([1]), legal=None)).tolist()
    [2.0]
    """
    apart = _apart(head, pair)
    return 0.5 * jnp.take_along_axis(apart, pair.action[:, None], axis=1)[:, 0] ** 2


def function(head: Head, pair: Pair) -> jax.Array:
    """The mean over actions of the head's divergence from the other network: KL(p_w ‖ p_θ), or ½(w − θ)²."""
    point = head.proximal or head.distance
    return _mean(jax.vmap(jax.vmap(point))(pair.online, lax.stop_gradient(pair.other)), pair.legal)


def churn(head: Head, pair: Pair) -> jax.Array:
    """The mean over actions of ½(q_w − q_w⁻)² (Tang & Berseth, arXiv 2409.04792; as in their double_dqn_chain.py)."""
    return _mean(0.5 * _apart(head, pair) ** 2, pair.legal)


OF_OUTPUTS: dict[str, Regulariser] = {"values": values, "function": function, "churn": churn}


def _apart(head: Head, pair: Pair) -> jax.Array:
    return head.values(pair.online) - lax.stop_gradient(head.values(pair.other))


def _mean(per_action: jax.Array, legal: jax.Array | None) -> jax.Array:
    """[batch, actions] → [batch], over the actions that exist."""
    if legal is None:
        return per_action.mean(axis=1)
    exists = jnp.arange(per_action.shape[1]) < legal
    return jnp.where(exists, per_action, 0.0).sum(axis=1) / legal
