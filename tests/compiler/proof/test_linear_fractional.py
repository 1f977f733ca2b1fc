"""The proven range of a head against every input in extended precision, at any scale of scores."""

import math
import os
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_head import all_inputs

from capax.compiler.proof.extremes import extreme_input
from capax.compiler.proof.linear_fractional import HeadProblems, head_range
from capax.compiler.proof.merging import free_positions
from capax.compiler.proof.tables import HeadTables

HEADS = int(os.environ.get("CAPAX_HEADS", "16"))
"""Heads per scale; the long run has 1000."""
EXTENDED = float(np.finfo(np.longdouble).eps)


def random_tables(seed: int, T: int, k: int, scale: float) -> HeadTables:
    g = np.random.default_rng(seed)
    return HeadTables.exact(
        scale * g.normal(size=(T, 2)),
        g.normal(size=(T, 2, k)),
        float(scale * g.normal()),
        g.normal(size=k),
    )


def every_output(tables: HeadTables) -> np.ndarray:
    """u on all 2^T inputs in extended precision, each input shifted by its own largest score."""
    bits, at = all_inputs(tables.T), np.arange(tables.T)
    wide, n = np.longdouble, 1 << tables.T
    cls = np.full((n, 1), wide(tables.cls_logit.mid))
    scores = np.concatenate([tables.logits.mid.astype(wide)[at, bits], cls], axis=1)
    weight = np.exp(scores - scores.max(axis=1, keepdims=True))
    value = np.broadcast_to(tables.cls_value.mid.astype(wide), (n, 1, tables.k))
    values = np.concatenate([tables.values.mid.astype(wide)[at, bits], value], axis=1)
    return (weight[..., None] * values).sum(axis=1) / weight.sum(axis=1)[:, None]


@pytest.mark.skipif(EXTENDED > 2e-19, reason="no extended precision here")
@pytest.mark.parametrize("scale", [1, 10, 40, 80, 200])
def test_the_interval_holds_the_truth_and_is_narrow_at_every_scale(scale: int):
    T, k, support = 9, 2, (3, 7)
    bits = all_inputs(T)
    rows = bits[:, 3] + 2 * bits[:, 7]
    excess = []
    for seed in range(HEADS):
        tables = random_tables(10_000 * scale + seed, T, k, scale)
        u = every_output(tables)
        found = head_range(tables, support)
        size = np.abs(tables.values.mid).max()
        for row in range(4):
            low, high = u[rows == row].min(axis=0), u[rows == row].max(axis=0)
            noise = 100 * EXTENDED * size  # of the extended-precision sums themselves
            assert (found.low[row] <= low + noise).all(), (seed, row)
            assert (found.high[row] >= high - noise).all(), (seed, row)
            excess += [*(found.high[row] - high) / size, *(low - found.low[row]) / size]
    assert np.quantile(np.array(excess, float), 0.99) < 1e-9
    assert max(excess) < 1e-9


@settings(max_examples=15)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.1, 6.0, 60.0, 2000.0]),
    st.sampled_from([(), (3,), (0, 5)]),
)
def test_ranges_in_any_direction_hold_brute_force(seed: int, scale: float, support):
    T, k, g = 7, 2, 3
    tables = random_tables(seed, T, k, scale)
    directions = np.random.default_rng(seed + 1).normal(size=(k, g))
    bits = all_inputs(T)
    values = every_output(tables) @ directions
    rows = sum((bits[:, t] << i for i, t in enumerate(support)), np.zeros(len(bits), int))
    found = head_range(tables, support, directions)
    for row in range(1 << len(support)):
        low, high = values[rows == row].min(axis=0), values[rows == row].max(axis=0)
        assert (found.low[row] <= low + 1e-17).all() and (found.high[row] >= high - 1e-17).all()
        assert np.allclose(found.low[row].astype(float), low.astype(float), atol=1e-11)
        assert np.allclose(found.high[row].astype(float), high.astype(float), atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 30.0, 200.0, 3000.0])
def test_the_ends_are_attained_by_the_input_that_is_given(scale: float):
    T, k, support = 8, 2, (2,)
    for seed in range(10):
        tables = random_tables(seed, T, k, scale)
        u, found = every_output(tables), head_range(tables, support)
        for largest, ends in ((True, found.high), (False, found.low)):
            bits, value = extreme_input(tables, support, [1], np.eye(k)[1], largest=largest)
            assert bits[2] == 1
            attained = float(u[int((bits << np.arange(T)).sum()), 1])
            assert math.isclose(attained, ends[1, 1], abs_tol=1e-12)
            assert math.isclose(attained, value, abs_tol=1e-12)


