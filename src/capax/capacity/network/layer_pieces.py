"""The inputs of a layer, and the pieces of a layer: scores, matrices, read-outs.

Scales and amplifications are added as logarithms: the square of 1e200 does not fit a float.
"""

import math
from dataclasses import dataclass

from capax.capacity.linear.cover_pieces import Piece
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.linear.structured_covers import rank_parameters
from capax.capacity.magnitude import safe_log
from capax.capacity.network.function_class import check_norms
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import SOFTMAX, Weighting
from capax.errors import require


@dataclass(frozen=True)
class Inputs:
    """The inputs of a head: B_X, B_z bound tokens and query, r_X the spread of one sequence.

    B_z: the length of a token by default (self-attention). r_X: B_X by default. weighting:
    properties of Norm (softmax by default).
    """

    B_X: float = 1.0
    B_z: float | None = None
    r_X: float | None = None
    weighting: Weighting = SOFTMAX

    def __post_init__(self) -> None:
        check_norms(B_X=self.B_X, B_z=self.B_z, r_X=self.r_X)
        within = self.r_X is None or self.r_X <= self.B_X * (1 + 1e-9)
        require(within, "r_X", f"at most B_X = {self.B_X:g}", self.r_X)

    @property
    def query_radius(self) -> float:
        """B_z, or B_X if the queries are tokens."""
        return self.B_X if self.B_z is None else self.B_z

    @property
    def spread(self) -> float:
        """r_X, or B_X if it is unknown."""
        return self.B_X if self.r_X is None else self.r_X

    @property
    def key_radius(self) -> float:
        """The length of a (possibly recentred) key."""
        return self.spread if self.weighting.shift_invariant else self.B_X

    @property
    def value_radius(self) -> float:
        """The length of a (possibly recentred) token as a value."""
        return self.spread if self.weighting.stochastic else self.B_X

    @property
    def log_pair(self) -> float:
        """ln of the length of the feature z x^T of one score."""
        return math.log(self.query_radius) + math.log(self.key_radius)

    def norms(self) -> dict[str, float]:
        """The radii, for display."""
        return {"B_X": self.B_X, "B_z": self.query_radius, "r_X": self.spread}


@dataclass(frozen=True)
class Shape:
    """Rows and columns of a matrix, and its rank if it is a product of thin factors."""

    rows: int
    cols: int
    rank: int | None = None

    @property
    def parameters(self) -> int:
        """All entries."""
        return self.rows * self.cols

    @property
    def rank_parameters(self) -> int | None:
        """r (d + k + 1); None at full rank, where it could only be larger."""
        thin = self.rank is not None and 1 <= self.rank < min(self.rows, self.cols)
        return rank_parameters(self.rows, self.cols, self.rank or 1) if thin else None


def score_shape(d: int | None, rank: int | None = None, one_query: bool = False) -> Shape | None:
    """The shape of W_QK on tokens of width d; a query that never changes leaves one row."""
    if d is None:
        return None
    return Shape(1, d) if one_query else Shape(d, d, rank)


def only_frobenius(norm_F: float) -> MatrixNorms:
    """A matrix of which only the Frobenius norm is known."""
    return MatrixNorms(norm_F, norm_F, math.inf, math.inf)


def score_piece(
    W_QK: MatrixNorms,
    log_alpha: float,
    weighting: Weighting,
    sample: Sample,
    num_pairs: int,
    log_pair: float,
    shape: Shape | None = None,
    name: str = "W_QK",
) -> Piece:
    """The scores z^T W_QK x as a scalar linear class at pairs with ||z|| ||x|| <= e^{log_pair}.

    log_alpha = ln of the growth of a weight error; C_N is taken at the sample's T + 1 tokens.
    """
    tokens = sample.T + 1
    return Piece(
        name=name,
        log_scale=safe_log(W_QK.norm_F) + log_pair,
        num_points=num_pairs,
        num_parameters=None if shape is None else shape.parameters,
        log_amplification=log_alpha + weighting.log_C_N(tokens),
        text="||W_QK||_F B_z r_X",
        latex=r"\|W_{QK}\|_F B_z r_X",
        softmax_slope=weighting.slope(tokens),
        rank_parameters=None if shape is None else shape.rank_parameters,
        log_scale_entries=safe_log(W_QK.norm_1_1) + log_pair,
    )


def cls_score_piece(
    W_QK_F: float, log_alpha: float, inputs: Inputs, sample: Sample, shape: Shape | None
) -> Piece:
    """The scores of one query per sequence, [CLS], by the Frobenius norm alone."""
    return score_piece(
        only_frobenius(W_QK_F), log_alpha, inputs.weighting, sample, sample.cls_pairs,
        inputs.log_pair, shape, "W_QK (scores)",
    )  # fmt: skip


def matrix_piece(
    name: str,
    W: MatrixNorms,
    log_b: float,
    log_alpha: float,
    num_points: int,
    outputs: int,
    shape: Shape | None = None,
) -> Piece:
    """x -> W^T x at points of length e^{log_b} (Lemma 4.6), with `outputs` columns."""
    return Piece(
        name=name,
        log_scale=safe_log(W.norm_2_1) + log_b,
        num_points=num_points,
        outputs=outputs,
        log_scale_frobenius=safe_log(W.norm_F) + log_b,
        num_parameters=None if shape is None else shape.parameters,
        log_amplification=log_alpha,
        text=f"||{name}||_2,1 B",
        latex=rf"\|{name}\|_{{2,1}} B",
        rank_parameters=None if shape is None else shape.rank_parameters,
        log_scale_entries=safe_log(W.norm_1_1) + log_b,
    )


def vector_piece(name: str, norm: float, log_b: float, num_points: int, d: int | None) -> Piece:
    """x -> w.x with ||w|| <= norm at points of length e^{log_b}: the scalar end of a network."""
    return Piece(
        name=f"{name} (read-out)",
        log_scale=safe_log(norm) + log_b,
        num_points=num_points,
        num_parameters=d,
        text=f"||{name}||_2 B",
        latex=rf"\|{name}\|_2 B",
    )
