"""Bounds composed in the order of the forward pass: stages with a Lipschitz constant and pieces.

The error of a layer's output obeys e_out = lambda e_in + sum_p c_p eps_p: the incoming error is
multiplied by lambda, and each piece p covered to within eps_p adds c_p eps_p. A network is a list
of stages; the amplification of a piece is c_p times the product of all later lambda.

Key inequality (ours): for rows in a ball of radius B, X -> RowSoftmax(X W_QK X^T) X W_V is
||W_V||_2 (1 + 2 ||W_QK||_2 B^2)-Lipschitz in the largest row error (scores move by at most
2 ||W_QK||_2 B e, weights by C_N = 1 times that in 1-norm, and values by ||W_V||_2 e). With the
paper's C_Norm = 2 the 2 would be a 4.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from capax.capacity.linear.cover_pieces import Piece


@dataclass(frozen=True)
class Stage:
    """One map of a network: ln of its Lipschitz constant, and its pieces with local factors."""

    log_lipschitz: float
    pieces: tuple[Piece, ...] = ()


def compose(stages: Sequence[Stage]) -> tuple[Piece, ...]:
    """All pieces of a network, each amplified by every stage after its own."""
    log_after, collected = 0.0, []
    for stage in reversed(stages):
        collected.append(tuple(piece.amplified(log_after) for piece in stage.pieces))
        log_after += stage.log_lipschitz
    return tuple(piece for pieces in reversed(collected) for piece in pieces)


def log_lipschitz(stages: Sequence[Stage]) -> float:
    """ln of the product of all Lipschitz constants."""
    return math.fsum(stage.log_lipschitz for stage in stages)


def log_attention_lipschitz(norm_QK: float, log_B: float, C_N: float = 1.0) -> float:
    """ln(1 + 2 C_N ||W_QK||_2 B^2), in the log domain since B may be huge."""
    if norm_QK == 0:
        return 0.0
    grown = math.log(2.0) + math.log(C_N) + math.log(norm_QK) + 2 * log_B
    return grown + math.exp(-grown) if grown > 40 else math.log1p(math.exp(grown))
