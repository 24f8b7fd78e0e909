"""Layers that only some networks have: normalisation, and noise for exploration."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp


class LayerNorm(nn.Module):
    """Mean 0 and variance 1 over the last axis, in float32; then a scale and a shift for each feature."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        scale = self.param("scale", nn.initializers.ones, (x.shape[-1],))
        bias = self.param("bias", nn.initializers.zeros, (x.shape[-1],))
        normal = jax.nn.standardize(x.astype(jnp.float32), epsilon=1e-6)
        return normal.astype(scale.dtype) * scale + bias


class NoisyDense(nn.Module):
    """A dense layer with factorised Gaussian noise on its weights (Fortunato et al. 2018)."""

    features: int

    @nn.compact
    def __call__(self, x: jax.Array, key: jax.Array | None) -> jax.Array:
        inputs = x.shape[-1]
        spread = inputs**-0.5

        def uniform(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
            return jax.random.uniform(key, shape, minval=-spread, maxval=spread)

        sigma = nn.initializers.constant(0.5 * spread)
        kernel, kernel_sigma = (self.param(n, f, (inputs, self.features)) for n, f in _named(uniform, sigma, "kernel"))
        bias, bias_sigma = (self.param(n, f, (self.features,)) for n, f in _named(uniform, sigma, "bias"))
        if key is not None:
            noise = jax.random.normal(key, (inputs + self.features,))
            noise = (jnp.sign(noise) * jnp.sqrt(jnp.abs(noise))).astype(kernel.dtype)
            rows, columns = noise[:inputs], noise[inputs:]
            kernel = kernel + kernel_sigma * rows[:, None] * columns
            bias = bias + bias_sigma * columns
        return x.astype(kernel.dtype) @ kernel + bias


def _named(mean: Any, sigma: Any, name: str) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return (name, mean), (f"{name}_sigma", sigma)
