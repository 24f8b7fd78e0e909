"""Networks: convolutions as matrix products, dueling, noise, implicit quantiles, names, initial values, precision."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.errors import UserError
from lookrep.heads import categorical_head, quantile_head, value_head
from lookrep.networks import HeadShape, Network, Torso, build, mean_of
from lookrep.networks.builtin import _Conv3x3, _Dense
from lookrep.networks.layers import LayerNorm, NoisyDense

pytestmark = pytest.mark.usefixtures("quick_compilation")

PICTURE = (6, 7, 4)
PICTURES = np.random.default_rng(0).uniform(size=(3, *PICTURE)).astype(np.float32)


def compiled(torso: Torso, head: HeadShape, observation_shape: tuple[int, ...] = PICTURE) -> Network:
    network = build(torso, head, observation_shape)
    return Network(jax.jit(network.init), jax.jit(network.apply))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# Convolutions


@pytest.mark.parametrize("shape", [(2, 10, 10, 4), (3, 5, 9, 1), (1, 3, 3, 2)])
def test_the_convolution_is_a_valid_3x3_convolution_forward_and_backward(shape: tuple[int, ...]) -> None:
    batch, height, width, channels = shape
    params = {"kernel": normal(9 * channels, 5), "bias": normal(5)}
    x, weight = normal(*shape), normal(batch, height - 2, width - 2, 5)

    def ours(params: dict, x: jax.Array) -> jax.Array:
        return _Conv3x3(5).apply({"params": params}, x)

    def oracle(params: dict, x: jax.Array) -> jax.Array:
        kernel = params["kernel"].reshape(3, 3, channels, 5)
        out = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return out + params["bias"]

    def forward_and_backward(f: Callable[..., jax.Array]) -> Any:
        return jax.jit(lambda p, x: (f(p, x), jax.grad(lambda p, x: (weight * f(p, x)).sum(), (0, 1))(p, x)))(params, x)

    found, expected = forward_and_backward(ours), forward_and_backward(oracle)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), found, expected)


def test_bytes_are_scaled_to_one_and_booleans_count_as_zero_and_one() -> None:
    network = compiled(Torso((4,), (8,)), HeadShape(2, 1))
    params = network.init(jax.random.key(0))
    on = PICTURES > 0.5
    expected = network.apply(params, on.astype(np.float32), None).per_action
    for same in (on, 255 * on.astype(np.uint8)):
        np.testing.assert_allclose(network.apply(params, same, None).per_action, expected, rtol=1e-5)


# Heads


def test_dueling_advantages_have_mean_zero_so_the_mean_over_actions_is_the_state_value() -> None:
    actions, size = 3, 7
    network = compiled(Torso((), (16,)), HeadShape(actions, size, dueling=True))
    params = network.init(jax.random.key(0))
    before = network.apply(params, PICTURES, None).per_action
    params["v_out"]["bias"] = np.arange(1, size + 1, dtype=np.float32)  # was 0
    raised = network.apply(params, PICTURES, None).per_action - before
    np.testing.assert_allclose(raised, np.broadcast_to(np.arange(1, size + 1), (3, actions, size)), atol=1e-5)
    params["q_out"]["bias"] = np.full(actions * size, 5, np.float32)  # the same for all actions: no advantage
    again = network.apply(params, PICTURES, None).per_action - before
    np.testing.assert_allclose(again, raised, atol=1e-5)


def test_a_network_without_noise_gives_k_numbers_per_action_whatever_the_key() -> None:
    network = compiled(Torso((), (16,)), HeadShape(3, 7))
    params = network.init(jax.random.key(0))
    out = network.apply(params, PICTURES, None).per_action
    assert out.shape == (3, 3, 7)
    np.testing.assert_array_equal(out, network.apply(params, PICTURES, jax.random.key(5)).per_action)


@pytest.mark.parametrize("implicit", [False, True])
def test_without_a_key_noisy_and_implicit_networks_are_functions(implicit: bool) -> None:
    network = compiled(Torso((), (16,)), HeadShape(2, 5, noisy=True, dueling=True, implicit=implicit))
    params = network.init(jax.random.key(0))
    calm, same = (np.asarray(network.apply(params, PICTURES, None).per_action) for _ in range(2))
    np.testing.assert_array_equal(calm, same)
    one, other = (np.asarray(network.apply(params, PICTURES, jax.random.key(i)).per_action) for i in (1, 2))
    assert np.abs(one - calm).min() > 0
    assert np.abs(one - other).min() > 0


def test_factorised_noise_has_the_variance_that_its_sigmas_say() -> None:
    # y_j = Σ_i (μ_ij + σ_ij f_i f_j) x_i + μ_j + σ_j f_j with E[f²] = E|ε| = √(2/π) for standard normal ε:
    # Var y_j = Σ_i σ_ij² x_i² · 2/π + σ_j² √(2/π)
    layer, x = NoisyDense(3), np.array([[1.0, 2.0]], np.float32)
    params = jax.jit(layer.init)(jax.random.key(0), x, None)["params"]
    np.testing.assert_allclose(params["kernel_sigma"], 0.5 / np.sqrt(2), rtol=1e-6)
    params["kernel_sigma"] = np.array([[0.1, 1.0, 0.0], [0.2, 0.5, 0.0]], np.float32)
    params["bias_sigma"] = np.array([0.0, 0.3, 0.7], np.float32)
    keys = jax.random.split(jax.random.key(1), 40_000)
    y = np.asarray(jax.jit(jax.vmap(lambda key: layer.apply({"params": params}, x, key)[0]))(keys))
    variance = [0.17 * 2 / np.pi, 2.0 * 2 / np.pi + 0.09 * np.sqrt(2 / np.pi), 0.49 * np.sqrt(2 / np.pi)]
    np.testing.assert_allclose(y.var(axis=0), variance, rtol=0.05)
    np.testing.assert_allclose(y.mean(axis=0), (x @ params["kernel"] + params["bias"])[0], atol=0.03)


def test_every_noisy_layer_draws_its_own_noise() -> None:
    # Two streams with equal parameters: were their noise the same, they would move together. With one action the
    # advantage cancels, so the dueling network shows the value stream alone, and a plain one the other.
    dueling, plain = (build(Torso((), (8, 8)), HeadShape(1, 1, d, noisy=True), (8,)) for d in (True, False))
    params = jax.jit(dueling.init)(jax.random.key(0))
    for part in ("0", "1", "out"):
        params[f"v_{part}"] = params[f"q_{part}"]
    q = {name: layer for name, layer in params.items() if name.startswith("q")}

    def streams(key: jax.Array) -> list[jax.Array]:
        x = jnp.ones((1, 8))
        return [n.apply(p, x, key).per_action[0, 0, 0] for n, p in ((dueling, params), (plain, q))]

    value, other = jax.jit(jax.vmap(streams))(jax.random.split(jax.random.key(1), 400))
    assert min(np.std(value), np.std(other)) > 0.01
    assert abs(np.corrcoef(value, other)[0, 1]) < 0.2


def test_implicit_quantiles_draw_a_fraction_for_each_output_and_embed_it_by_64_cosines() -> None:
    network = compiled(Torso((), (8, 2)), HeadShape(1, 4, implicit=True), (1,))
    params = jax.device_get(network.init(jax.random.key(3)))
    x = np.linspace(-1, 2, 2000, dtype=np.float32)[:, None]
    even, drawn = network.apply(params, x, None), network.apply(params, x, jax.random.key(1))
    np.testing.assert_allclose(even.taus, np.tile([0.125, 0.375, 0.625, 0.875], (2000, 1)))
    assert len(np.unique(drawn.taus)) > 7990  # of 8000
    counts, _ = np.histogram(drawn.taus, bins=10, range=(0, 1))
    assert ((counts - 800) ** 2 / 800).sum() < 27.9  # χ² with 9 degrees of freedom, p = 0.001
    for out in (even, drawn):
        # By hand: features ψ(x) · φ(τ), φ(τ) = relu(Σ_i cos(π i τ) E_i + b), then dense (Dabney et al. 2018b, eq. 4)
        cosines = np.cos(np.pi * np.asarray(out.taus)[..., None] * np.arange(1, 65))
        features, embedded = (
            np.maximum(y @ params[name]["kernel"] + params[name]["bias"], 0)
            for y, name in ((x, "_Dense_0"), (cosines, "_Dense_1"))
        )
        hidden = np.maximum(features[:, None] * embedded @ params["q_0"]["kernel"] + params["q_0"]["bias"], 0)
        expected = hidden @ params["q_out"]["kernel"] + params["q_out"]["bias"]
        np.testing.assert_allclose(out.per_action[:, 0], expected[..., 0], atol=1e-4)


# Names, initial values, precision


@pytest.mark.parametrize(
    ("text", "shape", "expected"),
    [
        ("auto", (10, 10, 4), Torso((16,), (128,))),
        ("auto", (4,), Torso((), (128, 128))),
        ("cnn16-32:256x128", (10, 10, 4), Torso((16, 32), (256, 128))),
        ("mlp:8", (10, 10, 4), Torso((), (8,))),
    ],
)
def test_a_network_has_a_short_name(text: str, shape: tuple[int, ...], expected: Torso) -> None:
    assert Torso.parse(text, shape) == expected


@pytest.mark.parametrize(
    ("text", "shape", "words"),
    [
        ("cnn", (10, 10, 4), "network 'cnn': write cnn16:128"),
        ("mlp:64,64", (4,), "network 'mlp:64,64': write"),
        ("mlp:0", (4,), "a layer of size 0"),
        ("cnn16:128", (4,), "a CNN needs pictures, these observations have shape (4,)"),
        ("cnn4-4-4-4-4:8", (10, 10, 4), "too many 3×3 convolutions for a (10, 10, 4) picture"),
    ],
)
def test_a_wrong_name_is_one_clear_line(text: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(UserError) as caught:
        Torso.parse(text, shape)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_deepest_network_that_fits_a_picture_works() -> None:
    network = compiled(Torso.parse("cnn2-2-2:4", (8, 7, 1)), HeadShape(2, 1), (8, 7, 1))
    out = network.apply(network.init(jax.random.key(0)), np.ones((2, 8, 7, 1), np.float32), None)
    assert out.per_action.shape == (2, 2, 1)


@pytest.mark.parametrize(
    ("layer", "shape", "fan_in"), [(_Dense(200), (1, 100), 100), (_Conv3x3(200), (1, 5, 5, 4), 36)]
)
def test_kernels_start_uniform_within_one_over_the_root_of_fan_in_and_biases_at_zero(layer, shape, fan_in) -> None:
    params = jax.jit(layer.init)(jax.random.key(0), np.zeros(shape, np.float32))["params"]
    kernel, bound = np.asarray(params["kernel"]), fan_in**-0.5
    assert 0.99 * bound < np.abs(kernel).max() <= bound
    np.testing.assert_allclose(kernel.var(), bound**2 / 3, rtol=0.05)
    np.testing.assert_array_equal(params["bias"], 0)


@pytest.mark.parametrize("head", [HeadShape(2, 3, dueling=True, noisy=True), HeadShape(2, 3, implicit=True)])
def test_matrix_products_are_computed_in_the_parameters_dtype_and_given_in_float32(head: HeadShape) -> None:
    network = compiled(Torso((4,), (8,)), head)
    params = jax.device_get(network.init(jax.random.key(0)))
    low = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    key = jax.random.key(1)
    exact, rough = (network.apply(p, PICTURES, key).per_action for p in (params, low))
    assert exact.dtype == rough.dtype == jnp.float32
    assert 0 < np.abs(np.asarray(exact) - rough).max() < 0.1
    program = str(jax.make_jaxpr(network.apply)(low, PICTURES > 0.5, key))
    products = [line for line in program.splitlines() if "dot_general" in line]
    assert products
    assert all(":bf16[" in line for line in products)


@pytest.mark.parametrize(("side", "stack"), [(84, 4), (45, 2)])
def test_atari_s_network_is_three_same_padded_convolutions_and_dense_layers(side: int, stack: int) -> None:
    shape = (stack, side, side)
    network = compiled(Torso.parse("nature:16", shape), HeadShape(3, 2), shape)
    params = jax.device_get(network.init(jax.random.key(0)))
    frames = np.random.default_rng(0).integers(256, size=(2, *shape)).astype(np.uint8)

    x = jnp.asarray(frames.transpose(0, 2, 3, 1) / np.float32(255))
    for i, (features, size, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1))):
        layer, blocks = params[f"conv_{i}"], size // stride
        # rows by (block row, block column, row in block, column in block, channel), as documented
        kernel = layer["kernel"].reshape(blocks, blocks, stride, stride, -1, features).transpose(0, 2, 1, 3, 4, 5)
        x = jax.lax.conv_general_dilated(
            x, kernel.reshape(size, size, -1, features), (stride, stride), "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        x = jax.nn.relu(x + layer["bias"])
    x = jax.nn.relu(x.reshape(2, -1) @ params["q_0"]["kernel"] + params["q_0"]["bias"])
    expected = (x @ params["q_out"]["kernel"] + params["q_out"]["bias"]).reshape(2, 3, 2)
    np.testing.assert_allclose(network.apply(params, frames, None).per_action, expected, atol=1e-6)


def test_atari_s_network_has_dopamines_size_and_initialisation() -> None:
    shape = (4, 84, 84)
    params = jax.jit(build(Torso.parse("auto", shape), HeadShape(4, 51), shape).init)(jax.random.key(0))
    fan_in = {name: layer["kernel"].shape[0] for name, layer in params.items()}
    assert fan_in == {"conv_0": 8 * 8 * 4, "conv_1": 4 * 4 * 32, "conv_2": 3 * 3 * 64, "q_0": 7744, "q_out": 512}
    for name, layer in params.items():  # variance_scaling(1/√3, fan_in, uniform)
        bound = (3**0.5 / fan_in[name]) ** 0.5
        assert 0.99 * bound < np.abs(layer["kernel"]).max() <= bound
    with pytest.raises(UserError, match=r"needs frames of at least 36×36"):
        Torso.parse("nature:512", (10, 10, 4))


# Normalisation, and several networks as one


def test_layer_norm_is_flaxs_and_stands_before_every_hidden_relu() -> None:
    x = normal(4, 6) * 3 + 1
    params = {"scale": normal(6, seed=1), "bias": normal(6, seed=2)}
    found = jax.jit(LayerNorm().apply)({"params": params}, x)
    np.testing.assert_allclose(found, nn.LayerNorm().apply({"params": params}, x), atol=1e-5)
    frames = np.random.default_rng(0).integers(256, size=(2, 4, 40, 40)).astype(np.uint8)
    for torso, shape, seen, hidden in (
        (Torso((4, 5), (8, 7)), PICTURE, PICTURES, 4),
        (Torso((), (8,), nature=True), (4, 40, 40), frames, 4),
        (Torso((), (9, 8)), (3,), normal(5, 3), 2),
    ):
        network = compiled(torso, HeadShape(3, 2, layer_norm=True), shape)
        params = network.init(jax.random.key(0))
        norms = [name for name in params if name.startswith("LayerNorm")]
        assert len(norms) == hidden
        # A layer's output has no scale of its own any more: ten times the kernel says the same.
        first = "conv_0" if torso.nature else "_Conv3x3_0" if torso.channels else "q_0"
        louder = params | {first: params[first] | {"kernel": 10 * params[first]["kernel"]}}
        same = [network.apply(p, seen, None).per_action for p in (params, louder)]
        np.testing.assert_allclose(*same, atol=1e-3)
        assert "LayerNorm_0" not in compiled(torso, HeadShape(3, 2), shape).init(jax.random.key(0))


def test_the_mean_of_networks_is_the_mean_of_what_they_mean() -> None:
    """Values and quantiles are averaged, of distributions the probabilities are."""
    for head in (value_head(), quantile_head(5), categorical_head(5, -1.0, 1.0)):
        one = build(Torso((), (8,)), HeadShape(3, head.size), (4,))
        stack = jax.vmap(one.init)(jax.random.split(jax.random.key(0), 3))
        x = normal(6, 4)
        mean = jax.jit(mean_of(one, 3, head.mixture).apply)(stack, x, None).per_action
        each = jax.vmap(lambda p: one.apply(p, x, None).per_action)(stack)
        np.testing.assert_allclose(head.values(mean), head.values(each).mean(axis=0), atol=1e-5)
        if head.distribution is not None:
            (found, weights), (atoms, probabilities) = head.distribution(mean), head.distribution(each)
            np.testing.assert_allclose(found, atoms.mean(axis=0), atol=1e-5)
            np.testing.assert_allclose(weights, probabilities.mean(axis=0), atol=1e-5)
    copies = mean_of(one, 3, head.mixture).init(jax.random.key(1))
    jax.tree.map(lambda x: np.testing.assert_array_equal(x[0], x[2]), copies)
