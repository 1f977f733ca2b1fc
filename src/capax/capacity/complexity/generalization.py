"""Lemma 2.2 with constants: from the size of a cover to the error on new data.

All are for one class F fixed before the sample, hold for all f in F at once with probability
1 - delta over m independent examples, and return a `Bound` with its terms. R is the Rademacher
complexity of the losses, which lie in [0, 1], hence within A = 1/2 of the constant 1/2.
"""

import math
from collections.abc import Callable

from capax.capacity.arguments import (
    check_count,
    check_nonnegative,
    check_positive,
    check_probability,
)
from capax.capacity.bound import Assumption, Bound, Term
from capax.capacity.complexity.chaining import massart, rademacher_from_cover
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.magnitude import number
from capax.errors import require

Size = float | int | Callable[[int], float]
LATEX = r"\tfrac1m\sum_i\ell_i+2\hat R+3\sqrt{\ln(2/\delta)/(2m)}"


def lemma_2_2(
    C: Size,
    m: int,
    delta: float,
    *,
    lipschitz: float | int = 1.0,
    empirical_loss: float | int = 0.0,
    external: bool = True,
    target: float | None = None,
) -> Bound:
    """Lemma 2.2 for a loss in [0, 1], L-Lipschitz in f(x), and ln N_inf(F, eps) <= C/eps^2.

    E loss <= mean loss + 2 R + 3 sqrt(ln(2/delta)/(2m)), R from the chain at L^2 C (constants
    ours). C may be a function of m. target: also solve for the m at which the bound reaches it.
    """
    check_positive("lipschitz", lipschitz)

    def complexity(size: int) -> float:
        return rademacher_from_cover(lipschitz**2 * _at(C, size), 0.5, size, external=external)

    kind = "external" if external else "internal"
    assumptions = (
        Assumption(f"ln N_inf(F, eps) <= C/eps^2 on every sample ({kind} covers)"),
        Assumption(f"the loss lies in [0, 1] and is {lipschitz:g}-Lipschitz in f(x)"),
    )
    norms = {"C": _at(C, m), "lipschitz": float(lipschitz)}
    return _uniform("Lemma 2.2", complexity, m, delta, empirical_loss, target, norms, assumptions)


def ramp_bound(
    C: Size,
    gamma: float | int,
    m: int,
    delta: float,
    *,
    ramp_loss: float | int = 0.0,
    external: bool = True,
    target: float | None = None,
) -> Bound:
    """Lemma 2.2 for classification with margin: P(yf <= 0) <= mean ramp_gamma(y_i f_i) + ...

    The ramp min(1, max(0, 1 - u/gamma)) lies above the 0-1 loss and is 1/gamma-Lipschitz; gamma
    must be fixed before the sample is seen.
    """
    check_positive("gamma", gamma)
    return lemma_2_2(
        C,
        m,
        delta,
        lipschitz=1 / gamma,
        empirical_loss=ramp_loss,
        external=external,
        target=target,
    )


def zero_one_bound(
    log_growth: Size,
    m: int,
    delta: float,
    *,
    empirical_error: float | int = 0.0,
    target: float | None = None,
) -> Bound:
    """The 0-1 loss of a binary class through its growth function (Massart, then as Lemma 2.2).

    R <= (1/2) sqrt(2 ln Pi(m)/m). log_growth = ln Pi(m), e.g. `log_sauer(m, d)`; may be a function
    of m. The 0-1 loss is not Lipschitz: this is the number of labelings, not a cover at scale eps.
    """

    def complexity(size: int) -> float:
        return min(0.5, massart(0.5, _at(log_growth, size), size))

    assumptions = (Assumption("the class gives at most exp(log_growth) labelings to m points"),)
    norms = {"log_growth": _at(log_growth, m)}
    return _uniform(
        "0-1 loss by growth function",
        complexity,
        m,
        delta,
        empirical_error,
        target,
        norms,
        assumptions,
        _at(log_growth, m),
    )


