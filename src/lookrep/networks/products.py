"""Convolutions of users' networks as matrix products, whichever library they are written in.

Under `vmap` over agents' kernels a convolution becomes a grouped one, which is slow on GPUs and in loops on CPUs;
products become batched products. So a network's computation is traced, and its convolutions are replaced by products
that agree to rounding: with a band matrix for small pictures, as in ours, and with patches for larger ones. What is no
plain convolution over two dimensions is left alone.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

BAND_CELLS = 2**17  # of a band matrix: larger ones are mostly zeros
CALLS = ("pjit", "jit", "closed_call")  # whose insides may hold convolutions


def convolutions_as_products(function: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """The same function of arrays, with products for its convolutions."""

    def converted(*arguments: Any) -> jax.Array:
        traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _convolves(traced.jaxpr):
            return function(*arguments)
        found = _evaluated(traced.jaxpr, traced.consts, jax.tree.leaves(arguments))
        out: jax.Array = jax.tree.unflatten(jax.tree.structure(shape), found)
        return out

    return converted


def convolution(
    x: jax.Array, kernel: jax.Array, strides: tuple[int, int], padding: tuple[tuple[int, int], ...]
) -> jax.Array:
    """x [batch, height, width, channels] with kernel [height, width, channels, features]."""
    x = jnp.pad(x, ((0, 0), *padding, (0, 0)))
    (batch, height, width, channels), (rows, columns, _, features) = x.shape, kernel.shape
    out_h, out_w = (height - rows) // strides[0] + 1, (width - columns) // strides[1] + 1
    lines = [x[:, i : i + strides[0] * (out_h - 1) + 1 : strides[0]] for i in range(rows)]  # [batch, out_h, width, …]
    if rows * width * channels * out_w * features <= BAND_CELLS:
        # band[i, x, c, y, f] = kernel[i, x − stride·y, c, f]: input column x, output column y
        place = jnp.arange(width)[:, None] - strides[1] * jnp.arange(out_w)
        band = sum(
            kernel[:, None, j, :, None, :] * (place == j).astype(kernel.dtype)[None, :, None, :, None]
            for j in range(columns)
        )
        flat = jnp.concatenate([line.reshape(batch, out_h, -1) for line in lines], axis=-1)
        return (flat @ jnp.asarray(band).reshape(flat.shape[-1], -1)).reshape(batch, out_h, out_w, features)
    last = strides[1] * (out_w - 1) + 1
    patches = [line[:, :, j : j + last : strides[1]] for line in lines for j in range(columns)]
    return jnp.concatenate(patches, axis=-1) @ kernel.reshape(-1, features)


def _evaluated(jaxpr: Jaxpr, constants: Any, arguments: Any) -> list[Any]:
    known: dict[Any, Any] = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*constants, *arguments], strict=True))

    def read(variable: Any) -> Any:
        return variable.val if isinstance(variable, Literal) else known[variable]

    for equation in jaxpr.eqns:
        inputs = [read(variable) for variable in equation.invars]
        inside = equation.params.get("jaxpr")
        if _is_plain(equation):
            found = [_as_product(*inputs, **equation.params)]
        elif equation.primitive.name in CALLS and isinstance(inside, ClosedJaxpr) and _convolves(inside.jaxpr):
            found = _evaluated(inside.jaxpr, inside.consts, inputs)
        else:
            params = equation.primitive.get_bind_params(equation.params)
            functions, params = params if isinstance(params, tuple) else ((), params)  # by version of JAX
            out = equation.primitive.bind(*functions, *inputs, **params)
            found = out if equation.primitive.multiple_results else [out]
        known.update(zip(equation.outvars, found, strict=True))
    return [read(variable) for variable in jaxpr.outvars]


def _convolves(jaxpr: Jaxpr) -> bool:
    for equation in jaxpr.eqns:
        inside = equation.params.get("jaxpr")
        if _is_plain(equation):
            return True
        if equation.primitive.name in CALLS and isinstance(inside, ClosedJaxpr) and _convolves(inside.jaxpr):
            return True
    return False


def _is_plain(equation: Any) -> bool:
    if equation.primitive is not lax.conv_general_dilated_p:
        return False
    params = equation.params
    return (
        len(params["window_strides"]) == 2
        and params["feature_group_count"] == params["batch_group_count"] == 1
        and {*params["lhs_dilation"], *params["rhs_dilation"]} == {1}
        and min(edge for edges in params["padding"] for edge in edges) >= 0
    )


def _as_product(x: jax.Array, kernel: jax.Array, *, window_strides: Any, padding: Any, **params: Any) -> jax.Array:
    layout = params["dimension_numbers"]
    (b, c, *spatial), (f, i, *window), out = layout.lhs_spec, layout.rhs_spec, layout.out_spec
    found = convolution(x.transpose(b, *spatial, c), kernel.transpose(*window, i, f), window_strides, padding)
    places = [out[0], out[2], out[3], out[1]]  # of batch, height, width, features
    return found.transpose([places.index(axis) for axis in range(4)])
