"""The linear form of LayerNorm's factor, against fifty digits and where its ends are attained."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.decompile.proof.layer_tables import EPSILON
from capax.decompile.proof.norm_factor import Box, _least_variance, main_directions, norm_factor

d = 5


def ranges_of(middle: np.ndarray, moves: np.ndarray):
    """Exact ranges of q . c over c = middle + sum of s_i moves_i, |s_i| <= 1."""

    def ranges(q):
        centre = np.einsum("d,rdg->rg", middle, q.mid)
        reach = np.abs(np.einsum("fd,rdg->rfg", moves, q.mid)).sum(1)
        hair = 1e-14 * (np.abs(centre) + reach)
        return centre - reach - hair, centre + reach + hair

    return ranges


def factor_of(c0, moves, middle=None):
    ranges = ranges_of(c0 if middle is None else middle, moves)
    return norm_factor(c0[None], main_directions(2 * moves[None]), ranges)


def left_over(c0, delta, found):
    """e = r - r0 - r1 (c0 . delta), as an interval over the doubt in eps, r0 and r1."""
    with mpmath.workdps(50):
        vector = lambda x: [mpmath.mpf(float(t)) for t in x]  # noqa: E731
        c = [a + b for a, b in zip(vector(c0), vector(delta), strict=True)]
        V = mpmath.fsum(x * x for x in c) / d
        r = 1 / mpmath.sqrt(V + mpmath.mpf(float(EPSILON.mid)))
        dot = mpmath.fsum(a * b for a, b in zip(vector(c0), vector(delta), strict=True))
        return float(r - float(found.r0.mid[0]) - float(found.r1.mid[0]) * dot)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-3, 0.1, 1.0, 5.0]),
    moved=st.integers(1, 6),
)
def test_the_factor_lies_in_its_linear_form_at_every_corner(seed, size, moved):
    rng = np.random.default_rng(seed)
    c0, moves = rng.standard_normal(d), size * rng.standard_normal((moved, d))
    middle = c0 + 0.1 * rng.standard_normal(d)
    found = factor_of(c0, moves, middle)
    doubt = 1e-6 * float(found.r0.mid[0])  # eps is known to float32 only
    for signs in itertools.product((-1, 1), repeat=moved):
        delta = middle - c0 + np.array(signs) @ moves
        e = left_over(c0, delta, found)
        assert found.e.low[0] - doubt <= e <= found.e.high[0] + doubt
        assert found.along.low[0] <= c0 @ delta + 1e-9 and c0 @ delta - 1e-9 <= found.along.high[0]
        p = rng.standard_normal((1, d, 2))
        assert (np.abs(delta @ p[0]) <= found.box.aside(exactly(p))[0] * (1 + 1e-12)).all()
        assert delta @ delta <= found.box.spread[0] * (1 + 1e-12)
        c = c0 + delta
        assert found.box.least_square[0] <= c @ c * (1 + 1e-12)


def test_the_lower_end_is_attained_across_and_the_upper_end_along():
    """Ends that are a little too near would be seen: the truth lies at most a third inside."""
    c0 = np.array([1.0, 2.0, -1.0, 0.0, 2.0])
    across = 0.01 * np.array([[2.0, -1.0, 0.0, 0.0, 0.0]])
    found = factor_of(c0, across)
    low = float(found.e.low[0])
    assert low <= left_over(c0, across[0], found) <= 0.999 * low < 0
    along = 0.01 * c0[None]
    found = factor_of(c0, along)
    worst = max(left_over(c0, s * along[0], found) for s in (-1, 1))
    assert 0.6 * float(found.e.high[0]) <= worst <= float(found.e.high[0])


def test_the_second_upper_end_serves_wide_cells():
    """Where c may shrink to nothing, r is at most eps^(-1/2) and Taylor's bound is far above."""
    c0 = np.full(d, 0.01)
    found = factor_of(c0, 100 * np.eye(d))
    assert float(found.e.high[0]) < 1.01 * (EPSILON.low**-0.5 + float(found.r0.high[0]) * 1e7)


@pytest.mark.parametrize("bad", [1e200, np.inf])
def test_moves_that_overflow_get_the_coordinate_axes(bad):
    moves = np.ones((2, 3, d))
    moves[0, 0, 0] = bad
    basis = main_directions(moves)
    assert (basis[0] == np.eye(d)).all() and not (basis[1] == np.eye(d)).all()


def test_what_lies_across_the_basis_is_counted():
    """Q is orthonormal up to eta = 1e-9, so p . delta may be eta |p| |delta| although Q^T p and
    Q^T delta do not meet: 1e-9 * 3 * 10."""
    zero = np.zeros((1, 2))
    box = Box(np.eye(2)[None], zero, zero, np.array([[3.0, 0.0]]))
    across = box.aside(exactly(np.array([[[0.0], [10.0]]])))[0, 0]
    assert 3e-8 <= across <= 3e-8 * 1.001
    along = box.aside(exactly(np.array([[[10.0], [0.0]]])))[0, 0]
    assert 30 * (1 + 1e-9) <= along <= 30 * 1.001
    assert 9 <= box.spread[0] <= 9 * 1.001
    wide = Box(np.eye(2)[None], np.array([[2.0, -1.0]]), np.array([[3.0, 4.0]]), zero)
    assert 4 * 0.999 <= wide.least_square[0] <= 4  # nearest to 0: (2, 0)


def test_a_residual_that_may_turn_round_has_no_shadow():
    """c0 . c between -31 and -1, |c0|^2 = 4: its square says nothing, since c may vanish between
    other cells; between 3 and 5 it says |c|^2 >= 9/4."""
    zero = np.zeros((1, 1))
    box = Box(np.eye(1)[None], zero, zero, zero)
    square, share = exactly(np.array([4.0])), exactly(np.array(1.0))
    for along, least in ((Enclosed(np.array([-20.0]), np.array([15.0])), 0.0),
                         (Enclosed(np.array([0.0]), np.array([1.0])), 9 / 4)):  # fmt: skip
        found = _least_variance(along, square, box, share)[0]
        assert least * 0.9999 <= found <= least
