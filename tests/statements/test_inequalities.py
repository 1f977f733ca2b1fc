"""Lemmas A.6 to A.9, A.13 to A.16 and B.7: drawn instances, tight ones, and constants too small."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capax.attention import AttentionLayer
from capax.attention.numpy_block import BlockMatrices, block, project, softmax, stack
from capax.errors import InputError
from capax.statements.forms import inequalities
from capax.statements.forms.printed_bounds import split_value

numbers = st.floats(-6, 6, allow_nan=False, width=32)


def vectors(count: int, least: int = 2, most: int = 5):
    def rows(n):
        return st.lists(st.lists(numbers, min_size=n, max_size=n), min_size=count, max_size=count)

    return st.integers(least, most).flatmap(rows).map(np.array)


@st.composite
def two_blocks(draw):
    """Two blocks of one shape, and tokens of length at most 1 for each."""
    T, d, k = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, step = draw(st.sampled_from([0.1, 1.0, 5.0])), draw(st.sampled_from([1e-3, 0.3, 3.0]))
    Z = project(rng.normal(size=(T, d)) * 2)
    Y = project(Z + step * rng.normal(size=(T, d)))
    first = [size * rng.normal(size=shape) for shape in ((d, k), (d, k), (d, k), (k, d))]
    second = [M + step * rng.normal(size=M.shape) for M in first]
    return Z, Y, BlockMatrices(*first), BlockMatrices(*second)


@given(vectors(2), st.sampled_from([0.5, 1.0, 3.0]))
def test_maps_to_the_simplex_move_by_their_jacobian(theta, beta):
    c_f = 2 * beta * (1 - 1 / theta.shape[1])  # sup of ||J||_1,1 of softmax(beta .)
    sides = inequalities.simplex_map(lambda x: softmax(beta * x), c_f, theta[0], theta[1])
    assert sides.holds
    assert beta * inequalities.softmax_jacobian_size(beta * theta[0]) <= c_f * (1 + 1e-12)


@given(vectors(2))
def test_softmax_moves_by_the_largest_change(theta):
    assert inequalities.softmax_distance(theta[0], theta[1]).holds
    ours = inequalities.softmax_distance(theta[0], theta[1], constant=1.0)
    assert ours.holds
    change = float(np.abs(theta[0] - theta[1]).max())
    assert ours.left <= 2 * np.tanh(change / 2) + 1e-12


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_no_feasible_split_is_better(n, seed):
    rng = np.random.default_rng(seed)
    alphas, betas, C = rng.uniform(0.01, 9, n), rng.uniform(0.01, 9, n), rng.uniform(0.1, 3)
    best = split_value(list(alphas), list(betas), C)
    x = rng.dirichlet(np.ones(n), 20) * C / betas
    assert (best <= (alphas / np.maximum(x, 1e-300) ** 2).sum(axis=1) * (1 + 1e-12)).all()
    gamma = (alphas ** (1 / 3) * betas ** (2 / 3)).sum()
    at = C / gamma * (alphas / betas) ** (1 / 3)  # the paper's minimiser
    assert np.isclose((betas * at).sum(), C) and np.isclose((alphas / at**2).sum(), best)


@given(vectors(2, least=1))
def test_projection_contracts(pair):
    assert inequalities.projection_distance(pair[0], pair[1]).holds


@given(two_blocks())
def test_heads_move_with_their_weights(drawn):
    Z, _, W, V = drawn
    assert inequalities.weight_distance(Z, W, V).holds
    assert inequalities.weight_distance(Z, W, V, constant=1.0).holds


@given(two_blocks())
def test_heads_move_with_their_input(drawn):
    Z, Y, W, _ = drawn
    assert inequalities.input_distance(Z, Y, W).holds
    assert inequalities.input_distance(Z, Y, W, constant=2.0).holds


@given(two_blocks(), st.sampled_from([np.tanh, lambda x: np.maximum(x, 0.0)]))
def test_blocks_move_by_four_terms(drawn, sigma):
    assert inequalities.block_distance(*drawn, sigma=sigma).holds


@given(two_blocks(), st.integers(0, 2**32 - 1))
def test_the_scalar_output_moves_by_two_terms(drawn, seed):
    Z, _, W, V = drawn
    w, v = np.random.default_rng(seed).normal(size=(2, Z.shape[1]))
    assert inequalities.scalar_distance(Z, (W, V), (V, V), w, v).holds


@given(
    st.lists(st.floats(-2, 9), min_size=1, max_size=4),
    st.lists(st.floats(-9, 0), min_size=0, max_size=5),
)
def test_small_scores_hardly_matter(kept, rest):
    sides = inequalities.truncation_distance(np.array(kept + rest), len(kept))
    assert sides.holds
    assert sides.right <= 2 * (len(kept) + len(rest)) * np.exp(-min(kept))


def one_token_heads(change: float) -> tuple[np.ndarray, BlockMatrices, BlockMatrices]:
    """Two tokens +-1 and a query of 1: scores +-change/2, the tight case of the softmax."""
    Z = np.array([[1.0], [-1.0]])
    one = np.ones((1, 1))
    return Z, BlockMatrices(one, change / 2 * one, one, one), BlockMatrices(one, 0 * one, one, one)


def least_split() -> float:
    """The smallest 2/x^2 + 3/y^2 with x + 4y = 1.5, on a fine grid."""
    y = np.linspace(0.001, 0.374, 100_000)
    return float((2 / (1.5 - 4 * y) ** 2 + 3 / y**2).min())


@pytest.mark.parametrize(
    "planted",
    [
        # A.6: the Jacobian of T = 2 equal scores has absolute sum 1 = 2 (1 - 1/2), attained there
        lambda: inequalities.simplex_map(
            softmax, 0.99, np.array([1e-3, -1e-3]), np.array([-1e-3, 1e-3])
        ),
        # A.7: 1 is attained by two opposite scores
        lambda: inequalities.softmax_distance(np.array([1e-3, -1e-3]), np.zeros(2), 0.99),
        # A.8: 2/x^2 + 3/y^2 on x + 4y = 1.5; at its minimiser one per cent more is not reached
        lambda: inequalities.Sides(1.01 * split_value([2.0, 3.0], [1.0, 4.0], 1.5), least_split()),
        # A.9: points inside of the ball do not move at all
        lambda: inequalities.Sides(
            inequalities.projection_distance(np.array([0.5]), np.zeros(1)).left, 0.99 * 0.5
        ),
        # A.13: scores of +-change/2 move the output by tanh(change/2)
        lambda: inequalities.weight_distance(*one_token_heads(1e-3), constant=0.99),
        # A.14: equal tokens move their mean by as much as themselves
        lambda: inequalities.Sides(
            inequalities.input_distance(
                np.ones((2, 1)), 0.5 * np.ones((2, 1)), one_token_heads(0.0)[1]
            ).left,
            0.99 * 0.5,
        ),
        # A.15: without the term of W_C
        lambda: inequalities.Sides(
            inequalities.block_distance(
                np.ones((1, 1)), np.ones((1, 1)), one_token_heads(0.0)[1],
                BlockMatrices(*[np.ones((1, 1))] * 3, np.zeros((1, 1))), sigma=lambda x: x,
            ).left,
            0.0,
        ),
        # A.16: without the term of w
        lambda: inequalities.Sides(
            inequalities.scalar_distance(
                np.ones((1, 1)), (one_token_heads(0.0)[1],), (one_token_heads(0.0)[1],),
                np.ones(1), np.zeros(1),
            ).left,
            0.0,
        ),
        # B.7: equal scores are tight as R grows
        lambda: inequalities.truncation_distance(np.array([9.0] + [0.0] * 5), 1, constant=1.99),
    ],
)  # fmt: skip
def test_smaller_constants_fail(planted):
    assert not planted().holds


def test_tokens_that_are_too_long_are_refused():
    Z, W, V = one_token_heads(1.0)
    with pytest.raises(InputError, match="tokens: wanted rows of length at most 1"):
        inequalities.weight_distance(2 * Z, W, V)
    with pytest.raises(InputError, match="z: wanted scores of at most 0"):
        inequalities.truncation_distance(np.array([1.0, 0.5]), 1)


def test_the_block_is_the_librarys_layer_with_projections():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4, 3))
    parts = [rng.normal(size=shape) for shape in ((3, 2), (3, 2), (3, 2), (2, 3))]
    with jax.enable_x64(True):
        layer = AttentionLayer(*(jax.device_put(M[None]) for M in parts), activation="identity")
        mixed = np.asarray(layer(jax.device_put(X)))
    W = BlockMatrices(*parts)
    plain = softmax(X @ W.W_QK @ X.T) @ X @ W.W_V @ W.W_C
    assert np.allclose(mixed, plain, atol=1e-12)
    rows = plain @ np.linalg.pinv(W.W_C)  # back to k columns: W_C has full row rank
    shortened = rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
    wanted = np.tanh(shortened) @ W.W_C
    lengths = np.maximum(1, np.linalg.norm(wanted, axis=1, keepdims=True))
    assert np.allclose(block(X, W, np.tanh), wanted / lengths, atol=1e-9)
    twice = list(itertools.accumulate([X, W, W], lambda Z, V: block(Z, V, np.tanh)))
    assert np.array_equal(stack(X, (W, W), np.tanh), twice[-1])
