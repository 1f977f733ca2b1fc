"""Dinkelbach's exact ranges against every input, for heads with arbitrary weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_head import all_inputs

from capax.compiler.proof.linear_fractional import head_range, merged_positions
from capax.compiler.proof.tables import HeadTables


def random_tables(seed: int, T: int, k: int, scale: float) -> HeadTables:
    g = np.random.default_rng(seed)
    return HeadTables(
        scale * g.normal(size=(T, 2)),
        g.normal(size=(T, 2, k)),
        float(g.normal()),
        g.normal(size=k),
    )


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 6.0]), st.sampled_from([(), (3,), (0, 5)]))
def test_ranges_equal_brute_force(seed: int, scale: float, support: tuple[int, ...]):
    T, k, g = 7, 2, 3
    tables = random_tables(seed, T, k, scale)
    directions = np.random.default_rng(seed + 1).normal(size=(k, g))
    bits = all_inputs(T)
    values = tables.head(bits) @ directions
    rows = sum((bits[:, t] << i for i, t in enumerate(support)), np.zeros(len(bits), int))
    low, high = head_range(tables, support, directions)
    for row in range(1 << len(support)):
        assert np.allclose(low[row], values[rows == row].min(axis=0), atol=1e-12)
        assert np.allclose(high[row], values[rows == row].max(axis=0), atol=1e-12)


def test_equal_positions_are_merged_without_changing_the_range():
    tables = random_tables(3, 5, 1, 1.0)
    chosen = [0, 1, 1, 1, 2, 2]
    repeated = HeadTables(
        tables.logits[chosen], tables.values[chosen], tables.cls_logit, tables.cls_value
    )
    merged = merged_positions(repeated, (0,))
    assert sorted(merged.count.tolist()) == [2.0, 3.0]
    direction = np.ones((1, 1))
    low, high = head_range(repeated, (0,), direction)
    values = repeated.head(all_inputs(6))[:, 0]
    assert np.isclose(low.min(), values.min()) and np.isclose(high.max(), values.max())


@pytest.mark.parametrize("T", [10**5])
def test_a_long_context_of_different_positions(T: int):
    tables = random_tables(5, T, 1, 1.0)
    low, high = head_range(tables, (), np.ones((1, 1)))
    g = np.random.default_rng(0)
    mass, cls = tables.masses()
    for _ in range(20):
        b = g.integers(0, 2, T)
        at = np.arange(T)
        value = (mass[at, b] @ tables.values[at, b, 0] + cls * tables.cls_value[0]) / (
            mass[at, b].sum() + cls
        )
        assert low[0, 0] <= value <= high[0, 0]
