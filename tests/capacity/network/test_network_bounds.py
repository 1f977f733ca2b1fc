"""Theorem 4.7: the amplifications hold on random networks; any depth and T print."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.capacity.linear.norms import MatrixNorms, matrix_norms, product_norms
from capax.capacity.network.network_bounds import (
    PaperLayer,
    ResidualBlock,
    paper_network,
    residual_network,
)
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.stages import log_attention_lipschitz
from capax.errors import InputError


def softmax_rows(S):
    W = np.exp(S - S.max(axis=1, keepdims=True))
    return W / W.sum(axis=1, keepdims=True)


def project(Y, r=1.0):
    return Y / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True) / r, 1.0)


def paper_forward(layers, X):
    for Q, V, C in layers:
        X = project(np.maximum(project(softmax_rows(X @ Q @ X.T) @ X @ V), 0) @ C)
    return X


def longest(M):
    return float(np.linalg.norm(M, axis=1).max())


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.floats(-5, 0), st.integers(1, 3))
def test_amplifications_bound_the_error_of_perturbed_networks(seed, log_size, depth):
    """Perturb all weights; measure each piece's own error at the perturbed activations; compare."""
    rng = np.random.default_rng(seed)
    d, k, T = 5, 3, 4
    size = math.exp(log_size)
    true = [tuple(rng.normal(size=s) for s in ((d, d), (d, k), (k, d))) for _ in range(depth)]
    near = [tuple(W + size * rng.normal(size=W.shape) for W in layer) for layer in true]
    X0 = project(rng.normal(size=(T, d)))
    w = rng.normal(size=d)
    norms = [PaperLayer(*(matrix_norms(W) for W in (Q, V, C)), d, k) for Q, V, C in true]
    pieces = paper_network(norms, float(np.linalg.norm(w))).build(Sample(1, T - 1))
    alpha = {p.name: math.exp(p.log_amplification) for p in pieces}
    bound, Y = 0.0, X0
    for i, ((Q, V, C), (Q2, V2, C2)) in enumerate(zip(true, near, strict=True)):
        weights = softmax_rows(Y @ Q2 @ Y.T)
        hidden = np.maximum(project(weights @ Y @ V2), 0)
        bound += alpha[f"L{i} W_QK"] * float(np.abs(Y @ (Q - Q2) @ Y.T).max())
        bound += alpha[f"L{i} W_V"] * longest(weights @ Y @ (V - V2))
        bound += alpha[f"L{i} W_C"] * longest(hidden @ (C - C2))
        Y = project(hidden @ C2)
    moved = np.abs((paper_forward(true, X0) - Y) @ w).max()
    assert moved <= bound * (1 + 1e-9)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 2), st.floats(-8, 0))
def test_the_attention_map_is_as_lipschitz_as_claimed(seed, log_scale, log_step):
    rng = np.random.default_rng(seed)
    X = project(rng.normal(size=(4, 3)), 1.5)
    Y = project(X + math.exp(log_step) * rng.normal(size=X.shape), 1.5)
    Q, V = rng.normal(size=(3, 3)) * math.exp(log_scale), rng.normal(size=(3, 2))
    moved = longest(softmax_rows(X @ Q @ X.T) @ X @ V - softmax_rows(Y @ Q @ Y.T) @ Y @ V)
    slope = math.exp(log_attention_lipschitz(float(np.linalg.norm(Q, 2)), math.log(1.5)))
    assert moved <= np.linalg.norm(V, 2) * slope * longest(X - Y) * (1 + 1e-9)


def residual_forward(blocks, X, r):
    for heads, W_1, W_2 in blocks:
        X = project(X + sum(softmax_rows(X @ Q @ X.T) @ X @ VO for Q, VO in heads), r)
        X = project(X + np.maximum(X @ W_1, 0) @ W_2, r)
    return X


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(-5, 0))
def test_residual_amplifications(seed, log_size):
    rng = np.random.default_rng(seed)
    d, n, T, r, depth, size = 5, 7, 4, 1.3, 2, math.exp(log_size)

    def draw():
        heads = tuple((rng.normal(size=(d, d)), rng.normal(size=(d, d))) for _ in range(2))
        return heads, rng.normal(size=(d, n)), rng.normal(size=(n, d))

    def shake(W):
        return W + size * rng.normal(size=W.shape)

    true = [draw() for _ in range(depth)]
    near = [
        (tuple((shake(Q), shake(VO)) for Q, VO in heads), shake(W_1), shake(W_2))
        for heads, W_1, W_2 in true
    ]
    X0, w = project(rng.normal(size=(T, d)), r), rng.normal(size=d)
    norms = [
        ResidualBlock(
            tuple((matrix_norms(Q), matrix_norms(VO)) for Q, VO in heads),
            matrix_norms(W_1),
            matrix_norms(W_2),
            d,
            n,
        )
        for heads, W_1, W_2 in true
    ]
    network = residual_network(norms, float(np.linalg.norm(w)), B_X=r)
    alpha = {p.name: math.exp(p.log_amplification) for p in network.build(Sample(1, T - 1))}
    bound, Y = 0.0, X0
    for i, ((heads, W_1, W_2), (near_heads, V_1, V_2)) in enumerate(zip(true, near, strict=True)):
        step = np.zeros_like(Y)
        for h, ((Q, VO), (Q2, VO2)) in enumerate(zip(heads, near_heads, strict=True)):
            weights = softmax_rows(Y @ Q2 @ Y.T)
            step += weights @ Y @ VO2
            bound += alpha[f"L{i} h{h} W_QK"] * float(np.abs(Y @ (Q - Q2) @ Y.T).max())
            bound += alpha[f"L{i} h{h} W_VO"] * longest(weights @ Y @ (VO - VO2))
        Y = project(Y + step, r)
        hidden = np.maximum(Y @ V_1, 0)
        bound += alpha[f"L{i} W_1"] * longest(Y @ (W_1 - V_1))
        bound += alpha[f"L{i} W_2"] * longest(hidden @ (W_2 - V_2))
        Y = project(Y + hidden @ V_2, r)
    moved = np.abs((residual_forward(true, X0, r) - Y) @ w).max()
    assert moved <= bound * (1 + 1e-9)


