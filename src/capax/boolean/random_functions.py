"""Random words from a key, and random supports and functions drawn with them.

Words come from the counter-based Philox generator, keyed by the two 32-bit words of a key, and are
used as integers only: the same key gives the same result on every machine, on any device and in any
float mode.
"""

from typing import Any

import numpy as np
from jaxtyping import UInt32

from capax.boolean.functions import MAX_SPARSITY, SparseFunction
from capax.errors import require

Key = tuple[int, int] | Any
"""Two 32-bit words (`capax.identity.key_words`) or a JAX PRNG key, which holds two as well."""


WORDS_PER_COUNT = 8
"""Philox gives 256 bits for each value of its counter."""

_PHILOX_FACTORS = np.array([0xD2E7470EE14C6C93, 0xCA5A826395121157], dtype=np.uint64)
_PHILOX_STEPS = np.array([0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B], dtype=np.uint64)


class WordStream:
    """An endless stream of uniform 32-bit words: the n-th word depends on (key, stream, n) only.

    `start`, a multiple of 8: the number of the first word.
    """

    def __init__(self, *, key: Key, stream: int = 0, start: int = 0) -> None:
        require(start % WORDS_PER_COUNT == 0, "start", "a multiple of 8", start)
        high, low = _two_words(key)
        counter = np.array([0, 0, 0, stream], dtype=np.uint64)
        bits = np.random.Philox(counter=counter, key=(high << 32) | low)
        self._generator = np.random.Generator(bits.advance(start // WORDS_PER_COUNT))

    def next(self, num_words: int) -> UInt32[np.ndarray, " num_words"]:
        """The next `num_words` words; an odd number skips one word."""
        half = -(-num_words // 2)
        # The whole range of uint64 is the raw stream; unlike `random_raw` it releases the GIL.
        raw = self._generator.integers(0, 2**64 - 1, half, np.uint64, endpoint=True).astype("<u8")
        return raw.view("<u4")[:num_words].astype(np.uint32, copy=False)


def uniform_words(num_words: int, *, key: Key, stream: int = 0) -> UInt32[np.ndarray, " num_words"]:
    """The first `num_words` words of stream number `stream` of `key`."""
    return WordStream(key=key, stream=stream).next(num_words)


def words_at(
    places: np.ndarray, *, key: Key, stream: np.ndarray | int = 0
) -> UInt32[np.ndarray, "..."]:
    """Single words of streams of `key`, each computed alone: `places[i]` of stream `stream[i]`.

    A word costs about twenty times as much as in a sequence of `WordStream`, at any place.
    """
    high, low = _two_words(key)
    raw, half = np.divmod(np.asarray(places, dtype=np.uint64), np.uint64(2))
    count, lane = np.divmod(raw, np.uint64(4))
    words = _philox(count + np.uint64(1), np.asarray(stream, dtype=np.uint64), (high << 32) | low)
    chosen = np.choose(lane.astype(np.int64), words)
    return (chosen >> (half * np.uint64(32))).astype(np.uint32)


def _philox(first: np.ndarray, last: np.ndarray, key: int) -> np.ndarray:
    """[4, ...]: Philox4x64-10 of the counters (first, 0, 0, last), as NumPy has it (Salmon 2011).

    NumPy counts up before it draws: its n-th block belongs to the counter n + 1.
    """
    even = np.zeros((2, *np.broadcast(first, last).shape), dtype=np.uint64)  # words 0 and 2
    odd = np.zeros_like(even)  # words 1 and 3
    even[0], odd[1] = first, last
    keys = np.array([key, 0], dtype=np.uint64).reshape(2, *(1,) * (even.ndim - 1))
    for _ in range(10):
        high, low = _products(even)
        even, odd = high[::-1] ^ odd ^ keys, low[::-1]
        keys = keys + _PHILOX_STEPS.reshape(keys.shape)  # modulo 2^64
    return np.stack([even[0], odd[0], even[1], odd[1]])


def _products(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The high and the low 64 bits of x times its factor, by halves of 32 bits."""
    factors = _PHILOX_FACTORS.reshape(2, *(1,) * (x.ndim - 1))
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    x1, x0, f1, f0 = x >> half, x & mask, factors >> half, factors & mask
    middle = x1 * f0 + ((x0 * f0) >> half)  # at most (2^32 - 1)^2 + 2^32 - 1 < 2^64
    carried = x0 * f1 + (middle & mask)
    return x1 * f1 + (middle >> half) + (carried >> half), x * factors


def random_support(T: int, s: int, *, key: Key, ordered: bool = False) -> tuple[int, ...]:
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


def random_function(s: int, *, T: int | None = None, key: Key) -> SparseFunction:
    """A uniformly random Boolean table on s positions: a random s-subset of 0..T-1, or 0..s-1."""
    require(0 <= s <= MAX_SPARSITY, "s", f"0 <= s <= {MAX_SPARSITY}", s)
    table = (uniform_words(1 << s, key=key, stream=1) >> 31).astype(np.float64)
    support = tuple(range(s)) if T is None else random_support(T, s, key=key)
    return SparseFunction(support, table, T)


def _two_words(key: Key) -> tuple[int, int]:
    """The two words of a pair or of a (typed or raw) JAX key."""
    if isinstance(key, tuple):
        words = key
    else:
        import jax

        words = tuple(np.asarray(jax.random.key_data(key)).reshape(-1).tolist())
    fits = len(words) == 2 and all(isinstance(w, int) and 0 <= w < 2**32 for w in words)
    require(fits, "key", "two 32-bit words or a threefry JAX key", words)
    return int(words[0]), int(words[1])


def generator(*, key: Key) -> np.random.Generator:
    """A NumPy generator from a key, for simulations whose exact draws are not stored as data."""
    high, low = _two_words(key)
    return np.random.Generator(np.random.Philox(key=(high << 32) | low))
