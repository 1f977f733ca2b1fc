"""Capacity of one attention head: Corollary 4.5 and its variants, with constants.

A head has W_QK (scores), W_V (values) and an output map. Scores are scalar linear functions of
z x^T, so ||W_QK||_F takes the place of the paper's ||W_QK^T||_{2,1}; softmax ignores a constant
added to all scores, so keys may be recentred (r_X for B_X); the value matrix is covered at the
pooled vectors only (sequential refinement), so log T enters through the scores alone. With
C_N = 1 for softmax (the paper uses 2) this gives (ours)

    ln N(eps) <= (L_out^2/eps^2) [ (B_phi ||W_QK||_F B_z r_X)^{2/3} ln(2 N_s + 1)^{1/3}
                                   + (sqrt2 ||W_V||_{2,1} B_X)^{2/3} ln(128 k N_v + 1)^{1/3} ]^3

in place of the paper's "<~". All functions return a `FunctionClass`; `.cover(sample, eps)` gives
the number, and the exact Delannoy counts at the optimal split replace the closed form.
"""

import math

from capax.capacity.bound import Assumption
from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.magnitude import safe_exp
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.layer_pieces import (
    Inputs,
    Shape,
    cls_score_piece,
    matrix_piece,
    score_shape,
    vector_piece,
)
from capax.capacity.network.sample_points import Sample

INDEPENDENT = Assumption("the m sequences are independent draws from one distribution")


def attention_head(
    W_QK_F: float,
    W_V_2: float,
    W_V_21: float,
    *,
    k: int,
    W_V_F: float | None = None,
    L_out: float = 1.0,
    B_phi: float | None = None,
    inputs: Inputs = Inputs(),
    d: int | None = None,
    rank: int | None = None,
    one_query: bool = False,
) -> FunctionClass:
    """Corollary 4.5: one head with vector output and a fixed L_out-Lipschitz phi_out.

    (L_out^2/eps^2)[(B_phi ||W_QK||_F B_z r_X)^{2/3} L_s^{1/3} + (sqrt2 ||W_V||_{2,1} B_X)^{2/3}
    L_v^{1/3}]^3. phi_out = W_C^T sigma(.): L_out = L_sigma ||W_C||_2. B_phi: every value within
    B_phi of one centre, ||W_V||_2 r_X if not given. d: width of a token; rank: of W_QK = W_Q W_K^T;
    one_query: the query is one fixed vector. Raises InputError for norms that are not > 0.
    """
    check_norms(W_QK_F=W_QK_F, W_V_2=W_V_2, W_V_21=W_V_21, W_V_F=W_V_F, L_out=L_out, B_phi=B_phi)
    values = MatrixNorms(W_V_2, W_V_21 if W_V_F is None else W_V_F, W_V_21, math.inf)
    log_reach = _log_reach(W_V_2, inputs, B_phi)
    log_out = math.log(L_out)

    def build(sample: Sample) -> tuple[Piece, ...]:
        return (
            cls_score_piece(
                W_QK_F, log_out + log_reach, inputs, sample, score_shape(d, rank, one_query)
            ),
            matrix_piece(
                "W_V", values, math.log(inputs.B_X), log_out, sample.sequences, k,
                None if d is None else Shape(d, k),
            ),
        )  # fmt: skip

    return FunctionClass(
        statement="Corollary 4.5 (one head)",
        build=build,
        norms={
            "W_QK_F": W_QK_F,
            "W_V_2": W_V_2,
            "W_V_21": W_V_21,
            "L_out": L_out,
            "B_phi": safe_exp(log_reach),
            **inputs.norms(),
        },
        assumptions=(INDEPENDENT, PHI_OUT_FIXED),
        latex=COROLLARY_LATEX,
        formula=COROLLARY_TEXT,
        scalar=False,
        weighting=inputs.weighting,
    )


PHI_OUT_FIXED = Assumption("phi_out was fixed before the data (only scores and values are trained)")
COROLLARY_TEXT = (
    "(L_out^2/eps^2) [(B_phi ||W_QK||_F B_z r_X)^(2/3) ln(2 N_s + 1)^(1/3)"
    " + (sqrt2 ||W_V||_2,1 B_X)^(2/3) ln(128 k N_v + 1)^(1/3)]^3"
)
COROLLARY_LATEX = (
    r"\frac{L_{out}^2}{\epsilon^2}\Big[(B_\phi\|W_{QK}\|_F B_z r_X)^{2/3}\ln(2N_s+1)^{1/3}"
    r"+(\sqrt2\,\|W_V\|_{2,1}B_X)^{2/3}\ln(128kN_v+1)^{1/3}\Big]^3"
)


