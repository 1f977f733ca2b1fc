"""Several heads side by side, and a head with an MLP on top: Corollary 4.5 extended."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.magnitude import log_sum, safe_exp, safe_log
from capax.capacity.network.function_class import FunctionClass, check_norms
from capax.capacity.network.head_bounds import INDEPENDENT
from capax.capacity.network.layer_pieces import (
    Inputs,
    Shape,
    cls_score_piece,
    matrix_piece,
    score_piece,
    score_shape,
    vector_piece,
)
from capax.capacity.network.sample_points import Sample
from capax.errors import require


@dataclass(frozen=True)
class ResidualHead:
    """A head inside a sum: the norms of W_QK = W_Q W_K^T and of W_VO = W_V W_O.

    Only these products are invariant under a change of basis inside the head.
    """

    W_QK: MatrixNorms
    W_VO: MatrixNorms


def multi_head(
    heads: Sequence[ResidualHead],
    *,
    d: int,
    d_z: int | None = None,
    d_out: int | None = None,
    L_next: float = 1.0,
    inputs: Inputs = Inputs(),
    full: bool = False,
) -> FunctionClass:
    """The sum of H heads, sum_h a_h(X) X W_VO^h, followed by an L_next-Lipschitz map.

    (L_next^2/eps^2) [sum_h (||W_VO^h||_2 ||W_QK^h||_F B_z r_X^2)^{2/3} L_s^{1/3}
    + (sqrt2 ||W_VO^h||_{2,1} B_X)^{2/3} L_o^{1/3}]^3, L_o = ln(128 d_out N_v + 1): W_VO has d_out
    output columns (d by default), not k; d_z: width of the query (d by default). full: every token
    is a query (a layer), not [CLS] only. The paper's multi-head sum; depth is Theorem 4.7.
    """
    widths = (d if d_z is None else d_z, d, d if d_out is None else d_out)
    require(len(heads) > 0, "heads", "at least one head", len(heads))
    check_norms(L_next=L_next)

    def build(sample: Sample) -> tuple[Piece, ...]:
        N_s = sample.all_pairs if full else sample.cls_pairs
        N_v = sample.tokens if full else sample.sequences
        return tuple(
            piece
            for h, head in enumerate(heads)
            for piece in head_pieces(
                head, inputs, sample, (N_s, N_v), widths, f"h{h} " if len(heads) > 1 else ""
            )
        )

    def amplified(sample: Sample) -> tuple[Piece, ...]:
        return tuple(piece.amplified(math.log(L_next)) for piece in build(sample))

    shown = {f"h{h} {name}": value for h, head in enumerate(heads) for name, value in _shown(head)}
    return FunctionClass(
        statement=f"Corollary 4.5 (multi-head, H = {len(heads)})",
        build=amplified,
        norms={**shown, "L_next": L_next, **inputs.norms()},
        assumptions=(INDEPENDENT,),
        latex=(
            r"\frac{L_{next}^2}{\epsilon^2}\Big[\sum_h\big((\|W_{VO}^h\|_2\|W_{QK}^h\|_F B_z"
            r"r_X^2)^{2/3}\Lambda_s^{1/3}+(\sqrt2\|W_{VO}^h\|_{2,1}B_X)^{2/3}\Lambda_o^{1/3}\big)"
            r"\Big]^3"
        ),
        formula=(
            "(L_next^2/eps^2) [sum_h (||W_VO||_2 ||W_QK||_F B_z r_X^2)^(2/3) ln(2 N_s + 1)^(1/3)"
            " + (sqrt2 ||W_VO||_2,1 B_X)^(2/3) ln(128 d_out N_v + 1)^(1/3)]^3"
        ),
        scalar=widths[2] == 1 and not full,
        weighting=inputs.weighting,
    )


def head_pieces(
    head: ResidualHead,
    inputs: Inputs,
    sample: Sample,
    counts: tuple[int, int],
    widths: tuple[int, int, int],
    label: str = "",
) -> tuple[Piece, Piece]:
    """The two pieces of one head of a sum, its scores and its W_VO.

    counts: N_s pairs and N_v pooled points. widths: of the query, a token, the output.
    """
    (N_s, N_v), (d_z, d, d_out) = counts, widths
    log_reach = safe_log(head.W_VO.norm_2) + math.log(inputs.value_radius)
    scores = score_piece(
        head.W_QK, log_reach, inputs.weighting, sample, N_s, inputs.log_pair,
        Shape(d_z, d, head.W_QK.rank), f"{label}W_QK (scores)",
    )  # fmt: skip
    shape = Shape(d, d_out, head.W_VO.rank)
    name = f"{label}W_VO"
    return scores, matrix_piece(name, head.W_VO, math.log(inputs.B_X), 0.0, N_v, d_out, shape)


def _shown(head: ResidualHead) -> tuple[tuple[str, float], ...]:
    return (
        ("W_QK_F", head.W_QK.norm_F),
        ("W_VO_2", head.W_VO.norm_2),
        ("W_VO_21", head.W_VO.norm_2_1),
    )


def mlp_head(
    W_QK_F: float,
    U: MatrixNorms,
    w_2: float,
    *,
    hidden: int,
    reach: float | None = None,
    b_2: float | None = None,
    inputs: Inputs = Inputs(),
    d: int | None = None,
    rank: int | None = None,
    one_query: bool = False,
) -> FunctionClass:
    """Head and ReLU MLP: f = w_2^T relu(U^T [u; 1]) + b_2 with U = [W_V W_1; b_1^T].

    Pieces: scores, amplified by ||w_2|| sup_t ||(W_V W_1)^T (x_t - x_0)|| (`reach` is that
    supremum, ||U||_2 r_X if not given); U at N_v points of length sqrt(B_X^2 + 1); w_2 at hidden
    vectors of length ||U||_2 sqrt(B_X^2 + 1). A fixed b_2 costs nothing, a trainable |b_2| <= b_2
    is one more piece.
    """
    check_norms(W_QK_F=W_QK_F, w_2=w_2, reach=reach, b_2=b_2, U_2=U.norm_2, U_21=U.norm_2_1)
    log_moved = math.log(U.norm_2) + math.log(inputs.value_radius)
    log_moved = log_moved if reach is None else math.log(reach)
    log_lifted = 0.5 * log_sum([2 * math.log(inputs.B_X), 0.0])
    log_w = math.log(w_2)

    def build(sample: Sample) -> tuple[Piece, ...]:
        N_v = sample.sequences
        bias = () if b_2 is None else (vector_piece("b_2", b_2, 0.0, 1, 1),)
        return (
            cls_score_piece(
                W_QK_F, log_w + log_moved, inputs, sample, score_shape(d, rank, one_query)
            ),
            matrix_piece(
                "U", U, log_lifted, log_w, N_v, hidden, None if d is None else Shape(d + 1, hidden)
            ),
            vector_piece("w_2", w_2, math.log(U.norm_2) + log_lifted, N_v, hidden),
            *bias,
        )  # fmt: skip

    return FunctionClass(
        statement="Corollary 4.5 (one head and ReLU MLP)",
        build=build,
        norms={
            "W_QK_F": W_QK_F,
            "U_2": U.norm_2,
            "U_21": U.norm_2_1,
            "w_2": w_2,
            "reach": safe_exp(log_moved),
            **inputs.norms(),
        },
        assumptions=(INDEPENDENT,),
        latex=r"\frac1{\epsilon^2}\Big[\sum_{i\in\{QK,U,w_2\}}(\alpha_i^2C_i)^{1/3}\Big]^3",
        formula="(1/eps^2) [sum over QK, U, w_2 of (alpha^2 C)^(1/3)]^3",
        weighting=inputs.weighting,
        read_outs=1 if b_2 is None else 2,
    )
