"""Two routes through the formula of a network.

*Formula*, a bound on the network's error:

    err(g) <= Bin(k_f, m, delta_1 2^-bits(f)) + P[g != f],    P[g != f] <= Bin(k, n, delta_2)

k_f: errors of the formula on the m training examples, a price in bits for having chosen it after
seeing them; k: disagreements on n fresh inputs, whose labels are not needed. If formula and network
are proved equal on all inputs the second term is 0, for every distribution of inputs; its share of
delta is still spent, because the proof came after the data.

*Shape*, PAC-Bayes over formulas: the prior is the code of `description` (shape, then uniform over
the N placements), the posterior uniform over the V placements of the shape with the fewest errors:
KL = bits(shape) ln 2 + ln(N/V).
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from capax.boolean.best_possible.disagreement import log_num_placements
from capax.boolean.functions import SparseFunction
from capax.capacity.bound import MODEL, Assumption, Bound, Term, share_of
from capax.capacity.certificates.best_placements import best_placements
from capax.capacity.certificates.pac_bayes import LEAST_EXAMPLES, version_space_bound
from capax.capacity.certificates.portfolio import Route
from capax.capacity.certificates.tails import binomial_upper, occam_tail_bound
from capax.data.examples import Examples
from capax.decompile.bounds.description import description_bits
from capax.errors import require
from capax.rounding import ROUND_UP

LN_2 = math.log(2.0)
FRESH_SHARE = Fraction(1, 9)
"""Of the route's delta, for the disagreement on fresh inputs; the rest is for the formula."""
FORMULA_WEIGHT = 4
"""The formula is the main result of a decompilation: it gets four times the share of others."""
MAX_PLACED = 4
"""Placements of larger formulas are too many to count."""
REAL_ARITHMETIC = Assumption("the network is evaluated in real arithmetic with its stored weights")


@dataclass(frozen=True)
class FormulaCounts:
    """`errors` of the formula on m training examples, `disagreements` with the network on n inputs.

    n = 0: network and formula are proved equal on all inputs. assumptions: about these inputs.
    """

    errors: int
    m: int
    disagreements: int
    n: int
    assumptions: tuple[Assumption, ...] = ()


def formula_route(f: SparseFunction, T: int, counted: FormulaCounts) -> Route:
    """The network's error through the formula f."""
    return Route(
        "formula",
        lambda share, nats: formula_bound(f, T, counted, share, cost=nats),
        FORMULA_WEIGHT,
    )


def formula_bound(
    f: SparseFunction, T: int, counted: FormulaCounts, delta: float, *, cost: float = 0.0
) -> Bound:
    """The bound itself. cost: nats for conditioning, for the training set only."""
    require(0 < delta < 1, "delta", "a probability", delta)
    require(counted.m >= 1, "data", "at least one training example", counted.m)
    bits = description_bits(f, T)
    first, second = (share_of(delta, part) for part in (1 - FRESH_SHARE, FRESH_SHARE))
    formula = occam_tail_bound(
        counted.errors, counted.m, bits, first, cost=cost, predictor="the formula"
    )
    gap = 0.0
    if counted.n:
        gap = binomial_upper(counted.disagreements, counted.n, math.log(second))
    proved = "equal on all inputs, proved"
    text = f"Bin({counted.disagreements}, {counted.n})" if counted.n else proved
    return Bound(
        statement="Formula (description length + disagreement)",
        status="rigorous",
        value=min(1.0, (formula.value + gap) * ROUND_UP),
        terms=(
            Term.of("formula on the training set", formula.value, f"{bits:.1f} bits"),
            Term.of("network against formula", gap, text),
        ),
        norms={"bits": bits, "errors": float(counted.errors), "delta": delta},
        assumptions=(
            *formula.assumptions,
            *(counted.assumptions if counted.n else (REAL_ARITHMETIC,)),
        ),
        latex=r"\overline{Bin}(k_f,m,\delta_12^{-\ell})+\overline{Bin}(k_{\ne},n,\delta_2)",
        formula="Bin(k_f, m, delta_1 2^-bits) + Bin(k, n, delta_2)",
        notes=formula.notes,
        predictor=MODEL,
        delta=delta,
        shares={"formula": first, "disagreement": second},
    )


def shape_route(f: SparseFunction, data: Examples) -> Route:
    """A placement of the formula's shape, drawn from the placements with the fewest errors."""
    f, T = f.relevant(), data.X.shape[1]

    def ask(share: float, nats: float) -> Bound:
        require(len(data.y) >= LEAST_EXAMPLES, "data", f"{LEAST_EXAMPLES} examples", len(data.y))
        require(1 <= f.s <= MAX_PLACED, "formula", f"1 to {MAX_PLACED} bits", f.s)
        best = best_placements(f, data.X, data.y)
        log_N = log_num_placements(f, T)
        # the code names a placement too: the rest of it is the price of the shape
        shape = max(0.0, description_bits(f, T) * LN_2 - log_N) * ROUND_UP
        return version_space_bound(
            log_N, best.count, best.m, share, errors=best.errors, cost=nats + shape,
            predictor="the formula's shape on random surviving positions",
        )  # fmt: skip

    return Route("PAC-Bayes over formulas", ask)
