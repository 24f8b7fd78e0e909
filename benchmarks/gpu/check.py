"""Atari's network on this GPU beside the same on the CPU, where it is computed in another way: how far values and
gradients are apart, relative to the largest of each array. Fails where that is more than products in TensorFloat-32
explain, which keep 10 bits of a factor. One JSON object. Takes little memory: it may run beside something else.

    python benchmarks/gpu/check.py
"""

import json
import os
import sys
from typing import Any

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import jax.numpy as jnp
import numpy as np

from lookrep.networks import HeadShape, Torso, build

AGENTS, BATCH, ACTIONS, ATOMS, SHAPE = 4, 32, 18, 51, (4, 84, 84)
ALLOWED = 0.02


def main() -> int:
    torso, head = Torso.parse("nature:512", SHAPE), HeadShape(ACTIONS, ATOMS)
    products, native = (build(torso, head, SHAPE, native) for native in (False, True))
    params = jax.device_get(jax.vmap(products.init)(jax.random.split(jax.random.key(0), AGENTS)))
    frames = np.random.default_rng(0).integers(256, size=(AGENTS, BATCH, *SHAPE)).astype(np.uint8)

    def found(network: Any) -> Any:
        def loss(params: Any, frames: jax.Array) -> tuple[jax.Array, jax.Array]:
            logits = network.apply(params, frames, None).per_action
            return (jax.nn.log_softmax(logits) * jnp.cos(jnp.arange(ATOMS))).mean(), logits

        gradients, logits = jax.jit(jax.vmap(jax.grad(loss, has_aux=True)))(params, frames)
        return jax.device_get({"gradient": gradients, "logits": logits})

    here = found(products)
    with jax.default_device(jax.devices("cpu")[0]):
        expected = found(native)
    apart = jax.tree.map(lambda a, b: float(np.abs(a - b).max() / np.abs(b).max()), here, expected)
    largest = max(jax.tree.leaves(apart))
    print(json.dumps({"device": jax.devices()[0].device_kind, "largest": largest, "allowed": ALLOWED, **apart}))
    return int(largest > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
