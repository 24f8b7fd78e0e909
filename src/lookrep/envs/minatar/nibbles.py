"""Eight small counters in one 32-bit word, updated together: one nibble (4 bits) each.

A game's eight lanes (or six timers) become one scalar, so that a whole step is elementwise arithmetic on scalars
and fuses into one kernel: no scatter, no gather, no reduction over lanes. "Flags" are words in which only the
lowest bit of each nibble is used. Nothing here knows about a game.
"""

import jax
import jax.numpy as jnp
import numpy as np

ONES = np.uint32(0x11111111)  # the flag of every nibble


def word(value: int | np.uint32 | jax.Array) -> jax.Array:
    """`value` as a 32-bit word."""
    return jnp.asarray(value, jnp.uint32)


def nonzero(words: jax.Array) -> jax.Array:
    """Flags of the nibbles that are not zero.

    >>> print(hex(nonzero(word(0x0A0081F0))))
    0x1001110
    """
    pairs = words | (words >> word(1))
    return (pairs | (pairs >> word(2))) & ONES


def equal(words: jax.Array, value: int) -> jax.Array:
    """Flags of the nibbles equal to `value`.

    >>> print(hex(equal(word(0x0A0A1AA1), 10)))
    0x1010110
    """
    return nonzero(words ^ (ONES * np.uint32(value))) ^ ONES


def fill(flags: jax.Array) -> jax.Array:
    """All four bits of each flagged nibble: a mask.

    >>> print(hex(fill(word(0x100010))))
    0xf000f0
    """
    return flags * word(15)


def get(words: jax.Array, index: jax.Array) -> jax.Array:
    """Nibble `index` (0 to 7) as int32."""
    return ((words >> word(4 * index)) & word(15)).astype(jnp.int32)


def lowest(flags: jax.Array) -> jax.Array:
    """Only the lowest flag that is set; no flag where none is.

    >>> print(hex(lowest(word(0x10100))))
    0x100
    """
    return flags & (~flags + word(1))


def nth(flags: jax.Array, n: jax.Array) -> jax.Array:
    """Only the n-th lowest flag that is set (n from 0); no flag where there are not that many.

    >>> print(hex(nth(word(0x10110), 2)))
    0x10000
    """
    for cleared in range(7):
        flags = jnp.where(cleared < n, flags & (flags - word(1)), flags)
    return lowest(flags)
