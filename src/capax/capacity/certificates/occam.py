"""Occam's razor in bits: a model with a short description hardly fits by chance.

If a prefix-free description of the deployed model has L bits then, with probability 1 - delta over
m independent samples,

    zero training errors:  err <= (L ln 2 + ln(1/delta)) / m,
    in general:            err <= training error + sqrt((L ln 2 + ln(1/delta)) / 2m).

Proof: give each model the share 2^{-L} of delta (Kraft's inequality) and use (1 - err)^m <= e^{-m
err}, respectively Hoeffding. The code below describes a one-layer [CLS] table model with integer
logits and values in log2 C(T, s) + O(s log log T) bits: the true O(s log T) statement.
"""

import math
from dataclasses import dataclass

from capax.capacity.arguments import check_count, check_probability
from capax.capacity.bound import Assumption, Bound, Term
from capax.capacity.complexity.samples_needed import samples_needed
from capax.errors import require

LN_2 = math.log(2.0)
Entry = tuple[int, int]


def elias_gamma_bits(n: int) -> int:
    """Length of the Elias gamma code of n >= 1: 2 floor(log2 n) + 1."""
    check_count("n", n)
    return 2 * (n.bit_length() - 1) + 1


def integer_bits(n: int) -> int:
    """Length of a signed integer: 0, -1, 1, -2, ... become 1, 2, 3, 4, ..., then Elias gamma."""
    return elias_gamma_bits(2 * n + 1 if n >= 0 else -2 * n)


@dataclass(frozen=True)
class IntegerTableModel:
    """A [CLS] attention model whose tokens have integer (logit, value) pairs.

    `default[c]`: every token with symbol c at a position that is not kept. cls: the [CLS] token.
    `kept[position][c]`: the tokens of the kept positions. f = weighted mean of values, weights
    e^logit; the label is [f < 0] or [f > 0].
    """

    T: int
    default: tuple[Entry, ...]
    cls: Entry
    kept: dict[int, tuple[Entry, ...]]

    def __post_init__(self) -> None:
        check_count("T", self.T)
        for position, entries in self.kept.items():
            require(0 <= position < self.T, "kept", f"positions below T = {self.T}", position)
            same = len(entries) == len(self.default)
            require(same, "kept", f"{len(self.default)} entries per position", len(entries))

    @property
    def bits(self) -> int:
        """Length of the prefix-free description: count, positions, defaults, [CLS], kept tokens."""
        s = len(self.kept)
        positions = (math.comb(self.T, s) - 1).bit_length()  # = ceil(log2 C(T, s))
        tokens = [*self.default, self.cls, *(e for row in self.kept.values() for e in row)]
        numbers = sum(integer_bits(x) for token in tokens for x in token)
        return elias_gamma_bits(s + 1) + positions + numbers

    def output(self, symbols: list[int]) -> float:
        """f on one sequence of T symbols (the [CLS] token is added here)."""
        require(len(symbols) == self.T, "symbols", f"{self.T} symbols", len(symbols))
        pairs = [self.kept.get(t, self.default)[c] for t, c in enumerate(symbols)] + [self.cls]
        top = max(logit for logit, _ in pairs)
        weights = [math.exp(logit - top) for logit, _ in pairs]
        return math.fsum(w * v for w, (_, v) in zip(weights, pairs, strict=True)) / math.fsum(
            weights
        )


def conjunction_model(
    T: int, support: tuple[int, ...], *, minimal: bool = False
) -> IntegerTableModel:
    """AND over `support` by zero detection: AND = [f < 0], exact on all 2^T inputs.

    minimal: logits 0 and 1 only (the sign is exact, the margin tiny); otherwise [CLS] gets logit
    ceil(ln T) + 1 and a relevant zero two more, which keeps the margin free of T.
    """
    cls_logit, gap = (0, 1) if minimal else (math.ceil(math.log(T)) + 1, 2)
    row = ((cls_logit + gap, 1), (0, 0))
    return IntegerTableModel(T, ((0, 0), (0, 0)), (cls_logit, -1), dict.fromkeys(support, row))


def occam_bound(
    bits: int,
    m: int,
    delta: float,
    *,
    training_error: float = 0.0,
    cost: float = 0.0,
    target: float | None = None,
) -> Bound:
    """The Occam certificate for a description of `bits` bits; the error of the described model.

    cost: nats added to ln(1/delta). Raises InputError for an error outside [0, 1].
    """
    check_count("bits", bits, at_least=0)
    check_count("m", m)
    check_probability("delta", delta)
    require(0 <= training_error <= 1, "training_error", "a number in [0, 1]", training_error)
    nats, luck = bits * LN_2, cost - math.log(delta)
    value = training_error + _gap(nats + luck, m, training_error)
    return Bound(
        statement="Occam (description length)",
        status="rigorous",
        value=value,
        terms=_terms(nats, luck, m, training_error),
        norms={"bits": float(bits), "delta": delta},
        assumptions=(
            Assumption("the m sequences are independent draws from one distribution"),
            Assumption("the code was fixed before the data; the error is the described model's"),
        ),
        m_needed=None
        if target is None
        else samples_needed(
            lambda n: training_error + _gap(nats + luck, n, training_error), target
        ),
        target=target,
        latex=r"\frac{L\ln2+\ln(1/\delta)}m"
        if training_error == 0
        else (r"\widehat{err}+\sqrt{\frac{L\ln2+\ln(1/\delta)}{2m}}"),
        formula="(L ln 2 + ln(1/delta)) / m"
        if training_error == 0
        else ("training error + sqrt((L ln 2 + ln(1/delta)) / 2m)"),
    )


def _gap(nats: float, m: int, training_error: float) -> float:
    return nats / m if training_error == 0 else math.sqrt(nats / 2 / m)


def _terms(nats: float, luck: float, m: int, training_error: float) -> tuple[Term, ...]:
    if training_error > 0:
        gap = _gap(nats + luck, m, training_error)
        text = f"sqrt(({nats:.4g} + {luck:.4g}) / (2 * {m}))"
        return (Term.of("training error", training_error), Term.of("description", gap, text))
    return (
        Term.of("description", nats / m, f"{nats:.4g} / {m}", rf"{nats:.4g}/{m}"),
        Term.of("confidence", luck / m, f"{luck:.4g} / {m}", rf"{luck:.4g}/{m}"),
    )
