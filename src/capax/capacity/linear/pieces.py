"""A network as a list of pieces, each a linear class seen through what follows it.

A piece is a weight matrix (or vector) with a norm bound, used at N points of bounded length. It
knows how large its cover is at every scale, and how much its error grows on the way to the output
(`log_amplification`). The whole network is covered by covering its pieces one after the other, at
the activations produced by the elements chosen before; log-sizes add up.

Three complete ways to count are compared and the smallest is taken:
`norms` (Lemma 4.6, (2,1) norms), `frobenius`, and `parameters` (a volume argument, no norms in
front but the number of parameters). Each of them grows with every norm, so their minimum does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from capax.capacity.bound import Term
from capax.capacity.linear.allocation import allocate, allocate_by_parameters
from capax.capacity.linear.linear_classes import (
    log_cover_matrix_21,
    log_cover_vector,
    log_log_cover_matrix_21,
    log_log_cover_vector,
)
from capax.capacity.magnitude import log_sum, safe_exp, safe_log, shown, shown_latex
from capax.errors import require

Route = Literal["norms", "frobenius", "parameters"]
# Above this ratio ab/eps the closed forms are used: (ab/eps)^2 would pass 10^17.
LARGE_LOG_RATIO = 20.0
# Grids of row norms tried in Lemma 4.6.
GRID_RATIOS = (1.1, 1.35, 2.0)
# Fixed splits tried besides the optimal one, for networks of two pieces.
SHARES = tuple(i / 16 for i in range(3, 16))


@dataclass(frozen=True)
class Piece:
    """One linear class inside a network.

    name: as printed. log_scale = ln(norm times length of the points). num_points = N.
    outputs = 1 for a scalar class (then the norm is a 2- or Frobenius norm), k for a matrix with k
    output columns (then it is the (2,1) norm). log_scale_frobenius: ln(||W||_F times length).
    num_parameters: for the volume count. log_amplification = ln alpha. text, latex: the scale.
    softmax_slope: lambda for scores that go through weights h / sum h with |(ln h)'| <= lambda.
    """

    name: str
    log_scale: float
    num_points: int
    outputs: int | None = None
    log_scale_frobenius: float = math.inf
    num_parameters: int | None = None
    log_amplification: float = 0.0
    text: str = ""
    latex: str = ""
    softmax_slope: float | None = None

    def __post_init__(self) -> None:
        require(not math.isnan(self.log_scale), self.name, "a number as norm", math.nan)
        require(self.num_points >= 1, f"{self.name} points", "at least 1", self.num_points)

    def amplified(self, log_factor: float) -> "Piece":
        """The same piece seen through one more map with this ln(Lipschitz constant)."""
        return replace(self, log_amplification=self.log_amplification + log_factor)

    def log_covered_at(self, log_eps: float) -> float:
        """ln of the scale at which the class itself must be covered to spend eps.

        Scores within e move the weights by at most 2 tanh(lambda e / 2) in 1-norm, which is less
        than lambda e (the amplification counts lambda e): covering at (2/lambda) atanh(lambda
        eps / 2) is enough, and from lambda eps >= 2 on no cover is needed at all.
        """
        if self.softmax_slope is None or log_eps < -20:
            return log_eps
        half = 0.5 * self.softmax_slope * safe_exp(log_eps)
        return math.inf if half >= 1 else math.log(2 * math.atanh(half) / self.softmax_slope)

    def frobenius(self) -> "Piece":
        """The same class by its Frobenius norm: a scalar class of sqrt(k) ||W||_F on kN points."""
        if self.outputs is None:
            return self
        scale = self.log_scale_frobenius + 0.5 * math.log(self.outputs)
        points = self.num_points * self.outputs
        return replace(self, log_scale=scale, num_points=points, outputs=None)

    @property
    def log_C(self) -> float:
        """ln C with ln N(eps) <= C/eps^2: C = (ab)^2 ln(2N+1); matrix: 2(bB)^2 ln(128kN+1)."""
        if self.outputs is None:
            return 2 * self.log_scale + math.log(math.log(2 * self.num_points + 1))
        inner = math.log(128 * self.outputs * self.num_points + 1)
        return math.log(2.0) + 2 * self.log_scale + math.log(inner)

    def log_log_cover(self, log_eps: float) -> float:
        """ln ln N at scale e^{log_eps}: exact counts where they fit, their closed form above."""
        log_ratio = self.log_scale - self.log_covered_at(log_eps)
        if log_ratio <= 0:
            return -math.inf
        if self.outputs is None:
            if log_ratio > LARGE_LOG_RATIO:
                return log_log_cover_vector(log_ratio, self.num_points)
            return safe_log(log_cover_vector(math.exp(log_ratio), 1.0, 1.0, self.num_points))
        if log_ratio > LARGE_LOG_RATIO:
            return log_log_cover_matrix_21(log_ratio, self.num_points, self.outputs)
        ratio = math.exp(log_ratio)
        return safe_log(
            log_cover_matrix_21(ratio, 1.0, 1.0, self.num_points, self.outputs, GRID_RATIOS)
        )

    def log_count(self, log_eps: float) -> float:
        """n ln(1 + 2ab/eps): the volume count; inf when the number of parameters is unknown."""
        if self.num_parameters is None:
            return math.inf
        scale = self.log_scale if self.outputs is None else self.log_scale_frobenius
        log_ratio = scale - self.log_covered_at(log_eps)
        if log_ratio <= 0:
            return 0.0
        grown = math.log(2.0) + log_ratio
        return self.num_parameters * (grown if grown > 40 else math.log1p(math.exp(grown)))


@dataclass(frozen=True)
class Total:
    """ln ln N of a network at one scale, by the best route; each piece's part and its ln eps."""

    route: Route
    log_log_cover: float
    parts: tuple[float, ...]
    log_eps: tuple[float, ...]

    @property
    def log_cover(self) -> float:
        """ln N; inf when it does not fit a float."""
        return safe_exp(self.log_log_cover)


