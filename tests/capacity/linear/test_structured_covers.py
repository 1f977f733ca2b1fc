"""Covers by rank and by entries: against packings, explicit nets, and their printed formulas."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.covers.delannoy import log_delannoy
from capax.capacity.linear.cover_pieces import Piece, total_cover
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.linear.piece_terms import terms_of
from capax.capacity.linear.structured_covers import (
    log_cover_entries,
    log_cover_rank,
    rank_parameters,
)
from capax.capacity.network.layer_pieces import Shape, score_piece
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import SOFTMAX
from capax.errors import InputError


def test_a_head_of_width_four_has_516_parameters_instead_of_4096():
    assert rank_parameters(64, 64, 4) == 516
    assert Shape(64, 64).parameters == 4096
    assert Shape(64, 64, 4).rank_parameters == 516
    assert Shape(64, 64, 64).rank_parameters is None  # full rank: nothing to gain


@given(
    st.integers(2, 50), st.integers(2, 50), st.integers(1, 2), st.floats(0.01, 1e6),
    st.floats(1e-6, 2.99),
)  # fmt: skip
def test_the_rank_cover_is_below_its_printed_form(d, k, r, B, share):
    eps = share * B
    assert log_cover_rank(d, k, r, B, eps) <= r * (d + k + 1) * math.log(9 * B / eps) * (1 + 1e-12)
    assert log_cover_rank(d, k, r, B, B) == 0.0


@settings(max_examples=12)
@given(
    st.integers(0, 10**6), st.sampled_from([(2, 3, 1), (3, 3, 1), (3, 2, 2)]), st.floats(0.05, 0.9)
)
def test_no_packing_of_low_rank_matrices_is_larger_than_the_cover(seed, shape, eps):
    """Random members more than 2 eps apart need different centres."""
    d, k, r = shape
    rng = np.random.default_rng(seed)
    members = rng.normal(size=(150, d, r)) @ rng.normal(size=(150, r, k))
    members /= np.linalg.norm(members, axis=(1, 2), keepdims=True)
    kept = []
    for W in members:
        if all(np.linalg.norm(W - V) > 2 * eps for V in kept):
            kept.append(W)
    assert math.log(len(kept)) <= log_cover_rank(d, k, r, 1.0, eps)


def test_the_net_of_rank_one_matrices_really_covers():
    """The construction itself in two dimensions: angles for u and v, a grid for the size."""
    eps, rng = 0.3, np.random.default_rng(0)
    step = 2 * math.asin(eps / 6)  # chords of length at most eps / 3
    angles = np.arange(0, 2 * math.pi, step)
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    sizes = np.arange(0, 1 + eps, 2 * eps / 3)
    net = np.einsum("s,ai,bj->sabij", sizes, units, units).reshape(-1, 4)
    assert math.log(len(net)) <= log_cover_rank(2, 2, 1, 1.0, eps)
    for _ in range(200):
        W = np.outer(rng.normal(size=2), rng.normal(size=2))
        W *= rng.random() / np.linalg.norm(W)
        assert np.linalg.norm(net - W.reshape(4), axis=1).min() <= eps


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.35, 1.5))
def test_some_mean_of_signed_units_is_within_eps_of_every_matrix(seed, eps):
    """All integer points c with ||c||_1 <= n, times B/n: counted, and searched for the nearest."""
    entries, B, rng = 4, 1.0, np.random.default_rng(seed)
    n = math.ceil((B / eps) ** 2) if eps < B else 0
    axis = range(-n, n + 1)
    points = [c for c in itertools.product(axis, repeat=entries) if sum(map(abs, c)) <= n]
    assert math.log(len(points)) <= log_cover_entries(entries, B, eps) + 1e-9
    assert math.log(len(points)) == pytest.approx(log_delannoy(entries, n))
    net = np.array(points) * (B / max(n, 1))
    for sparse in (1, 2, 4):
        W = np.zeros(entries)
        W[:sparse] = rng.dirichlet(np.ones(sparse)) * rng.choice([-1, 1], sparse) * B
        assert np.linalg.norm(net - W, axis=1).min() <= eps * (1 + 1e-9)


@given(st.integers(1, 10**4), st.floats(1e-3, 1e9), st.floats(1e-3, 10.0))
def test_the_entrywise_cover_is_below_its_printed_form_and_above_single_entries(n, B, eps):
    value = log_cover_entries(n, B, eps)
    assert value <= math.ceil((B / eps) ** 2 * (1 + 1e-9)) * math.log(2 * n + 1) * 2
    if math.sqrt(2) * eps < B:  # +-B E_ij are sqrt(2) B > 2 eps apart
        assert value >= math.log(2 * n) - 1e-9


def test_extremes_stay_finite_and_ordered():
    values = [log_cover_entries(10, 10.0**p, 1.0) for p in range(-3, 100, 7)]
    assert values == sorted(values)
    ranks = [log_cover_rank(5, 7, 2, 10.0**p, 1.0) for p in range(-3, 300, 29)]
    assert ranks == sorted(ranks)
    assert math.isfinite(ranks[-1])


SPARSE = MatrixNorms(1.0, 1.0, 1.0, 1.0, norm_1_1=1.0)


def test_pieces_take_the_cheapest_count():
    sample = Sample(10**9, 10**6)
    low = score_piece(SPARSE, 0.0, SOFTMAX, sample, sample.all_pairs, 0.0, Shape(640, 640, 4))
    dense = score_piece(SPARSE, 0.0, SOFTMAX, sample, sample.all_pairs, 0.0, Shape(640, 640))
    tiny = math.log(1e-6)
    assert total_cover([low], tiny).log_cover < total_cover([dense], tiny).log_cover / 50
    assert "(by rank)" in terms_of([low], total_cover([low], tiny))[0].text
    # a matrix of one entry: 3 log-entries per step beat a log of m T^2 pairs
    entry = total_cover([low], math.log(0.3))
    assert entry.ways == ("entries",)
    assert "entries" in terms_of([low], entry)[0].text
    assert Piece("x", 0.0, 3).ways == ("norms",)


def test_rank_helps_a_layer_and_never_hurts():
    def cover(rank, eps):
        norms = MatrixNorms(2.0, 2.0, 3.0, 3.0, rank=rank)
        head = ResidualHead(norms, norms)
        return multi_head([head], d=64, full=True).cover(Sample(10**6, 10**3), eps).log_value

    assert cover(4, 1e-4) < cover(None, 1e-4) - 1
    for eps in (1e-6, 1e-3, 0.1, 1.0):
        assert cover(4, eps) <= cover(None, eps) + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_parameters(3, 4, 4), "r: wanted a rank of at most 3"),
        (lambda: log_cover_rank(3, 4, 0, 1.0, 0.5), "r: wanted an integer >= 1"),
        (lambda: log_cover_rank(3, 4, 1, 1.0, 0.0), "eps"),
        (lambda: log_cover_entries(0, 1.0, 0.5), "num_entries"),
        (lambda: log_cover_entries(3, -1.0, 0.5), "B: wanted a number >= 0"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
