"""Networks for value-based agents: a torso (CNN or MLP) and a head that gives K numbers per action.

A network is an (init, apply) pair: `init(key)` gives parameters, `apply(params, observations, key)` gives outputs for a
batch of observations. What the K numbers mean (a value, logits, quantiles) is `lookrep.heads`' business; networks that
users bring become such pairs in `lookrep.networks.own`.

`nature` is the CNN of Mnih et al. (2015) with Dopamine's padding and initialisation, for stacks of frames.

Convolutions are written as matrix products: under `vmap` over a population's parameters those are batched matrix
products, where a convolution would become a grouped one, which is slow on GPUs (see docs/performance.md). Only
`nature`'s have a second form, for CPUs, with the same parameters.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from lookrep.errors import UserError
from lookrep.networks import convolutions
from lookrep.networks.layers import LayerNorm, NoisyDense


class Outputs(NamedTuple):
    """What a network says about a batch of observations."""

    per_action: jax.Array  # [batch, actions, K]
    taus: jax.Array  # [batch, K]: the fractions that K quantiles stand for; meaningless for other heads


class Network(NamedTuple):
    init: Callable[[jax.Array], Any]
    apply: Callable[[Any, jax.Array, jax.Array | None], Outputs]  # key=None: no noise, evenly spread fractions


@dataclass(frozen=True)
class Torso:
    """The shape of a network: convolutions (3×3 with these channels, or those for Atari), then dense layers."""

    channels: tuple[int, ...] = ()
    widths: tuple[int, ...] = (128,)
    nature: bool = False

    @property
    def pictures(self) -> bool:
        return bool(self.channels) or self.nature

    @staticmethod
    def parse(text: str, observation_shape: tuple[int, ...]) -> "Torso":
        """Read a network's short name; `auto` is Atari's CNN for stacks of frames, MinAtar's for small pictures
        [height, width, channels], and an MLP for vectors.

        >>> Torso.parse("cnn16:128", (10, 10, 4))
        Torso(channels=(16,), widths=(128,), nature=False)
        >>> Torso.parse("mlp:64x64", (4,))
        Torso(channels=(), widths=(64, 64), nature=False)
        >>> Torso.parse("auto", (4, 84, 84))
        Torso(channels=(), widths=(512,), nature=True)
        """
        frames = len(observation_shape) == 3 and min(observation_shape[1:]) >= FRAME_SIDE
        if text == "auto":
            text = "nature:512" if frames else "cnn16:128" if len(observation_shape) == 3 else "mlp:128x128"
        text = re.sub(r"^cnn:", "cnn16:", text)
        match = re.fullmatch(r"(?:cnn(\d+(?:-\d+)*)|mlp|(nature)):(\d+(?:x\d+)*)", text)
        if match is None:
            raise UserError(
                f"network '{text}': write cnn16:128, cnn16-32:256x128, nature:512, mlp:64x64, auto, or my_nets:Torso"
            )
        channels = tuple(map(int, match[1].split("-"))) if match[1] else ()
        widths = tuple(map(int, match[3].split("x")))
        if 0 in channels + widths:
            raise UserError(f"network '{text}': a layer of size 0")
        if len(channels + widths) > MOST_LAYERS:
            raise UserError(f"network '{text}': {len(channels + widths)} layers; at most {MOST_LAYERS} can be compiled")
        if channels and len(observation_shape) != 3:
            raise UserError(
                f"network '{text}': a CNN needs pictures, these observations have shape {observation_shape}"
            )
        if channels and min(observation_shape[:2]) <= 2 * len(channels):
            raise UserError(f"network '{text}': too many 3×3 convolutions for a {observation_shape} picture")
        if match[2] and not frames:
            raise UserError(
                f"network '{text}': needs frames of at least {FRAME_SIDE}×{FRAME_SIDE}, [stack, height, width]; these "
                f"observations have shape {observation_shape}"
            )
        return Torso(channels, widths, bool(match[2]))


@dataclass(frozen=True)
class HeadShape:
    """What the last layer looks like, and whether those before it are normalised."""

    actions: int
    size: int  # K numbers per action
    dueling: bool = False
    noisy: bool = False
    implicit: bool = False  # IQN: the K fractions are inputs, drawn for each observation
    layer_norm: bool = False  # before every ReLU but that of IQN's fractions


# Every layer: uniform with variance 1/(3·fan-in), PyTorch's default and so that of MinAtar's own agents …
INITIALIZER = nn.initializers.variance_scaling(1.0 / 3.0, "fan_in", "uniform")
# … but 1/(√3·fan-in) in every layer of `nature`: Dopamine's.
NATURE_INITIALIZER = nn.initializers.variance_scaling(3.0**-0.5, "fan_in", "uniform")
NATURE_LAYERS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))  # (channels, kernel, stride)
PARTS = 16  # of a batch, side by side on a CPU's cores
MOST_LAYERS = 128  # of 300, XLA's compiler dies after minutes
FRAME_SIDE = 36  # smaller pictures are MinAtar-like
COSINES = 64  # IQN's embedding of a fraction


def build(torso: Torso, head: HeadShape, observation_shape: tuple[int, ...], native: bool | None = None) -> Network:
    """A network of this shape. It computes in the dtype of the parameters it is given.

    `native`: how Atari's CNN is computed (`lookrep.networks.convolutions`); None: natively on a CPU, as
    products elsewhere.
    """
    native = jax.default_backend() == "cpu" if native is None else native
    return _network(_Net(torso, head, native and torso.nature), observation_shape)


def last_layers(head: HeadShape, features: int) -> Network:
    """What turns a user's features into K numbers per action: one layer, or what dueling, noisy and iqn ask for."""
    return _network(_Net(Torso(widths=()), head, native=False), (features,))


