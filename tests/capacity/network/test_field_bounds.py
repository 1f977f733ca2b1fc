"""The bounds of the field: what each rests on is attacked, and the comparison is a comparison."""

import json
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from capax.capacity.complexity.chaining import rademacher_from_cover, rademacher_from_log_cover
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.field_bounds import (
    HeadNorms,
    deep_bounds,
    field_bounds,
    memorised,
    mlp_bound,
)
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.sample_points import Sample
from capax.figures.theory.field_map import conjunction_mlp, conjunction_norms, winners

NORMS = HeadNorms(2.0, 3.0, 4.0, 1.0, 1.5, d=16)


def pooled(X, W, z):
    scores = X @ W.T @ z
    weights = np.exp(scores - scores.max())
    return weights @ X / weights.sum()


def coordinate_limit(B_X, distance, C_N=1.0, power=3):
    """How far a coordinate of X^T a moves when W moves by `distance` in Frobenius norm."""
    return C_N * B_X**power * distance


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), B=st.floats(0.2, 3), size=st.floats(0.01, 3))
def test_a_coordinate_moves_no_further_than_the_cover_says(seed, B, size):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, 3))
    X *= B / np.linalg.norm(X, axis=1).max()
    z = rng.normal(size=3)
    z *= B / np.linalg.norm(z)
    W = rng.normal(size=(3, 3))
    V = W + size * rng.normal(size=(3, 3)) * (rng.random((3, 3)) < 0.4)
    moved = np.abs(pooled(X, W, z) - pooled(X, V, z)).max()
    assert moved <= coordinate_limit(B, np.linalg.norm(W - V)) * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize("B", [0.5, 1.0, 2.0])
def test_two_opposite_tokens_attain_it(B):
    """x = B tanh(w B^2): the slope at 0 is B^3, so neither C_N < 1 nor another power will do."""
    X, z, e = np.array([[B], [-B]]), np.array([B]), 1e-5 / B**2
    moved = abs(float(pooled(X, np.array([[e]]), z)[0]))
    assert moved == pytest.approx(coordinate_limit(B, e), rel=1e-6)
    assert moved > coordinate_limit(B, e, C_N=0.9)
    if B > 1:  # B_X^4 in the cover stands for B_X^2 here
        assert moved > coordinate_limit(B, e, power=2)


def test_who_depends_on_what():
    short, long = (
        {b.name: b.complexity(10**9) for b in field_bounds(NORMS, T)} for T in (10**2, 10**8)
    )
    for bound in field_bounds(NORMS, 100):
        assert (short[bound.name] == long[bound.name]) == bound.length_free
        assert bound.source and bound.assumptions
    assert short["Trauger-Tewari, C_N = 1"] < short["Trauger-Tewari"]
    wide = HeadNorms(2.0, 3.0, 4.0, 1.0, 1.5, d=10**6)
    by_name = {b.name: b.complexity(10**9) for b in field_bounds(wide, 100)}
    assert by_name["Trauger-Tewari"] > short["Trauger-Tewari"]  # ln d


def test_one_hot_positions_bring_the_length_back():
    needed = [
        {b.name: b.needed(0.1, 0.05) for b in field_bounds(conjunction_norms(T), T)}
        for T in (10, 10**4)
    ]
    assert all(needed[1][name] > 1.5 * m for name, m in needed[0].items())
    mlp = [conjunction_mlp(T).needed(0.1, 0.05) for T in (100, 10**4)]
    assert 100 < mlp[1] / mlp[0] < 400  # linear in T, and a logarithm


def test_the_conjunction_is_inside_its_norms():
    """The AND of three bits by one ReLU unit has the norms and the margin that are counted."""
    s, T = 3, 9
    first = np.zeros((1, T + 1))
    first[0, :s], first[0, -1] = 1.0, -(s - 1.0)
    last = np.array([[1.0, -0.5]])
    corners = np.arange(1 << T)[:, None] >> np.arange(T) & 1
    X = np.hstack([corners, np.ones((1 << T, 1))])
    hidden = np.hstack([np.maximum(X @ first.T, 0), np.ones((1 << T, 1))])
    f = (hidden @ last.T)[:, 0]
    y = np.where(corners[:, :s].all(axis=1), 1, -1)
    assert (y * f).min() == 0.5 and np.linalg.norm(X, axis=1).max() == math.sqrt(T + 1)
    shown = conjunction_mlp(T).norms
    assert shown["A_1_2"] == pytest.approx(np.linalg.norm(first, 2))
    assert shown["A_2_2"] == pytest.approx(np.linalg.norm(last, 2))


def test_spectral_complexity_by_hand():
    """(prod s)^2 (sum (b/s)^(2/3))^3 B^2 ln(2 W^2)/gamma^2, and the chain of it."""
    made = mlp_bound([(2.0, 3.0), (0.5, 1.0)], width=8, B_X=3.0, margin=0.25)
    C = 1.0 * ((1.5) ** (2 / 3) + 2.0 ** (2 / 3)) ** 3 * 9 * math.log(128) / 0.0625
    m = 10**7
    kappa = math.sqrt(2 * C / m)
    levels = [kappa * (n * (0.5 / kappa) ** (1 / n) + n - 1) for n in range(1, 12)]
    assert made.complexity(m) == pytest.approx(min(levels), rel=1e-9)