def separated_bound(log_cover: Size, m: int, delta: float, *, target: float | None = None) -> Bound:
    """Fast rate when every training margin is strictly above gamma:

    P(yf <= 0) <= (2/m)(log2 N_inf^ext(F, gamma/2, 2m) + log2(2/delta)).

    log_cover = ln N at gamma/2 on the double sample of 2m points (a function of m if m varies).
    Ghost sample and random swaps; strictness matters, since our covers are closed.
    """
    _check(m, delta)

    def parts(size: int) -> tuple[float, float]:
        scale = 2 / (size * math.log(2))
        return scale * _at(log_cover, size), scale * math.log(2 / delta)

    cover, confidence = parts(m)
    terms = (
        Term.of("cover", cover, f"(2/{m}) log2 N", rf"\tfrac{{2}}{{{m}}}\log_2N_\infty"),
        Term.of("confidence", confidence, f"(2/{m}) log2(2/{delta:g})"),
    )
    return Bound(
        statement="Realizable margin bound",
        status="rigorous",
        value=cover + confidence,
        log_cover=_at(log_cover, m),
        terms=terms,
        norms={"m": float(m), "delta": delta},
        assumptions=(
            Assumption("y_i f(x_i) > gamma, strictly, on all m examples"),
            Assumption("the cover holds on every sample of 2m points"),
        ),
        m_needed=None if target is None else samples_needed(lambda n: sum(parts(n)), target),
        target=target,
        latex=r"\frac2m\Big(\log_2N_\infty(F,\gamma/2,2m)+\log_2\frac2\delta\Big)",
        formula="(2/m) (log2 N(F, gamma/2, 2m) + log2(2/delta))",
        delta=delta,
    )


def agnostic_margin_bound(
    log_cover: float | int, m: int, delta: float, *, margin_errors: float | int = 0.0
) -> Bound:
    """One scale, any training error (Anthony and Bartlett, Theorem 10.1):

    P(yf <= 0) <= #{i : y_i f(x_i) <= gamma}/m + sqrt((8/m)(ln N(F, gamma/2, 2m) + ln(2/delta))).
    """
    _check(m, delta)
    check_nonnegative("log_cover", log_cover)
    _check_fraction("margin_errors", margin_errors)
    gap = math.sqrt(8 / m * (log_cover + math.log(2 / delta)))
    text = f"sqrt((8/{m}) ({number(log_cover)} + {number(math.log(2 / delta))}))"
    return Bound(
        statement="Agnostic margin bound at one scale",
        status="rigorous",
        value=margin_errors + gap,
        log_cover=float(log_cover),
        terms=(Term.of("margin errors", float(margin_errors)), Term.of("gap", gap, text)),
        norms={"m": float(m), "delta": delta},
        assumptions=(Assumption("the cover holds on every sample of 2m points"),),
        latex=r"\widehat{err}_\gamma+\sqrt{\tfrac8m(\ln N_\infty(F,\gamma/2,2m)+\ln\tfrac2\delta)}",
        formula="margin errors + sqrt((8/m)(ln N + ln(2/delta)))",
        delta=delta,
    )


def _uniform(
    statement: str,
    complexity: Callable[[int], float],
    m: int,
    delta: float,
    loss: float | int,
    target: float | None,
    norms: dict[str, float],
    assumptions: tuple[Assumption, ...],
    log_cover: float | None = None,
) -> Bound:
    """mean loss + 2 R(m) + 3 sqrt(ln(2/delta)/(2m)), with its terms and the m that is needed."""
    _check(m, delta)
    _check_fraction("empirical loss", loss)

    def confidence(size: int) -> float:
        return 3 * math.sqrt(math.log(2 / delta) / (2 * size))

    def value(size: int) -> float:
        return loss + 2 * complexity(size) + confidence(size)

    R = complexity(m)
    return Bound(
        statement=statement,
        status="rigorous",
        value=value(m),
        log_cover=log_cover,
        terms=(
            Term.of("empirical loss", float(loss)),
            Term.of("complexity", 2 * R, f"2 * {number(R)}", rf"2\cdot{number(R)}"),
            Term.of("confidence", confidence(m), f"3 sqrt(ln(2/{delta:g})/(2 * {m}))"),
        ),
        norms={**norms, "m": float(m), "delta": delta},
        assumptions=assumptions,
        m_needed=None if target is None else samples_needed(value, target),
        target=target,
        latex=LATEX,
        formula="empirical loss + 2 R + 3 sqrt(ln(2/delta)/(2m))",
        delta=delta,
    )


def _at(size: Size, m: int) -> float:
    value = float(size(m)) if callable(size) else float(size)
    check_nonnegative("the size of the class", value)
    return value


def _check(m: int, delta: float) -> None:
    check_count("m", m)
    check_probability("delta", delta)


def _check_fraction(name: str, value: float | int) -> None:
    require(0 <= value <= 1, name, "a number in [0, 1]", value)