def _network(module: nn.Module, input_shape: tuple[int, ...]) -> Network:
    def init(key: jax.Array) -> Any:
        return module.init(key, jnp.zeros((1, *input_shape)), None)["params"]

    def apply(params: Any, observations: jax.Array, key: jax.Array | None) -> Outputs:
        outputs: Outputs = module.apply({"params": params}, observations, key)
        return outputs

    return Network(init, apply)


class _Net(nn.Module):
    torso: Torso
    head: HeadShape
    native: bool

    @nn.compact
    def __call__(self, observations: jax.Array, key: jax.Array | None) -> Outputs:
        batch, head, x = observations.shape[0], self.head, observations
        initializer = NATURE_INITIALIZER if self.torso.nature else INITIALIZER
        if self.torso.nature:
            x = self._convolved(x.transpose(0, 2, 3, 1))  # still bytes
        if x.dtype == jnp.uint8:
            x = x / jnp.float32(255)
        for channels in self.torso.channels:
            x = self._active(_Conv3x3(channels)(x))
        x = x.reshape(batch, -1)

        fractions_key, noise_key = (None, None) if key is None else jax.random.split(key)
        even = (jnp.arange(head.size, dtype=jnp.float32) + 0.5) / head.size
        taus = jnp.broadcast_to(even, (batch, head.size))
        widths = self.torso.widths
        if head.implicit and not self.torso.pictures and widths:
            # Fractions modulate features, not the observation: where it is 0, as in a one-hot, they would say nothing.
            x, widths = self._active(_Dense(widths[0], initializer)(x)), widths[1:]
        if head.implicit:
            if fractions_key is not None:
                taus = jax.random.uniform(fractions_key, taus.shape)
            cosines = jnp.cos(jnp.pi * taus[..., None] * jnp.arange(1, COSINES + 1))
            phi = nn.relu(_Dense(x.shape[-1], initializer)(cosines))
            x = x[:, None, :] * phi  # [batch, K, features]: from here on one row per fraction
        per_row = 1 if head.implicit else head.size

        def dense(y: jax.Array, features: int, name: str) -> jax.Array:
            if head.noisy:
                seed = None if noise_key is None else jax.random.fold_in(noise_key, _stable_hash(name))
                return NoisyDense(features, name=name)(y, seed)
            return _Dense(features, initializer, self.native, name=name)(y)

        def stream(y: jax.Array, outputs: int, name: str) -> jax.Array:
            for i, width in enumerate(widths):
                y = self._active(dense(y, width, f"{name}_{i}"))
            y = dense(y, outputs * per_row, f"{name}_out")
            y = y.reshape(*y.shape[:-1], outputs, per_row)
            return y.squeeze(-1).swapaxes(1, 2) if head.implicit else y  # [batch, outputs, K]

        out = stream(x, head.actions, "q").astype(jnp.float32)
        if head.dueling:
            out = stream(x, 1, "v").astype(jnp.float32) + out - out.mean(axis=1, keepdims=True)
        return Outputs(out, taus)

    def _active(self, x: jax.Array) -> jax.Array:
        """What a hidden layer gives."""
        return nn.relu(LayerNorm()(x) if self.head.layer_norm else x)

    def _convolved(self, x: jax.Array) -> jax.Array:
        layers = [_Conv(*layer, self.native, name=f"conv_{i}") for i, layer in enumerate(NATURE_LAYERS)]
        norms = [LayerNorm() if self.head.layer_norm else lambda x: x for _ in layers]

        def through(part: jax.Array) -> jax.Array:
            for layer, norm in zip(layers, norms, strict=True):
                part = nn.relu(norm(layer(part)))
            return part

        # A CPU's convolution runs on one core, but several at a time; XLA looks for another core only when more than
        # eight operations could be run.
        parts = jnp.array_split(x, min(PARTS, len(x))) if self.native else [x]
        return jnp.concatenate([through(part) for part in parts])


