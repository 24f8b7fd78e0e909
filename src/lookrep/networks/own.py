"""Networks that users bring, as the (init, apply) pairs that agents are made of.

Welcome are a flax linen module, a function of `rngs` that makes an nnx module, a function of a key that makes an
Equinox module (or any callable pytree, of one observation), and a pair of functions `init(key[, observations])`,
`apply(params, observations)`. Observations arrive as floats, bytes as fractions of 255, stacks of frames as
`[batch, height, width, stack]`.

Their convolutions become matrix products (`lookrep.networks.products`), which are fast under `vmap` over agents. What
they give is either features `[batch, F]`, which get our last layers for the agent's head, or all there is to
know, `[batch, actions, K]`.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx

from lookrep.errors import UserError
from lookrep.importing import in_short
from lookrep.networks.builtin import FRAME_SIDE, HeadShape, Network, Outputs, last_layers
from lookrep.networks.products import convolutions_as_products

WELCOME = (
    "bring a flax module, a function of rngs that makes an nnx module, a function of key that makes an Equinox module, "
    "or a pair (init, apply)"
)


class Pair(NamedTuple):
    """A user's network: `init(key, observations)` gives parameters, `apply(params, observations)` an array."""

    init: Callable[[jax.Array, jax.Array], Any]
    apply: Callable[[Any, jax.Array], jax.Array]


def network(thing: Any, head: HeadShape, observation_shape: tuple[int, ...]) -> Network:
    """A user's network as an agent's, with last layers of ours where it gives features."""
    pair, name = as_pair(thing), getattr(thing, "__name__", type(thing).__name__)
    forward = convolutions_as_products(pair.apply)
    seen = jnp.zeros((1, *_channels_last(observation_shape)))
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    try:
        out = jax.eval_shape(lambda k: pair.apply(pair.init(k, seen), seen), key)
    except UserError:
        raise
    except Exception as error:
        raise UserError(
            f"network {name} fails on observations of shape {seen.shape[1:]} ({in_short(error)})"
        ) from error
    for leaf in jax.tree.leaves(jax.eval_shape(lambda k: pair.init(k, seen), key)):
        if not _is_parameter(leaf):
            raise UserError(
                f"network {name}: init gives an array of {leaf.dtype}: all its arrays are learned, so they must be "
                "floating-point; keep others in apply"
            )
    whole = (1, head.actions, head.size)
    shape = getattr(out, "shape", None)
    if shape != whole and (shape is None or len(shape) != 2):
        raise UserError(
            f"network {name} gives {shape or type(out).__name__} for one observation: give features [1, F] (the last "
            f"layers are added) or {list(whole)} = [1, actions, numbers of the head]"
        )
    if shape == whole and (head.dueling or head.noisy or head.implicit):
        raise UserError(
            f"network {name} gives all outputs, but dueling, noisy and iqn add layers of ours: give features [1, F]"
        )
    layers = None if shape == whole else last_layers(head, shape[1])

    def init(key: jax.Array) -> Any:
        if layers is None:
            return pair.init(key, seen)
        torso_key, layers_key = jax.random.split(key)
        return {"torso": pair.init(torso_key, seen), "last": layers.init(layers_key)}

    def apply(params: Any, observations: jax.Array, key: jax.Array | None) -> Outputs:
        x = as_floats(observations, params, observation_shape)
        if layers is not None:
            return layers.apply(params["last"], forward(params["torso"], x), key)
        even = (jnp.arange(head.size, dtype=jnp.float32) + 0.5) / head.size
        taus = jnp.broadcast_to(even, (len(x), head.size))
        return Outputs(forward(params, x).astype(jnp.float32), taus)

    return Network(init, apply)


