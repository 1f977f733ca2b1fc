"""From bits to tokens: the encodings of Section 5. The [CLS] token is appended LAST: T + 1 rows.

| encoding | token x_t | d |
|---|---|---|
| `DeterministicPositions` | E_{b_t} + P_t, all of P, E, v_CLS orthonormal | T + M + 1 |
| `TrainablePositions` | E_{b_t} + P_t, any vectors | any |
| `BagOfVectors` | b_t v_t | any |
| `OrthonormalBag` | b_t v_t, orthonormal v_t and v_CLS | T + 1 |
| `IncoherentCodes` | E_{b_t} + P_t, random signs / sqrt(d) | d << T |
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from capax.attention.parts.tokens import Bits, TwoHotTokens
from capax.errors import require


def as_bits(bits: Bits, T: int, alphabet: int = 2) -> Array:
    """Bits as int32 [T]; checks the length, and the values when they are concrete."""
    require(bits.shape == (T,), "bits", wanted_shape(T, bits.shape), bits.shape)
    if not isinstance(bits, jax.core.Tracer):
        values = np.asarray(bits).astype(np.int64)
        inside = bool(np.all((values >= 0) & (values < alphabet)))
        require(inside, "bits", f"symbols from 0 to {alphabet - 1}", values)
    return jnp.asarray(bits).astype(jnp.int32)


def wanted_shape(T: int, shape: tuple[int, ...]) -> str:
    """The message for bits of another shape; for a batch, with the call that runs it."""
    hint = "; a batch: jax.vmap(model)(bits)" if len(shape) > 1 and shape[-1] == T else ""
    return f"{T} symbols, shape ({T},){hint}"


def coherence(codes: Float[Array, "n d"], block: int = 1024) -> float:
    """mu = max over pairs i != j of |c_i . c_j|, in blocks: memory O(n * block)."""
    rows = np.asarray(codes, dtype=np.float64)
    largest = 0.0
    for start in range(0, len(rows), block):
        gram = np.abs(rows[start : start + block] @ rows.T)
        size = len(gram)
        gram[np.arange(size), start + np.arange(size)] = 0.0
        largest = max(largest, float(gram.max()))
    return largest


class DeterministicPositions(eqx.Module):
    """x_t = E_{b_t} + P_t in the orthonormal basis P_0..P_{T-1}, E_0..E_{M-1}, v_CLS.

    `alphabet` = M, two symbols by default; d = T + M + 1. Gives lazy `TwoHotTokens`, which need
    little memory even at T = 10^6.
    """

    T: int = eqx.field(static=True)
    alphabet: int = eqx.field(static=True, default=2)

    def __check_init__(self) -> None:
        require(self.T >= 1, "T", "a positive integer", self.T)
        require(self.alphabet >= 2, "alphabet", "at least 2 symbols", self.alphabet)

    @property
    def d(self) -> int:
        """Width of a token, T + M + 1."""
        return self.T + self.alphabet + 1

    def __call__(self, bits: Bits) -> TwoHotTokens:
        T = self.T
        position = jnp.arange(T, dtype=jnp.int32)
        symbol = T + as_bits(bits, T, self.alphabet)
        return _with_cls(position, symbol, self.d - 1, self.d)


class OrthonormalBag(eqx.Module):
    """x_t = b_t v_t in the orthonormal basis v_0..v_{T-1}, v_CLS; d = T + 1; lazy tokens."""

    T: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require(self.T >= 1, "T", "a positive integer", self.T)

    @property
    def d(self) -> int:
        """Width of a token, T + 1."""
        return self.T + 1

    def __call__(self, bits: Bits) -> TwoHotTokens:
        position = jnp.arange(self.T, dtype=jnp.int32)
        on = jnp.where(as_bits(bits, self.T) == 1, position, -1)
        return _with_cls(on, jnp.full_like(on, -1), self.T, self.d)


class TrainablePositions(eqx.Module):
    """x_t = E_{b_t} + P_t with symbol vectors E [A, d], positions P [T, d] and v_CLS [d]."""

    E: Float[Array, "A d"]
    P: Float[Array, "T d"]
    v_CLS: Float[Array, "d"]

    def __check_init__(self) -> None:
        d = self.P.shape[1]
        require(self.E.shape[1] == d, "E", f"{d} columns, as P", self.E.shape)
        require(self.v_CLS.shape == (d,), "v_CLS", f"shape ({d},)", self.v_CLS.shape)

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.P.shape[0]

    @property
    def d(self) -> int:
        """Width of a token."""
        return self.P.shape[1]

    def __call__(self, bits: Bits) -> Float[Array, "T_1 d"]:
        symbols = as_bits(bits, self.T, self.E.shape[0])
        return jnp.concatenate([self.E[symbols] + self.P, self.v_CLS[None, :]])


class BagOfVectors(eqx.Module):
    """x_t = b_t v_t with vectors V [T, d] and v_CLS [d]: a zero bit is the zero vector."""

    V: Float[Array, "T d"]
    v_CLS: Float[Array, "d"]

    def __check_init__(self) -> None:
        d = self.V.shape[1]
        require(self.v_CLS.shape == (d,), "v_CLS", f"shape ({d},)", self.v_CLS.shape)

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.V.shape[0]

    @property
    def d(self) -> int:
        """Width of a token."""
        return self.V.shape[1]

    def __call__(self, bits: Bits) -> Float[Array, "T_1 d"]:
        on = as_bits(bits, self.T).astype(self.V.dtype)
        return jnp.concatenate([on[:, None] * self.V, self.v_CLS[None, :]])


class IncoherentCodes(eqx.Module):
    """x_t = E_{b_t} + P_t with T + 3 random-sign codes of length d << T.

    `codes` holds P_0..P_{T-1}, E_0, E_1, v_CLS in this order, entries +-1/sqrt(d): unit vectors.
    All inner products are at most mu in size with probability at least 1 - delta if
    d >= (2 / mu^2) ln(n (n - 1) / delta), n = T + 3 (Hoeffding); `coherence` is the measured mu.
    """

    T: int = eqx.field(static=True)
    d: int = eqx.field(static=True)
    codes: Float[Array, "n d"]

    def __init__(
        self,
        T: int,
        d: int,
        key: PRNGKeyArray | Array | None = None,
        *,
        codes: Float[Array, "n d"] | None = None,
        dtype: object = jnp.float32,
    ) -> None:
        """Draw the codes from `key`, or take `codes` [T + 3, d] as given."""
        require(T >= 1, "T", "a positive integer", T)
        require(d >= 1, "d", "a positive integer", d)
        require((key is None) != (codes is None), "key", "either a key or the codes", key)
        if codes is None:
            signs = jax.random.rademacher(key, (T + 3, d), dtype=jnp.int32)  # type: ignore[arg-type]
            codes = signs.astype(dtype) / math.sqrt(d)  # type: ignore[arg-type]
        require(codes.shape == (T + 3, d), "codes", f"shape ({T + 3}, {d})", codes.shape)
        self.T, self.d, self.codes = T, d, codes

    @staticmethod
    def dimension_for(T: int, mu: float, failure: float) -> int:
        """Smallest d with coherence at most mu with probability 1 - `failure` (Hoeffding)."""
        require(0 < mu < 1, "mu", "a number in (0, 1)", mu)
        require(0 < failure < 1, "failure", "a number in (0, 1)", failure)
        n = T + 3
        return math.ceil(2.0 / mu**2 * math.log(n * (n - 1) / failure))

    @property
    def coherence(self) -> float:
        """The measured largest |inner product| of two different codes."""
        return coherence(self.codes)

    def __call__(self, bits: Bits) -> Float[Array, "T_1 d"]:
        T = self.T
        symbols = T + as_bits(bits, T)
        return jnp.concatenate([self.codes[:T] + self.codes[symbols], self.codes[T + 2 :]])


Encoding = (
    DeterministicPositions | OrthonormalBag | TrainablePositions | BagOfVectors | IncoherentCodes
)


def _with_cls(first: Array, second: Array, cls: int, d: int) -> TwoHotTokens:
    """Lazy rows, and the [CLS] row e_cls after them."""
    ends = jnp.asarray([cls], dtype=first.dtype), jnp.asarray([-1], dtype=first.dtype)
    return TwoHotTokens(jnp.concatenate([first, ends[0]]), jnp.concatenate([second, ends[1]]), d)
