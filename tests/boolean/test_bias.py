"""Balancing probabilities: every solution, none invented."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.boolean import balancing_probabilities, balancing_probability, bias, from_table, parse
from capax.errors import InputError


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("and3", [2 ** (-1 / 3)]),
        ("or3", [1 - 2 ** (-1 / 3)]),
        ("parity3", [0.5]),
        ("parity4", [0.5]),  # a root of multiplicity four, without a change of sign
        ("maj5", [0.5]),
        ("sym(0110; x0, x1, x2)", [(1 - 3**-0.5) / 2, (1 + 3**-0.5) / 2]),
        ("x4", [0.5]),
    ],
)
def test_known_solutions(formula, expected):
    assert balancing_probabilities(parse(formula)) == pytest.approx(expected, abs=1e-15)


@settings(max_examples=60)
@given(st.integers(1, 2**16 - 2))
def test_every_change_of_sign_on_a_fine_grid_is_found(number):
    f = from_table(number, range(4))
    grid = np.linspace(1e-4, 1 - 1e-4, 401) + 1e-7
    ones = np.array([bin(row).count("1") for row in range(16)])
    excess = (grid[:, None] ** ones * (1 - grid[:, None]) ** (4 - ones)) @ f.table - 0.5
    crossings = grid[:-1][excess[:-1] * excess[1:] < 0]
    try:
        found = np.array(balancing_probabilities(f))
    except InputError:
        found = np.array([])
    assert all(abs(bias(f, p) - 0.5) < 1e-12 for p in found)
    assert all(((found >= p) & (found <= p + 0.003)).any() for p in crossings)


def test_the_solution_nearest_to_one_half_is_preferred():
    assert balancing_probability(parse("sym(0110; x0, x1, x2)")) > 0.5
    assert balancing_probability(parse("and3")) == pytest.approx(2 ** (-1 / 3))


@pytest.mark.parametrize("table", [[0.0], [1.0], [0.0, 2.0], [1.0] * 3 + [0.0] + [1.0] * 4])
def test_no_solution_is_an_error(table):
    f = from_table(table, range(len(table).bit_length() - 1))
    if f.is_boolean and f.s == 3:  # false in one of eight rows, weight 2: never as often as true
        assert max(1 - bias(f, p) for p in np.linspace(0, 1, 101)) < 0.5
    with pytest.raises(InputError, match="balance"):
        balancing_probabilities(f)
