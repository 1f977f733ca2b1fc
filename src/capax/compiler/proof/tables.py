"""A one-head [CLS] model as tables: the terms of each (position, symbol) in numerator and
normaliser.

The query is the same for every input, so a token enters the softmax through its logit g[t, b] and
its value n[t, b] only: u = sum_t e^{g[t,b_t]} n[t,b_t] / sum_t e^{g[t,b_t]}, [CLS] included. The
tables are computed from the weights and the vectors of the encoding alone. All of it is NumPy in
float64: no program is compiled for a new T.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Integer

from capax.attention import (
    BagOfVectors,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    Encoding,
    IncoherentCodes,
    OrthonormalBag,
    Softmax,
    TrainablePositions,
    attention_scale,
)
from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.errors import require
from capax.rounding import UNIT

Model = ClsScalar | ClsMLP


@dataclass(frozen=True)
class HeadTables:
    """Logits and values of the T tokens by symbol, and of [CLS]: enclosed numbers.

    Several heads share a leading axis; one head has no such axis.
    """

    logits: Enclosed  # [..., T, A]
    values: Enclosed  # [..., T, A, k]
    cls_logit: Enclosed  # [...]
    cls_value: Enclosed  # [..., k]

    @staticmethod
    def exact(logits: object, values: object, cls_logit: object, cls_value: object) -> "HeadTables":
        """Tables without any error."""
        return HeadTables(*(exactly(part) for part in (logits, values, cls_logit, cls_value)))

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return self.logits.mid.shape[-2]

    @property
    def alphabet(self) -> int:
        """Number of symbols a token can be."""
        return self.logits.mid.shape[-1]

    @property
    def k(self) -> int:
        """Width of a value."""
        return self.cls_value.mid.shape[-1]

    def shifted_weights(self) -> tuple[Enclosed, Enclosed]:
        """e^(logit - mu) of every token [..., T, A] and of the [CLS] token, shape [...], enclosed.

        mu = the largest logit of the head: the common factor e^mu cancels in a mean of values.
        """
        mu = exactly(np.maximum(self.logits.mid.max(axis=(-2, -1)), self.cls_logit.mid))
        tokens = self.logits - mu[..., None, None]
        return tokens.exp(), (self.cls_logit - mu).exp()

    def masses(self) -> tuple[Float[np.ndarray, "T A"], float]:
        """The same of one head in plain float64, for searches that prove nothing."""
        top = max(float(self.logits.mid.max()), float(self.cls_logit.mid))
        return np.exp(self.logits.mid - top), float(np.exp(self.cls_logit.mid - top))

    def head(self, bits: Integer[np.ndarray, "n T"]) -> Float[np.ndarray, "n k"]:
        """u for each row of bits, summed token by token in plain float64."""
        mass, cls_mass = self.masses()
        weighted = mass[:, :, None] * self.values.mid
        z = np.full(len(bits), cls_mass)
        u = np.tile(cls_mass * self.cls_value.mid, (len(bits), 1))
        for t in range(self.T):
            z += mass[t][bits[:, t]]
            u += weighted[t][bits[:, t]]
        return u / z[:, None]


def head_tables(model: Model) -> HeadTables:
    """The tables of a model, in float64, and how far each number may be from the real one.

    Raises `InputError` unless Norm is the plain softmax and the numbers fit float64.
    """
    plain = isinstance(model.norm, Softmax) and model.norm.temperature == 1.0
    require(plain, "norm", "a softmax of temperature 1", type(model.norm).__name__)
    for name in ("W_Q", "W_K", "W_V"):
        shape = np.shape(getattr(model, name))
        require(len(shape) == 2, name, "a matrix", f"an array of shape {shape}")
    with np.errstate(over="ignore", invalid="ignore"):
        _, query = token_images(model.encoding, exactly(model.W_Q))
        direction = exactly(model.W_K) @ query[:, None]
        logits, cls_logit = token_images(model.encoding, direction * _scale(model))
        values, cls_value = token_images(model.encoding, exactly(model.W_V))
    for name, part in (("W_QK", logits), ("W_V", values), ("W_QK", cls_logit), ("W_V", cls_value)):
        fits = bool(np.isfinite(part.mid).all() and np.isfinite(part.rad).all())
        require(fits, name, "scores and values that fit float64", "larger ones")
    return HeadTables(logits[:, :, 0], values, cls_logit[0], cls_value)


def score_sizes(model: Model) -> tuple[Float[np.ndarray, "T A"], float]:
    """|x_CLS| |W_Q| |W_K|^T |x_t| by token and bit, and of [CLS]: the sizes that were added up."""
    _, query = token_sizes(model.encoding, np.abs(_double(model.W_Q)))
    scale = attention_scale(model.W_Q.shape[1], model.scale)
    direction = np.abs(_double(model.W_K)) @ query * scale
    sizes, cls = token_sizes(model.encoding, direction[:, None])
    return sizes[:, :, 0], float(cls[0])


def value_sizes(model: Model) -> tuple[Float[np.ndarray, "T A k"], Float[np.ndarray, " k"]]:
    """|x_t| |W_V| by token and bit, and of [CLS]."""
    return token_sizes(model.encoding, np.abs(_double(model.W_V)))


def token_sizes(
    code: Encoding, W: Float[np.ndarray, "d k"]
) -> tuple[Float[np.ndarray, "T A k"], Float[np.ndarray, " k"]]:
    """|x_t| W for nonnegative W, rounded up."""
    positive = jax.tree.map(np.abs, code)
    images, cls = token_images(positive, exactly(W))
    return images.high, cls.high


def _scale(model: Model) -> Enclosed:
    """1, or 1/sqrt(r) to within two roundings."""
    scale = np.asarray(attention_scale(model.W_Q.shape[1], model.scale))
    return Enclosed(scale, np.asarray(0.0 if scale == 1 else 4 * UNIT * scale))


def token_images(code: Encoding, W: Enclosed) -> tuple[Enclosed, Enclosed]:
    """x_t W [T, A, k] for every symbol at t, and v_CLS W [k], with their errors.

    x_t = P_t + E_b, or b v_t in a bag, so the image of a token is a sum of images: the tokens
    themselves, T x d numbers, are never formed.
    """
    if isinstance(code, OrthonormalBag):
        return _switched(W[:-1]), W[-1]
    if isinstance(code, BagOfVectors):
        return _switched(exactly(code.V) @ W), exactly(code.v_CLS) @ W
    if isinstance(code, TrainablePositions):
        P, E = exactly(code.P) @ W, exactly(code.E) @ W
        return _summed(P, E), exactly(code.v_CLS) @ W
    rows = exactly(code.codes) @ W if isinstance(code, IncoherentCodes) else W
    return _summed(rows[: code.T], rows[code.T : -1]), rows[-1]


def alphabet_of(model: Model) -> int:
    """The number of symbols that the encoding has vectors for; two in a bag or in codes."""
    code = model.encoding
    if isinstance(code, TrainablePositions):
        return len(code.E)
    return code.alphabet if isinstance(code, DeterministicPositions) else 2


def readout_output(model: Model, u: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """The output of the model from the head output, in float64."""
    if isinstance(model, ClsScalar):
        require(model.activation == "identity", "activation", "identity", model.activation)
        return u @ (_double(model.W_C) @ _double(model.w))
    hidden = np.maximum(u @ _double(model.W_1) + _double(model.b_1), 0.0)
    return hidden @ _double(model.w_2) + float(model.b_2)


def _switched(V: Enclosed) -> Enclosed:
    """b v_t for b = 0 and 1."""
    parts = (np.stack([np.zeros_like(M), M], axis=1) for M in (V.mid, V.rad))
    return Enclosed(*parts)


def _summed(P: Enclosed, E: Enclosed) -> Enclosed:
    """P_t + E_b for every symbol b."""
    return P[:, None] + E[None]


def _double(M: Any) -> Float[np.ndarray, "..."]:
    return np.asarray(M, np.float64)
