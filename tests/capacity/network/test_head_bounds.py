"""Lemma 4.3 never violated; Corollary 4.5 recomputed by hand; every bound moves the right way."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.attention.parts import normalizers
from capax.capacity.linear.cover_pieces import closed_form
from capax.capacity.linear.norms import MatrixNorms, spread
from capax.capacity.network.head_bounds import attention_head, linear_head, scalar_head
from capax.capacity.network.head_lipschitz import head_distance, theorem_4_2
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.multi_head_bounds import ResidualHead, mlp_head, multi_head
from capax.capacity.network.paper_style import paper_style_cover
from capax.capacity.network.sample_points import Sample
from capax.capacity.network.weighting import only_lipschitz
from capax.capacity.weights.assumptions import assumption_4_1, inputs_for
from one_line import one_line

sizes = st.floats(0.05, 30.0)


def softmax(scores):
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1), st.floats(-6, 3), st.floats(-6, 3), st.sampled_from([2, 3, 7]))
def test_lemma_4_3_is_never_violated(seed, log_score, log_value, T):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=T) * 3
    values = rng.normal(size=(T, 5)) + rng.normal(size=5) * 10  # far from 0: the centre matters
    other_scores = scores + rng.uniform(-1, 1, size=T) * math.exp(log_score)
    other_values = values + rng.normal(size=(T, 5)) * math.exp(log_value)
    moved = np.linalg.norm(values.T @ softmax(scores) - other_values.T @ softmax(other_scores))
    bound = head_distance(
        float(np.abs(scores - other_scores).max()),
        float(np.linalg.norm(values - other_values, axis=1).max()),
        B_phi=spread(values),
    )
    assert moved <= bound.value * (1 + 1e-9)


def test_lemma_4_3_is_attained_by_two_opposite_tokens():
    values, tiny = np.array([[1.0], [-1.0]]), 1e-4
    moved = abs((values.T @ (softmax(np.array([tiny, -tiny])) - softmax(np.zeros(2)))).item())
    assert moved == pytest.approx(head_distance(tiny, 0.0, B_phi=1.0).value, rel=1e-6)


@given(sizes, sizes, sizes, sizes, st.floats(0.01, 3.0))
def test_theorem_4_2_split_is_the_best_one(C_score, C_in, B_phi, L_out, eps):
    bound = theorem_4_2(C_score, C_in, eps, B_phi=B_phi, L_out=L_out)
    grid = np.linspace(0.001, 0.999, 500)
    values = (
        C_score * (L_out * B_phi / (grid * eps)) ** 2 + C_in * (L_out / ((1 - grid) * eps)) ** 2
    )
    assert bound.value <= values.min() * (1 + 1e-9)
    assert sum(t.value for t in bound.terms) == pytest.approx(bound.value)


def test_corollary_4_5_closed_form_by_hand():
    inputs = Inputs(B_X=1.7, B_z=1.3, r_X=1.1)
    head = attention_head(2.0, 3.0, 5.0, k=7, L_out=0.9, inputs=inputs)
    sample = Sample(m=11, T=13)
    L_s, L_v = math.log(2 * 11 * 14 + 1), math.log(128 * 7 * 11 + 1)
    first = (3.0 * 1.1 * 2.0 * 1.3 * 1.1) ** (2 / 3) * L_s ** (1 / 3)
    second = (math.sqrt(2) * 5.0 * 1.7) ** (2 / 3) * L_v ** (1 / 3)
    assert math.exp(closed_form(head.build(sample))) == pytest.approx(
        0.81 * (first + second) ** 3, rel=1e-12
    )
    assert head.cover(sample, 0.1).value <= 0.81 * (first + second) ** 3 / 0.01


def test_linear_read_out_by_hand():
    sample, inputs = Sample(m=17, T=5, copies=2), Inputs(B_X=2.0, B_z=1.0, r_X=1.5)
    C = (4.0 * 3.0 * 1.5) ** (2 / 3) * math.log(2 * 34 * 6 + 1) ** (1 / 3)
    C += (2.5 * 2.0) ** (2 / 3) * math.log(2 * 34 + 1) ** (1 / 3)
    head = linear_head(3.0, 2.5, B_phi=4.0, inputs=inputs)
    assert math.exp(head.log_C(sample)) == pytest.approx(C**3, rel=1e-12)


def test_the_constant_is_two_at_unit_radius():
    sample = Sample(m=101, T=31)
    C = math.exp(attention_head(3.0, 1.5, 4.0, k=5).log_C(sample))
    stated = 2 * (4.0 ** (2 / 3) + 4.5 ** (2 / 3)) ** 3 * math.log(128 * 5 * sample.cls_pairs + 1)
    assert stated >= C


def two_heads(q, v2, v21):
    values = MatrixNorms(v2, max(v2, v21 / 2), v21, v21)
    return [ResidualHead(MatrixNorms(q / 2, q, q, q), values)] * 2


CLASSES = {
    "head": lambda q, v2, v21, _, x: attention_head(q, v2, v21, k=3, inputs=x, d=70),
    "scalar": lambda q, v2, v21, c, x: scalar_head(q, v2, v21, c, k=3, inputs=x, d=70),
    "linear": lambda q, v2, _, __, x: linear_head(q, v2, inputs=x, d=70),
    "multi": lambda q, v2, v21, c, x: multi_head(two_heads(q, v2, v21), d=70, L_next=c, inputs=x),
    "layer": lambda q, v2, v21, _, x: multi_head(two_heads(q, v2, v21), d=70, inputs=x, full=True),
    "mlp": lambda q, v2, v21, c, x: mlp_head(
        q, two_heads(q, v2, v21)[0].W_VO, c, hidden=5, b_2=1.0, inputs=x, d=70
    ),
}


@settings(max_examples=30)
@given(
    st.sampled_from(sorted(CLASSES)),
    st.tuples(sizes, sizes, sizes, sizes),
    st.integers(0, 3),
    st.floats(1.0, 4.0),
    st.tuples(st.integers(1, 10**6), st.integers(1, 10**9)),
    st.floats(0.01, 5.0),
)
def test_every_cover_is_below_its_closed_form_which_grows(name, norms, which, up, size, eps):
    """With norms, radii, T and m. The count itself is of whole numbers at a fixed split of the
    error: it is smaller, and now and then falls by a little where a class grows."""
    (m, T), larger = size, list(norms)
    larger[which] *= up
    build, small, wide = CLASSES[name], Inputs(2.0, 1.0, 1.5), Inputs(2.0 * up, up, 1.5 * up)
    form = build(*norms, small).log_C(Sample(m, T))
    for cls, sample in (
        (build(*larger, small), Sample(m, T)),
        (build(*norms, wide), Sample(m, T)),
        (build(*norms, small), Sample(m, 3 * T)),
        (build(*norms, small), Sample(3 * m, T)),
    ):
        assert form - 1e-9 <= cls.log_C(sample)
        assert cls.cover(sample, eps).log_value <= cls.log_C(sample) - 2 * math.log(eps) + 1e-9


@pytest.mark.parametrize("T", [5, 7, 8])
def test_bound_is_above_the_packing_of_all_selection_heads(T):
    """The C(T, s) AND-heads are 2 gamma apart on all inputs: ln N(eps) >= ln C(T, s)."""
    s, a, D, omega = 2, 3.0, 2.0, 0.5
    weight = {(1, 1): math.exp(-D), (1, 0): 1.0, (0, 1): math.exp(-a - D), (0, 0): math.exp(-a)}

    def f(support, bits):
        w = [weight[int(t in support), int(b)] for t, b in enumerate(bits)]
        value = sum(w[t] for t in support) - omega
        return value / (omega + sum(w))

    inputs = np.array(np.meshgrid(*[[0, 1]] * T)).reshape(T, -1).T
    outputs = np.array([[f(I, b) for b in inputs] for I in combinations(range(T), s)])
    apart = min(np.abs(x - y).max() for x, y in combinations(outputs, 2))
    a_cls = a + math.log(omega)
    kappa = math.sqrt(s * a**2 + 2 / 3 * (a_cls**2 + a_cls * D + D**2))
    head = linear_head(
        kappa, math.sqrt(s + 1), B_phi=1.0, inputs=Inputs(math.sqrt(2), 1.0, math.sqrt(1.5))
    )
    upper = head.cover(Sample(len(inputs), T, alphabet=2), float(apart) / 2 * 0.999).value
    assert upper >= math.log(math.comb(T, s))


def test_distinct_pairs_do_not_grow_with_m():
    assert Sample(10**6, 100, alphabet=2).cls_pairs == 201
    assert Sample(1, 100, alphabet=2).cls_pairs == 101
    assert Sample(3, 5).doubled().all_pairs == 6 * 36


def test_values_pay_no_log_T():
    pieces = [attention_head(1.0, 1.0, 1.0, k=3).build(Sample(50, T))[1] for T in (10, 10**9)]
    assert pieces[0].log_C == pieces[1].log_C


def test_paper_style_is_larger_and_labelled():
    sample = Sample(1000, 100)
    paper = paper_style_cover(3.0, 1.5, 4.0, sample, 0.1)
    ours = attention_head(3.0, 1.5, 4.0, k=4).cover(sample, 0.1)
    assert paper.statement == "paper-style (36)"
    assert paper.value > 30 * ours.value
    assert sum(t.value for t in paper.terms) == pytest.approx(paper.value)


def test_normalizers_answer_whether_the_bound_applies():
    X, W_V = np.eye(5)[:, :3], np.ones((3, 2))
    checks = assumption_4_1(normalizers.Softmax(), W_V, X)
    assert all(check.holds for check in checks)
    assert "C_N = 1 (the paper's C_Norm = 2)" in checks[0].detail
    assert not assumption_4_1(normalizers.Hardmax(), W_V, X)[0].holds
    assert "grows with T" in assumption_4_1(normalizers.Sparsemax(), W_V, X)[0].detail
    sparse = inputs_for(normalizers.Sparsemax(), 1.0).weighting
    assert (sparse.C_N(100), sparse.slope(100)) == (100.0, None)
    scaled = inputs_for(normalizers.ScaledSigmoid(), 2.0, r_X=1.0)
    assert (scaled.key_radius, scaled.value_radius) == (2.0, 2.0)


BAD = [
    (lambda: attention_head(0.0, 1.0, 1.0, k=2), "W_QK_F: wanted a finite number > 0"),
    (lambda: attention_head(1.0, math.nan, 1.0, k=2), "W_V_2"),
    (lambda: linear_head(1.0, math.inf), "v_2"),
    (lambda: linear_head(1.0, 1.0).cover(Sample(5, 5), 0.0), "eps: wanted a finite number > 0"),
    (lambda: linear_head(1.0, 1.0).cover(Sample(5, 5), -1.0), "eps"),
    (lambda: Sample(0, 5), "m: wanted"),
    (lambda: Sample(5, 0), "T: wanted"),
    (lambda: Sample(5, 5, alphabet=0), "alphabet"),
    (lambda: Inputs(B_X=1.0, r_X=2.0), "r_X: wanted at most"),
    (lambda: only_lipschitz(math.inf), "C_N: wanted a finite Lipschitz"),
    (lambda: multi_head([], d=3), "heads"),
    (lambda: head_distance(-1.0, 0.0, B_phi=1.0), "score_error"),
    (lambda: theorem_4_2(1.0, 1.0, 0.0, B_phi=1.0), "eps"),
    (lambda: inputs_for(normalizers.Hardmax(), 1.0), "normalizer"),
    (
        lambda: assumption_4_1(normalizers.Softmax(), np.eye(3), np.eye(3), activation="sin"),
        "activation: wanted one of",
    ),
    (lambda: assumption_4_1(normalizers.Softmax(), np.ones((3, 2)), np.ones((5, 4))), "X: wanted"),
    (lambda: MatrixNorms.known(), "norms: wanted"),
    (lambda: MatrixNorms.known(norm_F=1.0), "norm_2_1"),
    (lambda: paper_style_cover(1.0, 1.0, 1.0, Sample(5, 5), 0.0), "eps"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_one_line(call, message):
    with one_line(message):
        call()