def test_errors_of_the_tables_widen_the_range_enough():
    T, error = 6, 1e-3
    tables = random_tables(1, T, 1, 3.0)
    parts = tables.logits, tables.values, tables.cls_logit, tables.cls_value
    wide = HeadTables(*(part.widened(error) for part in parts))
    found = head_range(wide, (1,))
    g = np.random.default_rng(2)
    for _ in range(200):
        moved = (x.mid + g.choice([-error, error], size=x.mid.shape) for x in parts)
        shaken = HeadTables.exact(*moved)
        u = every_output(shaken)
        rows = all_inputs(T)[:, 1]
        for row in (0, 1):
            assert found.low[row, 0] <= u[rows == row].min()
            assert u[rows == row].max() <= found.high[row, 0]


def test_sums_over_the_fixed_tokens_are_rounded_outward():
    """1 + 2^-53 + 2^-53 is 1 in float64: the upper ends must not lie below the exact sums."""
    half, problem = 2.0**-53, SimpleNamespace(patterns=np.zeros((1, 2), np.int64))
    weights = np.array([[1.0] * 2, [half] * 2, [half] * 2])
    at = np.zeros(1, np.int64)
    for sign in (1.0, -1.0):
        value = np.full((3, 2, 1), sign)
        found = HeadProblems._fixed_sums(problem, weights, weights, value, at, at)
        numerator, low, high, top = (Fraction(float(end[0])) for end in found)
        exact = Fraction(1) + Fraction(half) * 2
        assert numerator >= exact * int(sign) and low <= exact <= high and top == sign
    weights[1:] *= 1.5  # 1 + 2^-53 * 1.5 is rounded up, twice
    found = HeadProblems._fixed_sums(problem, weights, weights, value, at, at)
    assert Fraction(float(found[1][0])) <= 1 + 3 * Fraction(half) <= Fraction(float(found[2][0]))


def test_chosen_patterns_are_those_rows_of_all_patterns():
    tables = random_tables(4, 6, 2, 5.0)
    shown = np.array([[1, 0], [1, 1]])
    whole, some = head_range(tables, (1, 4)), head_range(tables, (1, 4), None, shown)
    assert np.array_equal(some.high, whole.high[[1, 3]])
    assert np.array_equal(some.low, whole.low[[1, 3]])


def test_only_bit_equal_positions_are_merged():
    tables = random_tables(3, 5, 1, 1.0)
    chosen = [0, 1, 1, 1, 2, 2]
    logits = tables.logits.mid[chosen].copy()
    logits[2, 0] = np.nextafter(logits[2, 0], 9.0)
    cls = tables.cls_logit.mid, tables.cls_value.mid
    repeated = HeadTables.exact(logits, tables.values.mid[chosen], *cls)
    merged = free_positions(repeated, (0,))
    assert sorted(merged.count.tolist()) == [1.0, 2.0, 2.0]
    found = head_range(repeated, (0,), np.ones((1, 1)))
    u = every_output(repeated)[:, 0]
    assert found.low.min() <= u.min() and u.max() <= found.high.max()
    assert found.high.max() - u.max() < 1e-12


@pytest.mark.parametrize("T", [10**5])
def test_a_long_context_of_different_positions(T: int):
    tables = random_tables(5, T, 1, 1.0)
    found = head_range(tables)
    assert found.high - found.highest < 1e-9 and found.lowest - found.low < 1e-9
    bits, value = extreme_input(tables, (), [], np.ones(1))
    assert math.isclose(value, found.high[0, 0], abs_tol=1e-9)
    g = np.random.default_rng(0)
    at, mass = np.arange(T), np.exp(tables.logits.mid)
    cls = math.exp(tables.cls_logit.mid)
    for b in (bits, *(g.integers(0, 2, T) for _ in range(20))):
        total = math.fsum(mass[at, b] * tables.values.mid[at, b, 0]) + cls * tables.cls_value.mid[0]
        value = total / (math.fsum(mass[at, b]) + cls)
        assert found.low[0, 0] <= value <= found.high[0, 0]
