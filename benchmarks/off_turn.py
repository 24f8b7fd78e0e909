"""What a target update costs outside its turn, for growing K_R: it should not depend on it.

First a population inside `jit`, then one agent in a plain Python loop.

python benchmarks/off_turn.py
"""

import json
import statistics
import time

import jax
import jax.numpy as jnp
import optax

from lookrep import distances, targets

AGENTS, INPUTS, WIDTH, BATCH, EVERY = 16, 64, 256, 32, 1000


def value(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params["a"]) @ params["b"]


def microseconds(k_r: int, online_updates: int, jitted: bool = True) -> float:
    """Median time of one update: jitted, of the whole population; else of its first agent."""
    rule = targets.replicate(EVERY, k_r, optax.adam(1e-3), distances.squared(value))
    keys = jax.random.split(jax.random.key(0), AGENTS)
    online = jax.vmap(
        lambda key: {"a": jax.random.normal(key, (INPUTS, WIDTH)) / 8, "b": jax.random.normal(key, (WIDTH, 4)) / 16}
    )(keys)
    x = jax.random.normal(jax.random.key(1), (BATCH, INPUTS))
    update = jax.jit(
        jax.vmap(lambda s, w, t: rule.update(s, w, t, batches=lambda k: x), in_axes=(0, 0, None)), donate_argnums=0
    )
    state = jax.vmap(rule.init)(online, jax.tree.map(lambda leaf: 0.5 * leaf, online))
    if not jitted:
        state, online = jax.tree.map(lambda leaf: leaf[0], (state, online))
        update = lambda s, w, t: rule.update(s, w, t, batches=lambda k: x)  # noqa: E731
    state = jax.block_until_ready(update(state, online, online_updates))
    times = []
    for _ in range(200 if online_updates % EVERY else 5):
        began = time.perf_counter()
        state = jax.block_until_ready(update(state, online, online_updates))
        times.append(time.perf_counter() - began)
    return round(statistics.median(times) * 1e6, 1)


if __name__ == "__main__":
    for k_r in (1, 10, 100, 1000):
        for jitted in (True, False):
            off, on = (microseconds(k_r, online_updates, jitted) for online_updates in (1, EVERY))
            print(json.dumps({"K_R": k_r, "jit": jitted, "off_turn_us": off, "on_turn_us": on}))
