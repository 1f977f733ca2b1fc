"""The covers themselves: every member has its centre, and there are no more centres than said."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.covers.delannoy import log_delannoy
from capax.capacity.linear.constructive_covers import (
    l1_ball_points,
    matrix_cover,
    perceptron_walk,
    vector_cover,
)
from capax.capacity.linear.linear_classes import log_cover_matrix_21, log_cover_vector
from capax.errors import InfeasibleError, InputError

seeds = st.integers(0, 2**32 - 1)
SLACK = 1 + 1e-9


def random_vector(rng, d, length):
    v = rng.standard_normal(d)
    return v * (length / np.linalg.norm(v))


@given(seeds, st.integers(1, 17), st.integers(1, 7), st.floats(0.05, 3.0))
def test_every_vector_has_a_centre_within_eps(seed, N, d, eps):
    rng = np.random.default_rng(seed)
    X, a = rng.standard_normal((N, d)), 2.0
    cover = vector_cover(X, a, eps * float(np.linalg.norm(X, axis=1).max()))
    w = random_vector(rng, d, a * rng.random())
    walk = cover.centre_of(w)
    assert np.abs(X @ (w - walk.vector)).max() <= cover.eps * SLACK
    assert np.abs(walk.coefficients).sum() <= walk.steps <= cover.num_steps
    rebuilt = cover.eps / cover.b**2 * walk.coefficients @ X
    assert np.allclose(rebuilt, walk.vector, atol=1e-9)
    assert cover.log_size == log_cover_vector(a, cover.b, cover.eps, N)


@given(seeds, st.floats(0.1, 1.0))
def test_projected_walks_stay_in_the_class(seed, eps):
    rng = np.random.default_rng(seed)
    X, a = rng.standard_normal((11, 5)), 3.0
    b = float(np.linalg.norm(X, axis=1).max())
    w = random_vector(rng, 5, a)
    walk = perceptron_walk(w, X, eps, b, radius=a)
    assert np.linalg.norm(walk.vector) <= a * SLACK
    assert np.abs(X @ (w - walk.vector)).max() <= eps * SLACK
    assert walk.steps < (a * b / eps) ** 2


def test_the_listed_cover_covers_and_has_the_counted_size():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((3, 2))
    cover = vector_cover(X, 1.0, 0.55 * float(np.linalg.norm(X, axis=1).max()))
    centres = np.array(list(cover.centres()))
    assert cover.num_steps == 3
    assert len(centres) == round(math.exp(log_delannoy(3, 3)))
    members = np.array([random_vector(rng, 2, rng.random()) for _ in range(1000)])
    gaps = np.abs((members[:, None] - centres[None]) @ X.T).max(axis=-1)  # member, centre
    assert gaps.min(axis=1).max() <= cover.eps * SLACK


@settings(max_examples=30)
@given(seeds, st.integers(1, 5), st.floats(0.1, 2.0), st.sampled_from([1.2, 2.0, 3.0]))
def test_every_matrix_has_a_centre_within_eps(seed, k, eps, rho):
    rng = np.random.default_rng(seed)
    X, B = rng.standard_normal((7, 3)), 2.0
    cover = matrix_cover(X, B, eps * float(np.linalg.norm(X, axis=1).max()), k, rho)
    shares = rng.dirichlet(np.full(k, 0.5)) * B  # very uneven row norms
    W = np.array([random_vector(rng, 3, share) for share in shares])
    centre = cover.centre_of(W)
    assert np.linalg.norm((W - centre.matrix) @ X.T, axis=0).max() <= cover.eps * SLACK
    assert centre.steps <= cover.num_steps
    assert cover.log_size == log_cover_matrix_21(B, cover.b, cover.eps, 7, k, rhos=(rho,))


def test_classes_inside_the_tolerance_have_one_centre():
    assert next(vector_cover([[1.0, 0.0]], 0.5, 0.5).centres()).tolist() == [0.0, 0.0]
    centre = matrix_cover([[1.0, 0.0]], 0.5, 0.5, 2).centre_of([[0.2, 0.1], [0.1, 0.0]])
    assert not centre.matrix.any()
    assert matrix_cover([[1.0, 0.0]], 0.5, 0.5, 2).log_size == 0


def test_zero_samples_need_one_function():
    assert vector_cover([[0.0, 0.0]], 0.5, 1.0).log_size == 0


def test_integer_points():
    points = list(l1_ball_points(2, 1))
    assert sorted(points) == [(-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: vector_cover([[1.0, math.nan]], 1, 1), "X: wanted finite numbers only"),
        (lambda: vector_cover([1.0], 1, 1), "X: wanted a table with one sample per row"),
        (lambda: vector_cover(np.zeros((0, 2)), 1, 1), "X: wanted at least one entry"),
        (lambda: vector_cover([[1.0]], -1, 1), "a: wanted a finite number >= 0, got -1"),
        (lambda: vector_cover([[1.0]], 1, 0), "eps: wanted a finite number > 0, got 0"),
        (lambda: vector_cover([[1.0]], 1, 1).centre_of([2.0]), "w: wanted norm at most a = 1"),
        (lambda: vector_cover([[1.0]], 1, 1).centre_of([1.0, 0]), "w: wanted shape (1,)"),
        (lambda: vector_cover([[1.0]], 1, 1).centre_of([math.inf]), "w: wanted finite numbers"),
        (lambda: matrix_cover([[1.0]], math.inf, 1, 1), "B: wanted a finite number >= 0"),
        (lambda: matrix_cover([[1.0]], 1, 1, 0), "k: wanted an integer >= 1, got 0"),
        (lambda: matrix_cover([[1.0]], 1, 1, 1, rho=1.0), "rho: wanted a number > 1, got 1.0"),
        (lambda: matrix_cover([[1.0]], 1, 1, 1).centre_of([[2.0]]), "W: wanted sum of row norms"),
        (lambda: matrix_cover([[1.0]], 1, 1, 1).centre_of([2.0]), "W: wanted shape (1, 1)"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_covers_too_large_to_list_say_so():
    with pytest.raises(InfeasibleError, match=r"at most 1000000 can be listed"):
        next(vector_cover(np.eye(50), 10, 0.5).centres())
