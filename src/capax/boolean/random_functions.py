"""Random supports and random functions, drawn from a key by integers only.

Integer arithmetic on threefry words gives the same result on every machine and in every float
mode; no floating-point number is drawn anywhere.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt32

from capax.boolean.functions import MAX_SPARSITY, SparseFunction
from capax.errors import require

if TYPE_CHECKING:
    import jax


def uniform_words(num_words: int, *, key: Any) -> UInt32[np.ndarray, " num_words"]:
    """Independent uniform 32-bit words from `key`."""
    import jax

    with jax.threefry_partitionable(True):
        return np.asarray(jax.random.bits(key, (num_words,), np.uint32))


def random_support(T: int, s: int, *, key: "jax.Array", ordered: bool = False) -> tuple[int, ...]:
    """A uniformly random s-subset of 0..T-1, sorted; with `ordered`, a random s-tuple instead.

    Fisher-Yates on a virtual list 0..T-1: step i swaps entry i with a uniform entry j in i..T-1,
    j = i + (64-bit word mod (T - i)), which is uniform up to T/2^64.
    Raises `InputError` unless 0 <= s <= T.
    """
    require(0 <= s <= T, "s", f"0 <= s <= T = {T}", s)
    words = uniform_words(2 * s, key=key).tolist()
    moved: dict[int, int] = {}
    drawn = []
    for i in range(s):
        j = i + ((words[2 * i] << 32) | words[2 * i + 1]) % (T - i)
        drawn.append(moved.get(j, j))
        moved[j] = moved.get(i, i)
    return tuple(drawn) if ordered else tuple(sorted(drawn))


def random_function(s: int, *, T: int | None = None, key: "jax.Array") -> SparseFunction:
    """A uniformly random Boolean table on s positions: a random s-subset of 0..T-1, or 0..s-1."""
    import jax

    require(0 <= s <= MAX_SPARSITY, "s", f"0 <= s <= {MAX_SPARSITY}", s)
    table_key, support_key = jax.random.split(key)
    table = (uniform_words(1 << s, key=table_key) >> 31).astype(np.float64)
    support = tuple(range(s)) if T is None else random_support(T, s, key=support_key)
    return SparseFunction(support, table, T)