def _log_reach(norm_2: float, inputs: Inputs, B_phi: float | None) -> float:
    """ln B_phi: as given, or ||W_V||_2 r_X."""
    return math.log(norm_2) + math.log(inputs.value_radius) if B_phi is None else math.log(B_phi)


def scalar_head(
    W_QK_F: float,
    W_V_2: float,
    W_V_21: float,
    c_2: float,
    *,
    k: int,
    W_V_F: float | None = None,
    L_sigma: float = 1.0,
    B_phi: float | None = None,
    inputs: Inputs = Inputs(),
    d: int | None = None,
    rank: int | None = None,
    one_query: bool = False,
) -> FunctionClass:
    """Corollary 4.5 with the trainable scalar read-out f = c^T sigma(W_V^T u), c = W_C w.

    A third piece (||c|| L_sigma ||W_V||_2 B_X)^2 ln(2m + 1); the other two are amplified by
    ||c|| L_sigma. Covered hidden vectors are projected onto the ball of radius ||W_V||_2 B_X.
    """
    check_norms(c_2=c_2, L_sigma=L_sigma)
    head = attention_head(
        W_QK_F, W_V_2, W_V_21, k=k, W_V_F=W_V_F, B_phi=B_phi, inputs=inputs, d=d, rank=rank,
        one_query=one_query,
    )  # fmt: skip
    log_after = math.log(c_2) + math.log(L_sigma)
    log_hidden = math.log(L_sigma) + math.log(W_V_2) + math.log(inputs.B_X)

    def build(sample: Sample) -> tuple[Piece, ...]:
        seen = tuple(piece.amplified(log_after) for piece in head.build(sample))
        return (*seen, vector_piece("c", c_2, log_hidden, sample.sequences, k))

    return FunctionClass(
        statement="Corollary 4.5 (one head, scalar read-out)",
        build=build,
        norms={**head.norms, "c_2": c_2, "L_sigma": L_sigma},
        assumptions=(INDEPENDENT,),
        latex=r"\frac1{\epsilon^2}\Big[\sum_{i\in\{QK,V,c\}}(\alpha_i^2C_i)^{1/3}\Big]^3",
        formula="(1/eps^2) [sum over QK, V, c of (alpha^2 C)^(1/3)]^3",
        weighting=inputs.weighting,
        read_outs=1,
    )


def linear_head(
    W_QK_F: float,
    v_2: float,
    *,
    B_phi: float | None = None,
    inputs: Inputs = Inputs(),
    d: int | None = None,
    rank: int | None = None,
    one_query: bool = False,
) -> FunctionClass:
    """Corollary 4.5 for sigma = identity: f = sum_t a_t v.x_t, v = W_V W_C w; only two pieces.

    [(B_phi ||W_QK||_F B_z r_X)^{2/3} L_s^{1/3} + (||v|| B_X)^{2/3} ln(2m + 1)^{1/3}]^3 / eps^2.
    B_phi: |v.x_t - c| <= B_phi for all tokens and one c; ||v|| r_X if not given.
    """
    check_norms(W_QK_F=W_QK_F, v_2=v_2, B_phi=B_phi)
    log_reach = _log_reach(v_2, inputs, B_phi)

    def build(sample: Sample) -> tuple[Piece, ...]:
        return (
            cls_score_piece(W_QK_F, log_reach, inputs, sample, score_shape(d, rank, one_query)),
            vector_piece("v", v_2, math.log(inputs.B_X), sample.sequences, d),
        )

    return FunctionClass(
        statement="Corollary 4.5 (one head, linear scalar read-out)",
        build=build,
        norms={"W_QK_F": W_QK_F, "v_2": v_2, "B_phi": safe_exp(log_reach), **inputs.norms()},
        assumptions=(INDEPENDENT,),
        latex=(
            r"\frac1{\epsilon^2}\Big[(B_\phi\|W_{QK}\|_F B_z r_X)^{2/3}\ln(2N_s+1)^{1/3}"
            r"+(\|v\|_2B_X)^{2/3}\ln(2m+1)^{1/3}\Big]^3"
        ),
        formula=(
            "(1/eps^2) [(B_phi ||W_QK||_F B_z r_X)^(2/3) ln(2 N_s + 1)^(1/3)"
            " + (||v||_2 B_X)^(2/3) ln(2m + 1)^(1/3)]^3"
        ),
        weighting=inputs.weighting,
        read_outs=1,
    )
