"""A network as a list of pieces: linear classes, each with the amplification of later layers.

A piece is a weight matrix (or vector) with a norm bound, used at N points of bounded length. It
has the size of its cover at every scale, and the factor by which its error grows up to the output
(`log_amplification`). The whole network is covered by covering its pieces one after the other, at
the activations produced by the elements chosen before; log-sizes add up.

A piece can be counted in several ways: `norms` (Lemma 4.6, (2,1) norms), `frobenius`, `entries`
(the sum of absolute entries), `parameters` (volume, or volume at low rank, with the number of
parameters as a factor). Complete counts by one way each are compared with counts in which each
piece takes its cheapest way (`mixed`), and the smallest is taken. Every one of them grows with
every norm (a mixed count splits eps by the architecture alone), so their minimum does.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from capax.capacity.linear.allocation import allocate, allocate_by_parameters
from capax.capacity.linear.linear_classes import (
    log_cover_matrix_21,
    log_cover_vector,
    log_log_cover_matrix_21,
    log_log_cover_vector,
)
from capax.capacity.linear.structured_covers import (
    log_log_cover_entries,
    log_rank_count,
    log_volume_count,
)
from capax.capacity.magnitude import log_sum, safe_exp, safe_log
from capax.errors import require

Way = Literal["norms", "frobenius", "entries", "parameters"]
Route = Literal["norms", "frobenius", "entries", "parameters", "mixed"]
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
    outputs = None for a scalar class (then the norm is a 2- or Frobenius norm), k for a matrix with
    k output columns (then it is the (2,1) norm). log_scale_frobenius: ln(||W||_F times length).
    num_parameters: free entries, for the volume count; rank_parameters: r (d + k + 1) for a product
    of width r. log_scale_entries: ln(||W||_{1,1} times length), inf if unknown.
    log_amplification = ln alpha. text, latex: the scale. softmax_slope: lambda for scores that go
    through weights h / sum h with |(ln h)'| <= lambda.
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
    rank_parameters: int | None = None
    log_scale_entries: float = math.inf

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
        if self.softmax_slope is None:
            return log_eps
        half = 0.5 * safe_exp(math.log(self.softmax_slope) + log_eps)
        if half < 1e-9:  # atanh(x) >= x: the difference is negligible, and x may underflow
            return log_eps
        return math.inf if half >= 1 else math.log(2 * math.atanh(half) / self.softmax_slope)

    def frobenius(self) -> "Piece":
        """The same class by its Frobenius norm: a scalar class of sqrt(k) ||W||_F on kN points."""
        if self.outputs is None:
            return self
        scale = self.log_scale_frobenius + 0.5 * math.log(self.outputs)
        points = self.num_points * self.outputs
        return replace(self, log_scale=scale, num_points=points, outputs=None)

    @property
    def log_size(self) -> float:
        """ln(||W||_F times length), for every way of counting."""
        return self.log_scale if self.outputs is None else self.log_scale_frobenius

    @property
    def few_parameters(self) -> int | None:
        """The smaller of the two parameter counts; None when both are unknown."""
        counts = [n for n in (self.num_parameters, self.rank_parameters) if n is not None]
        return min(counts, default=None)

    @property
    def has_entries(self) -> bool:
        """Whether the entrywise cover applies."""
        return self.log_scale_entries < math.inf and self.num_parameters is not None

    @property
    def ways(self) -> tuple[Way, ...]:
        """The ways in which this piece can be counted."""
        known: dict[Way, bool] = {
            "norms": True,
            "frobenius": self.outputs is not None and self.log_scale_frobenius < math.inf,
            "entries": self.has_entries,
            "parameters": self.few_parameters is not None and self.log_size < math.inf,
        }
        return tuple(way for way, possible in known.items() if possible)

    @property
    def log_C(self) -> float:
        """ln C with ln N(eps) <= C/eps^2: C = (ab)^2 ln(2N+1); matrix: 2(bB)^2 ln(128kN+1)."""
        if self.outputs is None:
            return 2 * self.log_scale + math.log(math.log(2 * self.num_points + 1))
        inner = math.log(128 * self.outputs * self.num_points + 1)
        return math.log(2.0) + 2 * self.log_scale + math.log(inner)

    def log_log_cover(self, log_eps: float, way: Way = "norms") -> float:
        """ln ln N at scale e^{log_eps}: exact counts where they fit, their closed form above."""
        if way == "parameters":
            return safe_log(self.log_count(log_eps))
        at = self.log_covered_at(log_eps)
        if way == "entries":
            return log_log_cover_entries(self.num_parameters or 1, self.log_scale_entries - at)
        seen = self.frobenius() if way == "frobenius" else self
        return _log_log_by_norms(seen, seen.log_scale - at)

    def log_count(self, log_eps: float) -> float:
        """n ln(1 + 2ab/eps) by volume, or n_r ln(1 + 6ab/eps) by rank; inf if both are unknown."""
        log_ratio = self.log_size - self.log_covered_at(log_eps)
        counts = [math.inf]
        if self.num_parameters is not None:
            counts.append(log_volume_count(self.num_parameters, log_ratio))
        if self.rank_parameters is not None:
            counts.append(log_rank_count(self.rank_parameters, log_ratio))
        return min(counts)


def _log_log_by_norms(piece: Piece, log_ratio: float) -> float:
    if log_ratio <= 0:
        return -math.inf
    N, outputs = piece.num_points, piece.outputs
    if outputs is None:
        if log_ratio > LARGE_LOG_RATIO:
            return log_log_cover_vector(log_ratio, N)
        return safe_log(log_cover_vector(math.exp(log_ratio), 1.0, 1.0, N))
    if log_ratio > LARGE_LOG_RATIO:
        return log_log_cover_matrix_21(log_ratio, N, outputs)
    return safe_log(log_cover_matrix_21(math.exp(log_ratio), 1.0, 1.0, N, outputs, GRID_RATIOS))


@dataclass(frozen=True)
class Total:
    """ln ln N of a network at one scale, by the best route.

    parts: ln ln N of each piece. log_eps: its share. ways: how it was counted.
    """

    route: Route
    log_log_cover: float
    parts: tuple[float, ...]
    log_eps: tuple[float, ...]
    ways: tuple[Way, ...]

    @property
    def log_cover(self) -> float:
        """ln N; inf when it does not fit a float."""
        return safe_exp(self.log_log_cover)


def no_cover(pieces: Sequence[Piece]) -> Total:
    """A cover of one element, which is within eps of every function."""
    n = len(pieces)
    return Total("norms", -math.inf, (-math.inf,) * n, (math.inf,) * n, ("norms",) * n)


def closed_form(pieces: Sequence[Piece]) -> float:
    """ln C of the whole network, C = (sum_i (alpha_i^2 C_i)^{1/3})^3, so that ln N <= C / eps^2."""
    return allocate([p.log_C for p in pieces], [p.log_amplification for p in pieces]).log_value


def total_cover(pieces: Sequence[Piece], log_eps: float, shares: Sequence[float] = SHARES) -> Total:
    """The smallest count for the whole network at scale e^{log_eps}.

    shares: for two pieces, further splits to try besides the optimal one of the closed form.
    """
    return _total_cover(tuple(pieces), log_eps, tuple(shares))


# Cached: every route of a certificate, and its verification, count the same class again.
@lru_cache(maxsize=1 << 14)
def _total_cover(pieces: tuple[Piece, ...], log_eps: float, shares: tuple[float, ...]) -> Total:
    routes = [_by_norms(pieces, log_eps)]
    pairs = [(share, 1 - share) for share in shares] if len(pieces) == 2 else []
    splits = [_split(pieces, log_eps, part) for part in (*pairs, *_fixed(pieces))]
    counted = [(split, _all_counts(pieces, split)) for split in splits]
    for split, counts in counted[: len(pairs)]:
        norms: list[dict[Way, float]] = [{"norms": ways["norms"]} for ways in counts]
        routes.append(_cheapest("norms", split, norms))
    if any("frobenius" in p.ways for p in pieces):
        routes.append(_by_frobenius(pieces, log_eps))
    if all(p.few_parameters is not None for p in pieces):
        routes.append(_by_parameters(pieces, log_eps))
    routes += [_cheapest("mixed", split, counts) for split, counts in counted]
    return min(routes, key=lambda total: total.log_log_cover)


def parameter_count_cover(pieces: Sequence[Piece], log_eps: float) -> Total:
    """Only the parameter count, for comparison plots; every piece must know its parameters."""
    known = all(p.few_parameters is not None for p in pieces)
    require(known, "pieces", "known numbers of parameters (give d)", [p.name for p in pieces])
    return _by_parameters(pieces, log_eps)


def _fixed(pieces: Sequence[Piece]) -> list[tuple[float, ...]]:
    """Splits that depend on the architecture only: equal shares, and shares by parameters."""
    splits = [(1 / len(pieces),) * len(pieces)]
    counts = [p.few_parameters for p in pieces]
    if all(n is not None and n > 0 for n in counts):
        total = sum(n or 0 for n in counts)
        splits.append(tuple((n or 0) / total for n in counts))
    return splits


def _by_norms(pieces: Sequence[Piece], log_eps: float) -> Total:
    split = allocate([p.log_C for p in pieces], [p.log_amplification for p in pieces], log_eps)
    return _evaluated(pieces, split.log_eps, "norms", ["norms"] * len(pieces))


def _by_frobenius(pieces: Sequence[Piece], log_eps: float) -> Total:
    """Every matrix by its Frobenius norm; the split is the best one for those norms."""
    seen = [p.frobenius() for p in pieces]
    split = allocate([p.log_C for p in seen], [p.log_amplification for p in seen], log_eps)
    ways: list[Way] = ["norms" if p.outputs is None else "frobenius" for p in pieces]
    return _evaluated(pieces, split.log_eps, "frobenius", ways)


def _by_parameters(pieces: Sequence[Piece], log_eps: float) -> Total:
    counts = [p.few_parameters or 0 for p in pieces]
    split = allocate_by_parameters(counts, [p.log_amplification for p in pieces], log_eps)
    return _evaluated(pieces, split, "parameters", ["parameters"] * len(pieces))


def _split(pieces: Sequence[Piece], log_eps: float, shares: Sequence[float]) -> tuple[float, ...]:
    """Piece i gets shares[i] of eps: every split is valid, and some are better than the formula."""
    return tuple(
        math.inf
        if p.log_amplification == -math.inf
        else log_eps + math.log(s) - p.log_amplification
        for p, s in zip(pieces, shares, strict=True)
    )


def _evaluated(
    pieces: Sequence[Piece], split: tuple[float, ...], route: Route, ways: Sequence[Way]
) -> Total:
    """Every piece at its share of eps, in the one allowed way."""
    counts = [_counts(p, e, (way,)) for p, e, way in zip(pieces, split, ways, strict=True)]
    return _cheapest(route, split, counts)


def _all_counts(pieces: Sequence[Piece], split: tuple[float, ...]) -> list[dict[Way, float]]:
    return [_counts(p, e, p.ways) for p, e in zip(pieces, split, strict=True)]


def _counts(piece: Piece, log_eps: float, ways: tuple[Way, ...]) -> dict[Way, float]:
    """ln ln N in each of these ways; no way is tried if one element is a cover."""
    if log_eps == math.inf:
        return {"norms": -math.inf}
    return {way: piece.log_log_cover(log_eps, way) for way in ways}


def _cheapest(route: Route, split: tuple[float, ...], counts: Sequence[dict[Way, float]]) -> Total:
    """Every piece at its share of eps, by the cheapest of the ways it was counted in."""
    chosen = [min((part, way) for way, part in ways.items()) for ways in counts]
    parts = tuple(part for part, _ in chosen)
    return Total(route, log_sum(parts), parts, split, tuple(way for _, way in chosen))
