"""The logit of a one-layer Transformer from its tables, for many inputs and all their single flips.

Plain float64, no bounds: the search for counterexamples runs on it. An input that it finds is
confirmed on the model itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from capax.decompile.proof.layer_tables import LayerTables, NormWeights
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.relaxation import gelu, gelu_tanh
from capax.decompile.reading.influence import random_bits

SAMPLED = 63
"""Inputs on which the model is run beside its tables."""


@dataclass(frozen=True)
class TableForward:
    """Sums over tokens [n, H, k + 1] (weighted values, then weights), and logits from them."""

    layer: OneQueryLayer

    @property
    def tables(self) -> LayerTables:
        """The tables of the heads."""
        return self.layer.tables

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.tables.T

    @cached_property
    def contributions(self) -> np.ndarray:
        """[T, 2, H, k + 1]: the summands of every token."""
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
        layer = self.layer
        heads = sums[..., :-1] / sums[..., -1:]
        x = self.tables.base.mid + heads.reshape(len(sums), -1) @ self.tables.W_O.mid
        y = _normed(layer.norm, x)
        hidden = activated(layer.activation, y @ layer.W_in + layer.b_in)
        kept = {"residual": x, "normed": y, "nothing": 0.0}[layer.kept]
        z = _normed(layer.final, kept + hidden @ layer.W_out + layer.b_out)
        if layer.pooler is not None:
            z = activated(layer.pooler.activation, z @ layer.pooler.W + layer.pooler.b)
        return z @ layer.w.mid + float(layer.b.mid)

    def numbers(self, X: np.ndarray) -> np.ndarray:
        """The logits of inputs X [n, T]."""
        return self.logits(self.sums(X))

    def distance_as_run(
        self,
        run: Callable[[np.ndarray], np.ndarray],
        worst: np.ndarray,
        rng: np.random.Generator,
        p: float,
    ) -> float:
        """Largest |number as run - real number| on the worst input found and on random ones.

        The model runs token by token as it is, not on its tables, which know no key bias.
        """
        X = np.concatenate([worst[None], random_bits(rng, SAMPLED, self.T, p)])
        given = np.asarray(run(X.astype(np.int32)), np.float64)
        return float(np.abs(given - self.numbers(X)).max())


def _normed(ln: NormWeights | None, x: np.ndarray) -> np.ndarray:
    if ln is None:
        return x
    c = x - x.mean(1, keepdims=True)
    r = 1 / np.sqrt((c * c).mean(1, keepdims=True) + ln.epsilon)
    return c * r * ln.gain + ln.bias


_PLAIN = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "identity": lambda x: x,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


def activated(name: str, h: np.ndarray) -> np.ndarray:
    """sigma(h) in plain float64."""
    return _PLAIN[name](h)