ONE = MatrixNorms(2.0, 3.0, 5.0, 5.0)


def two_layers(qk=ONE, v=ONE, c=ONE, w=1.5, project=True):
    return paper_network([PaperLayer(qk, v, c, 11, 7)] * 2, w, B_X=1.2, project=project)


def test_closed_form_of_two_layers_by_hand():
    m, T = 13, 17
    total = 0.0
    after = 1.5
    for B, N_s, N_v in ((1.0, m * 18, m), (1.2, m * 18 * 18, m * 18)):
        qk = (3 * B * B) ** 2 * math.log(2 * N_s + 1)
        v = 2 * (5 * B) ** 2 * math.log(128 * 7 * N_v + 1)
        c = 2 * 25.0 * math.log(128 * 11 * N_v + 1)
        for C, local in ((qk, 2 * 2 * B), (v, 2.0), (c, 1.0)):
            total += ((after * local) ** 2 * C) ** (1 / 3)
        after *= 2 * 2 * (1 + 2 * 2 * B * B)
    total += (1.5**2 * math.log(2 * m + 1)) ** (1 / 3)
    assert math.exp(two_layers().log_C(Sample(m, T))) == pytest.approx(total**3, rel=1e-9)


@pytest.mark.parametrize("shape", ["projected", "unbounded", "layer_norm"])
def test_a_hundred_layers_and_a_billion_tokens_print(shape):
    block = ResidualBlock(((ONE, ONE),) * 2, ONE, ONE, 64, 256)
    network = residual_network([block] * 100, 1.0, B_X=8.0, shape=shape)
    bound = network.cover(Sample(10**6, 10**9), 1e-3)
    assert "ln N <=" in bound.explain()
    assert "10^" in bound.explain()
    json.dumps(bound.to_json(), allow_nan=False)
    assert math.isfinite(bound.log_value)


def test_deep_norm_route_exceeds_floats_but_not_logs():
    layers = [PaperLayer(MatrixNorms(1e4, 1e4, 1e5, 1e5), ONE, ONE, 64, 16)] * 100
    bound = paper_network(layers, 1.0).cover(Sample(1000, 10**9), 0.1)
    assert paper_network(layers, 1.0).log_C(Sample(1000, 10**9)) > 710
    assert "counted by parameters" in " ".join(bound.notes)


@settings(max_examples=20)
@given(st.integers(0, 2), st.floats(1.0, 5.0), st.floats(0.01, 3.0), st.booleans())
def test_depth_bounds_grow_with_every_norm(which, up, eps, projected):
    sample = Sample(100, 50)
    base = two_layers(project=projected).cover(sample, eps).log_value
    for field in ("norm_2", "norm_F", "norm_2_1"):
        changed = MatrixNorms(**{**ONE.to_json(), field: getattr(ONE, field) * up})
        larger = two_layers(**{("qk", "v", "c")[which]: changed}, project=projected)
        assert larger.cover(sample, eps).log_value >= base - 1e-9
    assert two_layers(project=projected).cover(sample, eps * up).log_value <= base + 1e-9
    assert two_layers(project=projected).cover(Sample(100, 500), eps).log_value >= base - 1e-9


def test_more_layers_cost_more():
    values = [
        paper_network([PaperLayer(ONE, ONE, ONE, 11, 7)] * n, 1.0).log_C(Sample(10, 10))
        for n in (1, 2, 3, 4)
    ]
    assert values == sorted(values)
    growth = np.diff(values)
    assert growth[-1] == pytest.approx(2 * math.log(4 * (1 + 4)), rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper_network([], 1.0), "layers"),
        (lambda: paper_network([PaperLayer(ONE, ONE, ONE, 3, 2)], 0.0), "w_2"),
        (lambda: residual_network([], 1.0), "blocks"),
        (
            lambda: residual_network(
                [ResidualBlock(((ONE, ONE),), None, None, 3, 1)], 1.0, layer_norm_eps=0.0
            ),
            "layer_norm_eps",
        ),
        (lambda: product_norms(np.ones((3, 2)), np.ones((3, 1))), "same number of columns"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(InputError, match=message):
        call()
