"""One attention layer of any family in one form: y = x @ W, one block per head.

q = x^ W_Q + b_Q,  k = x^ W_K + b_K,  v = x^ W_V + b_V   with x^ from `norm` (gain, offset),
optional q/k norms, optional rotation, scores = scale q k^T, optional soft cap, softmax,
out = sum_h A_h v_h W_O^h + b_O.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

Array = Float[np.ndarray, "..."]
Pairs = Literal["halves", "adjacent"]


@dataclass(frozen=True)
class Norm:
    """LayerNorm ("layer") or RMSNorm ("rms") in front of a matrix: gain x^ + offset."""

    kind: Literal["layer", "rms"]
    gain: Array
    offset: Array | None = None


@dataclass(frozen=True)
class Rotary:
    """Rotary positions: plane i of the first 2 len(frequencies) coordinates turns by D theta_i.

    pairs: plane i is (i, i + r/2) for "halves", (2i, 2i + 1) for "adjacent", r = 2 len(theta).
    """

    frequencies: Float[np.ndarray, "planes"]
    pairs: Pairs = "halves"


@dataclass(frozen=True)
class Attention:
    """Weights of one layer. H query heads, G <= H key-value heads; head h uses h // (H / G).

    W_Q [H, d, k], W_K and W_V [G, d, k], W_O [H, k, d]; biases [H, k], [G, k], [G, k], [d].
    norm: in front of queries, and of keys and values unless `key_norm` is given (cross attention).
    part: "" or "encoder", "decoder", "cross". shared_by: how often these weights are composed.
    q_gain, k_gain [k]: gains of the norms of each q and k. causal, window: what is masked.
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
    soft_cap: float | None = None
    part: str = ""
    shared_by: int = 1
    causal: bool = False
    window: int | None = None

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
