"""A class of networks given by norms: its pieces on a sample, and the size of its cover."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from capax.capacity.arguments import check_positive
from capax.capacity.bound import Assumption, Bound, Status
from capax.capacity.linear.cover_pieces import (
    SHARES,
    Piece,
    Total,
    closed_form,
    no_cover,
    total_cover,
)
from capax.capacity.linear.piece_terms import terms_of
from capax.capacity.magnitude import log_sum, shown
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import Weighting
from capax.errors import require

ROUTE_NOTES = {
    "norms": "counted by norms (external cover)",
    "frobenius": "counted by Frobenius norms (external cover)",
    "entries": "counted by absolute entries (external cover)",
    "parameters": "counted by parameters, which is less than by norms at this scale",
    "mixed": "every piece counted in its cheapest way: norms, entries, parameters or rank",
}
Build = Callable[[Sample], tuple[Piece, ...]]


@dataclass(frozen=True)
class FunctionClass:
    """Networks with bounded norms, named by the statement that covers them.

    build: the pieces on a given sample. others: further ways to take the same networks apart; a
    cover by any of them covers the class, so the smallest is used. norms: the bounds of the class.
    latex, formula: the closed form. assumptions: conditions of the statement besides the norms.
    scalar: one number per sequence (only then is there a margin). weighting: Norm, whose constant
    depends on the sample's T. status: rigorous or a comparison. read_outs: the number of last
    pieces that add up to the output, so that their scales bound it (0: not known).
    """

    statement: str
    build: Build
    norms: dict[str, float] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    latex: str = ""
    formula: str = ""
    notes: tuple[str, ...] = ()
    others: tuple[Build, ...] = ()
    scalar: bool = True
    weighting: Weighting | None = None
    status: Status = "rigorous"
    read_outs: int = 0

    def decompositions(self, sample: Sample) -> list[tuple[Piece, ...]]:
        """The pieces of the class on this sample, once for each way to take it apart."""
        return [build(sample) for build in (self.build, *self.others)]

    def best(
        self, sample: Sample, log_eps: float, shares: tuple[float, ...] = SHARES
    ) -> tuple[tuple[Piece, ...], Total]:
        """The pieces that give the smallest cover at scale e^{log_eps}, and that cover."""
        return self.smallest(self.decompositions(sample), log_eps, shares)

    def smallest(
        self,
        decompositions: list[tuple[Piece, ...]],
        log_eps: float,
        shares: tuple[float, ...] = SHARES,
    ) -> tuple[tuple[Piece, ...], Total]:
        """The same for given pieces. Outputs within eps of 0 need one element."""
        for pieces in decompositions:
            outputs = [piece.log_scale for piece in pieces[len(pieces) - self.read_outs :]]
            if outputs and log_sum(outputs) <= log_eps:
                return pieces, no_cover(pieces)
        counted = [(pieces, total_cover(pieces, log_eps, shares)) for pieces in decompositions]
        return min(counted, key=lambda pair: pair[1].log_log_cover)

    def total(self, sample: Sample, log_eps: float) -> Total:
        """ln ln N_inf of the class on this sample at scale e^{log_eps}."""
        return self.best(sample, log_eps)[1]

    def log_C(self, sample: Sample) -> float:
        """ln C of the closed form ln N <= C / eps^2."""
        return min(closed_form(pieces) for pieces in self.decompositions(sample))

    def norms_on(self, sample: Sample) -> dict[str, float]:
        """The norms, with C_N at the number of tokens of this sample."""
        if self.weighting is None:
            return self.norms
        return {**self.norms, "C_N": self.weighting.C_N(sample.T + 1)}

    def cover(self, sample: Sample, eps: float) -> Bound:
        """ln N_inf(F, eps) on any sample of this size, as a bound with its terms."""
        check_positive("eps", eps)
        pieces, total = self.best(sample, math.log(eps))
        closed = f"closed form C / eps^2 = {shown(self.log_C(sample) - 2 * math.log(eps))}"
        return Bound(
            statement=self.statement,
            value=total.log_cover,
            log_cover=total.log_cover,
            terms=terms_of(pieces, total),
            norms={**self.norms_on(sample), "eps": eps},
            assumptions=self.assumptions,
            latex=self.latex,
            formula=self.formula,
            notes=(ROUTE_NOTES[total.route], closed, *self.notes),
            kind="log_cover",
            status=self.status,
            log_value=total.log_log_cover,
            log_log_cover=total.log_log_cover,
        )


def check_norms(**norms: float | None) -> None:
    """Every norm given must be a finite number > 0; None means it was not given."""
    for name, value in norms.items():
        if value is not None:
            wanted = "a finite number > 0 (leave a zero matrix out of the network)"
            require(math.isfinite(value) and value > 0, name, wanted, value)
