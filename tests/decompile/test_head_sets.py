"""Ranges of the heads over a cell, against enumeration, exact fractions and attained extremes."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from decompile_cases import all_inputs
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.compiler.proof.enclosed import Enclosed, exactly
from capax.compiler.proof.tables import HeadTables
from capax.decompile.proof.branching import Leaves
from capax.decompile.proof.head_sets import Cells, HeadSets, _LinearForm, _sums_slack
from capax.decompile.proof.layer_tables import LayerTables

WIDE = np.longdouble


def layer(logits, values, cls_logit, cls_value) -> LayerTables:
    """Tables of H heads that are what they are; the way to the residual stream plays no part."""
    heads = HeadTables(*(x if isinstance(x, Enclosed) else exactly(x) for x in (
        logits, values, cls_logit, cls_value)))  # fmt: skip
    return LayerTables(heads, exactly(np.zeros(1)), exactly(np.zeros((1, 1))))


def outputs(logits, values, cls_logit, cls_value, X) -> np.ndarray:
    """Head outputs [n, H k] in extended precision."""
    g, v = logits.astype(WIDE), values.astype(WIDE)
    at = np.arange(X.shape[1])
    found = []
    for h in range(len(g)):
        scores = np.concatenate(
            [g[h][at, X], np.full((len(X), 1), cls_logit[h], WIDE)], axis=1
        )  # fmt: skip
        w = np.exp(scores - scores.max(1, keepdims=True))
        tokens = np.concatenate(
            [v[h][at, X], np.broadcast_to(cls_value[h].astype(WIDE), (len(X), 1, v.shape[3]))], 1
        )
        found.append((w[..., None] * tokens).sum(1) / w.sum(1)[:, None])
    return np.concatenate(found, axis=1)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.1, 1.0, 4.0]),
    fixed=st.lists(st.integers(0, 5), unique=True, max_size=4).map(tuple),
)
def test_directions_of_the_heads_stay_in_their_range(seed, spread, fixed):
    rng = np.random.default_rng(seed)
    T, H, k = 6, 2, 2
    parts = (
        spread * rng.standard_normal((H, T, 2)),
        rng.standard_normal((H, T, 2, k)) * np.exp(2 * rng.standard_normal((H, 1, 1, k))),
        spread * rng.standard_normal(H),
        5 * rng.standard_normal((H, k)),
    )
    F = T - len(fixed)
    rows = np.repeat(np.arange(1 << len(fixed)), 2)
    first, last = np.tile([0, F // 3], len(rows) // 2), np.tile([F, (F + 1) // 2], len(rows) // 2)
    sets = HeadSets(layer(*parts), Cells.at(fixed, rows, first, last))
    D = rng.standard_normal((1, H * k, 3))
    low, high = sets.ranges(exactly(D))
    X = all_inputs(T).astype(int)
    U = outputs(*parts, X)
    pattern = sum((X[:, t] << i for i, t in enumerate(fixed)), np.zeros(len(X), int))
    ones = np.delete(X, list(fixed), axis=1).sum(1)
    for i, row in enumerate(rows):
        inside = (pattern == row) & (ones >= first[i]) & (ones <= last[i])
        moved = (U[inside] - sets.centre[i].reshape(-1).astype(WIDE)) @ D[0]
        assert (moved.min(0) >= low[i]).all() and (moved.max(0) <= high[i]).all()


def test_doubt_about_values_and_directions_is_attained():
    """Equal weights: the outputs are plain means, and both doubts add up as they should."""
    T, doubt, off = 4, 0.25, 0.5
    mid = np.arange(1.0, 9.0).reshape(1, T, 2, 1)
    values = Enclosed(mid, np.full_like(mid, doubt))
    nothing = np.zeros((1, T, 2)), values, np.zeros(1), np.full((1, 1), 9.0)
    one = np.zeros(1, int)
    sets = HeadSets(layer(*nothing), Cells.at((), one, one, one + T))
    u0 = float(sets.centre[0, 0, 0])
    low, high = sets.ranges(Enclosed(np.array([[[2.0]]]), np.array([[[off]]])))
    ends = [
        (float(np.take_along_axis(mid, X[None, :, None, None], 2).sum()) + T * sign * doubt + 9) / 5
        - u0
        for X in all_inputs(T).astype(int)
        for sign in (-1, 1)
    ]
    reached = [d * e for d in (2.0 - off, 2.0 + off) for e in (min(ends), max(ends))]
    # the doubt about the direction meets every move at its full length, whatever its sign
    assert low[0, 0] <= min(reached) and max(reached) <= high[0, 0]
    exact = HeadSets(layer(nothing[0], mid, *nothing[2:]), sets.cells)
    plain = exact.ranges(exactly(np.array([[[2.0]]])))
    assert plain[1][0, 0] == pytest.approx(2 * (max(ends) - T * doubt / 5), abs=1e-9)
    doubted = sets.ranges(exactly(np.array([[[2.0]]])))
    assert doubted[1][0, 0] == pytest.approx(2 * max(ends), abs=1e-4)
    assert doubted[0][0, 0] == pytest.approx(2 * min(ends), abs=1e-4)


def test_doubt_about_a_direction_meets_every_move():
    """Moves of one sign and nothing else: the range grows by exactly their sum."""
    T, off, doubt = 4, 0.5, 0.25
    mid = np.zeros((1, T, 2, 1))
    mid[0, :, 1, 0] = [1.0, 2.0, 3.0, 4.0]
    values = Enclosed(mid, np.full_like(mid, doubt))
    one = np.zeros(1, int)
    tables = layer(np.zeros((1, T, 2)), values, np.zeros(1), np.zeros((1, 1)))
    sets = HeadSets(tables, Cells.at((), one, one, one + T))
    sets.__dict__["centre"] = np.zeros((1, 1, 1))  # any point is sound
    high = sets.ranges(Enclosed(np.array([[[2.0]]]), np.array([[[off]]])))[1][0, 0]
    reached = (2.0 + off) * (10.0 + T * doubt) / 5
    assert reached <= high <= reached * 1.0001


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.3, 2.0]))
def test_doubt_about_scores_and_values_widens_the_range_enough(seed, spread):
    """Tables moved to random corners of their doubt, on all inputs; cells with a fixed position."""
    rng = np.random.default_rng(seed)
    T, fixed = 4, (1,)
    parts = (
        spread * rng.standard_normal((1, T, 2)),
        rng.standard_normal((1, T, 2, 1)),
        spread * rng.standard_normal(1),
        4 * rng.standard_normal((1, 1)),
    )
    rads = 0.3, 0.5, 0.1, 0.2
    wide = [Enclosed(x, np.full_like(x, r)) for x, r in zip(parts, rads, strict=True)]
    rows = np.arange(2)
    none = np.zeros(2, int)
    sets = HeadSets(layer(*wide), Cells.at(fixed, rows, none, none + T - 1))
    low, high = sets.ranges(exactly(np.ones((1, 1, 1))))
    X = all_inputs(T).astype(int)
    for _ in range(30):
        moved = [x + r * rng.choice([-1, 1], x.shape) for x, r in zip(parts, rads, strict=True)]
        u = outputs(*moved, X)[:, 0]
        for row in rows:
            shown = u[X[:, 1] == row] - sets.centre[row, 0, 0]
            assert low[row, 0] <= shown.min() and shown.max() <= high[row, 0]


def test_normalisers_lie_in_their_range_at_the_corners_of_their_doubt():
    """Sums of weights with doubt, ends attained: the lower by all low weights, and the upper."""
    T, doubt = 3, 0.2
    logits = Enclosed(np.zeros((1, T, 2)), np.full((1, T, 2), doubt))
    one = np.zeros(1, int)
    tables = layer(logits, np.zeros((1, T, 2, 1)), np.zeros(1), np.zeros((1, 1)))
    low, high = HeadSets(tables, Cells.at((), one, one, one + T)).denominators
    assert low[0, 0] <= 1 + T * np.exp(-doubt) <= low[0, 0] * 1.05
    assert high[0, 0] * 0.999 <= 1 + T * np.exp(doubt) <= high[0, 0]


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), F=st.integers(1, 5))
def test_sums_that_cancel_are_enclosed_exactly(seed, F):
    """Moves of size 10^8 whose sums nearly vanish: only the rounding slack can hold the truth."""
    rng = np.random.default_rng(seed)
    n = 3
    moves = 1e8 * rng.standard_normal((1, 1, n, F, 2))
    D = rng.standard_normal((1, n, 1))
    D[0, 2] = (
        -(D[0, 0] * moves[0, 0, 0, 0, 0] + D[0, 1] * moves[0, 0, 1, 0, 0]) / moves[0, 0, 2, 0, 0]
    )
    one = np.zeros(1, int)
    T = F
    tables = layer(np.zeros((1, T, 2)), np.zeros((1, T, 2, n)), np.zeros(1), np.zeros((1, n)))
    sets = HeadSets(tables, Cells.at((), one, one, one + F))
    nothing = np.zeros((1, n))
    sets.__dict__["linear"] = _LinearForm.of(exactly(moves), exactly(nothing), nothing)
    low, high = sets.ranges(exactly(D))
    d = [Fraction(float(x)) for x in D[0, :, 0]]
    sums = []
    for bits in itertools.product((0, 1), repeat=F):
        sums.append(sum(
            d[i] * Fraction(float(moves[0, 0, i, t, b]))
            for i in range(n) for t, b in enumerate(bits)
        ))  # fmt: skip
    assert Fraction(float(low[0, 0])) <= min(sums) and max(sums) <= Fraction(float(high[0, 0]))


def test_the_remainder_counts_the_fixed_tokens():
    """One filler moves the normaliser; the numerator comes from the fixed token almost alone."""
    logits = np.zeros((1, 2, 2))
    logits[0, 1] = [-8.0, 2.0]  # the filler: hardly there, or heavy
    values = np.array([[[[-40.0], [-40.0]], [[1.0], [1.0]]]])
    parts = logits, values, np.zeros(1), np.ones((1, 1))
    one = np.zeros(1, int)
    sets = HeadSets(layer(*parts), Cells.at((0,), one, one, one + 1))
    sets.__dict__["centre"] = np.full((1, 1, 1), 1.0)  # any point is sound
    low, high = sets.ranges(exactly(np.ones((1, 1, 1))))
    u = outputs(*parts, np.array([[0, 0], [0, 1]]))[:, 0] - 1
    assert low[0, 0] <= u.min() and u.max() <= high[0, 0]
    assert high[0, 0] - low[0, 0] < 1.5 * float(np.ptp(u))


@pytest.mark.parametrize(("H", "k", "F"), [(1, 1, 3), (3, 40, 1)])
def test_the_doubt_of_sums_is_not_below_its_formula(H, k, F):
    """gamma_{Hk+1} for a term, 8 gamma_{2F+4} for sums of 2F of them, times the length of the
    moves: libraries add up in blocks and stay far below it, so it is held against the formula."""

    def exact_gamma(n):
        return Fraction(n, 2**53) / (1 - Fraction(n, 2**53))

    moves = np.zeros((1, H, k, F, 2))
    moves[0, 0, 0, :, 1] = 3.0  # each move has length 3
    ends, rest = exactly(np.zeros((1, H * k))), np.zeros((1, H * k))
    found = Fraction(float(_LinearForm.of(exactly(moves), ends, rest).doubt[0]))
    exact = (exact_gamma(H * k + 1) + 8 * exact_gamma(2 * F + 4)) * 3 * F
    assert exact <= found <= exact * Fraction(1 + 1e-5)
    doubtful = Enclosed(moves, np.full_like(moves, 0.125))
    more = Fraction(float(_LinearForm.of(doubtful, ends, rest).doubt[0])) - found
    length = F * Fraction(1, 8) * Fraction(np.sqrt(H * k))
    assert length * Fraction(1 - 1e-12) <= more <= length * Fraction(1 + 1e-5)


def test_running_sums_lose_no_more_than_their_slack():
    """Each of F terms below half an ulp of the first is lost: the slack counts all of them."""
    F = 2000
    terms = np.zeros((1, F, 2))
    terms[0, :, 1] = 0.99 * 2.0**-53
    terms[0, 0, 1] = 1.0
    summed = float(np.cumsum(terms[0, :, 1])[-1])
    lost = sum(map(Fraction, terms[0, :, 1].tolist())) - Fraction(summed)
    assert lost > 1000 * Fraction(2.0**-53)
    assert lost <= Fraction(float(_sums_slack(terms)[0]))


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_remainder_counts_doubt_at_both_ends(sign):
    """|sum of the moves| <= 10 + 3 + 1/2, 1/D in [1/2, 1]: the rest is at most 13.5/4."""
    big = np.full((1, 1, 2, 1), 1e6)
    one = np.zeros(1, int)
    tables = layer(np.zeros((1, 1, 2)), big, np.zeros(1), np.zeros((1, 1)))
    sets = HeadSets(tables, Cells.at((), one, one, one + 1))
    sets.__dict__["centre"] = np.zeros((1, 1, 1))
    sets.__dict__["denominators"] = np.array([[1.0]]), np.array([[2.0]])
    moves = Enclosed(np.full((1, 1, 1, 2, 1), sign * 10.0), np.full((1, 1, 1, 2, 1), 3.0))
    fixed = Enclosed(np.zeros((1, 1, 1)), np.full((1, 1, 1), 0.5))
    factor, rest = sets._reciprocals(moves, fixed)
    assert factor[0, 0] == 0.75
    assert 13.5 / 4 <= rest[0, 0, 0] <= 13.5 / 4 * 1.0001


def test_ones_of_fixed_positions_count_among_the_fillers():
    """s = 2, T = 7: an unproved cell with one fixed one and 0 or 1 free ones shows 1 or 2 ones."""
    zeros = np.zeros(2, int)
    leaves = Leaves(
        s=2, T=7, rows=zeros, fixed_ones=np.array([1, 1]), fixed=np.array([2, 2]),
        first=np.array([0, 2]), last=np.array([1, 3]), margins=np.array([-1.0, 1.0]), enclosed=2,
    )  # fmt: skip
    assert leaves.proved_ones(0.9)[0] == (3, 5)
    assert leaves.proved_ones(0.01)[0] == (0, 0)
    chance = 0.1**2 * 0.1 * 0.9  # pattern 00, one fixed one and one fixed zero
    inside = 3 * 0.9**2 * 0.1 + 0.9**3  # two or three ones among the three others
    assert leaves.proved_share(0.9) == pytest.approx(chance * inside)
