"""Convolutions: both forms are the textbook's, forward and backward; agents stay apart; derivatives keep the layout."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.networks import HeadShape, Torso, build, convolutions

pytestmark = pytest.mark.usefixtures("quick_compilation")

# (side, channels, size, stride, features): Atari's three at a smaller scale
LAYERS = [(20, 4, 8, 4, 3), (9, 5, 4, 2, 6), (6, 3, 3, 1, 4)]
FORMS = [convolutions.as_products, convolutions.native]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def by_hand(x: np.ndarray, windows: np.ndarray, stride: int) -> np.ndarray:
    """Out[b, y, x] = Σ_{i, j} picture[b, stride·y + i, stride·x + j] · windows[i, j], SAME padding, in float64."""
    batch, height, width, _ = x.shape
    size = windows.shape[0]
    rows, columns = -(-height // stride), -(-width // stride)
    pad = [max((out - 1) * stride + size - length, 0) for out, length in ((rows, height), (columns, width))]
    x = np.pad(x.astype(np.float64), ((0, 0), *((p // 2, p - p // 2) for p in pad), (0, 0)))
    out = np.zeros((batch, rows, columns, windows.shape[-1]))
    for y in range(rows):
        for z in range(columns):
            patch = x[:, stride * y : stride * y + size, stride * z : stride * z + size]
            out[:, y, z] = np.einsum("bijc,ijcf->bf", patch, windows)
    return out


def windows_of(kernel: np.ndarray, channels: int, size: int, stride: int) -> np.ndarray:
    """The documented order of a kernel's rows: block row, block column, row in block, column in block, channel."""
    blocks = size // stride
    kernel = kernel.reshape(blocks, blocks, stride, stride, channels, -1)
    return kernel.transpose(0, 2, 1, 3, 4, 5).reshape(size, size, channels, -1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_convolution_is_the_textbooks_with_rows_in_the_documented_order(form: Callable, layer: tuple) -> None:
    side, channels, size, stride, features = layer
    x, kernel = normal(2, side, side + 1, channels), normal(size**2 * channels, features, seed=1)
    expected = by_hand(x, windows_of(kernel, channels, size, stride), stride)
    np.testing.assert_allclose(jax.jit(form, static_argnums=(2, 3))(x, kernel, size, stride), expected, atol=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_bytes_are_fractions_of_255(form: Callable) -> None:
    frames = np.random.default_rng(0).integers(256, size=(2, 12, 12, 4)).astype(np.uint8)
    kernel = normal(8 * 8 * 4, 3)
    compiled = jax.jit(form, static_argnums=(2, 3))
    found, expected = compiled(frames, kernel, 8, 4), compiled(frames / np.float32(255), kernel, 8, 4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("batch", [4, 5])  # a gradient is summed in so many parts, or in one
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layer", LAYERS)
def test_derivatives_are_those_that_jax_finds_for_a_plain_convolution(form: Callable, layer: tuple, batch: int) -> None:
    side, channels, size, stride, features = layer
    x, kernel = normal(batch, side, side + 1, channels), normal(size**2 * channels, features, seed=1)
    rows, columns = -(-side // stride), -(-(side + 1) // stride)
    weight = normal(batch, rows, columns, features, seed=2)

    def plain(x: jax.Array, kernel: jax.Array, size: int, stride: int) -> jax.Array:
        blocks = size // stride
        windows = kernel.reshape(blocks, blocks, stride, stride, channels, -1).transpose(0, 2, 1, 3, 4, 5)
        windows = windows.reshape(size, size, channels, -1)
        strides = (stride, stride)
        return jax.lax.conv_general_dilated(x, windows, strides, "SAME", dimension_numbers=convolutions.LAYOUT)

    def gradients(form: Callable) -> Any:
        return jax.jit(jax.grad(lambda x, kernel: (weight * form(x, kernel, size, stride)).sum(), (0, 1)))(x, kernel)

    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), gradients(form), gradients(plain))


def convolutions_in(program: Any) -> list[Any]:
    """Every convolution in a jaxpr, however deep."""
    found = []
    for equation in program.eqns:
        if equation.primitive.name == "conv_general_dilated":
            found.append(equation.params)
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "eqns") or hasattr(p, "jaxpr")):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += convolutions_in(inner)
    return found


