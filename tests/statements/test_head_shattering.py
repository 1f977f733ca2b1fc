"""Proposition 4.4: margins against the forward pass, in more digits, and what fails."""

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from capax.attention.numpy_block import softmax
from capax.errors import InputError
from capax.statements.forms.head_shattering import (
    corollary_at,
    inputs_of,
    shatter,
    sign_patterns,
    smallest_norm,
)


def margins_by_forward_pass(T: int, norm: float) -> np.ndarray:
    X = inputs_of(T)
    angle = 2 * np.pi * np.arange(T) / T
    keys = norm * np.stack([np.cos(angle), np.sin(angle), np.zeros(T)], axis=1)
    outputs = np.stack([softmax(keys @ x.T) @ x[:, 2] for x in X], axis=1)  # [head, input]
    return np.where(sign_patterns(T), outputs - 0.5, 0.5 - outputs)


@pytest.mark.parametrize("T", [2, 4, 8, 64])
@pytest.mark.parametrize("share", [1.0, 0.1, 0.05])
def test_the_margins_are_those_of_the_forward_pass(T, share):
    found, plain = shatter(T, share * T**2), margins_by_forward_pass(T, share * T**2)
    assert found.verified and found.inputs == T.bit_length() - 1
    below = plain.min(axis=0) - np.array(found.margins)
    assert (below > -1e-13).all() and (below < 1e-11).all()  # rounded down, and hardly


def test_the_paper_norm_gives_almost_all_weight_to_one_position():
    found = shatter(1 << 16)
    assert found.norm == 2.0**32 and found.patterns == 1 << 16
    assert 0.4999 < found.margin < 0.5


def exact_margin_of_the_lowest_bit(T: int, norm: float) -> Decimal:
    """(1/2) sum_j (-1)^j a_j in 60 digits: the lowest bit is the hardest."""
    with localcontext() as context:
        context.prec = 60
        weights = [(Decimal(float(norm)) * _cosine(j, T)).exp() for j in range(T)]
        signed = sum(w if j % 2 == 0 else -w for j, w in enumerate(weights))
        return signed / (2 * sum(weights))


def _cosine(j: int, T: int) -> Decimal:
    """cos(2 pi j/T) in 60 digits for T a power of two, by halving angles."""
    j %= T
    if j > T // 2:
        j = T - j
    if 4 * j > T:
        return -_cosine(T // 2 - j, T)
    if j == 0:
        return Decimal(1)
    if 4 * j == T:
        return Decimal(0)
    return ((1 + _cosine(2 * j, T)) / 2).sqrt()


def test_every_norm_shatters_and_margins_cost_norm():
    for T, norm in ((8, 0.5), (16, 0.5), (32, 2.0)):  # margins down to 1e-17
        exact = exact_margin_of_the_lowest_bit(T, norm)
        assert exact > 0
        assert shatter(T, norm).margin <= exact
    assert shatter(16, 0.5).verified and not shatter(64, 0.5).verified  # float64 ends here
    for norm in (0.3, 0.5, 0.7):  # exact margins below 1e-40: what the rounding may be is taken off
        assert shatter(64, norm).margin < -1e-13
    sizes = [smallest_norm(T) / T**2 for T in (64, 256, 1024)]
    assert np.allclose(sizes, 0.0907, atol=2e-4)
    for T, share in ((64, sizes[0]), (256, sizes[1])):
        assert shatter(T, share * T**2).margin >= 0.25
        assert shatter(T, 0.9999 * share * T**2).margin < 0.25


def test_the_margin_rises_with_the_norm():
    margins = [shatter(32, norm).margin for norm in np.geomspace(20, 1024, 20)]
    assert (np.diff(margins) > 0).all()


def test_corollary_4_5_allows_the_patterns_at_its_norm():
    for T in (16, 256):
        found = shatter(T)
        assert corollary_at(T, found.norm, 0.99 * found.margin) >= np.log(T)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shatter(12), "T: wanted a power of two"),
        (lambda: shatter(1), "T: wanted a power of two"),
        (lambda: shatter(8, 0.0), "norm: wanted a finite number > 0"),
        (lambda: smallest_norm(8, 0.6), "margin: wanted a number in"),
    ],
)
def test_mistakes(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_a_dropped_rounding_would_be_seen(monkeypatch):
    """With the weights of the farthest tokens lost, the margin would be above the real one."""
    from capax.statements.forms import head_shattering

    honest = shatter(8, 3.0).margin
    monkeypatch.setattr(
        head_shattering, "_weights", lambda T, norm: (lambda w: (w, w * (np.arange(T) != 1)))(
            np.exp(-2 * norm * np.sin(np.pi * np.arange(T) / T) ** 2))
    )  # fmt: skip
    plain = margins_by_forward_pass(8, 3.0).min()
    assert honest <= plain < shatter(8, 3.0).margin


@pytest.mark.parametrize("P", [2, 8, 64])
def test_what_float64_loses_is_taken_off(P):
    """Half the tokens weigh 1 together with P/2 weights of 2^-54 each, which a running sum loses:
    they lead by what is lost. Random weights and ties, too, against exact fractions."""
    from capax.statements.forms.head_shattering import _cleared

    T, rng = 64, np.random.default_rng(0)
    lost = np.zeros(T)
    lost[[0, P // 2]] = 1.0
    lost[P // 2 + 1 : P] = 2.0**-54
    tied = np.tile(rng.random(P // 2), 2 * T // P)
    for weights in (lost, tied, rng.random(T), np.geomspace(1.0, 1e-30, T)):
        exact = [Fraction(float(w)) for w in weights]
        for s, found in enumerate(_cleared(weights, weights, P)):
            bits = [(((t + s) % P) < P // 2) == (s < P // 2) for t in range(T)]
            lead = sum(w if bit else -w for w, bit in zip(exact, bits, strict=True))
            truth = lead / (2 * sum(exact)) if found > 0 else lead
            assert Fraction(float(found)) <= truth
            assert abs(Fraction(float(found)) - truth) < 1e-11
