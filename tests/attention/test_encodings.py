"""Encodings: rows written out by hand, orthonormality, lazy == dense, measured coherence."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention import (
    BagOfVectors,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
    TwoHotTokens,
    coherence,
)
from capax.errors import InputError

BITS = np.array([1, 0, 1], dtype=np.uint8)


def test_deterministic_positions_by_hand():
    """Basis order P_0 P_1 P_2 E_0 E_1 v_CLS; the [CLS] token is last."""
    X = DeterministicPositions(3)(BITS).dense()
    want = [
        [1, 0, 0, 0, 1, 0],
        [0, 1, 0, 1, 0, 0],
        [0, 0, 1, 0, 1, 0],
        [0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(X, want)


def test_orthonormal_bag_by_hand():
    X = OrthonormalBag(3)(BITS).dense(jnp.float32)
    np.testing.assert_array_equal(X, [[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert X.dtype == jnp.float32


def test_trainable_positions_and_bag_by_hand():
    rng = np.random.default_rng(0)
    E, P, V, v = (rng.normal(size=s) for s in ((2, 5), (3, 5), (3, 5), 5))
    X = eqx.filter_jit(TrainablePositions(*map(jnp.asarray, (E, P, v))))(BITS)
    np.testing.assert_array_equal(X, np.stack([E[1] + P[0], E[0] + P[1], E[1] + P[2], v]))
    X = eqx.filter_jit(BagOfVectors(jnp.asarray(V), jnp.asarray(v)))(BITS)
    np.testing.assert_array_equal(X, np.stack([V[0], 0 * V[1], V[2], v]))


def test_lazy_encodings_agree_with_their_trainable_twins():
    T = 4
    basis, bag = np.eye(T + 3), np.eye(T + 1)
    twin = TrainablePositions(*map(jnp.asarray, (basis[T : T + 2], basis[:T], basis[T + 2])))
    bag_twin = BagOfVectors(jnp.asarray(bag[:T]), jnp.asarray(bag[T]))
    b = np.array(list(itertools.product((0, 1), repeat=T)))
    for lazy, dense in ((DeterministicPositions(T), twin), (OrthonormalBag(T), bag_twin)):
        got = jax.jit(jax.vmap(lambda bits, lazy=lazy: lazy(bits).dense()))(b)
        np.testing.assert_array_equal(got, jax.jit(jax.vmap(dense))(b))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("encoding", [DeterministicPositions(7), OrthonormalBag(7)], ids=repr)
def test_lazy_products_are_dense_products(encoding, dtype):
    rng = np.random.default_rng(1)
    bits, W = rng.integers(0, 2, 7), rng.normal(size=(encoding.d, 3)).astype(dtype)

    @jax.jit
    def products(bits, W):
        X = encoding(bits)
        parts = X[-1].dense(dtype), X[2:4].dense(dtype)
        return X.dense(dtype), (X @ W, X @ W[:, 0], X[2] @ W), parts

    dense, found, parts = products(bits, W)
    dense = np.asarray(dense)
    assert encoding(bits).shape == dense.shape
    assert found[0].dtype == dtype
    for product, wanted in zip(found, (dense @ W, dense @ W[:, 0], dense[2] @ W), strict=True):
        np.testing.assert_allclose(product, wanted, rtol=1e-6)
    np.testing.assert_array_equal(parts[0], dense[-1])
    np.testing.assert_array_equal(parts[1], dense[2:4])


def test_lazy_products_are_differentiable():
    X, w = DeterministicPositions(3)(BITS), np.arange(6.0)
    gradient = jax.jit(jax.grad(lambda w: jnp.sum((X @ w) ** 2)))(w)
    dense = np.asarray(X.dense())
    np.testing.assert_allclose(gradient, 2 * dense.T @ (dense @ w))


def test_a_million_tokens_are_a_few_megabytes():
    X = DeterministicPositions(10**6)(np.ones(10**6, dtype=bool))
    assert X.first.nbytes + X.second.nbytes < 10**7
    assert (X @ jnp.ones(X.d, jnp.float32)).shape == (10**6 + 1,)


def test_incoherent_codes():
    T, d = 101, 4001
    codes = IncoherentCodes(T, d, jax.random.key(0))
    C = np.asarray(codes.codes, dtype=np.float64)
    np.testing.assert_allclose((C**2).sum(1), 1, rtol=1e-5)
    gram = np.abs(C @ C.T)
    np.fill_diagonal(gram, 0)
    assert codes.coherence == pytest.approx(gram.max(), rel=1e-12)
    assert coherence(codes.codes, block=7) == pytest.approx(gram.max(), rel=1e-12)
    bits = np.random.default_rng(0).integers(0, 2, T)
    twin = TrainablePositions(codes.codes[T : T + 2], codes.codes[:T], codes.codes[T + 2])
    np.testing.assert_array_equal(codes(bits), twin(bits))


def test_coherence_promise_of_the_dimension_formula():
    """d from Hoeffding's union bound: the draw fails with probability at most 1e-6."""
    T, mu = 37, 0.2
    d = IncoherentCodes.dimension_for(T, mu, 1e-6)
    assert IncoherentCodes(T, d, jax.random.key(7)).coherence <= mu


def test_encodings_run_under_vmap():
    batch = np.random.default_rng(2).integers(0, 2, (4, 3)).astype(np.uint8)
    X = jax.vmap(DeterministicPositions(3))(batch)
    assert isinstance(X, TwoHotTokens) and X.first.shape == (4, 4)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: DeterministicPositions(0), "T"),
        (lambda: OrthonormalBag(0), "T"),
        (lambda: IncoherentCodes(0, 3, jax.random.key(0)), "T"),
        (lambda: IncoherentCodes(3, 0, jax.random.key(0)), "d"),
        (lambda: IncoherentCodes(3, 5), "key"),
        (lambda: IncoherentCodes(3, 5, codes=jnp.ones((5, 5))), "codes"),
        (lambda: IncoherentCodes.dimension_for(3, 1.5, 0.1), "mu"),
        (lambda: IncoherentCodes.dimension_for(3, 0.5, 0.0), "failure"),
        (lambda: DeterministicPositions(4)(BITS), "bits"),
        (lambda: DeterministicPositions(3)(np.array([0, 1, 2])), "bits"),
        (lambda: DeterministicPositions(3)(np.array([0, 1, -1])), "bits"),
        (lambda: DeterministicPositions(3)(BITS) @ jnp.ones((5, 2)), "W"),
    ],
)
def test_mistakes_are_named(make, named):
    with pytest.raises(InputError, match=f"^{named}: wanted"):
        make()
