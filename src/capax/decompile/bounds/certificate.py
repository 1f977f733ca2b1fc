"""From a formula that was read off a network to a bound on the network's error.

    err(g) <= Bin(k_f, m, delta_1 2^-bits(f)) + P[g != f],    P[g != f] <= Bin(k, n, delta_2)

k_f: errors of the formula on the m training examples, a price in bits for having chosen it after
seeing them; k: disagreements on n fresh inputs, whose labels are not needed. Where formula and
network are proved equal on all inputs the second term is 0, whatever the inputs are distributed
like. If training sets were redrawn until one was accepted, delta_1 is multiplied by a lower
confidence bound for the acceptance probability, which has its own share of delta.
"""

import math
from dataclasses import dataclass
from typing import Any

from capax.boolean.functions import SparseFunction
from capax.capacity.bound import MODEL, Assumption, Bound, Term
from capax.capacity.certificates.tails import (
    Conditioning,
    binomial_upper,
    occam_tail_bound,
    price_of_conditioning,
)
from capax.decompile.bounds.description import description_bits
from capax.errors import require

FORMULA_SHARE, FRESH_SHARE, REJECTION_SHARE = 0.8, 0.1, 0.1
"""Shares of delta, fixed before the data: formula, fresh inputs, acceptance probability."""


@dataclass(frozen=True)
class Evidence:
    """What was counted.

    `errors` of the formula on m training examples; `disagreements` with the network on n fresh
    inputs (n = 0: proved equal); where ambiguous training sets were redrawn, how many of `tries`
    sets were `accepted` (tries = 0: the first set was taken as it came).
    """

    errors: int
    m: int
    disagreements: int
    n: int
    accepted: int = 0
    tries: int = 0


@dataclass(frozen=True)
class FormulaCertificate:
    """The bound through the formula, its description length, and other routes beside it.

    `skipped`: why a route gives no bound here.
    """

    bound: Bound
    bits: float
    m: int
    routes: tuple[Bound, ...]
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """value, bits, m and routes (statement, value, vacuous, for which predictor)."""
        rows = [
            {
                "route": b.statement,
                "value": b.value,
                "vacuous": b.vacuous,
                "predictor": b.predictor,
            }
            for b in (self.bound, *self.routes)
        ]
        return {
            "value": self.bound.value,
            "bits": self.bits,
            "m": self.m,
            "delta": self.bound.delta,
            "routes": rows,
            "skipped": list(self.skipped),
        }


def formula_bound(f: SparseFunction, T: int, seen: Evidence, delta: float = 0.05) -> Bound:
    """The certificate of a network through the formula f."""
    require(0 < delta < 1, "delta", "a probability", delta)
    require(seen.m >= 1, "data", "at least one training example", seen.m)
    bits = description_bits(f, T)
    rejected: Conditioning | None = None
    if seen.tries:
        rejected = price_of_conditioning(seen.accepted, seen.tries, REJECTION_SHARE * delta)
    cost = 0.0 if rejected is None else rejected.cost
    formula = occam_tail_bound(
        seen.errors, seen.m, bits, FORMULA_SHARE * delta, cost=cost, predictor="the formula"
    )
    gap = 0.0
    if seen.n:
        gap = binomial_upper(seen.disagreements, seen.n, math.log(FRESH_SHARE * delta))
    text = f"Bin({seen.disagreements}, {seen.n})" if seen.n else "equal on all inputs, proved"
    value = min(1.0, (formula.value + gap) * (1 + 2.0**-50))
    return Bound(
        statement="Formula (description length + disagreement)",
        value=value,
        terms=(
            Term.of("formula on the training set", formula.value, f"{bits:.1f} bits"),
            Term.of("network against formula", gap, text),
        ),
        norms={"bits": bits, "errors": float(seen.errors), "delta": delta},
        assumptions=(
            *formula.assumptions,
            Assumption("the fresh inputs follow the distribution of the data")
            if seen.n
            else Assumption("the network is evaluated in real arithmetic with its stored weights"),
        ),
        latex=r"\overline{Bin}(k_f,m,\delta_12^{-\ell})+\overline{Bin}(k_{\ne},n,\delta_2)",
        formula="Bin(k_f, m, delta_1 2^-bits) + Bin(k, n, delta_2)",
        notes=_notes(rejected),
        predictor=MODEL,
        delta=delta,
    )


def _notes(rejected: Conditioning | None) -> tuple[str, ...]:
    if rejected is None:
        return ()
    return (
        f"training sets were redrawn until one was unambiguous ({rejected.accepted} of "
        f"{rejected.tries} accepted): {rejected.cost:.2f} nats in ln(1/delta)",
    )