def test_each_of_a_populations_agents_has_its_own_convolutions_in_the_layout_that_is_fast() -> None:
    agents, shape = 3, (2, 40, 40)
    network = build(Torso.parse("nature:8", shape), HeadShape(2, 3), shape, native=True)
    params = jax.vmap(network.init)(jax.random.split(jax.random.key(0), agents))
    frames = np.random.default_rng(0).integers(256, size=(agents, 2, *shape)).astype(np.uint8)

    def loss(params: Any, frames: jax.Array) -> jax.Array:
        return (network.apply(params, frames, None).per_action ** 2).sum()

    learn = jax.vmap(jax.grad(loss))
    found = convolutions_in(jax.make_jaxpr(learn)(params, frames).jaxpr)
    # A batch of two in two parts, three layers: forward, towards the kernel, and towards the input (the first one's is
    # dead code, which the compiler drops).
    assert len(found) == agents * 2 * 3 * 3
    assert {p["feature_group_count"] for p in found} == {p["batch_group_count"] for p in found} == {1}
    nhwc = jax.lax.conv_dimension_numbers((1,) * 4, (1,) * 4, convolutions.LAYOUT)
    assert {p["dimension_numbers"] for p in found} == {nhwc}
    together = jax.jit(learn)(params, frames)
    for agent in range(agents):
        alone = jax.jit(jax.grad(loss))(jax.tree.map(lambda p: p[agent], params), frames[agent])
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a[agent], b, atol=1e-5), together, alone)


def test_as_products_a_population_is_one_batched_product_without_any_convolution() -> None:
    kernels, x = normal(3, 36, 5), normal(3, 2, 6, 6, 4)
    program = jax.make_jaxpr(jax.vmap(lambda x, k: convolutions.as_products(x, k, 3, 1)))(x, kernels)
    assert convolutions_in(program.jaxpr) == []
    assert str(program).count("dot_general[") == 1


def test_a_products_gradient_is_that_of_the_matrix_product_and_untransposed_for_every_agent() -> None:
    x, kernel, g = normal(2, 3, 7), normal(2, 7, 5, seed=1), normal(2, 3, 5, seed=2)
    found = jax.jit(jax.vmap(lambda x, k, g: jax.vjp(convolutions.product, x, k)[1](g)))(x, kernel, g)
    np.testing.assert_allclose(found[0], np.einsum("nbo,nio->nbi", g, kernel), atol=1e-5)
    np.testing.assert_allclose(found[1], np.einsum("nbi,nbo->nio", x, g), atol=1e-5)
    program = jax.make_jaxpr(jax.vmap(lambda x, k, g: jax.vjp(convolutions.product, x, k)[1](g)))(x, kernel, g)
    assert "transpose" not in str(program)


@pytest.mark.parametrize("head", [HeadShape(3, 5), HeadShape(3, 5, dueling=True), HeadShape(2, 4, implicit=True)])
def test_atari_s_network_has_the_same_parameters_values_and_gradients_either_way(head: HeadShape) -> None:
    shape, batch = (4, 44, 44), 5  # of an odd batch, the parts differ
    torso = Torso.parse("nature:16", shape)
    products, native = (build(torso, head, shape, native) for native in (False, True))
    params = jax.jit(products.init)(jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, params, jax.jit(native.init)(jax.random.key(0)))
    frames = np.random.default_rng(0).integers(256, size=(batch, *shape)).astype(np.uint8)

    def both(network: Any) -> Any:
        def loss(params: Any) -> tuple[jax.Array, jax.Array]:
            out = network.apply(params, frames, jax.random.key(1)).per_action
            return (out**2).sum(), out

        return jax.jit(jax.grad(loss, has_aux=True))(params)

    (expected, out), (found, also) = both(products), both(native)
    np.testing.assert_allclose(also, out, atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), found, expected)


def test_a_cpu_alone_computes_atari_s_convolutions_natively_and_never_minatar_s() -> None:
    def convolutions_of(name: str, shape: tuple[int, ...], native: bool | None) -> int:
        network = build(Torso.parse(name, shape), HeadShape(2, 1), shape, native)
        params = jax.eval_shape(network.init, jax.random.key(0))
        pictures = jax.ShapeDtypeStruct((2, *shape), jnp.uint8)
        return len(convolutions_in(jax.make_jaxpr(lambda p, x: network.apply(p, x, None))(params, pictures).jaxpr))

    halves_and_layers = 2 * 3
    assert convolutions_of("nature:8", (4, 40, 40), None) == halves_and_layers * (jax.default_backend() == "cpu")
    assert convolutions_of("nature:8", (4, 40, 40), False) == 0
    assert convolutions_of("cnn4:8", (10, 10, 4), None) == 0
