"""Deep sets and linear attention of the zoo in the form that is proved.

Both mix tokens by a mean with positive weights of (bit, position), as a softmax head does: deep
sets with weight 1 for every token and 0 for [CLS], linear attention with phi(q) . phi(k),
phi(x) = elu(x) + 1. The rest is the Transformer's MLP block and read-out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np

from capax.attention.block import LAYER_NORM_EPSILON
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.tables import HeadTables
from capax.decompile.proof.layer_tables import LayerTables, NormWeights, layer_normed
from capax.decompile.proof.one_query_layer import OneQueryLayer
from capax.decompile.proof.query_cases import LayerReading, QueryCase
from capax.learners.zoo.deep_sets import DeepSets
from capax.learners.zoo.frame import Framed
from capax.learners.zoo.linear_attention import LinearAttention
from capax.rounding import UNIT, UP


@dataclass(frozen=True)
class ZooNetwork:
    """An architecture of the zoo with its parameters: bits [n, T] -> n logits."""

    architecture: Framed
    parameters: dict[str, Any]

    @cached_property
    def _logits(self) -> Any:
        prepare, logits = self.architecture.prepare, self.architecture.logits
        return jax.jit(lambda parameters, bits: logits(parameters, prepare(bits)))

    def __call__(self, bits: np.ndarray) -> np.ndarray:
        return np.asarray(self._logits(self.parameters, np.asarray(bits, np.uint8)), np.float64)

    @property
    def covered(self) -> bool:
        """Whether it has the form that is proved."""
        return isinstance(self.architecture, DeepSets | LinearAttention)


def zoo_reading(network: ZooNetwork) -> LayerReading:
    """The network as one layer with [CLS] as its query."""
    a = {name: np.asarray(x, np.float64) for name, x in network.parameters.items()}
    norms = [
        NormWeights(a[f"gain_{name}"], a[f"bias_{name}"], LAYER_NORM_EPSILON)
        for name in ("1", "2", "final")
    ]
    tokens = exactly(a["position"][:, None]) + exactly(a["embed"][None])  # [T, 2, d]
    x, own = (layer_normed(norms[0], part) for part in (tokens, exactly(a["cls"][None])))
    H = getattr(network.architecture, "heads", 1)
    W_V, b_V = exactly(a["W_V"]), exactly(a["b_V"])
    values, cls_value = (_by_head(part @ W_V + b_V, H) for part in (x, own))
    if isinstance(network.architecture, DeepSets):
        weights = exactly(np.ones((1, *x.mid.shape[:2]))), exactly(np.zeros(1))
    else:
        weights = _kernel_weights(a, x, own, H)
    none = exactly(np.zeros(weights[0].mid.shape)), exactly(np.zeros(H))
    heads = HeadTables(none[0], values, none[1], cls_value[:, 0])
    base = exactly(a["cls"]) + exactly(a["b_O"])
    layer = OneQueryLayer(
        LayerTables(heads, base, exactly(a["W_O"]), weights), norms[1], "residual", a["W_in"],
        a["b_in"], "gelu", a["W_out"], a["b_out"], norms[2], None, exactly(a["w"]),
        exactly(a["b"]),
    )  # fmt: skip
    told = f"read as {network.architecture.architecture.replace('_', ' ')}"
    return LayerReading((QueryCase(layer),), told, lambda numbers: numbers, lambda level: level)


def _by_head(x: Enclosed, H: int) -> Enclosed:
    """[..., d] as [H, ..., d / H]."""
    *front, d = x.mid.shape
    return x.reshape(*front, H, d // H).moved(-2, 0)


def _kernel_weights(
    a: dict[str, np.ndarray], x: Enclosed, own: Enclosed, H: int
) -> tuple[Enclosed, Enclosed]:
    """phi(q) . phi(k) by head, of every token [H, T, 2] and of [CLS] [H]."""
    query = _feature(own @ exactly(a["W_Q"]) + exactly(a["b_Q"]))
    W_K, b_K = exactly(a["W_K"]), exactly(a["b_K"])
    tokens, cls = (
        _by_head(_feature(part @ W_K + b_K) * query, H).sum(-1) for part in (x, own)
    )  # [H, T, 2], [H, 1]
    return tokens, cls[:, 0]


def _feature(x: Enclosed) -> Enclosed:
    """phi = elu + 1: e^x below 0, 1 + x above; its slope lies between 0 and 1."""
    below = exactly(np.minimum(x.mid, 0.0)).exp()
    above = 1.0 + x.mid
    mid = np.where(x.mid < 0, below.mid, above)
    rad = np.where(x.mid < 0, below.rad, 2 * UNIT * above)
    return Enclosed(mid, (rad + x.rad) * UP)
