"""The logit of a one-layer Transformer from its tables, for many inputs and all their single flips.

Plain float64, no bounds: this is what the search for counterexamples runs on. What it finds is
confirmed on the model itself.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON, LayerNorm
from capax.attention.transformer import Transformer
from capax.decompile.proof.layer_tables import LayerTables


@dataclass(frozen=True)
class TableForward:
    """Sums over tokens [n, H, k + 1] (weighted values, then weights), and logits from them."""

    model: Transformer
    tables: LayerTables

    @cached_property
    def contributions(self) -> np.ndarray:
        """[T, 2, H, k + 1]: what a token adds to the sums."""
        w, v = self.tables.weights[0].mid, self.tables.heads.values.mid
        both = np.concatenate([w[..., None] * v, w[..., None]], axis=-1)  # [H, T, 2, k + 1]
        return np.moveaxis(both, 0, 2)

    def sums(self, X: np.ndarray) -> np.ndarray:
        """Sums of each input, [CLS] included."""
        n, T = X.shape
        _, A, H, columns = self.contributions.shape
        flat = self.contributions.reshape(T * A, H * columns)
        hot = np.zeros((n, T * A))
        hot[np.arange(n)[:, None], np.arange(T) * A + X] = 1.0
        w, v = self.tables.weights[1].mid, self.tables.heads.cls_value.mid
        cls = np.concatenate([w[:, None] * v, w[:, None]], axis=1)  # [H, k + 1]
        return (hot @ flat).reshape(n, H, columns) + cls

    def flips(self, sums: np.ndarray, x: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Sums of x with each of the positions `free` flipped, [F, H, k + 1]."""
        table, now = self.contributions, x[free].astype(np.int64)
        return sums[None] + table[free, 1 - now] - table[free, now]

    def logits(self, sums: np.ndarray) -> np.ndarray:
        """The logits from the sums [n, H, k + 1]."""
        heads = sums[..., :-1] / sums[..., -1:]
        block = self.model.blocks[0]
        x = self.tables.base.mid + heads.reshape(len(sums), -1) @ self.tables.W_O.mid
        hidden = _normed(block.ln2, x) @ np.asarray(block.W_in, np.float64)
        hidden = _activated(block.activation, hidden + np.asarray(block.b_in, np.float64))
        x = x + hidden @ np.asarray(block.W_out, np.float64) + np.asarray(block.b_out, np.float64)
        w = np.asarray(self.model.w, np.float64)
        return _normed(self.model.ln_final, x) @ w + float(self.model.b)


def _normed(ln: LayerNorm | None, x: np.ndarray) -> np.ndarray:
    if ln is None:
        return x
    c = x - x.mean(1, keepdims=True)
    r = 1 / np.sqrt((c * c).mean(1, keepdims=True) + LAYER_NORM_EPSILON)
    return c * r * np.asarray(ln.gain, np.float64) + np.asarray(ln.bias, np.float64)


def _activated(name: str, h: np.ndarray) -> np.ndarray:
    if name == "gelu":
        from scipy.special import erf

        return 0.5 * h * (1.0 + erf(h * np.sqrt(0.5)))
    return {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh, "identity": lambda x: x}[name](h)
