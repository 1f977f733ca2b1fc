"""The forward pass of a Transformer in any float type, summed term by term in any order."""

from collections.abc import Callable

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.decompile.proof.table_forward import activated

Order = Callable[[int], np.ndarray]
ORDERS: dict[str, Order] = {
    "forwards": np.arange,
    "backwards": lambda n: np.arange(n)[::-1],
    "shuffled": lambda n: np.random.default_rng(n).permutation(n),
}


def total(x: np.ndarray, order: Order, axis: int = -1) -> np.ndarray:
    """The sum along an axis, one after the other, in the type of x."""
    moved = np.moveaxis(x, axis, -1)
    return np.add.accumulate(moved[..., order(moved.shape[-1])], axis=-1)[..., -1]


def run(model: Transformer, X: np.ndarray, dtype: type, order: Order = np.arange) -> np.ndarray:
    """The logits [B] of inputs X [B, T]."""

    def cast(x: object) -> np.ndarray:
        return np.asarray(x).astype(dtype)

    def dot(x: np.ndarray, W: object) -> np.ndarray:
        return total(x[..., None] * cast(W), order, -2)

    def normed(ln: object, x: np.ndarray) -> np.ndarray:
        d = dtype(x.shape[-1])
        c = x - (total(x, order) / d)[..., None]
        sigma = np.sqrt(total(c * c, order) / d + dtype(LAYER_NORM_EPSILON))
        return c / sigma[..., None] * cast(ln.gain) + cast(ln.bias)  # type: ignore[attr-defined]

    cls = np.broadcast_to(cast(model.cls), (len(X), 1, len(model.cls)))
    x = np.concatenate([cast(model.embed)[X] + cast(model.position), cls], axis=1)
    for block in model.blocks:
        y, out = normed(block.ln1, x), 0.0
        heads = []
        for h in range(block.W_Q.shape[0]):
            q, k, v = (
                dot(y, W[h]) + cast(b[h])
                for W, b in (
                    (block.W_Q, block.b_Q), (block.W_K, block.b_K), (block.W_V, block.b_V),
                )
            )  # fmt: skip
            scale = dtype(attention_scale(q.shape[-1], block.scale))
            scores = scale * total(q[:, :, None] * k[:, None], order)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            shares = weights / total(weights, order)[..., None]
            heads.append(total(shares[..., None] * v[:, None], order, 2))
        out = dot(np.concatenate(heads, -1), np.asarray(block.W_O).reshape(-1, x.shape[-1]))
        x = x + out + cast(block.b_O)
        hidden = activated(
            block.activation, dot(normed(block.ln2, x), block.W_in) + cast(block.b_in)
        )
        x = x + dot(hidden.astype(dtype), block.W_out) + cast(block.b_out)
    return dot(normed(model.ln_final, x[:, -1]), np.asarray(model.w)[:, None])[:, 0] + cast(model.b)
