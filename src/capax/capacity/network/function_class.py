"""A class of networks given by norms: its pieces on a sample, and the size of its cover."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from capax.capacity.arguments import check_positive
from capax.capacity.bound import Assumption, Bound
from capax.capacity.linear.pieces import Piece, Total, closed_form, terms_of, total_cover
from capax.capacity.magnitude import shown
from capax.capacity.network.sample_points import Sample
from capax.errors import require

ROUTE_NOTES = {
    "norms": "counted by norms (external cover)",
    "frobenius": "counted by Frobenius norms (external cover)",
    "parameters": "counted by parameters: at this scale the volume argument beats the norms",
}


@dataclass(frozen=True)
class FunctionClass:
    """Networks with bounded norms, named by the statement that covers them.

    build: the pieces on a given sample. norms: what bounds the class. latex, formula: the closed
    form. assumptions: what the statement needs besides the norms.
    """

    statement: str
    build: Callable[[Sample], tuple[Piece, ...]]
    norms: dict[str, float] = field(default_factory=dict)
    assumptions: tuple[Assumption, ...] = ()
    latex: str = ""
    formula: str = ""
    notes: tuple[str, ...] = ()

    def total(self, sample: Sample, log_eps: float) -> Total:
        """ln ln N_inf of the class on this sample at scale e^{log_eps}."""
        return total_cover(self.build(sample), log_eps)

    def log_C(self, sample: Sample) -> float:
        """ln C of the closed form ln N <= C / eps^2."""
        return closed_form(self.build(sample))

    def cover(self, sample: Sample, eps: float) -> Bound:
        """ln N_inf(F, eps) on any sample of this size, as a bound with its terms."""
        check_positive("eps", eps)
        pieces = self.build(sample)
        total = total_cover(pieces, math.log(eps))
        return Bound(
            statement=self.statement,
            value=total.log_cover,
            log_cover=total.log_cover,
            terms=terms_of(pieces, total),
            norms={**self.norms, "eps": eps},
            assumptions=self.assumptions,
            latex=self.latex,
            formula=self.formula,
            notes=(ROUTE_NOTES[total.route], self._closed_note(pieces, eps), *self.notes),
            kind="log_cover",
            log_value=total.log_log_cover,
            log_log_cover=total.log_log_cover,
        )

    def _closed_note(self, pieces: tuple[Piece, ...], eps: float) -> str:
        return f"closed form C / eps^2 = {shown(closed_form(pieces) - 2 * math.log(eps))}"


def check_norms(**norms: float | None) -> None:
    """Every norm given must be a finite number > 0; None means it was not given."""
    for name, value in norms.items():
        if value is not None:
            wanted = "a finite number > 0 (leave a zero matrix out of the network)"
            require(math.isfinite(value) and value > 0, name, wanted, value)
