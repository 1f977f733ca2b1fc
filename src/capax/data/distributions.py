"""Bernoulli(p) bits from a key: the same bits on every machine, in any order, alone or in a batch.

A bit is 1 when a uniform 32-bit word is below round(p 2^32): integers only, so the result does not
depend on float precision, device or compiler. `bernoulli_rows` draws on the host, without JAX, and
fewer rows are a prefix of more rows; `bernoulli_bits` is its counterpart inside JAX programs, for
training on fresh samples.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import UInt8

from capax.boolean.random_functions import WORDS_PER_COUNT, Key, WordStream, words_at
from capax.errors import require
from capax.machine import check_memory, num_cores

if TYPE_CHECKING:
    import jax

_WORDS_AT_ONCE = 1 << 20


def word_threshold(p: float) -> int:
    """round(p 2^32), kept within 32 bits: P[word < threshold] = p to within 2^-32."""
    require(0.0 <= p <= 1.0, "p", "a probability in [0, 1]", p)
    return min(round(p * 2**32), 2**32 - 1)


def bernoulli_rows(
    num_rows: int, T: int, p: float, *, key: Key, stream: int = 0
) -> UInt8[np.ndarray, "m T"]:
    """`num_rows` inputs from Bernoulli(p)^T; different streams of a key are independent."""
    require(num_rows >= 0, "num_rows", "a number >= 0", num_rows)
    require(T >= 1, "T", "a length >= 1", T)
    threshold = np.uint32(word_threshold(p))
    check_memory(2 * num_rows * T, f"T: {num_rows} inputs of length {T}")
    bits = np.empty(num_rows * T, dtype=np.uint8)

    def draw(start: int) -> None:
        part = bits[start : start + _WORDS_AT_ONCE]
        words = WordStream(key=key, stream=stream, start=start).next(part.size)
        np.less(words, threshold, out=part.view(np.bool_))

    starts = range(0, bits.size, _WORDS_AT_ONCE)
    if len(starts) > 1:  # every part is a stretch of one stream, so threads change nothing
        with ThreadPoolExecutor(min(len(starts), num_cores())) as pool:
            list(pool.map(draw, starts))
    elif len(starts):
        draw(0)
    return bits.reshape(num_rows, T)


def input_rows(
    num_rows: int, T: int, p: float, alphabet: int = 2, *, key: Key, stream: int = 0
) -> UInt8[np.ndarray, "m T"]:
    """`num_rows` inputs: Bernoulli(p) bits, or symbols of a larger alphabet, equally likely.

    A symbol is floor(word M / 2^32): its chance is 1/M to within 2^-32.
    """
    if alphabet == 2:
        return bernoulli_rows(num_rows, T, p, key=key, stream=stream)
    check_memory(10 * num_rows * T, f"T: {num_rows} inputs of length {T}")
    words = WordStream(key=key, stream=stream).next(num_rows * T).astype(np.uint64)
    symbols = (words * np.uint64(alphabet) >> np.uint64(32)).astype(np.uint8)
    return symbols.reshape(num_rows, T)


def bernoulli_stretch(
    start: int, size: int, p: float, *, key: Key, stream: int = 0
) -> UInt8[np.ndarray, " size"]:
    """The bits start .. start + size - 1 of `bernoulli_rows`, row after row, drawn alone."""
    before = start % WORDS_PER_COUNT  # where a stream may begin
    words = WordStream(key=key, stream=stream, start=start - before).next(before + size)
    return (words[before:] < np.uint32(word_threshold(p))).view(np.uint8)


def bernoulli_at(
    places: np.ndarray, p: float, *, key: Key, stream: np.ndarray | int = 0
) -> UInt8[np.ndarray, "..."]:
    """Single bits of `bernoulli_rows`: bit j of row i stands at place i T + j."""
    return (words_at(places, key=key, stream=stream) < np.uint32(word_threshold(p))).view(np.uint8)


def bernoulli_bits(shape: tuple[int, ...], p: float, *, key: "jax.Array") -> Any:
    """Independent Bernoulli(p) bits as a JAX uint8 array; works under jit and vmap."""
    import jax

    threshold = np.uint32(word_threshold(p))
    with jax.threefry_partitionable(True):
        return (jax.random.bits(key, shape, np.uint32) < threshold).astype(np.uint8)
