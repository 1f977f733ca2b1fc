"""The best of several bounds, each at its share of delta, with the price of choosing shown.

Norms and margins are measured after training; the grid that makes this legitimate is in every
entry's cost. What the portfolio itself costs (ln of the number of entries) is shown, and a vacuous
result is called so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from capax.capacity.arguments import check_probability
from capax.capacity.bound import Bound, best_of
from capax.capacity.certificates.margin_bounds import margin_bound, ramp_loss, realizable_bound
from capax.capacity.certificates.occam import occam_bound
from capax.capacity.network.function_class import FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.a_posteriori import GRID, round_up
from capax.capacity.weights.measured import Measured
from capax.errors import InputError, require


@dataclass(frozen=True)
class Certificate:
    """The best bound of a portfolio, all of its entries, and the price of choosing."""

    best: Bound
    entries: tuple[Bound, ...]
    delta: float
    union_cost: float

    @property
    def vacuous(self) -> bool:
        """Nothing in the portfolio is below 1."""
        return self.best.vacuous

    @property
    def m_needed(self) -> int | None:
        """Samples at which the first entry of the portfolio reaches the target."""
        return min((b.m_needed for b in self.entries if b.m_needed is not None), default=None)

    def explain(self, style: str = "text") -> str:
        """The best bound written out, then one line for each of the others."""
        if style == "latex":
            return self.best.explain("latex")
        lines = [
            f"with probability {1 - self.delta:g}: error <= {self.best.verdict}",
            self.best.explain(),
            f"choosing the best entry costs {self.union_cost:.3g} nats in ln(1/delta):",
        ]
        lines += [f"  {b.verdict:>22}  {b.statement} [{b.status}]" for b in self.entries]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The best bound's keys, the portfolio and its cost."""
        entries = [{"statement": b.statement, "value": b.to_json()["value"], "m_needed": b.m_needed}
                   for b in self.entries]  # fmt: skip
        return {
            **self.best.to_json(),
            "m_needed": self.m_needed,
            "delta": self.delta,
            "union_cost": self.union_cost,
            "portfolio": entries,
        }


def certify_margins(
    measured: Measured,
    margins: Sequence[float],
    *,
    delta: float = 0.05,
    g: float = GRID,
    target: float | None = None,
    described: tuple[int, float] | None = None,
) -> Certificate:
    """The portfolio from measured quantities and training margins u_i = y_i f(x_i)."""
    check_probability("delta", delta)
    require(len(margins) > 0, "margins", "at least one training sequence", len(margins))
    finite = all(math.isfinite(u) for u in margins)
    require(finite, "margins", "finite numbers", "NaN or infinite")
    # the shares are fixed before the margins are seen: separability is a property of the sample
    count = 2 + (described is not None)
    share = delta / count
    entries = [_uniform_entry(measured, margins, share, g, target)]
    if min(margins) > 0:
        entries.append(_realizable_entry(measured, margins, share, g, target))
    if described is not None:
        bits, error = described
        entries.append(occam_bound(bits, len(margins), share, training_error=error, target=target))
    best = best_of(entries)
    return Certificate(best, tuple(entries), delta, math.log(count))


def _class_at(measured: Measured, margin: float, g: float) -> tuple[FunctionClass, float, float]:
    """The class on its grid, the margin on its grid (rounded down), and the cost of both."""
    cls, grid = measured.rounded(g)
    inverse = round_up({"1/margin": (1 + 1e-9) / margin}, g=g)
    return cls, 1.0 / inverse.values["1/margin"], grid.cost + inverse.cost


def _uniform_entry(
    measured: Measured, margins: Sequence[float], delta: float, g: float, target: float | None
) -> Bound:
    """The uniform bound at the best of a few margins; every grid margin is paid for already."""
    positive = sorted(u for u in margins if u > 0)
    sample = measured.sample(len(margins))
    guesses = (
        {positive[int(q * (len(positive) - 1))] for q in (0.0, 0.1, 0.5, 1.0)}
        if positive
        else {1.0}
    )
    bounds = []
    for guess in sorted(guesses):
        cls, margin, cost = _class_at(measured, guess, g)
        loss = ramp_loss(list(margins), margin)
        wanted = target if target is not None and loss < target else None
        bounds.append(
            margin_bound(cls, sample, margin, delta, training_loss=loss, cost=cost, target=wanted)
        )
    return min(bounds, key=lambda bound: bound.log_value)


def _realizable_entry(
    measured: Measured, margins: Sequence[float], delta: float, g: float, target: float | None
) -> Bound:
    cls, margin, cost = _class_at(measured, min(margins), g)
    sample = measured.sample(len(margins))
    return realizable_bound(cls, sample, margin, delta, cost=cost, separated=True, target=target)


def bound_from_norms(
    cls: FunctionClass, sample: Sample, *, margin: float, delta: float, target: float | None = None
) -> Certificate:
    """Both margin bounds for norms fixed in advance (nothing is measured, no grid cost)."""
    check_probability("delta", delta)
    entries = tuple(
        bound(cls, sample, margin, delta / 2, target=target)
        for bound in (margin_bound, realizable_bound)
    )
    best = best_of(entries)
    return Certificate(best, entries, delta, math.log(2.0))


def conditioned(certificate: Certificate, acceptance: float) -> Certificate:
    """The same certificate when ambiguous training sets were rejected and redrawn.

    Conditioning on an event of probability `acceptance` turns delta into delta / acceptance.
    """
    if not 0 < acceptance <= 1:
        raise InputError(f"acceptance: wanted a probability in (0, 1], got {acceptance}")
    return replace(certificate, delta=certificate.delta / acceptance)
