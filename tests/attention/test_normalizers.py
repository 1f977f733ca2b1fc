"""Normalizers: weights are weights, the constants hold, and they are attained where claimed."""

import itertools
import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capax.attention import (
    NORMALIZERS,
    Entmax,
    Hardmax,
    NormalizedReLU,
    NormalizedSigmoid,
    NormalizedSoftplus,
    ScaledSigmoid,
    Softmax,
    Sparsemax,
    TopK,
    normalizer,
)
from capax.attention.parts.normalizers import log_softplus
from capax.errors import InputError

SMOOTH = (
    Softmax(),
    Softmax(0.5),
    Softmax(3.0),
    NormalizedSigmoid(),
    NormalizedSoftplus(),
    NormalizedReLU(0.25),
    ScaledSigmoid(),
    Entmax(1.3),
    Entmax(1.5),
    Sparsemax(),
)
ALL = (*SMOOTH, Hardmax(), TopK(2))
T = 6


BATCH = 32  # vectors per hypothesis example: one compiled call checks them all
# T tokens are kept, so that what they give alone comes from the same program
KEEP = np.array([True, False, True, True, False, True, True, True])
MASKED = np.random.default_rng(5).normal(size=(BATCH, len(KEEP))).astype(np.float32)


def scores(low=-30.0, high=30.0):
    return arrays(np.float64, (BATCH, T), elements=st.floats(low, high, width=64))


@cache
def compiled(norm):
    return jax.jit(lambda theta: norm(theta))


@cache
def compiled_masked(norm):
    return jax.jit(lambda theta, mask: norm(theta, mask))


@cache
def jacobian(norm):
    return jax.jit(jax.vmap(jax.jacobian(lambda theta: norm(theta))))


def applied(norm, theta) -> np.ndarray:
    return np.asarray(compiled(norm)(theta))


def norm_inf_to_1(J: np.ndarray) -> np.ndarray:
    """max |J s|_1 over all sign vectors: the norm is attained at a vertex of the cube."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=J.shape[-1])))
    return np.abs(signs @ np.swapaxes(J, -1, -2)).sum(axis=-1).max(axis=-1)


@settings(max_examples=10)
@given(theta=scores())
def test_weights_are_non_negative_and_sum_to_one(theta):
    for norm in ALL:
        a = applied(norm, theta)
        assert np.all(a >= 0), norm
        assert np.all(a.sum(-1) <= 1 + 1e-12), norm
        if norm.stochastic:
            np.testing.assert_allclose(a.sum(-1), 1, atol=1e-12, err_msg=repr(norm))


@settings(max_examples=25)
@given(theta=scores(), other=scores(), log_step=st.floats(-12, 0))
def test_lipschitz_constant_is_never_violated(theta, other, log_step):
    other = theta + math.exp(log_step) * (other - theta)
    delta = np.abs(theta - other).max(-1)
    for norm in SMOOTH:
        distance = np.abs(applied(norm, theta) - applied(norm, other)).sum(-1)
        assert np.all(distance <= norm.lipschitz(T) * delta + 1e-11), norm


@settings(max_examples=25)
@given(theta=scores(), other=scores())
def test_softmax_finite_form(theta, other):
    """|a - a'|_1 <= 2 tanh(delta / 2)."""
    delta = np.abs(theta - other).max(-1)
    distance = np.abs(applied(Softmax(), theta) - applied(Softmax(), other)).sum(-1)
    assert np.all(distance <= 2 * np.tanh(delta / 2) + 1e-12)


@pytest.mark.parametrize("delta", [1e-3, 0.3, 1.0, 5.0])
def test_softmax_finite_form_is_attained_at_two_tokens(delta):
    theta = np.array([delta / 2, -delta / 2])
    distance = np.abs(applied(Softmax(), theta) - applied(Softmax(), -theta)).sum()
    assert distance == pytest.approx(2 * math.tanh(delta / 2), rel=1e-12)


@settings(max_examples=10)
@given(theta=scores(-3, 3))
def test_softmax_jacobian_norms(theta):
    """|J|_{1,1} = 2 (1 - |a|_2^2) and |J|_{inf->1} = max_S 4 p_S (1 - p_S)."""
    a, J = applied(Softmax(), theta), np.asarray(jacobian(Softmax())(theta))
    np.testing.assert_allclose(np.abs(J).sum((-1, -2)), 2 * (1 - (a**2).sum(-1)), rtol=1e-9)
    subsets = np.array(list(itertools.product((0.0, 1.0), repeat=T)))
    p = a @ subsets.T
    np.testing.assert_allclose(norm_inf_to_1(J), (4 * p * (1 - p)).max(-1), rtol=1e-9)


