"""What reaches a layer, and the pieces a layer is made of: scores, matrices, read-outs."""

import math
from dataclasses import dataclass

from capax.capacity.linear.pieces import Piece
from capax.capacity.magnitude import safe_log
from capax.capacity.network.function_class import check_norms
from capax.errors import require


@dataclass(frozen=True)
class Inputs:
    """What reaches the head: B_X, B_z bound tokens and query, r_X the spread of one sequence.

    C_N: Lipschitz constant of Norm from the sup norm to the 1-norm (softmax: 1). ratio: weights of
    the form h / sum h (then the finite form 2 tanh(C_N e / 2) holds). shift_invariant: scores may
    be recentred. stochastic: weights sum to 1, so values may be recentred.
    """

    B_X: float = 1.0
    B_z: float = 1.0
    r_X: float | None = None
    C_N: float = 1.0
    ratio: bool = True
    shift_invariant: bool = True
    stochastic: bool = True

    def __post_init__(self) -> None:
        check_norms(B_X=self.B_X, B_z=self.B_z, r_X=self.r_X)
        admissible = math.isfinite(self.C_N) and self.C_N > 0
        require(admissible, "C_N", "a finite Lipschitz constant (Assumption 4.1)", self.C_N)
        within = self.r_X is None or self.r_X <= self.B_X * (1 + 1e-9)
        require(within, "r_X", f"at most B_X = {self.B_X:g}", self.r_X)

    @property
    def spread(self) -> float:
        """r_X, or B_X where nothing better is known."""
        return self.B_X if self.r_X is None else self.r_X

    @property
    def key_radius(self) -> float:
        """The length of a (possibly recentred) key."""
        return self.spread if self.shift_invariant else self.B_X

    @property
    def value_radius(self) -> float:
        """The length of a (possibly recentred) token as a value."""
        return self.spread if self.stochastic else self.B_X

    @property
    def slope(self) -> float | None:
        """lambda of the finite form 2 tanh(lambda e / 2); None where it does not hold."""
        return self.C_N if self.ratio else None

    def norms(self) -> dict[str, float]:
        """The radii and the constant, for display."""
        return {"B_X": self.B_X, "B_z": self.B_z, "r_X": self.spread, "C_N": self.C_N}


def score_piece(
    W_QK_F: float, alpha: float, inputs: Inputs, num_pairs: int, d: int | None, name: str = "W_QK"
) -> Piece:
    """The scores z^T W_QK x as a scalar linear class; alpha = growth of a weight error."""
    scale = W_QK_F * inputs.B_z * inputs.key_radius
    return Piece(
        name=f"{name} (scores)",
        log_scale=safe_log(scale),
        num_points=num_pairs,
        num_parameters=None if d is None else d * d,
        log_amplification=safe_log(alpha * inputs.C_N),
        text="||W_QK||_F B_z r_X",
        latex=r"\|W_{QK}\|_F B_z r_X",
        softmax_slope=inputs.slope,
    )


def matrix_piece(
    name: str,
    norm_21: float,
    norm_F: float | None,
    b: float,
    alpha: float,
    num_points: int,
    outputs: int,
    d: int | None,
) -> Piece:
    """x -> W^T x with column norms summing to norm_21, at points of length b (Lemma 4.6)."""
    frobenius = norm_21 if norm_F is None else norm_F
    return Piece(
        name=f"{name} (matrix)",
        log_scale=safe_log(norm_21 * b),
        num_points=num_points,
        outputs=outputs,
        log_scale_frobenius=safe_log(frobenius * b),
        num_parameters=None if d is None else d * outputs,
        log_amplification=safe_log(alpha),
        text=f"||{name}||_2,1 B_X",
        latex=rf"\|{name}\|_{{2,1}} B_X",
    )


def vector_piece(name: str, norm: float, b: float, num_points: int, d: int | None) -> Piece:
    """x -> w.x with ||w|| <= norm at points of length b: the scalar end of a network."""
    return Piece(
        name=f"{name} (read-out)",
        log_scale=safe_log(norm * b),
        num_points=num_points,
        num_parameters=d,
        text=f"||{name}||_2 B",
        latex=rf"\|{name}\|_2 B",
    )
