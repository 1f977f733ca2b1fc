"""The optimal split of the error against a numerical optimiser, and piecewise totals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from capax.capacity.linear.allocation import allocate, allocate_by_parameters
from capax.capacity.linear.cover_pieces import (
    Piece,
    closed_form,
    parameter_count_cover,
    total_cover,
)
from capax.capacity.linear.linear_classes import log_cover_matrix_21, log_cover_vector
from capax.capacity.linear.piece_terms import terms_of
from capax.errors import InputError

sizes = st.lists(st.tuples(st.floats(0.01, 100.0), st.floats(0.05, 20.0)), min_size=1, max_size=4)


@settings(max_examples=30)
@given(sizes, st.floats(0.1, 10.0))
def test_split_equals_slsqp(pairs, eps):
    C, alpha = (np.array(column) for column in zip(*pairs, strict=True))
    got = allocate(list(np.log(C)), list(np.log(alpha)), math.log(eps))
    found = np.exp(got.log_eps)
    assert float(alpha @ found) == pytest.approx(eps, rel=1e-9)
    assert float((C / found**2).sum()) == pytest.approx(math.exp(got.log_value), rel=1e-9)

    # SLSQP on shares u_i = alpha_i eps_i / eps, which sum to one, from the equal split.
    A = alpha**2 * C / (alpha**2 * C).max()
    result = minimize(
        lambda u: float((A / u**2).sum()),
        np.full(len(A), 1 / len(A)),
        jac=lambda u: -2 * A / u**3,
        bounds=[(1e-4, 1.0)] * len(A),
        constraints={"type": "eq", "fun": lambda u: u.sum() - 1},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    best = result.fun * float((alpha**2 * C).max()) / eps**2
    assert math.exp(got.log_value) <= best * (1 + 1e-9)
    assert best == pytest.approx(math.exp(got.log_value), rel=1e-3)


def test_free_pieces_get_no_share():
    got = allocate([0.0, -math.inf, 0.0], [0.0, 0.0, -math.inf])
    assert got.log_eps == (0.0, math.inf, math.inf)
    assert allocate([-math.inf], [0.0]).log_value == -math.inf


def test_a_hundred_layers_of_amplification():
    got = allocate([1.0] * 100, [40.0 * i for i in range(100)])
    assert got.log_value == pytest.approx(2 * 40.0 * 99 + 1.0, abs=1e-3)


def test_parameter_split_is_optimal_and_complete():
    got = np.exp(allocate_by_parameters([3, 5], [0.3, -0.2], math.log(0.7)))
    assert got[0] * math.exp(0.3) + got[1] * math.exp(-0.2) == pytest.approx(0.7)

    def cost(u):
        return -3 * math.log(u) - 5 * math.log(1 - u)

    assert cost(3 / 8) <= min(cost(u) for u in np.linspace(0.01, 0.99, 99))


PIECES = [
    Piece("QK", math.log(3.0), 10_000, num_parameters=4900, log_amplification=math.log(1.5)),
    Piece("V", math.log(4.0), 100, 7, math.log(2.0), 3500, math.log(0.5)),
]


def test_total_uses_the_linear_covers_at_the_split():
    split = allocate([p.log_C for p in PIECES], [p.log_amplification for p in PIECES], -2.0)
    eps = np.exp(split.log_eps)
    plain = log_cover_vector(3.0, 1.0, float(eps[0]), 10_000)
    plain += log_cover_matrix_21(4.0, 1.0, float(eps[1]), 100, 7)
    assert total_cover(PIECES, -2.0).log_cover <= plain * (1 + 1e-9)
    assert plain <= math.exp(closed_form(PIECES) + 4.0)


def test_parameter_counting_wins_at_tiny_scales():
    assert total_cover(PIECES, 1.0).ways[0] == "norms"
    tiny = total_cover(PIECES, -9.0)
    assert "parameters" in tiny.ways
    assert tiny.log_cover <= parameter_count_cover(PIECES, -9.0).log_cover


@settings(max_examples=20)
@given(
    st.integers(0, 5),
    st.floats(0.0, 2.0),
    st.floats(-12.0, 2.0),
    st.floats(0.0, 3.0),
)
def test_total_grows_with_every_norm_and_shrinks_with_eps(which, grow, log_eps, coarser):
    base = total_cover(PIECES, log_eps).log_log_cover
    assert total_cover(PIECES, log_eps + coarser).log_log_cover <= base + 1e-9
    piece, field = PIECES[which % 2], ("log_scale", "log_amplification", "log_scale_frobenius")
    changed = {**piece.__dict__, field[which // 2]: piece.__dict__[field[which // 2]] + grow}
    larger = [Piece(**changed) if p is piece else p for p in PIECES]
    assert total_cover(larger, log_eps).log_log_cover >= base - 1e-9


def test_terms_carry_numbers():
    for log_eps in (-2.0, -9.0):
        terms = terms_of(PIECES, total_cover(PIECES, log_eps))
        assert [t.name for t in terms] == ["QK", "V"]
        assert all(t.text and t.latex for t in terms)
    free = terms_of(PIECES, total_cover(PIECES, 20.0))
    assert all(t.value == 0 for t in free)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: allocate([0.0], [0.0, 1.0]), "log_alpha: wanted 1"),
        (lambda: allocate([], []), "log_C"),
        (lambda: allocate([math.nan], [0.0]), "NaN"),
        (lambda: allocate_by_parameters([0], [0.0]), "num_parameters"),
        (lambda: Piece("V", math.nan, 3), "V: wanted a number"),
        (lambda: Piece("V", 0.0, 0), "V points"),
        (lambda: parameter_count_cover([Piece("V", 0.0, 3)], 0.0), "give d"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
