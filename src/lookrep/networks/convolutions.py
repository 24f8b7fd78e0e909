"""Strided convolutions with SAME padding for a population's networks, in two ways that agree to rounding.

`as_products` is for accelerators: under `vmap` over agents' kernels it is one batched matrix product, where a
convolution would become a grouped one, which is slow. `native` is for CPUs, where gathering patches costs more than the
arithmetic: XLA's own convolution, forward and backward, agent by agent; `product` goes with it. Which of them a network
uses is said in `lookrep.networks`; measurements are in docs/performance.md.

A kernel is a matrix [size² · channels, features] in both, so that parameters move between machines. Its rows are
ordered by (block row, block column, row in block, column in block, channel), where a block is stride × stride pixels.
"""

import math
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap

PARTS = 16  # in which a kernel's gradient is summed over a batch
LAYOUT = ("NHWC", "HWIO", "NHWC")


def as_products(x: jax.Array, kernel: jax.Array, size: int, stride: int) -> jax.Array:
    """One matrix product with the patches of x [batch, height, width, channels]; bytes are read as fractions of 255.

    Blocks of stride × stride pixels become channels first, so that what is left is a convolution of stride 1 with a
    small kernel, and its patches a few shifted slices.
    """
    batch, height, width, channels = x.shape
    blocks = -(-size // stride)
    out_h, out_w = -(-height // stride), -(-width // stride)

    def padding(length: int, out: int) -> tuple[int, int]:
        before, _ = _same(length, size, stride)
        return before, (out + blocks - 1) * stride - length - before

    x = jnp.pad(x, ((0, 0), padding(height, out_h), padding(width, out_w), (0, 0)))
    x = x.reshape(batch, out_h + blocks - 1, stride, out_w + blocks - 1, stride, channels)
    x = x.transpose(0, 1, 3, 2, 4, 5).reshape(batch, out_h + blocks - 1, out_w + blocks - 1, stride**2 * channels)
    # For learning, bytes are put in order once, not anew for every patch that they are in, and patches gathered once,
    # not anew for the kernel's gradient; acting, on one picture, makes do with fewer kernels.
    once = lax.optimization_barrier if batch > 1 else lambda y: y
    x = once(_fractions(x, kernel)) if x.dtype == jnp.uint8 else x.astype(kernel.dtype)
    patches = [x[:, i : i + out_h, j : j + out_w] for i in range(blocks) for j in range(blocks)]
    flat = once(jnp.concatenate(patches, axis=-1).reshape(batch * out_h * out_w, -1))
    return _product_in_parts(flat, kernel, math.gcd(batch, PARTS)).reshape(batch, out_h, out_w, -1)


def native(x: jax.Array, kernel: jax.Array, size: int, stride: int) -> jax.Array:
    """The same as a convolution."""
    blocks = -(-size // stride)
    windows = kernel.reshape(blocks, blocks, stride, stride, x.shape[-1], -1).transpose(0, 2, 1, 3, 4, 5)
    x = _fractions(x, kernel)
    return _convolution(x.shape[1:3], size, stride)(x, windows.reshape(size, size, x.shape[-1], -1))


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _product_in_parts(x: jax.Array, kernel: jax.Array, parts: int) -> jax.Array:
    """x @ kernel, with the kernel's gradient as the sum of so many products.

    A GPU needs several for its many cores. Left to itself XLA makes them of parts that do not divide the rows, so it
    pads them, and for that gathers the patches once more.
    """
    return x @ kernel


def _parts_backward(parts: int, kept: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = kept
    rows, features = (y.reshape(parts, -1, y.shape[-1]) for y in (x, g))
    each = lax.dot_general(rows, features, (((1,), (1,)), ((0,), (0,))), preferred_element_type=jnp.float32)
    return lax.dot_general(g, kernel, (((1,), (1,)), ((), ()))), each.sum(axis=0).astype(kernel.dtype)


_product_in_parts.defvjp(lambda x, kernel, parts: (x @ kernel, (x, kernel)), _parts_backward)


@jax.custom_vjp
def product(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """x @ kernel for rows x, with the kernel's gradient in the kernel's own layout.

    Under `vmap` the gradient would come transposed, and Adam read it across the grain: 10 ms instead of 5 for 4
    million parameters.
    """
    return x @ kernel


def _product_backward(kept: tuple[jax.Array, jax.Array], g: jax.Array) -> tuple[jax.Array, jax.Array]:
    x, kernel = kept
    return lax.dot_general(g, kernel, (((1,), (1,)), ((), ()))), lax.dot_general(x, g, (((0,), (0,)), ((), ())))


product.defvjp(lambda x, kernel: (x @ kernel, (x, kernel)), _product_backward)


def _convolution(picture: tuple[int, ...], size: int, stride: int) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """(x, windows) → their convolution, with derivatives that are convolutions in the same layout.

    XLA's CPU backend has a fast path for that layout alone. What the derivatives of its convolution look like it puts
    right by itself, but not inside a loop, where it would take 70 times as long.
    """
    pads = [_same(length, size, stride) for length in picture]

    @_agent_by_agent
    def forward(x: jax.Array, windows: jax.Array) -> jax.Array:
        return lax.conv_general_dilated(x, windows, (stride, stride), pads, dimension_numbers=LAYOUT)

    @_agent_by_agent
    def towards_windows(x: jax.Array, g: jax.Array) -> jax.Array:
        """dw[i, j, c, f] = Σ_{b, y, x} x[b, stride·y + i, stride·x + j, c] · g[b, y, x, f]: the batch is summed over
        as channels are, and g is the kernel."""
        # What follows the last window is not looked at: the result is size × size.
        cropped = [
            (low, (out - 1) * stride + size - length - low)
            for (low, _), length, out in zip(pads, picture, g.shape[1:3], strict=True)
        ]
        found = lax.conv_general_dilated(
            x.transpose(3, 1, 2, 0), g.transpose(1, 2, 0, 3), (1, 1), cropped,
            rhs_dilation=(stride, stride), dimension_numbers=LAYOUT,
        )  # fmt: skip
        return found.transpose(1, 2, 0, 3)

    @_agent_by_agent
    def towards_x(windows: jax.Array, g: jax.Array) -> jax.Array:
        """Each pixel collects from the windows it is in: g, spread out by the stride, with the windows turned round."""
        spread = [
            (size - 1 - low, length - ((out - 1) * stride + 1) + low)
            for (low, _), length, out in zip(pads, picture, g.shape[1:3], strict=True)
        ]
        return lax.conv_general_dilated(
            g, windows[::-1, ::-1].transpose(0, 1, 3, 2), (1, 1), spread,
            lhs_dilation=(stride, stride), dimension_numbers=LAYOUT,
        )  # fmt: skip

    convolve = jax.custom_vjp(forward)
    convolve.defvjp(
        lambda x, windows: (forward(x, windows), (x, windows)),
        lambda kept, g: (towards_x(kept[1], g), towards_windows(kept[0], g)),
    )
    return convolve


def _agent_by_agent(f: Callable[..., jax.Array]) -> Callable[..., jax.Array]:
    """`f`, which `vmap` turns into one call for each agent: batched kernels would be a grouped convolution."""
    single = custom_vmap(f)

    @single.def_vmap
    def each(agents: int, batched: list[bool], *arguments: jax.Array) -> tuple[jax.Array, bool]:
        def of(agent: int) -> jax.Array:
            return single(*(a[agent] if b else a for a, b in zip(arguments, batched, strict=True)))

        return jnp.stack([of(agent) for agent in range(agents)]), True

    return single


def _fractions(x: jax.Array, kernel: jax.Array) -> jax.Array:
    """In the kernel's precision."""
    return x.astype(kernel.dtype) * kernel.dtype.type(1 / 255) if x.dtype == jnp.uint8 else x.astype(kernel.dtype)


def _same(length: int, size: int, stride: int) -> tuple[int, int]:
    """Zeros before and after, so that there are as many windows as strides."""
    total = max((-(-length // stride) - 1) * stride + size - length, 0)
    return total // 2, total - total // 2
