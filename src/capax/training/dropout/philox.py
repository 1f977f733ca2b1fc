"""Philox4x32: four random words from a counter and a key, the same on every device.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). Seven rounds pass
all tests of BigCrush; the usual ten leave a margin that dropout does not need.
"""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, UInt32

ROUNDS = 7
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)  # the golden ratio and sqrt(3) - 1, added to the key every round

Words = tuple[
    UInt32[Array, "..."], UInt32[Array, "..."], UInt32[Array, "..."], UInt32[Array, "..."]
]


def philox(counter: Words, key: tuple[Array, Array], rounds: int = ROUNDS) -> Words:
    """The four words of every counter; all counters have one shape, the key words are scalars."""
    a, b, c, d = counter
    for number in range(rounds):
        keys = [
            word + jnp.uint32(step * number % 2**32) for word, step in zip(key, _WEYL, strict=True)
        ]
        (high_a, low_a), (high_c, low_c) = (
            _product(word, by) for word, by in zip((a, c), _MULTIPLIERS, strict=True)
        )
        a, b, c, d = high_c ^ b ^ keys[0], low_c, high_a ^ d ^ keys[1], low_a
    return a, b, c, d


def _product(x: Array, by: int) -> tuple[Array, Array]:
    """High and low word of a 64-bit product."""
    word = jnp.uint32(by)
    return lax.mulhi(x, word), x * word
