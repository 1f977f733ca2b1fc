"""Assumption 4.1, checked item by item for a concrete head.

The paper asks for: an L_out-Lipschitz output map, values bounded on bounded tokens, a normalizer
that is Lipschitz from scores to weights with total weight at most one, and bounded inputs. The
answer is a tuple of `Assumption`s, each with yes, no or "assumed" and the constant found.
"""

import math
from typing import Any

import numpy as np

from capax.attention.parts.activations import activation_lipschitz
from capax.attention.parts.normalizers import Normalizer, RatioNormalizer
from capax.capacity.bound import Assumption
from capax.capacity.linear.norms import finite_matrix, norm_spectral, radius, spread, upper
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.weighting import Weighting
from capax.errors import InputError


def normalizer_assumption(norm: Normalizer, T: int) -> Assumption:
    """Norm is C_N-Lipschitz from the sup norm to the 1-norm, with ||Norm||_1 <= 1."""
    constant = norm.lipschitz(T)
    name = type(norm).__name__
    if not math.isfinite(constant):
        return Assumption("Norm is Lipschitz", False, f"{name} has no finite C_N: {norm.note}")
    detail = f"{name}: C_N = {constant:g} (the paper's C_Norm = {norm.paper_constant(T):g})"
    if norm.grows_with_T:
        detail += "; it grows with T, so the bound is not logarithmic in T"
    return Assumption("Norm is Lipschitz", True, detail)


def weighting_of(norm: Normalizer) -> Weighting:
    """The properties of this normalizer that bounds use; raises InputError without a finite C_N."""
    if not norm.admissible:
        raise InputError(f"normalizer: {normalizer_assumption(norm, 2).detail}")
    return Weighting(
        norm.lipschitz, isinstance(norm, RatioNormalizer), norm.shift_invariant, norm.stochastic
    )


def inputs_for(
    norm: Normalizer, B_X: float, B_z: float | None = None, r_X: float | None = None
) -> Inputs:
    """The `Inputs` of a head with this normalizer; C_N follows from the sample's T.

    Raises InputError when Norm has no finite Lipschitz constant.
    """
    return Inputs(B_X=B_X, B_z=B_z, r_X=r_X, weighting=weighting_of(norm))


def assumption_4_1(
    norm: Normalizer, W_V: Any, X: Any, *, activation: str = "identity", L_out: float | None = None
) -> tuple[Assumption, ...]:
    """Assumption 4.1 for a head with value matrix W_V, seen on the tokens X (rows).

    phi_in(x) = W_V^T x is ||W_V||_2-Lipschitz and zero at zero; phi_out = sigma(.) W_C is
    L_sigma ||W_C||_2-Lipschitz (pass L_out). Raises InputError for NaN and wrong shapes.
    """
    values, tokens = finite_matrix(W_V, "W_V"), finite_matrix(X, "X")
    if values.shape[0] != tokens.shape[1]:
        raise InputError(f"X: wanted rows of length {values.shape[0]}, got shape {tokens.shape}")
    size = upper(norm_spectral(values))
    L = activation_lipschitz(activation) if L_out is None else L_out
    return (
        normalizer_assumption(norm, len(tokens)),
        Assumption(
            "phi_in is Lipschitz with phi_in(0) = 0", True, f"B_in = ||W_V||_2 = {size:.4g}"
        ),
        Assumption("phi_out is Lipschitz", bool(np.isfinite(L)), f"L_out = {L:.4g}"),
        Assumption(
            "tokens are bounded",
            True,
            f"B_X = {radius(tokens):.4g}, r_X <= {spread(tokens):.4g} on these tokens",
        ),
    )
