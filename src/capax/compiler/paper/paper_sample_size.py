"""Sample sizes of the paper's networks, by the same routes as ours.

*corollary_4_5*: H heads and a 3-layer ReLU network, f = w . relu(A_2^T [relu(U^T [p; 1]); 1]). Here
p = (p_1, .., p_H) are the pooled tokens, U = [W_V^1 W_C^1 W_1; ..; b_1] and A_2 = [W_2; b_2]. ReLU
is 1-Lipschitz, so a change of the scores of head h grows by ||w|| ||W_2|| ||U_h|| r_X, one of U by
||w|| ||W_2||, one of A_2 by ||w||. Points: [p; 1] of length sqrt(H B_X^2 + 1), and after each
layer the length before it times its spectral norm.

*occam*: a network is described by its function, since the paper's method is fixed in advance: the
same bits as for ours.
"""

import math

import numpy as np

from capax.boolean import SparseFunction
from capax.capacity.bound import Bound
from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import matrix_norms
from capax.capacity.margins.margin_bounds import realizable_bound
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.layer_pieces import (
    Inputs,
    cls_score_piece,
    matrix_piece,
    vector_piece,
)
from capax.capacity.network.sample_points import Sample
from capax.compiler.certificate.sample_size import (
    DELTA,
    REFERENCE_SAMPLES,
    TARGET_ERROR,
    description_bits,
    occam_route,
)
from capax.compiler.paper.bump_network import BumpNetwork
from capax.compiler.paper.paper_heads import PaperHeads
from capax.rounding import digits_up


def paper_routes(
    heads: PaperHeads, network: BumpNetwork, f: SparseFunction, margin: float | None
) -> dict[str, Bound]:
    """The bounds by route; empty for a real-valued f."""
    if not f.is_boolean or margin is None:
        return {}
    sample = Sample(REFERENCE_SAMPLES, heads.T, alphabet=2)
    cls = paper_class(heads, network)
    norms = realizable_bound(cls, sample, margin, DELTA, separated=True, target=TARGET_ERROR)
    return {"corollary_4_5": norms, "occam": occam_route(description_bits(f))}


def paper_class(heads: PaperHeads, network: BumpNetwork) -> FunctionClass:
    """All networks of this shape with at most these norms."""
    keys, values, inputs = _features(heads)
    parts = [V @ W.W_C @ network.W_1[:-1] for V, W in zip(values, heads.heads, strict=True)]
    U = matrix_norms(np.concatenate([*parts, network.W_1[-1:]]), "U")
    A_2 = matrix_norms(network.W_2, "A_2")
    w = digits_up(float(np.linalg.norm(network.w)))
    spread = [digits_up(float(np.linalg.norm(part, 2))) * inputs.value_radius for part in parts]
    log_w, log_2 = math.log(w), math.log(digits_up(float(np.linalg.norm(network.W_2[:-1], 2))))
    pooled = math.sqrt(len(parts) * inputs.B_X**2 + 1)
    hidden = math.hypot(U.norm_2 * pooled, 1.0)

    def build(sample: Sample) -> tuple[Piece, ...]:
        N = sample.sequences
        scores = [
            cls_score_piece(key, log_w + log_2 + math.log(reach), inputs, sample, None)
            for key, reach in zip(keys, spread, strict=True)
        ]
        return (
            *scores,
            matrix_piece("U", U, math.log(pooled), log_w + log_2, N, network.widths[0]),
            matrix_piece("A_2", A_2, math.log(hidden), log_w, N, network.widths[1]),
            vector_piece("w", w, math.log(A_2.norm_2 * hidden), N, network.widths[1]),
        )

    return FunctionClass(
        statement="Corollary 4.5 (the paper's heads and 3-layer network)",
        build=build,
        norms={"U_2": U.norm_2, "A_2": A_2.norm_2, "w_2": w, **inputs.norms()},
        assumptions=(INDEPENDENT,),
        formula="(1/eps^2) [sum over heads, U, A_2, w of (alpha^2 C)^(1/3)]^3",
        weighting=inputs.weighting,
        read_outs=1,
    )


def _features(heads: PaperHeads) -> tuple[list[float], list[np.ndarray], Inputs]:
    """||kappa|| and W_V of every head on features that were fixed before the data.

    Trained positions are weights: they are absorbed, and the features are the 0-1 vectors of
    position and symbol. Other positions are features of length 1, beside orthonormal symbols.
    """
    keys, values = [], []
    for W in heads.heads:
        key, value = W.W_K @ W.W_Q[-1], W.W_V
        if heads.encoding == "trainable":
            key = np.concatenate([heads.positions @ key, key[-3:]])
            value = np.concatenate([heads.positions @ value, value[-3:]])
        keys.append(digits_up(float(np.linalg.norm(key))))
        values.append(value)
    if heads.encoding == "bag":
        return keys, values, Inputs(B_X=1.0, B_z=1.0)
    return keys, values, Inputs(B_X=math.sqrt(2.0), B_z=1.0, r_X=math.sqrt(1.5))
