"""Tokens as combinations of fixed features, so that trainable embeddings need no extra cover.

A token is x = M^T phi with a feature vector phi of known length. A linear function kappa.x is then
(M kappa).phi: the capacity of a head with trainable embeddings M is that of a head on the fixed
features with the absorbed weights M kappa and M W_V.
"""

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from jaxtyping import Float

from capax.attention.encodings import (
    BagOfVectors,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.capacity.linear.norms import finite_matrix, radius, spread, upper
from capax.errors import InputError


@dataclass(frozen=True)
class Features:
    """B_X, r_X of the features, the matrix M (None: tokens are the features), the [CLS] token."""

    B_X: float
    r_X: float
    M: Float[np.ndarray, "features d"] | None
    cls: Float[np.ndarray, "d"] | None
    alphabet: int = 2

    def absorb(self, W: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "features k"]:
        """M W: the weights on the features that are equivalent to W on the tokens."""
        return W if self.M is None else self.M @ W

    def query(self, W_Q: Float[np.ndarray, "d r"]) -> Float[np.ndarray, "r"]:
        """W_Q^T x_CLS; in an orthonormal basis [CLS] is the last basis vector."""
        return W_Q[-1] if self.cls is None else self.cls @ W_Q


@singledispatch
def token_features(encoding: Any) -> Features:
    """The features of an encoding; raises InputError for a kind that has none."""
    raise InputError(f"encoding: no features known for {type(encoding).__name__}")


@token_features.register
def _(encoding: DeterministicPositions) -> Features:
    """Two-hot tokens of length sqrt 2, all within sqrt(2 - 1/A) of the mean symbol."""
    A = encoding.alphabet
    return Features(math.sqrt(2.0), math.sqrt(2.0 - 1.0 / A), None, None, A)


@token_features.register
def _(encoding: OrthonormalBag) -> Features:
    """Tokens b_t v_t of length at most 1."""
    del encoding
    return Features(1.0, 1.0, None, None)


@token_features.register
def _(encoding: TrainablePositions) -> Features:
    """Two-hot features (e_t, e_c): within sqrt(2 - 1/A) of the mean symbol."""
    E, P, cls = (np.asarray(part, np.float64) for part in (encoding.E, encoding.P, encoding.v_CLS))
    A = len(E)
    M = finite_matrix(np.concatenate([P, E, cls[None, :]]), "embeddings")
    spread_of_symbols = math.sqrt(max(2.0 - 1.0 / A, 1.0 + 1.0 / A))
    return Features(math.sqrt(2.0), spread_of_symbols, M, cls, A)


@token_features.register
def _(encoding: BagOfVectors) -> Features:
    """Features b_t e_t of length at most 1."""
    V, cls = np.asarray(encoding.V, np.float64), np.asarray(encoding.v_CLS, np.float64)
    M = finite_matrix(np.concatenate([V, cls[None, :]]), "embeddings")
    return Features(1.0, 1.0, M, cls)


@token_features.register
def _(encoding: IncoherentCodes) -> Features:
    """The codes are fixed: tokens are their own features; the radius is over all 2T + 1 tokens."""
    codes, T = np.asarray(encoding.codes, np.float64), encoding.T
    tokens = np.concatenate([codes[:T] + codes[T], codes[:T] + codes[T + 1], codes[T + 2 :]])
    return Features(upper(radius(tokens)), upper(spread(tokens)), None, codes[T + 2])
