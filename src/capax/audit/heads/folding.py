"""LayerNorm and RMSNorm folded into the matrices that follow them.

LayerNorm gives gain * x^ + offset with x^ orthogonal to the all-ones vector and ||x^|| <= sqrt(d);
RMSNorm gives gain * x^ with ||x^|| <= sqrt(d). So with W' = diag(gain) W (centred for LayerNorm,
(I - 11^T/d) W') and b' = b + offset W the head reads x^ itself, whose length is known without data.

The key bias adds q . b_K to all scores of a query and cancels in softmax; so does an offset before
W_K. It does not cancel with rotary positions, which rotate it by another angle for every key.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from capax.audit.layouts.attention_layer import Array, Attention, Norm, Rotary


@dataclass(frozen=True)
class Factors:
    """One head in float64: scores = [x^; 1] Q K^T [y^; 1], output = [y^; 1] V O.

    Q, K, V are [d + 1, k], the last row a bias; O is [k, d].
    """

    Q: Float[np.ndarray, "rows k"]
    K: Float[np.ndarray, "rows k"]
    V: Float[np.ndarray, "rows k"]
    O: Float[np.ndarray, "k d"]

    def stretched(self, rotary: Rotary) -> "Factors":
        """The same factors, with rotary scaling applied to the rotated coordinates of q and k."""
        known = replace(rotary, factor=1.0) if rotary.factor is None else rotary
        lengths = known.lengths(self.Q.shape[1])
        return replace(self, Q=self.Q * lengths, K=self.K * lengths)


def fold(W: Array, b: Array | None, norm: Norm | None) -> Float[np.ndarray, "rows k"]:
    """[W; b] with `norm` folded in, d + 1 rows."""
    whole = np.zeros((W.shape[0] + 1, W.shape[1]))
    whole[:-1] = W
    if b is not None:
        whole[-1] = b
    if norm is None:
        return whole
    if norm.offset is not None:
        whole[-1] += norm.offset.astype(np.float64) @ whole[:-1]
    whole[:-1] *= norm.gain.astype(np.float64)[:, None]
    if norm.kind == "layer":
        whole[:-1] -= whole[:-1].mean(axis=0)
    return whole


def factors(attention: Attention, h: int) -> Factors:
    """Head h with its norms folded in, without the scale of the scores."""
    g = h // attention.group
    behind = attention.key_norm if attention.key_norm is not None else attention.norm

    def row(b: Array | None, i: int) -> Array | None:
        return None if b is None else b[i]

    return Factors(
        Q=fold(attention.W_Q[h], row(attention.b_Q, h), attention.norm),
        K=fold(attention.W_K[g], row(attention.b_K, g), behind),
        V=fold(attention.W_V[g], row(attention.b_V, g), behind),
        O=np.asarray(attention.W_O[h], np.float64),
    )


def softmax_keys(K: Float[np.ndarray, "rows k"], attention: Attention) -> Float[np.ndarray, "r k"]:
    """The rows of K that change the softmax: the bias row counts only if keys are rotated."""
    return K if attention.rotary is not None else K[:-1]
