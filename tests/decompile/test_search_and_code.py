"""The influence search pays for its stages; the formula's bound is the sum of its two tails."""

import math
from fractions import Fraction

import numpy as np
import pytest

from capax.boolean import SparseFunction, parse
from capax.capacity.certificates.pac_bayes import LEAST_EXAMPLES
from capax.capacity.certificates.tails import binomial_upper, occam_tail_bound
from capax.data.examples import Examples
from capax.decompile.bounds.description import description_bits
from capax.decompile.bounds.formula_routes import (
    FRESH_SHARE,
    REAL_ARITHMETIC,
    FormulaCounts,
    formula_bound,
    shape_route,
)
from capax.decompile.reading.influence import find_candidates
from capax.decompile.reading.oracle import oracle
from capax.decompile.reading.truth_table import TruthTable
from capax.errors import InputError


@pytest.mark.parametrize("p", [0.5, 0.3])
@pytest.mark.parametrize(("text", "stages"), [("0", 1), ("x1", 2)])
def test_stages_of_the_influence_search_are_paid_for(text, stages, p):
    """One stage finds x1, the next one finds nothing: stage j has delta/(j (j + 1))."""
    f = parse(text, 8)
    model = oracle(lambda X: f(X) - 0.5, 8)
    found = find_candidates(model, np.random.default_rng(0), p=p, pairs=70, delta=0.2)
    share = 0.2 / (stages * (stages + 1))
    theta = (1 - share ** (1 / 70)) / (2 * p * (1 - p))
    assert found.complete and found.pairs == 70
    assert found.missed_influence == pytest.approx(theta, rel=1e-12)


def test_the_influence_bound_is_attained_by_one_bit():
    """f = x0 & .. & x4, four bits known: P[a pair differs] is 2 p (1 - p) Inf exactly, so N pairs
    miss the fifth with the probability that the bound allows."""
    rng, N, sets, theta = np.random.default_rng(1), 12, 4000, 1 / 16
    x, y = rng.integers(0, 2, (2, sets, N, 5))
    y[..., :4] = x[..., :4]
    agree = (x.all(-1) == y.all(-1)).all(1).mean()
    allowed = (1 - 2 * 0.25 * theta) ** N
    assert agree == pytest.approx(allowed, abs=4 * math.sqrt(allowed / sets))


def test_the_formula_bound_is_the_sum_of_its_tails_and_never_below():
    f, rng = parse("x2 & x5", 11), np.random.default_rng(0)
    for _ in range(40):
        k, m, d, n = (int(v) for v in rng.integers((0, 300, 0, 300), (9, 4000, 9, 4000)))
        counted = FormulaCounts(k, m, d, n)
        found = formula_bound(f, 11, counted, 0.03, cost=0.7)
        bits = description_bits(f, 11)
        first = occam_tail_bound(counted.errors, m, bits, found.shares["formula"], cost=0.7)
        second = binomial_upper(counted.disagreements, n, math.log(found.shares["disagreement"]))
        exact = Fraction(first.value) + Fraction(second)
        assert 1 > Fraction(found.value) >= exact
        assert found.value == pytest.approx(float(exact), rel=1e-12)
        assert found.shares["formula"] == pytest.approx(0.03 * float(1 - FRESH_SHARE))
    proved = formula_bound(f, 11, FormulaCounts(0, 30, 0, 0), 0.03)
    assert proved.terms[1].value == 0
    assert REAL_ARITHMETIC in proved.assumptions and REAL_ARITHMETIC not in found.assumptions
    for delta in (0.0, 1.0):
        with pytest.raises(InputError, match="delta: wanted a probability"):
            formula_bound(f, 11, FormulaCounts(0, 30, 0, 0), delta)
    with pytest.raises(InputError, match="at least one training example"):
        formula_bound(f, 11, FormulaCounts(0, 0, 0, 0), 0.1)
    assert proved.value < formula_bound(f, 11, FormulaCounts(0, 30, 0, 500), 0.03).value
    assert formula_bound(f, 11, FormulaCounts(30, 30, 9, 9), 0.03).value == 1


