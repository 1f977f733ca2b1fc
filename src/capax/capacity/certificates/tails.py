"""Bounds from counted errors: hold-out, Occam and the price of conditioning, by tail inversion.

Hold-out: a predictor fixed before n examples were drawn, k errors on them:
err <= Bin(k, n, delta); after K looks at the same examples delta/K each.

Occam: a prefix-free code fixed before the data gives predictor h the share 2^-bits(h) of delta
(Kraft), so for all h at once err(h) <= Bin(k_h, m, delta 2^-bits(h)): never 1, however long the
code. Sharper than (bits ln 2 + ln(1/delta))/m and than every additive form, because it is the
binomial tail itself and not a bound of it.

Conditioning: if training sets were drawn until one was accepted (probability alpha), then
P[bad | accepted] <= P[bad]/alpha, so the statement is proved at alpha delta. alpha is not known; N
tries gave A acceptances. Drawn until A were accepted, {tries <= N} = {Bin(N, alpha) >= A}, and for
a number N fixed in advance the count is binomial itself: either way min{alpha : P[Bin(N, alpha) >=
A] >= delta_alpha} is a lower confidence bound. (A sum of counts that end by different rules is
neither.) The accepted set does not depend on the number of tries, so the failure probabilities
add.
"""

import math
from dataclasses import dataclass
from typing import Any

from capax.capacity.arguments import check_count, check_nonnegative, check_probability
from capax.capacity.bound import MODEL, Assumption, Bound, Term
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.complexity.tail_inversion import binomial_lower as binomial_lower
from capax.capacity.complexity.tail_inversion import binomial_upper as binomial_upper
from capax.capacity.complexity.tail_inversion import kl as kl
from capax.capacity.complexity.tail_inversion import kl_inverse as kl_inverse
from capax.errors import require
from capax.rounding import ROUND_UP

LN_2 = math.log(2.0)
INDEPENDENT = Assumption("the m sequences are independent draws from one distribution")
LATEX = r"\max\{p:P[\mathrm{Bin}(%s,p)\le %s]\ge %s\}"


def holdout_bound(
    k: int,
    n: int,
    delta: float,
    looks: int = 1,
    *,
    assumptions: tuple[Assumption, ...] = (),
    predictor: str = MODEL,
    target: float | None = None,
) -> Bound:
    """Error of a predictor fixed before the n hold-out examples, k of them wrong.

    looks: predictors that these examples have tested, this one included; each gets delta/looks.
    assumptions: further ones. target: also solve for the n that reaches it at the same share of
    errors.
    """
    check_count("n", n)
    check_count("looks", looks)
    check_probability("delta", delta)
    log_delta = math.log(delta) - math.log(looks)
    value = binomial_upper(k, n, log_delta)
    share = "delta" if looks == 1 else f"delta/{looks}"
    return Bound(
        statement="Hold-out (binomial tail)",
        status="rigorous",
        value=value,
        terms=_terms("hold-out", k, n, value, f"Bin({k}, {n}, {share})"),
        norms={"errors": float(k), "n": float(n), "looks": float(looks), "delta": delta},
        assumptions=(
            INDEPENDENT,
            Assumption("no hold-out example was used in training or choosing")
            if looks == 1
            else Assumption("no hold-out example was used in training"),
            *(() if looks == 1 else (Assumption(f"at most {looks} looks at these examples"),)),
            *assumptions,
        ),
        m_needed=_needed(k, n, log_delta, target),
        target=target,
        latex=LATEX % ("n", "k", r"\delta"),
        formula="max{p : P[Bin(n, p) <= k] >= " + share + "}",
        predictor=predictor,
        delta=delta,
    )


def occam_tail_bound(
    k: int,
    m: int,
    bits: float | int,
    delta: float,
    *,
    cost: float = 0.0,
    predictor: str = "the described predictor",
    target: float | None = None,
) -> Bound:
    """Error of a predictor with a description of `bits` bits and k errors on m training examples.

    cost: nats added to ln(1/delta), e.g. `Conditioning.cost`. predictor: the described one (the
    bound holds for this one only). target: also solve for m at this share of errors.
    """
    check_count("m", m)
    check_nonnegative("bits", bits)
    check_nonnegative("cost", cost)
    check_probability("delta", delta)
    log_delta = -(bits * LN_2 + cost - math.log(delta)) * ROUND_UP
    value = binomial_upper(k, m, log_delta)
    return Bound(
        statement="Occam (binomial tail)",
        status="rigorous",
        value=value,
        terms=_terms("training", k, m, value, f"Bin({k}, {m}, delta 2^-{bits:g})"),
        norms={"errors": float(k), "bits": float(bits), "delta": delta},
        assumptions=(
            INDEPENDENT,
            Assumption("the prefix-free code was fixed before the data"),
        ),
        m_needed=_needed(k, m, log_delta, target),
        target=target,
        latex=LATEX % ("m", "k", r"\delta2^{-\ell}"),
        formula="max{p : P[Bin(m, p) <= k] >= delta 2^-bits}",
        notes=(f"{cost:.2f} nats are paid for conditioning",) if cost > 0 else (),
        predictor=predictor,
        delta=delta,
    )


@dataclass(frozen=True)
class Conditioning:
    """The cost of training sets that were rejected and redrawn.

    alpha: at most the true acceptance probability, except with probability `delta`; from `accepted`
    of `tries` draws. A bound on the accepted set holds with probability 1 - delta_1 - delta if it
    is computed at alpha delta_1.
    """

    alpha: float
    delta: float
    accepted: int
    tries: int

    @property
    def cost(self) -> float:
        """ln(1/alpha), to be added to ln(1/delta_1)."""
        return -math.log(self.alpha) * ROUND_UP

    def to_json(self) -> dict[str, Any]:
        """Counts, the bound of the probability, and its price."""
        return {
            "accepted": self.accepted,
            "tries": self.tries,
            "alpha_at_least": self.alpha,
            "cost_in_nats": self.cost,
            "delta": self.delta,
        }


def price_of_conditioning(
    accepted: int, tries: int, delta: float, *, further: tuple[int, int] | None = None
) -> Conditioning:
    """The price from counted draws: sets were drawn until `accepted` were kept, `tries` in all.

    One accepted set after R rejections is (1, R + 1). further: (accepted, drawn) of a number of
    further sets that was fixed in advance. The two counts end by different rules, so each is a
    statement of its own with delta/2, and the larger bound of the probability is taken.
    """
    check_count("accepted", accepted)
    require(tries >= accepted, "tries", f"at least accepted = {accepted}", tries)
    check_probability("delta", delta)
    counts = [(accepted, tries)] if further is None else [(accepted, tries), further]
    log_share = math.log(delta) - math.log(len(counts))
    found = [(binomial_lower(k, n, log_share * ROUND_UP), k, n) for k, n in counts]
    alpha, kept, drawn = max(found)
    return Conditioning(alpha, delta, kept, drawn)


def _terms(name: str, k: int, n: int, value: float, text: str) -> tuple[Term, ...]:
    """The observed share of errors and the addition of the tail."""
    return (
        Term.of(f"{name} errors", k / n, f"{k}/{n}", rf"{k}/{n}"),
        Term.of("tail", max(0.0, value - k / n), f"{text} - {k}/{n}"),
    )


def _needed(k: int, n: int, log_delta: float, target: float | None) -> int | None:
    """Examples at which the same share of errors (rounded up) reaches the target."""
    if target is None or (k > 0 and k / n >= target):
        return None
    return samples_needed(lambda size: binomial_upper(-(-k * size // n), size, log_delta), target)