@settings(max_examples=10)
@given(theta=scores(-4, 4))
def test_jacobian_within_both_constants(theta):
    for norm in SMOOTH:
        J = np.asarray(jacobian(norm)(theta))
        assert np.all(norm_inf_to_1(J) <= norm.lipschitz(T) + 1e-9), norm
        assert np.all(np.abs(J).sum((-1, -2)) <= norm.paper_constant(T) + 1e-9), norm
        assert norm.lipschitz(T) <= norm.paper_constant(T)


@pytest.mark.parametrize("norm", [Entmax(1.3), Entmax(1.5), Sparsemax()], ids=repr)
@pytest.mark.parametrize("size", [2, T])
def test_entmax_constants_are_attained_at_zero(norm, size):
    J = np.asarray(jacobian(norm)(np.zeros((BATCH, size))))[0]
    assert norm_inf_to_1(J) == pytest.approx(norm.lipschitz(size), rel=1e-9)
    assert np.abs(J).sum() == pytest.approx(norm.paper_constant(size), rel=1e-9)


@pytest.mark.parametrize(
    ("norm", "theta"),
    [
        (Softmax(), [0.0, 0.0]),
        (Softmax(0.5), [0.0, 0.0]),
        (NormalizedSigmoid(), [-40.0, -40.0]),
        (NormalizedSoftplus(), [-40.0, -40.0]),
        (NormalizedReLU(0.25), [1e-9, 1e-9]),
        (ScaledSigmoid(), [0.0, 0.0]),
    ],
    ids=repr,
)
def test_other_constants_are_attained(norm, theta):
    J = np.asarray(jacobian(norm)(np.array([theta])))
    assert norm_inf_to_1(J) == pytest.approx(norm.lipschitz(2), rel=1e-6)


def test_ratio_normalizers_match_their_definition():
    theta = np.array([-3.0, 0.5, 2.0, 7.0])
    cases = {
        NormalizedSigmoid(): 1 / (1 + np.exp(-theta)),
        NormalizedSoftplus(): np.log1p(np.exp(theta)),
        NormalizedReLU(0.7): np.maximum(theta, 0) + 0.7,
        Softmax(2.0): np.exp(theta / 2),
    }
    found = jax.jit(lambda theta: [norm(theta) for norm in cases])(theta)
    for weights, h in zip(found, cases.values(), strict=True):
        np.testing.assert_allclose(weights, h / h.sum(), rtol=1e-13)


def test_log_softplus():
    x = np.concatenate([np.linspace(-700, 700, 4001), np.linspace(-18, -16, 401)])
    want = np.log(np.logaddexp(0, x))
    small = x < -20
    want[small] = x[small]  # ln(1 + u) = u to the last digit
    got = jax.jit(log_softplus)(x)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-9)
    np.testing.assert_allclose(np.asarray(got)[~small], want[~small], rtol=1e-12, atol=1e-13)


def project_onto_simplex(theta: np.ndarray) -> np.ndarray:
    """The textbook sort algorithm."""
    u = np.sort(theta)[::-1]
    tau = (np.cumsum(u) - 1) / np.arange(1, len(u) + 1)
    return np.maximum(theta - tau[np.nonzero(u > tau)[0][-1]], 0)


@settings(max_examples=15)
@given(theta=scores())
def test_sparsemax_is_the_projection_onto_the_simplex(theta):
    want = np.stack([project_onto_simplex(row) for row in theta])
    np.testing.assert_allclose(applied(Sparsemax(), theta), want, atol=1e-12)


@settings(max_examples=10)
@given(theta=scores(-3, 3))
def test_entmax_satisfies_its_optimality_conditions(theta):
    """On the support (alpha-1) theta - a^(alpha-1) is a constant tau; off it theta lies below."""
    for alpha in (1.3, 1.5, 1.9):
        a = applied(Entmax(alpha), theta)
        gap = (alpha - 1) * theta - a ** (alpha - 1)
        for row in range(BATCH):
            on = a[row] > 1e-12
            assert np.ptp(gap[row, on]) < 1e-9, alpha
            assert np.all((alpha - 1) * theta[row, ~on] <= gap[row, on].max() + 1e-2), alpha


