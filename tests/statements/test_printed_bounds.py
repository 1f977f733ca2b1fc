"""The paper's capacity bounds: above every packing when corrected, below one as printed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from capax.capacity.complexity.rademacher import rademacher_exact
from capax.capacity.linear.linear_classes import (
    log_cover_lower,
    log_cover_matrix_21,
    log_cover_vector,
    zhang_bound,
)
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.paper_network import PaperLayer, paper_network
from capax.capacity.network.sample_points import Sample
from capax.errors import InputError
from capax.statements.checking import CHECKS
from capax.statements.forms import printed_bounds as bounds
from capax.statements.forms.sign_packing import SignPacking, trained_position_outputs

packings = st.builds(SignPacking, st.integers(1, 10**6), st.floats(0.1, 100), st.floats(0.05, 3.0))


def sizes(made):
    return {"d": made.d, "m": made.m, "T": 3}


def test_the_packing_is_what_it_says():
    made = SignPacking(6, B_X=1.7, s=0.8)
    for number in range(64):
        sigma = np.array([1.0 if number >> i & 1 else -1.0 for i in range(6)])
        assert np.allclose(made.outputs(sigma), made.h * sigma, atol=1e-12)
    W = made.head(np.ones(6))
    assert math.isclose(np.linalg.norm(W.W_QK, axis=1).sum(), made.c)
    assert math.isclose(np.linalg.norm(W.W_QK, 2), made.c)
    assert not (W.W_K.T @ W.W_Q).any()
    assert np.linalg.norm(made.sequence(2), axis=1).max() <= 1.7 + 1e-12


@given(packings)
def test_no_packing_of_heads_is_larger_than_the_corrected_bounds(made):
    eps, B = 0.999 * made.h, made.B_X
    head = bounds.corollary_4_5_printed(1.0, 1.0, made.c, eps, B_X=B, **sizes(made))
    assert made.log_size <= head
    positions = bounds.lemma_a_11(1.0, 1.0, made.c, eps, B_X=B / 3, B_P=2 * B / 3, **sizes(made))
    several = bounds.lemma_a_12([(1.0, 1.0, made.c)], eps, B_X=B, **sizes(made))
    assert math.isclose(positions, head) and math.isclose(several, head)
    if B <= 1:  # depth is stated for tokens of length at most 1
        layer = bounds.LayerBounds(made.c, 1.0, 1.0, made.c, 1.0, 1.0)
        for B_w in (1e-3, 1.0, 1e9):
            deep = bounds.theorem_a_17([layer], B_w, eps * B_w, k=1, **sizes(made))
            assert made.log_size <= deep


def test_printed_bounds_fail_for_long_tokens():
    for B, factor in ((1e3, 1e2), (1e5, 1e6)):  # the ratio grows without limit
        made = SignPacking(int(B**3), B_X=B)
        eps = 0.999 * made.h
        for version in ("main text", "appendix"):
            found = bounds.corollary_4_5_printed(
                1.0, 1.0, made.c, eps, B_X=B, version=version, **sizes(made)
            )
            assert made.log_size > factor * found
        arguments = {"B_X": B, "printed": True, **sizes(made)}
        assert made.log_size > factor * bounds.lemma_a_11(1.0, 1.0, made.c, eps, **arguments)
        assert made.log_size > factor * bounds.lemma_a_12([(1.0, 1.0, made.c)], eps, **arguments)
    for m, factor in ((10**4, 50), (10**6, 3000)):
        made, B_w = SignPacking(m), 1e20
        layer = bounds.LayerBounds(made.c, 1.0, 1.0, made.c, 1.0, 1.0)
        deep = {"k": 1, **sizes(made)}
        eps = 0.999 * made.h * B_w
        assert made.log_size > factor * bounds.theorem_a_17([layer], B_w, eps, printed=True, **deep)
        assert made.log_size <= bounds.theorem_a_17([layer], B_w, eps, **deep)


@given(st.lists(st.tuples(st.floats(0.01, 9), st.floats(0, 9)), min_size=1, max_size=5))
def test_depth_as_printed_and_as_corrected(pairs):
    gains, errors = [g for g, _ in pairs], [e for _, e in pairs]
    error = 0.0
    for gain, own in pairs:
        error = gain * error + own
    assert math.isclose(bounds.summed_errors(gains, errors, printed=False), error, abs_tol=1e-12)
    assert bounds.summed_errors((1.0, 5.0, 10.0), (1.0,) * 3, printed=True) == 7  # not 61
    n = 0.2 + gains[0] / 9
    norms = MatrixNorms(n, 2 * n, 2 * n, 2 * n)
    layers = len(pairs)
    ours = paper_network([PaperLayer(norms, norms, norms, d=8, k=4)] * layers, 2.0)
    paper = bounds.theorem_4_7_equal_layers(n, 2 * n, layers, 2.0, 0.3, d=8, k=4, m=50, T=10)
    assert ours.cover(Sample(50, 10), 0.3).value <= paper


@given(st.floats(0.1, 60), st.integers(1, 5000))
def test_zhang_lies_above_a_packing_and_a_proved_cover(ratio, N):
    lower = log_cover_lower(ratio, 1.0, 1.0, N)
    assert lower <= log_cover_vector(ratio, 1.0, 1.0, N, internal=True)
    assert log_cover_vector(ratio, 1.0, 1.0, N, internal=True) <= zhang_bound(ratio, 1.0, 1.0, N)


def test_a_hundredth_of_zhang_is_too_small():
    assert log_cover_lower(40.0, 1.0, 1.0, 10**6) > zhang_bound(40.0, 1.0, 1.0, 10**6) / 400
    lower, zhang = log_cover_lower(40.0, 1.0, 1.0, 10**6), zhang_bound(40.0, 1.0, 1.0, 10**6)
    assert lower > 0.1 / 36 * zhang  # a constant of 0.1 in place of 36 fails


@given(st.floats(0.1, 30), st.integers(1, 8), st.integers(1, 2000), st.floats(0.05, 0.95))
def test_the_two_stages_of_lemma_4_6_are_above_a_packing_and_our_cover(ratio, d_1, N, share):
    paper = bounds.lemma_4_6_two_stages(1.0, ratio, 1.0, d_1, N, share=share)
    assert log_cover_lower(ratio, 1.0, 1.0, N) <= paper
    assert log_cover_matrix_21(ratio, 1.0, 1.0, N, d_1) <= paper


def test_any_split_and_any_covers_serve_the_head():
    assert CHECKS["4.2"]().holds
    at = bounds.theorem_4_2_split(
        lambda e: 1 / e**2, lambda e: 3 / e**2, 0.5, 0.25, B_in=2.0, B_X=3.0, L_out=5.0
    )
    assert math.isclose(at, (2 * 5 * 2 * 3 / (0.25 * 0.5)) ** 2 + 3 * (5 / (0.75 * 0.5)) ** 2)
    with pytest.raises(InputError, match="alpha: wanted a share"):
        bounds.theorem_4_2_split(float, float, 0.5, 1.0, B_in=1.0, B_X=1.0)


def test_rademacher_of_two_constants_is_a_binomial_coefficient():
    for m in (1, 2, 5, 8):
        value = rademacher_exact(np.array([np.zeros(m), np.ones(m)])).value
        mean = sum(math.comb(m, k) * max(0, 2 * k - m) for k in range(m + 1)) / 2**m / m
        assert math.isclose(value, mean)


def test_dudley_is_above_the_exact_complexity():
    values = np.array([np.zeros(6), np.ones(6), [1, 0, 1, 0, 1, 0]])
    R = rademacher_exact(values).value

    def log_cover(eps):
        return math.log(3) if eps < 1 else 0.0

    found = [bounds.dudley_printed(log_cover, 1.0, 6, delta=d) for d in (0.0, 0.1, 0.5)]
    assert min(found) >= R
    assert math.isclose(found[0], 12 * math.sqrt(math.log(3) / 6), rel_tol=1e-9)
    assert 0.02 * min(found) < R  # a constant fifty times smaller would not do


@given(st.floats(1e-4, 9), st.floats(1e-3, 9), st.integers(1, 10**6))
def test_the_corrected_form_is_the_infimum(C, A, m):
    scale = math.sqrt(C / m)
    deltas = np.append(np.geomspace(A * 1e-9, A, 4001), min(scale, A))
    least = float((deltas + scale * np.log(A / deltas)).min())
    assert math.isclose(bounds.rademacher_corrected(C, A, m, c=1.0), least, rel_tol=1e-9)
    if scale > math.e * A:
        assert bounds.rademacher_printed(C, A, m) < 0


@pytest.mark.parametrize("m", [1, 3, 40, 400])
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.01])
def test_deviations_of_coins_stay_within_the_corrected_bound(m, delta):
    k = np.arange(m + 1)
    mass = binom.pmf(k, m, 0.5)
    R = float((mass * np.maximum(0, 2 * k - m)).sum()) / m  # of {0, 1}: E max(0, sum)/m
    far = np.abs(k / m - 0.5) > bounds.deviation_corrected(R, m, delta)
    assert mass[far].sum() <= delta
    one = np.abs(k / m - 0.5) > bounds.deviation_printed(0.0, m, delta)  # one function: R = 0
    assert (mass[one].sum() > delta) == (m == 1 and delta == 0.9)


def test_lemma_a_5_is_a_3_and_a_4():
    C, m, delta = 0.7, 500, 0.1
    scale = math.sqrt(C / m)
    R = 12 * scale * (1 + math.log(2 / scale))
    wanted = 2 * 3 * R + 3 * 5 * math.sqrt(math.log(4 / delta) / (2 * m))
    assert math.isclose(bounds.lemma_a_5(C, 2.0, m, delta, L=3.0, b=5.0), wanted)


def test_equal_heads_cost_their_cube():
    one, four = (bounds.lemma_a_12([(2.0, 1.0, 3.0)] * H, 0.1, d=4, m=5, T=6) for H in (1, 4))
    assert math.isclose(four, 64 * one)


def test_trained_positions_tell_all_sign_vectors_apart():
    for number in range(2**6):
        signs = np.array([1.0 if number >> i & 1 else -1.0 for i in range(6)])
        X = np.stack([np.eye(6), np.broadcast_to(signs, (6, 6))], axis=2)  # [i, t]: mark, position
        weights = np.exp(8 * X[..., 0])
        plain = (weights * X[..., 1]).sum(1) / weights.sum(1)
        assert np.allclose(trained_position_outputs(signs), plain)
        assert (np.sign(plain) == signs).all()


def test_every_formula_by_hand():
    """Distinct primes in every place: a factor or a power that is lost changes the number."""
    one = bounds.LayerBounds(B_QK=2.0, B_V=3.0, B_C=5.0, B_QK_21=7.0, B_V_21=11.0, B_C_21=13.0)
    two = bounds.LayerBounds(B_QK=0.5, B_V=0.7, B_C=1.1, B_QK_21=1.3, B_V_21=1.7, B_C_21=1.9)
    L, B_w, eps, d, k, m, T = 1.5, 17.0, 0.3, 19, 23, 29, 31
    gains = {one: L * 5 * 3 * (1 + 4 * 2), two: L * 1.1 * 0.7 * (1 + 4 * 0.5)}
    assert all(math.isclose(layer.gain(L), gain) for layer, gain in gains.items())

    def inside(c_21, c, v, qk_21, v_21):
        parts = (c_21, d * 2 * L * c * v * qk_21, k * L * c * v_21)
        return sum(part ** (2 / 3) for part in parts)

    first, second = inside(13, 5, 3, 7, 11), inside(1.9, 1.1, 0.7, 1.3, 1.7)
    right = B_w ** (2 / 3) * (1 + gains[two] ** (2 / 3) * first + second)
    wrong = B_w ** (2 / 3) + first + gains[one] ** (2 / 3) * second
    factor = math.log(d * m * T) / eps**2
    sizes = {"d": d, "k": k, "m": m, "T": T, "L_sigma": L}
    assert math.isclose(bounds.theorem_a_17([one, two], B_w, eps, **sizes), factor * right**3)
    printed = bounds.theorem_a_17([one, two], B_w, eps, printed=True, **sizes)
    assert math.isclose(printed, factor * wrong**3)
    head = {"d": d, "m": m, "T": T, "B_X": 2.0, "L_sigma": L}
    logs = {"main text": math.log(m * T), "appendix": factor * eps**2, "corrected": factor * eps**2}
    for version, term in (("main text", 15.0), ("appendix", 30.0), ("corrected", 120.0)):
        found = bounds.corollary_4_5_printed(7.0, 3.0, 5.0, eps, version=version, **head)
        sum_ = 7 ** (2 / 3) + term ** (2 / 3)
        assert math.isclose(found, (L * 2 / eps) ** 2 * sum_**3 * logs[version])
    for as_printed, term in ((True, 2 * 5 * 3 * 2.5), (False, 2 * 5 * 3 * 2.5**2)):
        arguments = {**head, "B_P": 0.5, "printed": as_printed}
        found = bounds.lemma_a_11(7.0, 3.0, 5.0, eps, **arguments)
        sum_ = 7 ** (2 / 3) + term ** (2 / 3)
        assert math.isclose(found, (L * 2.5 / eps) ** 2 * sum_**3 * factor * eps**2)
    two_stages = bounds.lemma_4_6_two_stages(2.0, 3.0, 0.5, 7, 11, share=0.2)
    rows = 36 * (6 / 0.4) ** 2 * math.log(2 * math.ceil(4 * 6 / 0.4 + 2) * 11 + 1)
    assert math.isclose(two_stages, 3600 * math.log(15) + rows)
    printed_form = bounds.deviation_printed(0.1, 50, 0.2, L=3.0, b=2.0)
    assert math.isclose(printed_form, 1.2 + 4 * math.sqrt(math.log(5) / 100))
