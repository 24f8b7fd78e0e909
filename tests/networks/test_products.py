"""Convolutions as products agree with convolutions, whatever library wrote them, also in their derivatives."""

from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lookrep.networks.products import convolutions_as_products

pytestmark = pytest.mark.usefixtures("quick_compilation")


class Torso(nn.Module):
    padding: str
    strides: int
    size: tuple[int, int]

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.relu(nn.Conv(6, self.size, self.strides, padding=self.padding)(x))
        return nn.Dense(3)(nn.max_pool(x, (2, 2)).reshape(len(x), -1))


@pytest.mark.parametrize("side", [10, 40], ids=["band", "patches"])
@pytest.mark.parametrize(("padding", "strides", "size"), [("VALID", 1, (3, 3)), ("SAME", 2, (4, 5))])
def test_flax_convolutions(side: int, padding: str, strides: int, size: tuple[int, int]) -> None:
    module = Torso(padding, strides, size)
    x = jax.random.normal(jax.random.key(0), (5, side, side + 1, 4))
    params = jax.vmap(lambda key: module.init(key, x))(jax.random.split(jax.random.key(1), 2))
    converted = convolutions_as_products(module.apply)

    def both(params: Any, x: jax.Array) -> list[Any]:
        return [
            jax.value_and_grad(lambda p, x, f=f: (f(p, x) ** 2).sum(), argnums=(0, 1))(params, x)
            for f in (module.apply, converted)
        ]

    def two(params: Any) -> list[Any]:
        return both(params, x)

    theirs, ours = jax.jit(jax.vmap(two))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4), theirs, ours)
    assert "conv_general_dilated" not in str(jax.make_jaxpr(converted)(jax.tree.map(lambda p: p[0], params), x))


def test_equinox_convolutions_and_what_is_left_alone() -> None:
    layers = eqx.nn.Sequential(
        [eqx.nn.Conv2d(4, 6, 3, key=jax.random.key(0)), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Lambda(jnp.ravel)]
    )
    x = jax.random.normal(jax.random.key(1), (5, 4, 10, 10))  # channels first
    f = jax.vmap(layers)
    np.testing.assert_allclose(convolutions_as_products(f)(x), f(x), rtol=1e-5, atol=1e-5)
    dilated = nn.Conv(2, (3, 3), kernel_dilation=2)
    grouped = nn.Conv(4, (3, 3), feature_group_count=4)
    for module in (dilated, grouped):
        params = module.init(jax.random.key(0), jnp.ones((1, 10, 10, 4)))
        traced = jax.make_jaxpr(convolutions_as_products(module.apply))(params, jnp.ones((2, 10, 10, 4)))
        assert "conv_general_dilated" in str(traced)
