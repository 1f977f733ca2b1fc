"""Attacks on the covers: members of a class that are 2 eps apart, against the claimed number."""

import math
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.attention.parts.normalizers import NORMALIZERS, normalizer
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.head_bounds import linear_head, scalar_head
from capax.capacity.network.multi_head_bounds import ResidualHead, multi_head
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.assumptions import inputs_for, weighting_of

ADMISSIBLE = [name for name in NORMALIZERS if name != "hardmax"]
MEMBERS = 120


@cache
def compiled(norm):
    return jax.jit(lambda scores: norm(scores))


def weights_of(norm, scores):
    """One program per shape, not one per operation."""
    return np.asarray(compiled(norm)(scores))


def packing(outputs, eps):
    """A greedy set of members more than 2 eps apart somewhere: no ball of radius eps holds two."""
    kept = np.empty((0, outputs.shape[1], outputs.shape[2]))
    for member in outputs:
        distances = np.linalg.norm(kept - member, axis=2).max(axis=1)
        if not len(kept) or distances.min() > 2 * eps * (1 + 1e-12):
            kept = np.concatenate([kept, member[None]])
    return len(kept)


def members(rng, norm, m, T, d, k, B_QK, B_V):
    """Outputs [member, sequence, k] of heads with ||W_QK||_F = B_QK, ||W_V||_F = B_V."""
    X = rng.normal(size=(m, T + 1, d))
    X /= np.linalg.norm(X, axis=2, keepdims=True)
    W = rng.normal(size=(MEMBERS, d, d)) * rng.choice([0, 1], size=(MEMBERS, d, d))
    W *= B_QK / np.maximum(np.linalg.norm(W, axis=(1, 2), keepdims=True), 1e-9)
    V = rng.normal(size=(MEMBERS, d, k))
    V *= B_V / np.linalg.norm(V, axis=(1, 2), keepdims=True)
    scores = np.einsum("id,ndf,itf->nit", X[:, -1], W, X)
    weights = weights_of(norm, scores)
    pooled = np.einsum("nit,itd->nid", weights, X)
    return np.einsum("nid,ndk->nik", pooled, V), V


@settings(max_examples=10)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(ADMISSIBLE),
    st.sampled_from([(2, 1, 2), (3, 4, 3), (5, 7, 5)]),
    st.floats(-3, 4),
    st.floats(-3, 3),
    st.floats(0.02, 1.2),
)
def test_no_packing_of_heads_is_larger_than_the_cover(seed, name, sizes, log_QK, log_V, share):
    (m, T, d), rng, norm = sizes, np.random.default_rng(seed), normalizer(name)
    B_QK, B_V = math.exp(log_QK), math.exp(log_V)
    inputs, sample, eps = inputs_for(norm, 1.0), Sample(m, T), share * B_V
    outputs, _ = members(rng, norm, m, T, d, 1, B_QK, B_V)
    claimed = linear_head(B_QK, B_V, inputs=inputs, d=d).cover(sample, eps)
    assert math.log(packing(outputs, eps)) <= claimed.value
    outputs, V = members(rng, norm, m, T, d, 3, B_QK, B_V)
    columns = float(np.linalg.norm(V, axis=1).sum(axis=1).max())
    head = ResidualHead(
        MatrixNorms(B_QK, B_QK, B_QK, B_QK), MatrixNorms(B_V, B_V, columns, columns)
    )
    claimed = multi_head([head], d=d, d_out=3, inputs=inputs).cover(sample, eps)
    assert math.log(packing(outputs, eps)) <= claimed.value
    c = rng.normal(size=(MEMBERS, 3, 1))
    c /= np.linalg.norm(c, axis=1, keepdims=True)
    read = np.maximum(outputs, 0) @ c
    scalar = scalar_head(B_QK, B_V, columns, 1.0, k=3, W_V_F=B_V, inputs=inputs, d=d)
    assert math.log(packing(read, eps)) <= scalar.cover(sample, eps).value


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", "softmax", "sigmoid", "scaled_sigmoid"])
@pytest.mark.parametrize("half", [5, 50, 500])
def test_tiny_scores_turn_the_output_of_sparse_normalizers(name, half):
    """Half of the tokens +x_i, half -x_i: how small a score turns the output depends on Norm."""
    norm, num, eps = normalizer(name), 12, 0.25
    T, a, b = 2 * half - 1, 0.6, 0.8
    for size in np.logspace(-4, 2, 13):
        scores = np.repeat([size * a, -size * a], half)
        weights = weights_of(norm, scores)
        swing = b * (weights[:half].sum() - weights[half:].sum())
        if swing > eps:  # the sign of each of num sequences is free: 2^num functions 2 swing apart
            break
    head = linear_head(size * math.sqrt(num), 1.0, inputs=inputs_for(norm, 1.0))
    claimed = head.cover(Sample(num, T), eps).value
    assert swing <= eps or claimed >= num * math.log(2)


def test_one_unit_column_per_output_needs_its_own_element():
    for d_out in (3, 1000, 10**6):
        norms = MatrixNorms(1.0, 1.0, 1.0, 1.0)
        cls = multi_head([ResidualHead(norms, norms)], d=2, d_out=d_out)
        assert cls.cover(Sample(1, 1), 0.7).value >= math.log(2 * d_out)
        layer = PaperLayer(norms, norms, norms, 2, 2, d_out=d_out)
        pieces = paper_network([layer, PaperLayer(norms, norms, norms, d_out, 2)], 1.0)
        W_C = next(p for p in pieces.build(Sample(1, 1)) if p.name == "L0 W_C")
        assert (W_C.outputs, W_C.num_parameters) == (d_out, 2 * d_out)


@pytest.mark.parametrize("name", ADMISSIBLE)
def test_the_constant_is_that_of_the_sample(name):
    """||Norm(s) - Norm(s')||_1 <= C_N(T) ||s - s'||_inf, and the bound uses that T."""
    norm, rng = normalizer(name), np.random.default_rng(0)
    for T in (3, 400):
        weighting = weighting_of(norm)
        scores = rng.normal(size=(50, T)) * 10.0 ** rng.integers(-4, 2, size=(50, 1))
        steps = rng.choice([-1.0, 1.0], size=(50, T)) * 10.0 ** rng.integers(-4, 1, size=(50, 1))
        change = weights_of(norm, scores + steps) - weights_of(norm, scores)
        moved, step = np.abs(change).sum(axis=1), np.abs(steps).max(axis=1)
        assert (moved <= weighting.C_N(T) * step * (1 + 1e-6) + 1e-12).all()
        slope = weighting.slope(T)
        if slope is not None:
            assert (moved <= 2 * np.tanh(slope * step / 2) * (1 + 1e-6) + 1e-12).all()
        piece = linear_head(1.0, 1.0, inputs=inputs_for(norm, 1.0)).build(Sample(1, T))[0]
        assert piece.log_amplification == pytest.approx(math.log(norm.lipschitz(T + 1)))