@pytest.mark.parametrize("B_X", [0.5, 2.0])
def test_a_cover_of_entries_by_hand(B_X):
    """ln N <= ln 2d + ((C_N B^3 ||W||_{1,1} / e)^2 + 1) ln(2 d^2 + 1) for pooled coordinates."""
    norms = HeadNorms(W_QK_F=0.02, W_QK_T_21=0.03, W_QK_11=0.04, v_2=1.0, v_1=1.5, d=16, B_X=B_X)

    def log_cover(eps):
        return math.log(32) + ((B_X**3 * 0.04 / eps) ** 2 + 1) * math.log(513)

    m = 10**9
    chained = rademacher_from_log_cover(log_cover, B_X, m, external=True)
    found = {b.name: b for b in field_bounds(norms, 100)}["Trauger-Tewari, C_N = 1"]
    assert found.complexity(m) < 0.5
    assert found.complexity(m) == pytest.approx(1.5 * chained / norms.margin, rel=1e-9)


def test_entries_are_counted_at_the_best_split_of_the_error():
    """Pieces covered at e_p cost C_p/e_p^2 and are seen through alpha_p: no split of the error is
    cheaper than the stated one, which an optimiser over splits finds again."""
    sizes = MatrixNorms(norm_2=1.3, norm_F=1.9, norm_2_1=2.5, norm_2_1_T=2.4, norm_1_1=4.0)
    layer, gamma, m = PaperLayer(sizes, sizes, sizes, d=5, k=4, L_sigma=0.7), 0.25, 10**12
    entries, seen = [], []
    for piece in paper_network([layer] * 2, 1.5).build(Sample(1, 1)):
        n, size = piece.num_parameters, math.exp(piece.log_scale_entries)
        if math.isinf(size):  # the read-out: ||w||_1 <= sqrt(n) ||w||_2
            size = math.sqrt(n) * math.exp(piece.log_scale)
        entries.append(2 * size**2 * math.log(2 * n + 1))
        seen.append(math.exp(piece.log_amplification))
    entries, seen = np.array(entries), np.array(seen)

    def cost(logits):
        share = np.exp(logits) / np.exp(logits).sum()
        return math.log(float((entries * (seen / share) ** 2).sum()))

    best = math.exp(minimize(cost, np.zeros(len(seen)), tol=1e-12).fun)
    stated = deep_bounds(layer, 2, 1.5, 100, margin=gamma)[1].complexity(m)
    expected = rademacher_from_cover(best / gamma**2, 0.5, m, external=True)
    assert 0 < stated < 0.4 and stated == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("H", "n", "d_h"), [(1, 4, 7), (3, 4, 7), (2, 6, 4), (4, 5, 5)])
def test_heads_memorise_as_many_examples(H, n, d_h):
    """Features of random heads on one context: their rank is what can be fitted exactly."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d_h + 3))
    examples = memorised(H, n, d_h)
    features = [np.ones((examples, 1))]
    for _ in range(H):
        read = X @ rng.normal(size=(d_h + 3, d_h))
        scores = rng.normal(size=(examples, 5)) @ rng.normal(size=(5, n))
        weights = np.exp(scores)
        features.append(weights / weights.sum(1, keepdims=True) @ read)
    assert np.linalg.matrix_rank(np.hstack(features[1:])) >= examples


def test_the_map_has_regions():
    names, chosen = winners(None, 0.1, 0.05, (10, 10**8), (0.1, 300.0))
    assert len(names) == 5 and len(set(chosen.ravel().tolist())) >= 2
    few = names.index("parameter counting")
    assert chosen[1, 0] == few and chosen[1, 1] != few


def test_the_command(tmp_path, warm_commands):
    run = partial(warm_commands.capax, "bound", "--compare", folder=tmp_path)
    found = json.loads(run("-T", "100", "-m", "1000000", "--json").stdout)
    rows = {row["statement"]: row for row in found["bounds"]}
    assert len(rows) == 6 and found["d"] == 103
    assert found["smallest"] == min(rows, key=lambda name: rows[name]["m_needed"])
    assert all(row["source"] and row["assumptions"] and row["status"] for row in rows.values())
    own = run("--norms", "W_QK=1,v=1,W_QK_11=2", "--json")
    assert json.loads(own.stdout)["bounds"][2]["norms"]["W_QK_11"] == 2.0
    deep = json.loads(run("--layers", "3", "--json").stdout)
    assert [row["length_free"] for row in deep["bounds"]] == [False, True]
    for words, message in (
        (("--norms", "W_V=1,w=1"), "--norms"),
        (("--norms", "W_QK=1e300,v=1"), "at most 1e+60"),
        (("--layers", "0"), "--layers: wanted an integer in 1..1000"),
        (("--layers", "100000"), "--layers: wanted an integer in 1..1000"),
        (("-T", str(10**30)), "T: wanted at most"),
    ):
        refused = run(*words)
        assert refused.returncode == 2 and message in refused.stderr
