"""From a cover to "with probability 1 - delta, error <= ...": two margin bounds.

Uniform (any training error; complexity measured on the sample itself):

    P(y f <= 0) <= mean ramp_gamma(y_i f_i) + 2 R + 3 sqrt(ln(2/delta) / 2m),
    R = Rademacher complexity of the ramp losses, by chaining the cover of the class at L = 1/gamma.

Realizable (all margins strictly above gamma; fast rate):

    P(y f <= 0) <= (2/m) (log2 N_inf(F, gamma/2, 2m) + log2(2/delta)).

Proof of the second (ours, after the classical ghost-sample argument): double the sample; if some f
without margin error on S errs on eps m/2 points of S', an element gamma/2-close to it on all 2m
points separates them; random swaps put all those points into S' with probability 2^{-eps m/2};
union over the cover. It needs the cover on 2m points, so B_X must hold for all possible inputs.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Num

from capax.capacity.arguments import check_nonnegative, check_positive, check_probability
from capax.capacity.bound import Assumption, Bound, Term
from capax.capacity.complexity.chaining import chain_bound, rademacher_from_cover
from capax.capacity.complexity.samples_needed import samples_needed
from capax.capacity.linear.cover_pieces import Piece, Total
from capax.capacity.linear.piece_terms import terms_of
from capax.capacity.magnitude import log_sum, number, safe_exp, safe_log
from capax.capacity.network.function_class import ROUTE_NOTES, FunctionClass
from capax.capacity.network.sample_points import Sample
from capax.errors import require
from capax.rounding import SLACK

LN_2 = math.log(2.0)
STRICT = 1.0 - 1e-9
# Geometric scales A 4^{-j} of the chain on exact counts, besides the closed form.
CHAIN_RATIO = 4.0
CHAIN_LEVELS = 8


def ramp_loss(
    margins: Sequence[float] | Float[np.ndarray, "m"],
    gamma: float,
    counts: Num[np.ndarray, "m"] | None = None,
) -> float:
    """Mean of ramp_gamma(u) = min(1, max(0, 1 - u/gamma)) over u_i = y_i f(x_i), rounded up.

    counts: how often each margin occurs (default: once).
    """
    check_positive("gamma", gamma)
    require(len(margins) > 0, "margins", "at least one margin", len(margins))
    losses = np.clip(1.0 - np.asarray(margins, np.float64) / gamma, 0.0, 1.0)
    doubt = 2.0**-52 * (2 * len(losses) + 4)  # of the sum, and of each quotient below 1
    mean = float(np.average(losses, weights=counts))
    return min(1.0, mean * (1 + doubt) + (2.0**-51 if losses.any() else 0.0))


def loss_complexity(cls: FunctionClass, sample: Sample, lipschitz: float, A: float = 0.5) -> float:
    """Rademacher complexity of l o F for an L-Lipschitz loss within A of a constant.

    The better of the closed form (ln N <= L^2 C / eps^2) and the discrete chain on exact counts.
    """
    check_positive("lipschitz", lipschitz)
    log_C = cls.log_C(sample) + 2 * math.log(lipschitz)
    value = A
    if log_C - math.log(sample.m) < 600:
        value = rademacher_from_cover(safe_exp(log_C), A, sample.m, external=True)
    return min(value, _chained(cls, sample, lipschitz, A))


def _chained(cls: FunctionClass, sample: Sample, L: float, A: float) -> float:
    """The chain along A, A/4, A/16, ..., stopped at the best level; fixed scales, so monotone."""
    best, scales, covers, m = A, [A], [], sample.m
    decompositions = cls.decompositions(sample)
    for _ in range(CHAIN_LEVELS):
        scales.append(scales[-1] / CHAIN_RATIO)
        total = cls.smallest(decompositions, math.log(scales[-1] / L), shares=())[1]
        covers.append(total.log_cover)
        if 2 * covers[-1] > m:
            break
        best = min(best, chain_bound(scales, covers, m, external=True))
    return best


def margin_bound(
    cls: FunctionClass,
    sample: Sample,
    margin: float,
    delta: float,
    *,
    training_loss: float | None = None,
    cost: float = 0.0,
    target: float | None = None,
    assumptions: tuple[Assumption, ...] = (),
) -> Bound:
    """The uniform margin bound for a margin fixed in advance.

    training_loss: mean ramp loss on the sample; None: assumed to be 0, which the bound states.
    cost: nats added to ln(1/delta) by norms measured after training. target: also solve for the m
    at which the bound (at this loss) reaches it. assumptions: further ones, about the margins.
    """
    _check(cls, margin, delta, cost)
    measured = training_loss is not None
    training_loss = training_loss or 0.0
    require(0 <= training_loss <= 1, "training_loss", "a number in [0, 1]", training_loss)
    R = loss_complexity(cls, sample, 1.0 / margin)
    log_term = LN_2 - math.log(delta) + cost
    confidence = 3 * math.sqrt(log_term / (2 * sample.m))

    def at(m: int) -> float:
        return _uniform(cls, sample.of_size(m), margin, log_term) + training_loss

    total = cls.total(sample, math.log(margin / 2))
    return Bound(
        statement=f"Lemma 2.2 (uniform margin bound) with {cls.statement}",
        value=(training_loss + 2 * R + confidence) * SLACK,
        log_cover=total.log_cover,
        log_log_cover=total.log_log_cover,
        terms=_uniform_terms(training_loss, R, confidence, log_term, sample.m),
        norms={**cls.norms_on(sample), "margin": margin, "delta": delta},
        assumptions=(
            _loss_assumption(margin, training_loss, measured),
            *cls.assumptions,
            *assumptions,
        ),
        status=cls.status,
        m_needed=None if target is None else samples_needed(at, target),
        target=target,
        latex=r"\tfrac1m\sum_i\mathrm{ramp}_\gamma(y_if_i)+2\hat R+3\sqrt{\ln(2/\delta)/2m}",
        formula="mean ramp loss + 2 R + 3 sqrt(ln(2/delta) / 2m)",
        notes=(*_cost_note(cost), *cls.notes),
        delta=delta,
    )


def _uniform_terms(
    training_loss: float, R: float, confidence: float, log_term: float, m: int
) -> tuple[Term, ...]:
    """The three terms of the uniform margin bound, with their numbers."""
    root = f"3 sqrt({number(log_term)} / (2 * {m}))"
    latex = rf"3\sqrt{{{number(log_term)}/(2\cdot{m})}}"
    return (
        Term.of("training ramp loss", training_loss),
        Term.of("complexity", 2 * R, f"2 * {number(R)}", rf"2\hat R = 2\cdot{number(R)}"),
        Term.of("confidence", confidence, root, latex),
    )


def realizable_bound(
    cls: FunctionClass,
    sample: Sample,
    margin: float,
    delta: float,
    *,
    cost: float = 0.0,
    separated: bool | None = None,
    target: float | None = None,
    assumptions: tuple[Assumption, ...] = (),
) -> Bound:
    """The fast-rate margin bound: every training margin strictly above `margin`.

    separated: whether measured training margins are above it (None: an assumption).
    """
    _check(cls, margin, delta, cost)
    doubled = sample.doubled()
    log_eps = math.log(margin * STRICT / 2)
    pieces, total = cls.best(doubled, log_eps)
    log_term = LN_2 - math.log(delta) + cost
    terms = _fast_terms(pieces, total, log_term, sample.m)
    log_value = log_sum(term.log_value for term in terms)
    needed = None
    if target is not None:
        guess = log_value + math.log(sample.m) - math.log(target)
        needed = samples_needed(
            lambda m: _fast(cls, doubled.of_size(m), log_eps, log_term), target, log_guess=guess
        )
    return Bound(
        statement=f"realizable margin bound with {cls.statement}",
        value=safe_exp(log_value + math.log(SLACK)),
        log_value=log_value + math.log(SLACK),
        log_cover=total.log_cover,
        log_log_cover=total.log_log_cover,
        terms=terms,
        norms={**cls.norms_on(sample), "margin": margin, "delta": delta},
        status=cls.status,
        assumptions=(
            Assumption(f"y f > {number(margin)} on every training sequence", separated),
            Assumption("B_X and B_z hold for every sequence that can occur"),
            *_reachable(total.log_log_cover),
            *cls.assumptions,
            *assumptions,
        ),
        m_needed=needed,
        target=target,
        latex=r"\frac2m\Big(\log_2N_\infty(F,\gamma/2,2m)+\log_2\frac2\delta\Big)",
        formula="(2/m) (log2 N(F, gamma/2, 2m) + log2(2/delta))",
        notes=(ROUTE_NOTES[total.route], *_cost_note(cost), *cls.notes),
        delta=delta,
    )


def _uniform(cls: FunctionClass, sample: Sample, margin: float, log_term: float) -> float:
    confidence = 3 * math.sqrt(log_term / 2 / sample.m)
    return 2 * loss_complexity(cls, sample, 1.0 / margin) + confidence


def _fast(cls: FunctionClass, doubled: Sample, log_eps: float, log_term: float) -> float:
    log_total = log_sum((cls.total(doubled, log_eps).log_log_cover, safe_log(log_term)))
    return safe_exp(log_total + math.log(2 / LN_2) - math.log(doubled.m))


def _fast_terms(
    pieces: Sequence[Piece], total: Total, log_term: float, m: int
) -> tuple[Term, Term]:
    """The two terms of the fast-rate bound, with their numbers."""
    log_scale = math.log(2.0) - math.log(m) - math.log(LN_2)
    count = log_scale + total.log_log_cover
    latex = rf"\tfrac2{{{m}}}\log_2N_\infty"
    return (
        Term("cover", count, f"(2/{m}) log2 N", latex, terms_of(pieces, total)),
        Term("confidence", log_scale + safe_log(log_term), f"(2/{m}) log2(2/delta)"),
    )


def _loss_assumption(margin: float, loss: float, measured: bool) -> Assumption:
    """The uniform bound starts from the training loss: measured, or taken to be zero."""
    text = f"the mean ramp loss at margin {number(margin)} is {number(loss)}"
    if measured:
        return Assumption(f"{text} on the training sequences", True)
    return Assumption(f"{text}: every training sequence has y f >= {number(margin)}")


def _reachable(log_log_cover: float) -> tuple[Assumption, ...]:
    """One ball of radius gamma/2 holds no two functions with margin gamma and different labels."""
    if log_log_cover > -math.inf:
        return ()
    return (Assumption("some function of the class has this margin on two labels", False),)


def _check(cls: FunctionClass, margin: float, delta: float, cost: float) -> None:
    require(cls.scalar, "class", "one number per sequence (a margin needs one)", cls.statement)
    check_positive("margin", margin)
    check_probability("delta", delta)
    check_nonnegative("cost", cost)


def _cost_note(cost: float) -> tuple[str, ...]:
    if cost == 0:
        return ()
    return (f"norms measured after training cost {cost:.1f} nats in ln(1/delta)",)
