"""The shortest formula reads back, and is no longer than it has to be."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.boolean import SparseFunction, parse
from capax.capacity.certificates.tails import occam_tail_bound
from capax.decompile.bounds.description import description_bits
from capax.decompile.reading.formula import shortest_formula
from capax.decompile.reading.sum_of_products import minimal_sum, prime_implicants, xor_normal_form


def value(cubes, row, join):
    hits = [(row & mask) == bits for mask, bits in cubes]
    return any(hits) if join == "or" else sum(hits) % 2 == 1


def same(f, g):
    """On all values of all bits that one of the two looks at."""
    bits = sorted({*f.support, *g.support})
    X = np.zeros((1 << len(bits), 12), np.uint8)
    X[:, bits] = list(itertools.product([0, 1], repeat=len(bits)))
    return (f(X) == g(X)).all()


def test_every_function_of_three_bits_reads_back():
    for number in range(256):
        table = np.array([number >> r & 1 for r in range(8)], float)
        f = SparseFunction((2, 5, 11), table, 12)
        formula = shortest_formula(f)
        assert same(parse(formula.text, 12), f), formula.text
        assert formula.minimal, formula.text


@settings(max_examples=30, deadline=None)
@given(s=st.integers(4, 6), seed=st.integers(0, 10**6))
def test_sums_compute_the_table(s, seed):
    table = np.random.default_rng(seed).integers(0, 2, 1 << s)
    plain, xor = minimal_sum(table), xor_normal_form(table)
    for row in range(1 << s):
        assert value(plain.cubes, row, "or") == table[row]
        assert value(xor.cubes, row, "xor") == table[row]


@pytest.mark.parametrize("number", [0x17, 0x6A, 0xD8, 0x81, 0x7E, 0x3C])
def test_sum_of_products_has_the_fewest_literals(number):
    table = np.array([number >> r & 1 for r in range(8)])
    rows = set(np.flatnonzero(table).tolist())
    primes = prime_implicants(rows, 3)
    best = math.inf
    for size in range(1, len(primes) + 1):
        for chosen in itertools.combinations(primes, size):
            covered = {r for r in range(8) if value(chosen, r, "or")}
            if covered == rows:
                best = min(best, sum(mask.bit_count() for mask, _ in chosen))
    found = minimal_sum(table)
    assert found.proved and found.literals == best


@pytest.mark.parametrize(
    "text, kind",
    [
        ("and(x1, x4, ~x9)", "and"),
        ("or(~x0, x3)", "or"),
        ("maj(x1, x2, x3, x4, x5)", "maj"),
        ("thr2(x1, ~x2, x3, x4)", "thr"),
        ("parity(x0, x1, x2, x3, x4, x5, x6, x7)", "parity"),
        ("~parity(x0, x1)", "parity"),
        ("~x7", "literal"),
        ("1", "constant"),
        ("x1 ^ x2 & x3", "xor of products"),
        ("x1 & x2 | x3 & x4", "sum of products"),
    ],
)
def test_families_are_recognised(text, kind):
    formula = shortest_formula(parse(text, 12))
    assert formula.kind == kind
    assert formula.text == text


def test_lengths_obey_kraft():
    """All 256 functions of T = 3 bits together have prior mass at most 1."""
    total = 0.0
    for number in range(256):
        table = (number >> np.arange(8) & 1).astype(float)
        total += 2.0 ** -description_bits(SparseFunction((0, 1, 2), table, 3), 3)
    assert 0.05 < total <= 1.0


def test_the_numbers_of_the_conjunction():
    """T = 300, AND of 3: 30 bits; 33 %, 21 %, 7.6 % from 60, 100, 300 examples."""
    bits = description_bits(parse("x3 & x99 & x250", 300), 300)
    assert bits == pytest.approx(30.1, abs=0.05)
    for m, error in ((60, 0.33), (100, 0.21), (300, 0.076)):
        assert occam_tail_bound(0, m, bits, 0.05).value == pytest.approx(error, abs=0.005)
