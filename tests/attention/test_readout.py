"""[CLS] read-outs: the worked example, the row of the full layer, a million tokens."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention import (
    BagOfVectors,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    NormalizedSoftplus,
    OrthonormalBag,
    TrainablePositions,
)

T, d, r, k, q = 7, 13, 3, 5, 2
# one program for all operations of a call
run = eqx.filter_jit(lambda model, *inputs, **options: model(*inputs, **options))


def draw(*shape, dtype=np.float64, seed=0):
    return jnp.asarray(np.random.default_rng((seed, *shape)).normal(size=shape).astype(dtype))


ENCODINGS = {
    "deterministic": lambda _: DeterministicPositions(T),
    "orthonormal bag": lambda _: OrthonormalBag(T),
    "trainable": lambda dtype: TrainablePositions(
        draw(2, d, dtype=dtype), draw(T, d, dtype=dtype), draw(d, dtype=dtype)
    ),
    "bag": lambda dtype: BagOfVectors(draw(T, d, dtype=dtype), draw(d, dtype=dtype)),
    "codes": lambda dtype: IncoherentCodes(T, d, jax.random.key(1), dtype=dtype),
}


def scalar_model(encoding, dtype=np.float64, **options):
    width = encoding.d
    shapes = ((width, r), (width, r), (width, k), (k, q), (q,))
    parts = [draw(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes)]
    return ClsScalar(encoding, *parts, **options)


@pytest.mark.parametrize("name", ENCODINGS)
def test_readout_is_a_row_of_the_full_layer(name):
    """In float64; and float32 gives the same numbers to its own precision."""
    bits = np.random.default_rng(0).integers(0, 2, T)
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-5)):
        encoding = ENCODINGS[name](dtype)
        model = scalar_model(encoding, dtype, activation="gelu", scale="sqrt")
        y, a = run(model, bits, return_weights=True)
        if dtype == np.float64:
            Y, A = map(np.asarray, run(model.layer(), encoding(bits), return_weights=True))
            wanted = Y[-1] @ np.asarray(model.w)
        np.testing.assert_allclose(a, A[0, -1], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)
        assert y.dtype == a.dtype == dtype


def test_and_of_two_bits_by_hand():
    """AND of bits 0 and 2 of 4 by detecting a zero: exact values of the construction."""
    kappa = jnp.asarray([4.0, 0, 4, 0, 0, -3, 3])
    v = jnp.asarray([0.0, 0, 0, 0, 0, 0, 1])
    W_V = jnp.asarray([1.0, 0, 1, 0, 0, 0, -1])
    model = ClsScalar(
        DeterministicPositions(4),
        v[:, None],
        kappa[:, None],
        W_V[:, None],
        jnp.ones((1, 1)),
        jnp.ones(1),
    )
    e = math.e
    f = eqx.filter_jit(model)
    want = (2 * e - e**3) / (2 * e + 2 * e**-3 + e**3)
    assert float(f(np.array([1, 1, 1, 1]))) == pytest.approx(want, rel=1e-13)
    values = {b: float(f(np.array(b))) for b in itertools.product((0, 1), repeat=4)}
    assert all((y < 0) == bool(b[0] and b[2]) for b, y in values.items())
    margin = (e**4 + e - e**3) / (e**4 + e + e**3 + 2)
    assert min(abs(y) for y in values.values()) == pytest.approx(margin, rel=1e-13)


def test_mlp_readout_against_numpy():
    encoding = DeterministicPositions(T)
    n, width = 11, T + 3
    parts = [
        draw(*s, seed=i)
        for i, s in enumerate(((width, r), (width, r), (width, k), (k, n), (n,), (n,), ()))
    ]
    model = ClsMLP(encoding, *parts, norm=NormalizedSoftplus())
    W_Q, W_K, W_V, W_1, b_1, w_2, b_2 = map(np.asarray, parts)
    bits = np.array([1, 0, 0, 1, 1, 0, 1])
    X = np.asarray(encoding(bits).dense())
    h = np.log1p(np.exp(X @ W_K @ W_Q.T @ X[-1]))
    u = (h / h.sum()) @ X @ W_V
    want = w_2 @ np.maximum(W_1.T @ u + b_1, 0) + b_2
    y, a = run(model, bits, return_weights=True)
    assert float(y) == pytest.approx(float(want), rel=1e-11)
    np.testing.assert_allclose(a, h / h.sum(), rtol=1e-11)


def test_mask_is_deleting_tokens():
    E, P, v = draw(2, d), draw(T, d), draw(d)
    model = scalar_model(TrainablePositions(E, P, v))
    keep = np.array([1, 1, 0, 1, 0, 1, 1], dtype=bool)
    kept = TrainablePositions(E, jnp.asarray(np.asarray(P)[keep]), v)
    short = eqx.tree_at(lambda m: m.encoding, model, kept)
    bits = np.random.default_rng(3).integers(0, 2, T)
    y, a = run(model, bits, mask=jnp.asarray(keep), return_weights=True)
    np.testing.assert_allclose(y, run(short, bits[keep]), atol=1e-12)
    assert np.all(np.asarray(a)[:-1][~keep] == 0)


def test_a_million_bits():
    """AND of 3 of 10^6 bits by zero detection, lazily: the right sign in memory O(T)."""
    n = 10**6
    encoding = DeterministicPositions(n)
    support = np.array([5, 777, 123_456])
    a, D, omega = 19.0, 9.0, 0.05
    a_cls = a + math.log(omega)
    b = (D - a_cls) / 3
    kappa = np.zeros(n + 3, np.float32)
    kappa[support], kappa[n], kappa[n + 1], kappa[n + 2] = a, b, b - D, a_cls + b
    value = np.zeros((n + 3, 1), np.float32)
    value[support], value[n + 2] = 1.0, -1.0
    query = np.zeros((n + 3, 1), np.float32)
    query[n + 2] = 1.0
    ones = np.ones((1, 1), np.float32)
    model = ClsScalar(encoding, *map(jnp.asarray, (query, kappa[:, None], value, ones, ones[0])))
    f = eqx.filter_jit(model)
    bits = np.random.default_rng(0).integers(0, 2, n).astype(np.uint8)
    bits[support] = 1
    assert float(f(bits)) < -0.5
    bits[777] = 0
    assert float(f(bits)) > 0.5


def test_gradients_reach_every_weight():
    model = scalar_model(TrainablePositions(draw(2, d), draw(T, d), draw(d)))
    bits = np.array([1, 0, 1, 1, 0, 0, 1])
    gradient = eqx.filter_jit(eqx.filter_grad(lambda m: m(bits)))(model)
    for leaf in jax.tree.leaves(gradient):
        assert np.all(np.isfinite(leaf)) and np.any(np.asarray(leaf) != 0)


def test_shapes_that_do_not_fit_are_refused():
    """The import hook of the tests sees most of these first; both errors name the argument."""
    good = scalar_model(DeterministicPositions(T))
    for name, shape in {
        "W_K": (T + 3, r + 1),
        "W_V": (T + 2, k),
        "W_C": (k + 1, q),
        "w": (q + 1,),
    }.items():
        parts = {n: getattr(good, n) for n in ("encoding", "W_Q", "W_K", "W_V", "W_C", "w")}
        with pytest.raises((ValueError, TypeError), match=name):
            ClsScalar(**{**parts, name: jnp.ones(shape)})
    with pytest.raises((ValueError, TypeError), match="W_Q"):
        ClsScalar(**{**parts, "encoding": DeterministicPositions(T + 1)})