class _Dense(nn.Module):
    features: int
    initializer: Any = INITIALIZER
    native: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", self.initializer, (x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        x = x.astype(kernel.dtype)
        if self.native and x.ndim == 2:
            return convolutions.product(x, kernel) + bias
        return x @ kernel + bias


class _Conv(nn.Module):
    """A strided convolution with SAME padding; bytes are read as fractions of 255."""

    features: int
    size: int
    stride: int
    native: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        kernel = self.param("kernel", NATURE_INITIALIZER, (self.size**2 * x.shape[-1], self.features))
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        convolve = convolutions.native if self.native else convolutions.as_products
        return convolve(x, kernel, self.size, self.stride) + bias


class _Conv3x3(nn.Module):
    """A 3×3 convolution without padding, as one matrix product per row of the output.

    Three rows of the input, flattened, times the kernel laid out as a band matrix give one row of the output. The zeros
    in the band cost arithmetic, of which there is plenty; patches would cost memory traffic, which is the limit. For
    the same reason the bias is one more row of the matrix, met by a constant 1 in the input.
    """

    features: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        batch, height, width, channels = x.shape
        kernel = self.param("kernel", INITIALIZER, (9 * channels, self.features)).reshape(3, 3, channels, -1)
        bias = self.param("bias", nn.initializers.zeros, (self.features,))
        # band[i, x, c, y, o] = kernel[i, x − y, c, o]: input column x, output column y
        x_minus_y = jnp.arange(width)[:, None] - jnp.arange(width - 2)
        band = sum(
            kernel[:, None, j, :, None, :] * (x_minus_y == j).astype(kernel.dtype)[None, :, None, :, None]
            for j in range(3)
        )
        matrix = jnp.asarray(band).reshape(3 * width * channels, -1)
        spare = 8 - matrix.shape[0] % 8  # rows to the next multiple of 8; the first holds the bias
        last = jnp.pad(jnp.tile(bias, width - 2)[None], ((0, spare - 1), (0, 0)))
        x = x.astype(kernel.dtype).reshape(batch, height, width * channels)
        one = jnp.broadcast_to((jnp.arange(spare) == 0).astype(kernel.dtype), (batch, height - 2, spare))
        rows = jnp.concatenate([*(x[:, i : i + height - 2] for i in range(3)), one], axis=-1)
        out = rows @ jnp.concatenate([matrix, last])
        return out.reshape(batch, height - 2, width - 2, self.features)


def _stable_hash(name: str) -> int:
    """The same number in every process, unlike `hash`."""
    return sum((i + 1) * ord(letter) for i, letter in enumerate(name))
