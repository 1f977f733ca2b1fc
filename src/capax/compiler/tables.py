"""A one-head [CLS] model as tables: what each (position, bit) adds to numerator and normaliser.

The query is the same for every input, so a token enters the softmax through its logit g[t, b] and
its value n[t, b] only: u = sum_t e^{g[t,b_t]} n[t,b_t] / sum_t e^{g[t,b_t]}, [CLS] included. The
tables are read off the weights by encoding the all-zeros and the all-ones input; they know nothing
of how the weights were made.
"""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, Integer

from capax.attention import ClsMLP, ClsScalar, Softmax, attention_scale
from capax.errors import require

Model = ClsScalar | ClsMLP


@dataclass(frozen=True)
class HeadTables:
    """Logits and values of the T tokens by bit, and of [CLS]."""

    logits: Float[np.ndarray, "T 2"]
    values: Float[np.ndarray, "T 2 k"]
    cls_logit: float
    cls_value: Float[np.ndarray, " k"]

    @property
    def T(self) -> int:
        """Context length, without [CLS]."""
        return len(self.logits)

    def masses(self) -> tuple[Float[np.ndarray, "T 2"], float]:
        """e^{logit} of every token and of [CLS], divided by the largest of them."""
        top = max(float(self.logits.max()), self.cls_logit)
        return np.exp(self.logits - top), float(np.exp(self.cls_logit - top))

    def head(self, bits: Integer[np.ndarray, "n T"]) -> Float[np.ndarray, "n k"]:
        """u for each row of bits, summed token by token."""
        mass, cls_mass = self.masses()
        weighted = mass[:, :, None] * self.values
        z = np.full(len(bits), cls_mass)
        u = np.tile(cls_mass * self.cls_value, (len(bits), 1))
        for t in range(self.T):
            z += mass[t][bits[:, t]]
            u += weighted[t][bits[:, t]]
        return u / z[:, None]


def head_tables(model: Model) -> HeadTables:
    """The tables of a model, in float64. Raises `InputError` unless Norm is the plain softmax."""
    plain = isinstance(model.norm, Softmax) and model.norm.temperature == 1.0
    require(plain, "norm", "a softmax of temperature 1", type(model.norm).__name__)
    scale = attention_scale(model.W_Q.shape[1], model.scale)
    tokens = [_tokens(model, bit) for bit in (0, 1)]
    query = tokens[0][1][-1]
    direction = np.asarray(model.W_K, np.float64) @ query * scale
    logits = np.stack([_times(X, direction[:, None])[:, 0] for X, _ in tokens], axis=1)
    values = np.stack([_times(X, np.asarray(model.W_V, np.float64)) for X, _ in tokens], axis=1)
    return HeadTables(logits[:-1], values[:-1], float(logits[-1, 0]), values[-1, 0])


def readout_output(model: Model, u: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """The model's number from the head output, in float64."""
    if isinstance(model, ClsScalar):
        require(model.activation == "identity", "activation", "identity", model.activation)
        return u @ (np.asarray(model.W_C, np.float64) @ np.asarray(model.w, np.float64))
    W_1, b_1 = np.asarray(model.W_1, np.float64), np.asarray(model.b_1, np.float64)
    w_2, b_2 = np.asarray(model.w_2, np.float64), float(model.b_2)
    return np.maximum(u @ W_1 + b_1, 0.0) @ w_2 + b_2


def _tokens(model: Model, bit: int) -> tuple[object, np.ndarray]:
    """The tokens of a constant input, and their images under W_Q."""
    with jax.enable_x64(True):
        X = model.encoding(np.full(model.T, bit, dtype=np.int32))
    return X, _times(X, np.asarray(model.W_Q, np.float64))


def _times(X: object, W: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "n k"]:
    """X @ W in float64, lazily for two-hot tokens."""
    with jax.enable_x64(True):
        return np.asarray(_as_double(X) @ jax.numpy.asarray(W))  # type: ignore[operator]


def _as_double(X: object) -> object:
    return X.astype(np.float64) if isinstance(X, jax.Array) else X