def closed_form(pieces: Sequence[Piece]) -> float:
    """ln C of the whole network, C = (sum_i (alpha_i^2 C_i)^{1/3})^3, so that ln N <= C / eps^2."""
    return allocate([p.log_C for p in pieces], [p.log_amplification for p in pieces]).log_value


def total_cover(pieces: Sequence[Piece], log_eps: float, shares: Sequence[float] = SHARES) -> Total:
    """The smallest of the three counts for the whole network at scale e^{log_eps}.

    shares: for two pieces, further splits to try besides the optimal one of the closed form.
    """
    routes = [_by_norms(pieces, log_eps, "norms")]
    if len(pieces) == 2:
        routes += [_by_shares(pieces, log_eps, share) for share in shares]
    if any(p.outputs is not None and p.log_scale_frobenius < math.inf for p in pieces):
        routes.append(_by_norms([p.frobenius() for p in pieces], log_eps, "frobenius"))
    if all(p.num_parameters is not None for p in pieces):
        routes.append(_by_parameters(pieces, log_eps))
    return min(routes, key=lambda total: total.log_log_cover)


def parameter_count_cover(pieces: Sequence[Piece], log_eps: float) -> Total:
    """Only the volume count, for comparison plots; every piece must know its parameters."""
    known = all(p.num_parameters is not None for p in pieces)
    require(known, "pieces", "known numbers of parameters (give d)", [p.name for p in pieces])
    return _by_parameters(pieces, log_eps)


def _by_norms(pieces: Sequence[Piece], log_eps: float, route: Route) -> Total:
    split = allocate([p.log_C for p in pieces], [p.log_amplification for p in pieces], log_eps)
    return _evaluated(pieces, split.log_eps, route)


def _by_shares(pieces: Sequence[Piece], log_eps: float, share: float) -> Total:
    """Two pieces, with `share` of eps for the first: any split is valid, some beat the formula."""
    split = tuple(
        log_eps + math.log(part) - p.log_amplification
        for p, part in zip(pieces, (share, 1 - share), strict=True)
    )
    return _evaluated(pieces, split, "norms")


def _evaluated(pieces: Sequence[Piece], split: tuple[float, ...], route: Route) -> Total:
    parts = tuple(
        -math.inf if e == math.inf else p.log_log_cover(e)
        for p, e in zip(pieces, split, strict=True)
    )
    return Total(route, log_sum(parts), parts, split)


def _by_parameters(pieces: Sequence[Piece], log_eps: float) -> Total:
    counts = [p.num_parameters or 0 for p in pieces]
    split = allocate_by_parameters(counts, [p.log_amplification for p in pieces], log_eps)
    parts = tuple(
        -math.inf if e == math.inf else safe_log(p.log_count(e))
        for p, e in zip(pieces, split, strict=True)
    )
    return Total("parameters", log_sum(parts), parts, split)


def terms_of(pieces: Sequence[Piece], total: Total) -> tuple[Term, ...]:
    """The contributions of a total as printable terms, each with its scale and its share of eps."""
    return tuple(
        Term(piece.name, part, *_written(piece, log_eps, total.route))
        for piece, part, log_eps in zip(pieces, total.parts, total.log_eps, strict=True)
    )


def _written(piece: Piece, log_eps: float, route: Route) -> tuple[str, str]:
    """The formula of one contribution with its numbers, in plain text and in LaTeX."""
    if log_eps == math.inf:
        return "0 (needs no cover)", "0"
    seen = piece.frobenius() if route == "frobenius" else piece
    ratio, eps = seen.log_scale - log_eps, shown(log_eps, 3)
    if route == "parameters":
        n = piece.num_parameters
        scale = piece.log_scale if piece.outputs is None else piece.log_scale_frobenius
        return (
            f"{n} ln(1 + 2 * {shown(scale, 3)} / {eps})",
            rf"{n} \ln\left(1 + 2 \cdot {shown_latex(scale, 3)} / {shown_latex(log_eps, 3)}\right)",
        )
    outputs = "" if seen.outputs is None else f", k = {seen.outputs}"
    name = f"{piece.text} = " if piece.text else ""
    points = shown(safe_log(float(seen.num_points)), 3)
    text = f"{name}{shown(seen.log_scale, 3)} at eps_i = {eps} on N = {points} points{outputs}"
    symbol = piece.latex or r"\text{norm}"
    latex = (
        rf"\ln D\left(\left({symbol}/\epsilon_i\right)^2\right), "
        rf"\ {symbol}/\epsilon_i = {shown_latex(ratio, 3)},\ N = {points}"
    )
    return text, latex
