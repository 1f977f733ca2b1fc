"""All 2^T inputs of a Transformer of any depth, in float64 with a bound of the rounding.

Every input is run; the smallest signed margin and, at each LayerNorm, the smallest deviation are
kept. From the deviations follows how far float64 is from real arithmetic on these inputs
(`forward_error`): a margin above that is proved for the real network, a wrong number beyond it is
a wrong real decision.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON, Block, LayerNorm
from capax.attention.parts.activations import activation
from capax.attention.parts.scores import attention_scale
from capax.attention.transformer import Transformer
from capax.boolean.functions import SparseFunction
from capax.decompile.machine.forward_error import FLOAT32, FLOAT64, forward_error, unfit

BLOCK = 1 << 11


@dataclass(frozen=True)
class EveryInput:
    """`margin`: the smallest signed margin as run in float64, at the input `bits`.

    error, error32: how far float64 and float32 are from real arithmetic on all inputs, at most.
    """

    margin: float
    bits: np.ndarray
    error: float
    error32: float

    @property
    def decided(self) -> bool:
        """Whether rounding cannot have changed the verdict."""
        return abs(self.margin) > self.error

    @property
    def real_margin(self) -> float:
        """At most the smallest margin in real arithmetic."""
        return self.margin - self.error

    @property
    def float32(self) -> bool:
        """Whether float32 decides alike, as far as it is bounded."""
        return self.real_margin > self.error32


def every_input(
    model: Transformer, f: SparseFunction, *, threshold: float = 0.0, block: int = BLOCK
) -> EveryInput | None:
    """Run all 2^T inputs of a network on bits; None where its kind has no bound of the rounding.

    block: how many inputs are run at once, a power of 2.
    """
    if unfit(model) is not None or model.spec.alphabet != 2:
        return None
    T = model.spec.T
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), model)
        margin, worst, deviations = math.inf, 0, np.full(2 * len(model.blocks), np.inf)
        size, signs = min(block, 1 << T), np.where(f.table > 0.5, 1.0, -1.0)
        for start in range(0, 1 << T, size):
            least, place, smallest = _block(wide, start, size, f.support, signs, threshold)
            deviations = np.minimum(deviations, np.asarray(smallest))
            if not float(least) >= margin:
                margin, worst = float(least), start + int(place)
                if math.isnan(margin):
                    break
    errors = (forward_error(model, deviations.tolist(), m) for m in (FLOAT64, FLOAT32))
    return EveryInput(margin, (worst >> np.arange(T) & 1).astype(np.uint8), *errors)


def real_logit(model: Transformer, bits: np.ndarray) -> tuple[float, float]:
    """(logit, error) of one input [T]: float64, and how far it is from real arithmetic at most."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("allow"):
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf, np.float64)), model)
        logits, deviations = jax.jit(forward)(wide, jnp.asarray(bits)[None].astype(int))
    return float(logits[0]), forward_error(model, np.asarray(deviations).tolist(), FLOAT64)


@partial(jax.jit, static_argnums=(2, 3))
def _block(
    model: Transformer, start: Any, size: int, support: tuple[int, ...], signs: Any, threshold: Any
) -> tuple[Any, Any, Any]:
    """The smallest signed margin of `size` inputs from `start` on, its place, the deviations."""
    X = (start + jnp.arange(size))[:, None] >> jnp.arange(model.spec.T) & 1
    logits, deviations = forward(model, X)
    rows = sum((X[:, t] << i for i, t in enumerate(support)), jnp.zeros(size, X.dtype))
    signed = jnp.asarray(signs)[rows] * (logits - threshold)
    place = jnp.argmin(signed)
    return signed[place], place, deviations