def as_pair(thing: Any) -> Pair:
    """Whatever users bring, in one form."""
    if isinstance(thing, type) and issubclass(thing, nn.Module):
        thing = thing()
    if isinstance(thing, nn.Module):
        return _linen(thing)
    if isinstance(thing, nnx.Module) or (not callable(thing) and not isinstance(thing, tuple)):
        raise UserError(f"network {type(thing).__name__}: every agent starts from its own random numbers, so {WELCOME}")
    if isinstance(thing, tuple):
        if len(thing) < 2 or not all(map(callable, thing[:2])):
            raise UserError(f"network {thing!r:.60}: {WELCOME}")
        init, apply = thing[:2]
        takes_observations, takes_key = _arguments(init) > 1, _arguments(apply) > 2
        return Pair(
            init if takes_observations else lambda key, observations: init(key),
            (lambda params, x: apply(params, None, x)) if takes_key else apply,
        )
    if jax.tree.leaves(thing) != [thing]:  # a pytree that can be called: an Equinox module that was already made
        raise UserError(f"network {type(thing).__name__} has parameters already: pass a function of key that makes it")
    return _nnx(thing) if "rngs" in _parameters(thing) else _callable_tree(thing)


def as_floats(observations: jax.Array, params: Any, observation_shape: tuple[int, ...]) -> jax.Array:
    """Observations as users' networks get them, in the precision of the parameters."""
    floats = [x.dtype for x in jax.tree.leaves(params) if jnp.issubdtype(x.dtype, jnp.floating)]
    scale = 255 if observations.dtype == jnp.uint8 else 1
    x = (observations / jnp.float32(scale)).astype(floats[0] if floats else jnp.float32)
    return x.transpose(0, 2, 3, 1) if _are_frames(observation_shape) else x


def _linen(module: nn.Module) -> Pair:
    def init(key: jax.Array, observations: jax.Array) -> Any:
        made = module.init(key, observations)
        others = [name for name in made if name != "params"]
        if others:
            raise UserError(f"network {type(module).__name__} keeps state beside its parameters ({', '.join(others)})")
        return made.get("params", {})

    return Pair(init, lambda params, x: module.apply({"params": params}, x))


def _nnx(make: Callable[..., Any]) -> Pair:
    fixed: dict[str, Any] = {}  # the part of a module that is the same in every agent

    def init(key: jax.Array, observations: jax.Array) -> Any:
        graph, params, rest = nnx.split(make(rngs=nnx.Rngs(params=key)), nnx.Param, ...)
        kept = [x for x in jax.tree.leaves(rest) if jnp.issubdtype(x.dtype, jnp.floating)]
        if kept:
            raise UserError(f"network {getattr(make, '__name__', make)} keeps state beside its parameters")
        fixed["graph"] = graph
        fixed["tree"] = jax.tree.structure(params)
        return dict(enumerate(jax.tree.leaves(params)))

    def apply(params: Any, x: jax.Array) -> jax.Array:
        state = jax.tree.unflatten(fixed["tree"], [params[i] for i in range(len(params))])
        out: jax.Array = nnx.merge(fixed["graph"], state)(x)
        return out

    return Pair(init, apply)


def _callable_tree(make: Callable[..., Any]) -> Pair:
    fixed: dict[str, Any] = {}

    def init(key: jax.Array, observations: jax.Array) -> Any:
        module = make(key=key) if "key" in _parameters(make) else make(key)
        if not callable(module):
            raise UserError(f"network {getattr(make, '__name__', make)} makes no module but {type(module).__name__}")
        leaves, fixed["tree"] = jax.tree.flatten(module)
        fixed["others"] = [None if _is_parameter(leaf) else leaf for leaf in leaves]
        return {i: leaf for i, leaf in enumerate(leaves) if _is_parameter(leaf)}

    def apply(params: Any, x: jax.Array) -> jax.Array:
        leaves = [params.get(i, other) for i, other in enumerate(fixed["others"])]
        out: jax.Array = jax.vmap(jax.tree.unflatten(fixed["tree"], leaves))(x)
        return out

    return Pair(init, apply)


def _is_parameter(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)


def _parameters(function: Callable[..., Any]) -> Any:
    # Metaclasses of modules hide what a class takes.
    made_by = getattr(function, "__init__") if isinstance(function, type) else function  # noqa: B009
    return inspect.signature(made_by).parameters


def _arguments(function: Callable[..., Any]) -> int:
    """How many a function must be given."""
    parameters = _parameters(function).values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def _are_frames(observation_shape: tuple[int, ...]) -> bool:
    return len(observation_shape) == 3 and min(observation_shape[1:]) >= FRAME_SIDE


def _channels_last(observation_shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*observation_shape[1:], observation_shape[0]) if _are_frames(observation_shape) else observation_shape
