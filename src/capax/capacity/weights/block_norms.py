"""From the weights of a practical block to the norms that bounds need: folding, products, sizes.

LayerNorm y = gain * x^ + offset is folded into the next matrix: W -> diag(gain) W and
b -> b + W^T offset; since x^ is orthogonal to the all-ones vector, W may also be projected,
W -> (I - 11^T/d) W. After folding ||x^|| <= sqrt(d) exactly, without data. Biases become
one more row; the query bias is one more row of W_Q.

Two biases depend on Norm. The key bias (and every other constant added to all scores of a query)
cancels if Norm is shift-invariant (softmax, sparsemax, entmax); otherwise it is one more row of
W_K. b_O may be added to the constant row of the values if the weights sum to one; otherwise
(sigmoid/T) it is added after the mixture and has its own norms.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from capax.capacity.linear.norms import (
    MatrixNorms,
    finite_matrix,
    finite_vector,
    matrix_norms,
    norms_VO,
    product_norms,
    upper,
)
from capax.capacity.network.network_bounds import ResidualBlock
from capax.capacity.network.weighting import SOFTMAX, Weighting
from capax.errors import require

Array = Float[np.ndarray, "..."]
Fold = tuple[Array, Array] | None


@dataclass(frozen=True)
class BlockWeights:
    """One block in x @ W form. W_Q, W_K, W_V [H, d, k]; W_O [H, k, d]; MLP W_1 [d, n], W_2 [n, d].

    ln_1, ln_2: (gain, offset) of the LayerNorm before attention and MLP, None without one. Missing
    biases are zero; a missing MLP is None. scale multiplies the scores. post: the residual stream,
    too, starts after these LayerNorms (BERT), so gain and offset act on it.
    """

    W_Q: Array
    W_K: Array
    W_V: Array
    W_O: Array
    b_Q: Array
    b_V: Array
    b_O: Array
    W_1: Array | None = None
    b_1: Array | None = None
    W_2: Array | None = None
    b_2: Array | None = None
    ln_1: Fold = None
    ln_2: Fold = None
    scale: float = 1.0
    L_sigma: float = 1.0
    b_K: Array | None = None
    weighting: Weighting = SOFTMAX
    post: bool = False


def folded(W: Array, b: Array, ln: Fold, name: str = "W") -> Float[np.ndarray, "rows cols"]:
    """[W; b] after folding the LayerNorm before it: d + 1 rows, the last one the bias."""
    whole = np.empty((W.shape[0] + 1, W.shape[1]))
    whole[:-1], whole[-1] = W, b
    if ln is not None:
        gain, offset = (np.asarray(part, dtype=np.float64) for part in ln)
        whole[-1] += offset @ whole[:-1]
        whole[:-1] *= gain[:, None]
        whole[:-1] -= whole[:-1].mean(axis=0)
    return finite_matrix(whole, name)


def block_norms(block: BlockWeights) -> ResidualBlock:
    """The norms of a block; no large d x d product is formed."""
    H, d, _ = block.W_Q.shape
    heads = tuple(_head_norms(block, h) for h in range(H))
    b_O = finite_matrix(block.b_O[None, :], "b_O")
    W_1 = W_2 = None
    if block.W_1 is not None and block.W_2 is not None:
        n = block.W_1.shape[1]
        b_1 = np.zeros(n) if block.b_1 is None else block.b_1
        b_2 = np.zeros(d) if block.b_2 is None else block.b_2
        W_1 = matrix_norms(folded(block.W_1, b_1, block.ln_2, "W_1"), "W_1")
        W_2 = matrix_norms(folded(block.W_2, b_2, None, "W_2"), "W_2")
    return ResidualBlock(
        heads,
        W_1,
        W_2,
        d,
        1 if block.W_1 is None else block.W_1.shape[1],
        block.L_sigma,
        block.weighting,
        None if block.weighting.stochastic else matrix_norms(b_O, "b_O"),
        stream_norms(block.ln_1) if block.post else None,
        stream_norms(block.ln_2) if block.post else None,
    )


def _head_norms(block: BlockWeights, h: int) -> tuple[MatrixNorms, MatrixNorms]:
    """Norms of W_QK and W_VO of head h, with the bias rows that Norm does not cancel."""
    d, k = block.W_Q.shape[1:]
    b_K = np.zeros(k) if block.b_K is None else block.b_K[h]
    left = folded(block.W_Q[h], block.b_Q[h], block.ln_1, "W_Q") * block.scale
    keys = folded(block.W_K[h], b_K, block.ln_1, "W_K")
    keys = keys[:-1] if block.weighting.shift_invariant else keys
    values = folded(block.W_V[h], block.b_V[h], block.ln_1, "W_V")
    output = finite_matrix(block.W_O[h], "W_O")
    if h == 0 and block.weighting.stochastic:  # b_O is carried by the constant row of one head
        values = np.hstack([values, np.eye(d + 1)[:, -1:]])
        output = np.vstack([output, block.b_O[None, :]])
    return product_norms(left, keys, "W_QK"), norms_VO(values, output)


def stream_norms(ln: Fold) -> MatrixNorms:
    """Norms of G = [diag(gain); offset], which takes [x^; 1] to the residual stream."""
    require(ln is not None, "ln", "the LayerNorm before the stream", None)
    gain, offset = (finite_vector(part, "LayerNorm") for part in ln or ())
    squares = gain * gain + offset * offset
    largest = float(np.abs(gain).max())
    return MatrixNorms(
        norm_2=upper(math.hypot(largest, float(np.linalg.norm(offset)))),
        norm_F=upper(math.sqrt(float(squares.sum()))),
        norm_2_1=upper(float(np.sqrt(squares).sum())),
        norm_2_1_T=upper(float(np.abs(gain).sum() + np.linalg.norm(offset))),
        norm_1_1=upper(float(np.abs(gain).sum() + np.abs(offset).sum())),
    )
