"""Error bounds that hold together: the share of delta of each, and the smallest of them."""

import math
from dataclasses import dataclass
from typing import Any

from capax.capacity.arguments import check_probability
from capax.capacity.bound import MODEL, Bound, best_of, spent
from capax.capacity.certificates.tails import Conditioning
from capax.errors import require
from capax.html import html_table


@dataclass(frozen=True)
class NoBound:
    """A route that gives no bound here: the reason, and the share of delta that it keeps."""

    route: str
    reason: str
    delta: float

    def __str__(self) -> str:
        return f"{self.route}: {self.reason}"


@dataclass(frozen=True)
class ErrorCertificate:
    """Bounds that hold together with probability 1 - delta, and the smallest on `predictor`.

    skipped: routes without a bound; their shares are spent as well.
    conditioning: the price of rejected training sets, one more statement with a share. The shares
    of all of them add up to at most delta, in exact arithmetic.

    Examples:
        >>> import capax
        >>> found = capax.bound("W_QK=2,v=1", T=1000, m=100_000, margin=0.5)
        >>> found.delta, len(found.entries) >= 2
        (0.05, True)
    """

    entries: tuple[Bound, ...]
    delta: float
    predictor: str = MODEL
    skipped: tuple[NoBound, ...] = ()
    conditioning: Conditioning | None = None

    def __post_init__(self) -> None:
        check_probability("delta", self.delta)
        require(len(self.entries) > 0, "entries", "at least one bound", 0)
        known = all(entry.delta is not None for entry in self.entries)
        require(known, "entries", "bounds with their part of delta", "one without")
        total = spent(self.shares())
        wanted = f"shares that add up to delta = {self.delta:g}"
        require(total <= spent([self.delta]), "entries", wanted, float(total))

    def shares(self) -> list[float]:
        """The part of delta of every statement: bounds, routes without a bound, conditioning."""
        parts = [entry.delta or 0.0 for entry in self.entries]
        parts += [route.delta for route in self.skipped]
        return parts if self.conditioning is None else [*parts, self.conditioning.delta]

    def _repr_html_(self) -> str:
        rows = [(e.statement, e.verdict, e.status, e.predictor, f"{e.delta:.3g}")
                for e in self.entries]  # fmt: skip
        first = f"with probability {1 - self.delta:g}: error <= {self.best.verdict}"
        head = ("route", "error <=", "kind", "about", "delta spent")
        return html_table(rows, head=head, title=first, notes=[str(s) for s in self.skipped])

    def _repr_latex_(self) -> str:
        return self.best._repr_latex_()

    @property
    def best(self) -> Bound:
        """The smallest bound on the predictor in question (the first one's if it has none)."""
        of_all = self.best_of_each()
        return of_all.get(self.predictor) or of_all[self.entries[0].predictor]

    def best_of_each(self) -> dict[str, Bound]:
        """Predictor -> the smallest bound on it."""
        names = dict.fromkeys(entry.predictor for entry in self.entries)
        return {name: best_of(e for e in self.entries if e.predictor == name) for name in names}

    @property
    def vacuous(self) -> bool:
        """No bound on the predictor in question is below 1."""
        return self.best.vacuous

    @property
    def m_needed(self) -> int | None:
        """Samples at which a bound on the predictor in question reaches the target."""
        about = self.best.predictor
        needed = (b.m_needed for b in self.entries if b.predictor == about)
        return min((m for m in needed if m is not None), default=None)

    @property
    def union_cost(self) -> float:
        """Nats that sharing delta with the other routes adds to the best bound's ln(1/delta)."""
        return math.log(self.delta / (self.best.delta or self.delta))

    def rows(self) -> list[dict[str, Any]]:
        """The table: route, value, predictor, delta spent, assumptions, samples needed."""
        return [_row(entry) for entry in self.entries]

    def explain(self, style: str = "text") -> str:
        """The best bound written out, then one line for each of the others."""
        if style == "latex":
            return self.best.explain("latex")
        lines = [
            self.headline(),
            self.best.explain(),
            f"sharing delta costs {self.union_cost:.3g} nats in ln(1/delta); all bounds:",
        ]
        lines += [
            f"  {entry.verdict:>22}  {entry.statement} [{entry.status}]: error of {entry.predictor}"
            for entry in self.entries
        ]
        return "\n".join([*lines, *(f"  no bound: {route}" for route in self.skipped)])

    def headline(self) -> str:
        """One line: the probability, the predictor, its best bound."""
        best = self.best
        promise = f"error of {best.predictor} <= {best.verdict} [{best.status}]"
        return f"with probability {1 - self.delta:g}: {promise}"

    def to_json(self) -> dict[str, Any]:
        """The keys of the best bound, the whole table, and the part of delta of each statement."""
        price = self.conditioning
        return {
            **self.best.to_json(),
            "m_needed": self.m_needed,
            "delta": self.delta,
            "union_cost": self.union_cost,
            "portfolio": self.rows(),
            "best_of_each_predictor": {
                name: bound.to_json()["value"] for name, bound in self.best_of_each().items()
            },
            "skipped": [
                {"route": s.route, "reason": s.reason, "delta": s.delta} for s in self.skipped
            ],
            "conditioning": None if price is None else price.to_json(),
        }


def _row(entry: Bound) -> dict[str, Any]:
    content = entry.to_json()
    kept = ("statement", "value", "log10_value", "status", "vacuous", "predictor", "delta",
            "shares", "m_needed")  # fmt: skip
    return {
        **{name: content[name] for name in kept},
        "assumes": [a.text for a in entry.assumptions if a.holds is not True],
        "checked": [a.text for a in entry.assumptions if a.holds is True],
    }
