"""Parameters as trees of any kind: flax and Equinox keep functions, counters and random keys among them.

*Arrays* may be traced. *Learned* leaves are the arrays of floating-point numbers: these alone are averaged or
differentiated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lookrep.errors import UserError


def is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic))


def is_learned(leaf: Any) -> bool:
    return is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def is_numeric(value: Any) -> bool:
    """A number or an array of numbers, traced or not; True and False are none."""
    kind = value.dtype if is_array(value) else np.asarray(value).dtype
    return bool(jnp.issubdtype(kind, jnp.number))


def is_concrete(tree: Any) -> bool:
    """Whether all its numbers are known, as they are outside of `jit`, `vmap` and `grad`."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def split(tree: Any, belongs: Callable[[Any], bool] = is_array) -> tuple[Any, Any]:
    """The tree with only the leaves that belong, and the tree with only the others; None stands where one is missing.

    >>> split({"a": np.ones(2), "f": abs})
    ({'a': array([1., 1.]), 'f': None}, {'a': None, 'f': <built-in function abs>})
    """
    inside = jax.tree.map(lambda leaf: leaf if belongs(leaf) else None, tree)
    return inside, jax.tree.map(lambda leaf: None if belongs(leaf) else leaf, tree)


def join(inside: Any, outside: Any) -> Any:
    """The tree that `split` took apart."""
    return jax.tree.map(lambda a, b: b if a is None else a, inside, outside, is_leaf=lambda leaf: leaf is None)


def detached(tree: Any) -> Any:
    """No gradient flows back through it."""
    return jax.tree.map(lambda leaf: lax.stop_gradient(leaf) if isinstance(leaf, jax.core.Tracer) else leaf, tree)


def leafwise(function: Callable[[jax.Array, jax.Array], jax.Array], target: Any, online: Any) -> Any:
    """`function` of each pair of arrays; what is no array stays as it is in `target`."""
    leaves, structure = jax.tree.flatten(target)
    pairs = zip(leaves, jax.tree.leaves(online), strict=True)
    return jax.tree.unflatten(structure, [function(t, o) if is_array(t) else t for t, o in pairs])


def copied(target: jax.Array, online: jax.Array) -> jax.Array:
    """The online array in the target's precision, and memory of its own: an eager loop may donate the online one."""
    if online.dtype != target.dtype:  # random keys have one, but no `astype`
        online = online.astype(target.dtype)
    return online if isinstance(online, jax.core.Tracer) else jnp.array(online)


def check_same_shapes(name: str, target: Any, online: Any) -> None:
    def shapes(tree: Any) -> dict[str, Any]:
        leaves = jax.tree_util.tree_leaves_with_path(tree)
        return {jax.tree_util.keystr(path): getattr(leaf, "shape", "no array") for path, leaf in leaves}

    theirs, ours = shapes(online), shapes(target)
    if theirs != ours:
        where = next(k for k in [*theirs, *ours] if theirs.get(k) != ours.get(k))
        raise UserError(
            f"{name} needs online and target networks of the same shape; {where or 'they'} differ: online "
            f"{theirs.get(where, 'has none')}, target {ours.get(where, 'has none')}. Only replicate can follow across "
            "networks"
        )


@dataclass(frozen=True)
class Static:
    """A tree without arrays, as an argument that `jit` compiles for."""

    leaves: tuple[Any, ...]
    structure: Any

    @classmethod
    def of(cls, tree: Any) -> "Static":
        leaves, structure = jax.tree.flatten(tree)
        return cls(tuple(leaves), structure)

    @property
    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)
