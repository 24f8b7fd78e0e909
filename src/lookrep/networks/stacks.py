"""One network from several: the mean of a stack of them, and one's trunk below another's last layer."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from lookrep.errors import UserError
from lookrep.networks.builtin import Network, Outputs

LAST_LAYERS = ("q_out", "v_out")


def mean_of(network: Network, networks: int, mixture: Callable[[jax.Array], jax.Array]) -> Network:
    """What a stack of such networks says on average; all of them see the same noise and fractions.

    `mixture` is of the head: [networks, batch, actions, K] → [batch, actions, K]. At first all are the same.
    """

    def init(key: jax.Array) -> Any:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (networks, *x.shape)), network.init(key))

    def apply(params: Any, observations: jax.Array, key: jax.Array | None) -> Outputs:
        each = jax.vmap(network.apply, in_axes=(0, None, None))(params, observations, key)
        return Outputs(mixture(each.per_action), each.taus[0])

    return Network(init, apply)


def with_trunk(trunk: Any, last: Any) -> Any:
    """The parameters `last`, but for those below the last layer, which are `trunk`'s.

    >>> with_trunk({"q_0": 1, "q_out": {"bias": 2}}, {"q_0": 3, "q_out": {"bias": 4}})
    {'q_0': 1, 'q_out': {'bias': 4}}
    """
    return jax.tree_util.tree_map_with_path(lambda path, a, b: b if is_last(path) else a, trunk, last)


def is_last(path: Any) -> bool:
    """Whether a leaf with this path belongs to a last layer of ours."""
    return any(getattr(step, "key", None) in LAST_LAYERS for step in path)


def check_last(params: Any) -> None:
    """Refuse parameters without a last layer that can be told from the rest."""
    if not any(is_last(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)):
        raise UserError("shared_trunk needs a last layer of ours: bring a network that gives features [batch, F]")