def forward(model: Transformer, X: Any) -> tuple[Any, Any]:
    """The logits [B] of inputs X [B, T], and the smallest deviation at each norm behind the first.

    Only sums, products, exp, erf and inverse roots: what `forward_error` bounds. In the first layer
    a token is one of 2 T + 1 vectors, and a head a quotient of two sums of entries of a table.
    """
    cls = jnp.broadcast_to(model.cls, (len(X), 1, len(model.cls)))
    x = jnp.concatenate([model.embed[X] + model.position, cls], axis=1)  # [B, T + 1, d]
    seen = []
    for layer, block in enumerate(model.blocks):
        rows = slice(None) if layer + 1 < len(model.blocks) else slice(-1, None)
        if layer:
            y, smallest = _normed(block.ln1, x)
            heads, seen = _heads(block, y[:, rows], y), [*seen, smallest]
        else:
            heads = _first_heads(model, X, rows)
        x = x[:, rows] + heads @ block.W_O.reshape(-1, x.shape[-1]) + block.b_O
        y, smallest = _normed(block.ln2, x)
        hidden = activation(block.activation)(y @ block.W_in + block.b_in)
        x, seen = x + hidden @ block.W_out + block.b_out, [*seen, smallest]
    y, smallest = _normed(model.ln_final, x[:, -1])
    return y @ model.w + model.b, jnp.stack([*seen, smallest])


def _projected(y: Any, W: Any, b: Any) -> Any:
    """y W + b by head: [..., d] -> [..., H, k]."""
    H, d, k = W.shape
    return (y @ W.transpose(1, 0, 2).reshape(d, H * k)).reshape(*y.shape[:-1], H, k) + b


def _heads(block: Block, queries: Any, y: Any) -> Any:
    """Head outputs [B, Q, H k] of `queries` [B, Q, d] among y [B, T + 1, d]."""
    q = _projected(queries, block.W_Q, block.b_Q)
    k, v = _projected(y, block.W_K, block.b_K), _projected(y, block.W_V, block.b_V)
    scores = attention_scale(q.shape[-1], block.scale) * jnp.einsum("bqhk,bthk->bhqt", q, k)
    found = jnp.einsum("bhqt,bthk->bqhk", jax.nn.softmax(scores, axis=-1), v)
    return found.reshape(*found.shape[:2], -1)


def _first_heads(model: Transformer, X: Any, rows: slice) -> Any:
    """Head outputs of the first layer [B, T + 1 or 1, H k], from a table of all pairs of tokens.

    The largest score of a query is taken over all 2 T + 1 tokens: weights are smaller by a common
    factor, which leaves relative errors as they are.
    """
    block, (B, T) = model.blocks[0], X.shape
    every = (model.position[:, None] + model.embed[None]).reshape(2 * T, -1)
    y, _ = _normed(block.ln1, jnp.concatenate([every, model.cls[None]]))
    asking = y if rows.start is None else y[-1:]
    q = _projected(asking, block.W_Q, block.b_Q)
    k, v = _projected(y, block.W_K, block.b_K), _projected(y, block.W_V, block.b_V)
    scores = attention_scale(q.shape[-1], block.scale) * jnp.einsum("qhk,thk->tqh", q, k)
    weights = jnp.exp(scores - scores.max(0))[..., None]
    table = jnp.concatenate([weights * v[:, None], weights], axis=-1)  # [2 T + 1, Q, H, k + 1]
    hot = jax.nn.one_hot(X, 2, dtype=table.dtype).reshape(B, 2 * T)
    hot = jnp.concatenate([hot, jnp.ones((B, 1), table.dtype)], axis=1)
    sums = (hot @ table.reshape(2 * T + 1, -1)).reshape(B, *table.shape[1:])
    if rows.start is None:
        pairs = sums[:, :-1].reshape(B, T, 2, *table.shape[2:])
        own = jnp.where(X[:, :, None, None] == 1, pairs[:, :, 1], pairs[:, :, 0])
        sums = jnp.concatenate([own, sums[:, -1:]], axis=1)
    return (sums[..., :-1] / sums[..., -1:]).reshape(B, sums.shape[1], -1)


def _normed(ln: LayerNorm | None, x: Any) -> tuple[Any, Any]:
    """LN(x) along the last axis, and the smallest deviation."""
    assert ln is not None
    c = x - x.mean(-1, keepdims=True)
    sigma = jnp.sqrt((c * c).mean(-1, keepdims=True) + LAYER_NORM_EPSILON)
    return c / sigma * ln.gain + ln.bias, sigma.min()
