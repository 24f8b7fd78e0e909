"""What a target update costs a population outside its turn, for growing K_R: it should not depend on it.

python benchmarks/off_turn.py
"""

import json
import statistics
import time

import jax
import jax.numpy as jnp
import optax

from lookrep import losses, targets

AGENTS, INPUTS, WIDTH, BATCH, EVERY = 16, 64, 256, 32, 1000


def value(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["a"]) @ params["b"]


def microseconds(k_r: int, online_updates: int) -> float:
    """Median time of one jitted update of the whole population."""
    rule = targets.replicate(EVERY, k_r, optax.adam(1e-3), losses.squared_distance(value))
    keys = jax.random.split(jax.random.key(0), AGENTS)
    online = jax.vmap(
        lambda key: {"a": jax.random.normal(key, (INPUTS, WIDTH)) / 8, "b": jax.random.normal(key, (WIDTH, 4)) / 16}
    )(keys)
    x = jax.random.normal(jax.random.key(1), (BATCH, INPUTS))
    update = jax.jit(
        jax.vmap(lambda s, w, t: rule.update(s, w, t, batches=lambda k: x), in_axes=(0, 0, None)), donate_argnums=0
    )
    state = jax.vmap(rule.init)(online, jax.tree.map(lambda leaf: 0.5 * leaf, online))
    state = jax.block_until_ready(update(state, online, online_updates))
    times = []
    for _ in range(200 if online_updates % EVERY else 5):
        began = time.perf_counter()
        state = jax.block_until_ready(update(state, online, online_updates))
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1e6, 1)


if __name__ == "__main__":
    for k_r in (1, 10, 100, 1000):
        print(json.dumps({"K_R": k_r, "off_turn_us": microseconds(k_r, 1), "on_turn_us": microseconds(k_r, EVERY)}))