def test_entmax_gradient_matches_finite_differences():
    theta, h = np.array([[0.3, -0.2, 0.9, 0.1]]), 1e-6
    J = np.asarray(jacobian(Entmax(1.5))(theta))[0]
    up, down = (applied(Entmax(1.5), theta + s * h * np.eye(4)) for s in (1, -1))
    np.testing.assert_allclose(J, ((up - down) / (2 * h)).T, atol=1e-7)


@pytest.mark.parametrize("norm", ALL, ids=repr)
def test_mask_is_the_same_as_deleting_tokens(norm):
    masked = np.asarray(compiled_masked(norm)(MASKED, KEEP))
    assert masked.dtype == np.float32
    kept = applied(norm, MASKED[:, KEEP].astype(np.float64))
    np.testing.assert_allclose(masked[:, KEEP], kept, atol=2e-6)
    assert np.all(masked[:, ~KEEP] == 0)


@pytest.mark.parametrize("norm", ALL, ids=repr)
def test_a_mask_that_keeps_nothing_gives_zero_weights(norm):
    a = compiled_masked(norm)(MASKED, np.zeros_like(KEEP))
    np.testing.assert_array_equal(a, 0.0)


def test_masked_gradients_are_finite_even_for_huge_hidden_scores():
    theta = jnp.asarray([1e30, 0.0, 1.0], dtype=jnp.float32)
    keep = jnp.asarray([False, True, True])
    together = jax.jit(jax.jacobian(lambda x: [norm(x, keep) for norm in SMOOTH]))
    for J in together(theta):
        assert np.all(np.isfinite(np.asarray(J)))


@pytest.mark.parametrize("norm", ALL, ids=repr)
def test_shift_invariance_is_declared_truly(norm):
    theta = np.tile([0.4, -1.0, 2.5, 0.1, 0.7, -0.3], (BATCH, 1))
    a = applied(norm, theta + np.linspace(0, 1.75, BATCH)[:, None])
    same = np.allclose(a[0], a[-1], atol=1e-12)
    assert same == norm.shift_invariant


def test_flags():
    assert [n.grows_with_T for n in (Softmax(), Entmax(1.5), Sparsemax())] == [False, True, True]
    assert Sparsemax().lipschitz(100) == 100.0
    assert Entmax(1.5).lipschitz(100) == 10.0
    for norm in (Hardmax(), TopK(3)):
        assert norm.lipschitz(5) == norm.paper_constant(5) == math.inf
        assert not norm.admissible and norm.note
    assert Softmax().paper_constant(7) == 2.0 and Softmax().lipschitz(7) == 1.0
    assert "grows" in Sparsemax().note and "grows" in Entmax().note


def test_hardmax_and_top_k():
    theta = np.array([3.0, 1.0, 3.0, 2.0])
    norms = Hardmax(), TopK(3), TopK(9)
    hard, top, all_ = map(np.asarray, jax.jit(lambda x: [norm(x) for norm in norms])(theta))
    np.testing.assert_array_equal(hard, [0.5, 0, 0.5, 0])
    powers = np.exp(theta)
    np.testing.assert_allclose(top[[0, 2, 3]], powers[[0, 2, 3]] / powers[[0, 2, 3]].sum())
    assert top[1] == 0
    np.testing.assert_allclose(all_, powers / powers.sum())


def test_hardmax_is_the_limit_of_cold_softmax():
    theta = np.array([0.3, 0.9, -0.5])
    np.testing.assert_allclose(applied(Softmax(1e-3), theta), [0, 1, 0], atol=1e-12)


@pytest.mark.parametrize("name", NORMALIZERS)
def test_named_normalizers(name):
    assert jax.eval_shape(normalizer(name), jnp.asarray([0.0, 1.0])).shape == (2,)
    assert hash(normalizer(name)) == hash(normalizer(name))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Softmax(0.0), "temperature"),
        (lambda: NormalizedReLU(0.0), "tau"),
        (lambda: Entmax(1.0), "alpha"),
        (lambda: Entmax(2.5), "alpha"),
        (lambda: TopK(0), "k"),
        (lambda: normalizer("sofmax"), "normalizer"),
        (lambda: Softmax().lipschitz(0), "T"),
        (lambda: Sparsemax().lipschitz(0), "T"),
        (lambda: Hardmax().lipschitz(0), "T"),
        (lambda: ScaledSigmoid().lipschitz(0), "T"),
    ],
)
def test_mistakes_are_named(make, named):
    with pytest.raises(InputError, match=f"^{named}: wanted"):
        make()