def test_a_shape_is_placed_only_where_the_examples_are_enough():
    f = parse("x2 & x5", 11)
    X = (np.random.default_rng(0).random((LEAST_EXAMPLES, 11)) < 0.5).astype(np.uint8)
    y = f(X).astype(np.uint8)
    assert shape_route(f, Examples(X, y)).ask(0.05, 0.0).value > 0
    with pytest.raises(InputError, match=f"data: wanted {LEAST_EXAMPLES} examples"):
        shape_route(f, Examples(X[1:], y[1:])).ask(0.05, 0.0)


def functions_of(T):
    """Every Boolean function of T bits as its relevant part."""
    for number in range(2 ** (2**T)):
        table = np.array([number >> row & 1 for row in range(2**T)], float)
        yield SparseFunction(tuple(range(T)), table, T)


@pytest.mark.parametrize("T", [1, 2, 3])
def test_the_code_obeys_krafts_inequality_on_all_functions(T):
    """2^-bits over all functions of T bits adds up to at most 1: the prior of the Occam bound."""
    total = math.fsum(2.0 ** -description_bits(f, T) for f in functions_of(T))
    assert 0.05 < total <= 1


def test_code_lengths_by_hand():
    """1 + elias(s) + log2 C(T, s) + name 3 + sign 1 (+ threshold, + signs), or a table of 2^s."""
    T = 9
    lengths = {
        "x1 & x2": 1 + 3 + math.log2(36) + 4,
        "~x1 & x2": 1 + 3 + math.log2(36) + 4,  # a table of 4 bits is as short as name and sign
        "x1 ^ x4 ^ x7": 1 + 3 + math.log2(84) + 4,
        "maj(x1, x2, x3, x4, x5)": 1 + 5 + math.log2(126) + 4,
        "thr2(x1, x2, x3, x4)": 1 + 5 + math.log2(126) + 4 + 3,
        "x1 & x2 & ~x3 & ~x4 & x5": 1 + 5 + math.log2(126) + 4 + 5,
        "x1 & (x2 | x3)": 1 + 3 + math.log2(84) + 8,
        "x1 & x2 | ~x1 & x3": 1 + 3 + math.log2(84) + 8,
        "~(x1 ^ x4 ^ x7)": 1 + 3 + math.log2(84) + 4,
        "x1 | x2 | x3 | x4 | x5": 1 + 5 + math.log2(126) + 4,
        "~(x1 & x2 & x3 & x4 & x5)": 1 + 5 + math.log2(126) + 4,
        "~thr2(x1, x2, x3, x4, x5)": 1 + 5 + math.log2(126) + 4 + 3,
        "1": 1 + 1 + math.log2(9) + 2,
    }
    for text, bits in lengths.items():
        assert description_bits(parse(text, T), T) == pytest.approx(bits, abs=1e-12), text
    with pytest.raises(InputError, match="function: wanted a Boolean function"):
        description_bits(SparseFunction((0, 1), np.array([0, 0.5, 0.5, 1.0]), T), T)


@pytest.mark.parametrize("fillers", [1, 7, 300])
def test_the_doubt_of_a_majority_is_an_exact_tail(fillers):
    """P[Bin(n, 1/2) >= k] for the larger side k of every row, in fractions; at most 1 in all."""
    for ones in range(fillers + 1):
        k = max(ones, fillers - ones)
        tail = Fraction(sum(math.comb(fillers, j) for j in range(k, fillers + 1)), 2**fillers)
        for rows in (1, 2):
            counts = np.array([ones] + [fillers] * (rows - 1))
            wanted = min(1.0, float(tail + (rows - 1) * Fraction(1, 2**fillers)))
            table = TruthTable(tuple(range(rows - 1)), counts, fillers, 5)
            assert table.doubt == pytest.approx(wanted, rel=1e-9, abs=1e-300)
