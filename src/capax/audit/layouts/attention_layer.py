"""One attention layer of any family in one form: y = x @ W, one block per head.

q = x^ W_Q + b_Q,  k = x^ W_K + b_K,  v = x^ W_V + b_V   with x^ from `norm` (gain, offset),
optional q/k norms, optional rotation, scores = scale q k^T, optional terms for the distance,
optional soft cap, softmax, out = sum_h A_h v_h W_O^h + b_O.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from capax.errors import require

Array = Float[np.ndarray, "..."]
Pairs = Literal["halves", "adjacent"]


@dataclass(frozen=True)
class Norm:
    """LayerNorm ("layer") or RMSNorm ("rms") before a matrix: gain x^ + offset."""

    kind: Literal["layer", "rms"]
    gain: Array
    offset: Array | None = None


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: plane i of the first 2 `planes` coordinates is rotated by D theta_i.

    pairs: plane i is (i, i + planes) for "halves", (2i, 2i + 1) for "adjacent".
    factor: multiplies the rotated coordinates of q and of k; None if unknown.
    contexts: pairs (T, theta) in the order of T: the frequencies theta hold in contexts of at most
    T tokens. Empty if the frequencies are unknown.
    """

    planes: int
    contexts: tuple[tuple[int | float, Float[np.ndarray, "planes"]], ...] = ()
    pairs: Pairs = "halves"
    factor: float | None = 1.0

    @classmethod
    def plain(cls, theta: Float[np.ndarray, "planes"], pairs: Pairs = "halves") -> "Rotary":
        """The same frequencies in every context."""
        return cls(len(theta), ((math.inf, theta),), pairs)

    def frequencies(self, T: int | float) -> Float[np.ndarray, "planes"] | None:
        """The frequencies in a context of T tokens, or None if they are unknown."""
        return next((theta for longest, theta in self.contexts if longest >= T), None)

    def coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """First and second coordinate of every plane."""
        i = np.arange(self.planes)
        return (i, i + self.planes) if self.pairs == "halves" else (2 * i, 2 * i + 1)

    def lengths(self, k: int) -> Float[np.ndarray, "k"]:
        """`factor` for rotated coordinates (NaN if unknown), 1 for the others."""
        values = np.ones(k)
        values[: 2 * self.planes] = math.nan if self.factor is None else self.factor
        return values


@dataclass(frozen=True)
class DistanceVectors:
    """Learned vectors e_{i-j}: scores are scale (q k^T + q e^T), plus scale k e^T if `both`.

    vectors: [2 n - 1, k], row i - j + n - 1; the same for all heads of a layer.
    """

    vectors: Array
    both: bool = False


@dataclass(frozen=True)
class Attention:
    """Weights of one layer. H query heads, G <= H key-value heads; head h uses h // (H / G).

    W_Q [H, d, k], W_K and W_V [G, d, k], W_O [H, k, d]; biases [H, k], [G, k], [G, k], [d].
    norm: before queries, and before keys and values unless `key_norm` is given (cross attention).
    part: "" or "encoder", "decoder", "cross". shared_by: how often these weights are composed.
    bare_first: the input of the first composition is not normalised by `norm`.
    q_gain, k_gain [k]: gains of the norms of each q and k, both or neither. causal, window: the
    masks.
    distance_vectors, distance_bias [H, n]: learned terms of the scores that depend on i - j.
    """

    layer: int
    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    scale: float
    norm: Norm | None
    b_Q: Array | None = None
    b_K: Array | None = None
    b_V: Array | None = None
    b_O: Array | None = None
    key_norm: Norm | None = None
    q_gain: Array | None = None
    k_gain: Array | None = None
    rotary: Rotary | None = None
    distance_vectors: DistanceVectors | None = None
    distance_bias: Array | None = None
    soft_cap: float | None = None
    part: str = ""
    shared_by: int = 1
    bare_first: bool = False
    causal: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        both = (self.q_gain is None) == (self.k_gain is None)
        require(both, f"norms of q and k in layer {self.layer}", "both or neither", "only one")

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return len(self.W_Q) // len(self.W_K)


def by_rows(W: Array, heads: int) -> Array:
    """nn.Linear [H k, d] (rows of a head together) to [H, d, k]."""
    return W.reshape(heads, -1, W.shape[1]).transpose(0, 2, 1)


def by_columns(W: Array, heads: int) -> Array:
    """The output matrix nn.Linear [d, H k] to [H, k, d]."""
    return W.reshape(W.shape[0], heads, -1).transpose(1, 2, 0)


def bias_of(b: Array | None, heads: int) -> Array | None:
    """[H k] to [H, k]."""
    return None if b is None else b.reshape(heads, -1)
