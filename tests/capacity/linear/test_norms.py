"""Norm conventions, and norms of products from their factors alone."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.capacity.linear import norms
from one_line import one_line

M = np.array([[3.0, 0.0], [4.0, 0.0]])


def naive(W):
    return (
        np.linalg.norm(W, 2),
        np.linalg.norm(W),
        np.linalg.norm(W, axis=0).sum(),
        np.linalg.norm(W, axis=1).sum(),
        np.abs(W).sum(),
    )


def test_the_axis_convention():
    assert norms.norm_2_1(M) == pytest.approx(5.0)
    assert norms.norm_2_1(M.T) == pytest.approx(7.0)
    assert norms.norm_2_inf(M.T) == pytest.approx(4.0)
    assert norms.norm_1_1(M) == pytest.approx(7.0)
    assert norms.norm_p_q(M, math.inf, 1.0) == pytest.approx(4.0)
    assert norms.radius(M) == pytest.approx(4.0)


@given(st.integers(0, 10_000), st.sampled_from([(7, 3, 5), (5, 7, 11), (2, 1, 3), (3, 5, 2)]))
def test_product_norms_are_upper_bounds_of_the_naive_ones(seed, shape):
    d, k, n = shape
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(d, k)), rng.normal(size=(n, k))
    got = norms.product_norms(A, B)
    for ours, plain in zip(got.to_json().values(), naive(A @ B.T), strict=True):
        assert plain <= ours <= plain * (1 + 1e-6) + 1e-9


def test_qk_scale_and_vo_shapes():
    rng = np.random.default_rng(3)
    W_Q, W_K, W_V, W_O = (rng.normal(size=s) for s in [(11, 3), (11, 3), (11, 5), (5, 7)])
    assert norms.norms_QK(W_Q, W_K, 0.25).norm_F == pytest.approx(np.linalg.norm(W_Q @ W_K.T) / 4)
    assert norms.norms_VO(W_V, W_O).norm_2_1 == pytest.approx(norms.norm_2_1(W_V @ W_O))
    assert norms.matrix_norms(W_V).norm_2 >= np.linalg.norm(W_V, 2)


@pytest.mark.parametrize("rank", [0, 2, 5])
def test_tall_factors_are_upper_bounds_too(rank):
    """More rows than a QR decomposition is used for; also of deficient rank."""
    d, k = 211, 5
    rng = np.random.default_rng(rank)
    A = rng.normal(size=(d, rank)) @ rng.normal(size=(rank, k))
    B = rng.normal(size=(d, k)) * np.logspace(0, -6, k)
    got = norms.product_norms(A, B)
    for ours, plain in zip(got.to_json().values(), naive(A @ B.T), strict=True):
        assert plain <= ours <= plain * (1 + 1e-6) + 1e-9


def test_cancelling_factors_stay_upper_bounds():
    A = np.array([[1e8, 1e8]])
    B = np.array([[1.0, -1.0 + 1e-9]])
    assert norms.product_norms(A, B).norm_2 >= abs((A @ B.T).item())


def test_no_d_by_d_product_is_formed():
    d, k = 4001, 8
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(d, k)), rng.normal(size=(d, k))
    tracemalloc.start()
    norms.norms_QK(A, B)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < d * d * 8 / 20, f"{peak} bytes: a d x d array would need {d * d * 8}"


@given(st.integers(0, 1000))
def test_spread_is_at_most_the_radius_and_invariant(seed):
    X = np.random.default_rng(seed).normal(size=(5, 3))
    assert norms.spread(X) <= norms.radius(X) * (1 + 1e-12)
    half_diameter = max(np.linalg.norm(x - y) for x in X for y in X) / 2
    assert norms.spread(X) >= half_diameter * (1 - 1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: norms.norm_2_1([[1.0, math.nan]], "W_V"),
            "W_V: wanted finite entries, got '1 NaN",
        ),
        (lambda: norms.norm_spectral([[math.inf]]), "matrix: wanted finite"),
        (lambda: norms.norm_frobenius([1.0, 2.0], "W_C"), "W_C: wanted a matrix"),
        (lambda: norms.norm_2([[1.0]], "w"), "w: wanted a vector"),
        (lambda: norms.norm_2_1(np.zeros((0, 3))), "at least one entry"),
        (lambda: norms.norm_2_1([["a"]]), "of numbers"),
        (lambda: norms.norm_p_q(M, 0.5, 1.0), "p, q: wanted numbers >= 1"),
        (lambda: norms.norms_QK(np.ones((5, 3)), np.ones((5, 2))), "same number of columns"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with one_line(message):
        call()
