"""Dropout masks as functions of (run, step, example, place), neither stored nor shared.

A mask bit is a byte of a Philox word below a threshold. The counter holds the place, the key is the
run's own, so a bit depends neither on the batch, nor on the order, nor on the device, and the
kernel in `cuda/` computes the same bits when it uses them. One call of Philox serves 16 places,
which a lane of a warp holds together in a tile of a product:

    embedding, output   counter (token or place, example, step, kind, quad, block of 64 columns),
                        column j = 64 block + 16 word + 8 (byte / 2) + 2 quad + byte % 2
    attention           counter (t / 16, example, step, kind, quad, group, block of 32 heads),
                        t = 16 (t / 16) + 8 (word % 2) + 2 quad + byte % 2,
                        head = 32 block + 16 (word / 2) + 8 (byte / 2) + group

Rate (ours). A byte alone gives multiples of 1/256. The threshold is floor(256 p), and one more with
chance 256 p - floor(256 p); that choice is a hash of the exclusive or of all four words, which is
independent of each of them, so every bit is 1 with probability p to within 2^-32. Two bits of one
call have a covariance below 2^-17.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, UInt32

from capax.training.dropout.philox import Words, philox

EMBEDDING, ATTENTION, OUTPUT = 0, 1, 2  # the kind of a mask, in the lowest byte of the counter
_DITHER = 0x9E3779B9


class Masks(NamedTuple):
    """The masks of one step of one run.

    single: masks of single places of every example, if a kernel has made them: columns of [CLS], of
    the attention output and of the MLP output, then the heads' weights on [CLS].
    """

    key: UInt32[Array, "2"]
    step: Int[Array, ""]
    single: Bool[Array, "m n"] | None = None

    def columns(
        self, kind: int, rate: float, example: Array, places: Int[Array, "n"], d: int
    ) -> Bool[Array, "n d"]:
        """Which of d columns are kept at each place: tokens, or additions to the residual."""
        blocks, shape = -(-d // 64), (len(places), -(-d // 64), 4)
        quad, block = _axis(4, shape, 2), _axis(blocks, shape, 1)
        place = jnp.broadcast_to(places.astype(jnp.uint32)[:, None, None], shape)
        last = jnp.uint32(kind) | (quad << 8) | (block << 16)
        kept = self._kept(rate, place, example, last)  # [n, block, quad, word, byte]
        kept = kept.reshape(*shape, 4, 2, 2)  # the byte as (eights, ones)
        return kept.transpose(0, 1, 3, 4, 2, 5).reshape(len(places), -1)[:, :d]

    def columns_of_examples(
        self, kind: int, rate: float, place: int, m: int, d: int
    ) -> Bool[Array, "m d"]:
        """The same at one place of each of m examples."""
        if self.single is not None:
            first = 0 if kind == EMBEDDING else (1 + place) * d
            return self.single[:, first : first + d]
        places = jnp.full(1, place, jnp.int32)
        one = lambda i: self.columns(kind, rate, i, places, d)[0]  # noqa: E731
        return jax.vmap(one)(jnp.arange(m, dtype=jnp.int32))

    def heads_at(self, rate: float, t: int, m: int, H: int) -> Bool[Array, "m H"]:
        """Which heads of each of m examples keep their weight on position t."""
        if self.single is not None:
            return self.single[:, -H:]
        one = lambda i: self.heads(rate, i, t + 1, H, t // 16)[:, t % 16]  # noqa: E731
        return jax.vmap(one)(jnp.arange(m, dtype=jnp.int32))

    def heads(
        self, rate: float, example: Array, T: int, H: int, first: int = 0
    ) -> Bool[Array, "H t"]:
        """Which attention weights of an example are kept, from tile `first` of 16 positions on."""
        shape = (-(-T // 16) - first, -(-H // 32), 4, 8)
        tile, block, quad, group = (_axis(n, shape, i) for i, n in enumerate(shape))
        tile += jnp.uint32(first)
        last = jnp.uint32(ATTENTION) | (quad << 8) | (group << 10) | (block << 16)
        kept = self._kept(rate, tile, example, last)  # [tile, block, quad, group, word, byte]
        kept = kept.reshape(*shape, 2, 2, 2, 2)  # word as (sixteens of heads, eights of t), byte
        kept = kept.transpose(1, 4, 6, 3, 0, 5, 2, 7)
        return kept.reshape(32 * shape[1], 16 * shape[0])[:H, : T - 16 * first]

    def _kept(self, rate: float, first: Array, example: Array, last: Array) -> Bool[Array, "..."]:
        """Bits of the 16 places of every counter, in two last axes: word, byte."""
        second = jnp.broadcast_to(jnp.asarray(example).astype(jnp.uint32), first.shape)
        third = jnp.broadcast_to(self.step.astype(jnp.uint32), first.shape)
        words = philox((first, second, third, last), (self.key[0], self.key[1]))
        shifts = jnp.arange(0, 32, 8, dtype=jnp.uint32).reshape((1,) * (first.ndim + 1) + (4,))
        bytes_ = (jnp.stack(words, axis=-1)[..., None] >> shifts) & jnp.uint32(0xFF)
        return bytes_ >= _threshold(rate, words)[..., None, None]


def _axis(number: int, shape: tuple[int, ...], axis: int) -> UInt32[Array, "..."]:
    """0 .. number - 1 along one axis of an array of this shape."""
    line = [1] * len(shape)
    line[axis] = number
    return jnp.broadcast_to(jnp.arange(number, dtype=jnp.uint32).reshape(line), shape)


def thresholds(rate: float) -> tuple[int, int]:
    """(t, f): a byte is dropped below t, or below t + 1 with chance f / 2^32."""
    whole = int(256 * rate)
    return whole, min(round((256 * rate - whole) * 2**32), 2**32 - 1)


def _threshold(rate: float, words: Words) -> UInt32[Array, "..."]:
    whole, part = thresholds(rate)
    mixed = (words[0] ^ words[1] ^ words[2] ^ words[3]) * jnp.uint32(_DITHER)
    return jnp.uint32(whole) + (mixed < jnp.uint32(part)).astype(jnp.uint32)
