"""Which family is taken, which are refused and why, and what the temperature is."""

import dataclasses
import math

import numpy as np
import pytest
from forward_pass import output
from hypothesis import given, settings
from hypothesis import strategies as st

import capax
from capax.boolean import SparseFunction, parse, symmetric
from capax.boolean.named_functions import monotone_symmetric
from capax.compiler.construction import threshold_head
from capax.compiler.construction.choice import choose
from capax.compiler.construction.families import scalar_problem
from capax.compiler.parts.literals import literal_form, threshold_weights
from capax.compiler.proof.tables import head_tables, readout_output
from capax.errors import InfeasibleError, InputError

CASES = [
    ("x1 & x4 & x6", "monotone-symmetric", 0),
    ("~(x1 & x4 & x6)", "monotone-symmetric", 0),
    ("~x1 & x4 & ~x6", "monotone-symmetric", 0),
    ("maj(x1, x4, x6)", "monotone-symmetric", 0),
    ("thr2(x1, ~x4, x6, x7)", "monotone-symmetric", 0),
    ("x1 & (x4 | x6)", "linear-threshold", 0),
    ("x1 ^ x4 ^ x6", "symmetric", 6),
    ("sym(0110; x1, x4, ~x6)", "symmetric", 4),
    ("(x1 & x4) | (~x1 & x6)", "general", 8),
    ("x1 & x4 | x6 & x7", "general", 14),
]


@pytest.mark.parametrize(("formula", "family", "units"), CASES)
def test_the_cheapest_family_is_taken(formula: str, family: str, units: int):
    made = choose(parse(formula, 9))
    assert (made.family, made.readout.num_units) == (family, units)


@pytest.mark.parametrize(
    ("formula", "family", "eps", "reason"),
    [
        ("x1 ^ x4", "monotone-symmetric", None, "symmetric but not monotone"),
        ("x1 & (x4 | x6)", "monotone-symmetric", None, "not symmetric in its literals"),
        ("x1 & (x4 | x6)", "symmetric", None, "not symmetric in its literals"),
        ("x1 ^ x4", "linear-threshold", None, "average sensitivity 2, one head with a scalar"),
        ("(x0 & x1) | (x2 & x3)", "linear-threshold", None, "not a threshold of weighted bits"),
        ("x1 & x4", "monotone-symmetric", 0.0, "eps = 0 with an approximate family"),
        ("maj(x1,x4,x6)", "monotone-symmetric", 0.2, "stays 0.75 away from the labels"),
    ],
)
def test_a_wrong_family_is_refused_with_the_reason(formula, family, eps, reason):
    with pytest.raises(InputError, match=reason):
        choose(parse(formula, 9), family=family, eps=eps)


def test_too_many_patterns_say_how_many_units_they_would_need():
    table = np.random.default_rng(0).integers(0, 2, 1 << 13).astype(float)
    with pytest.raises(InputError, match=r"2 \* 2\^13 = 16384 hidden units"):
        choose(SparseFunction(tuple(range(13)), table, 20))


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: capax.compile("x1 & x9", 9), "x9"),
        (lambda: capax.compile("x1", 0), "T:"),
        (lambda: capax.compile("x1", 10**9), "T:"),
        (lambda: capax.compile("x1", True), "T:"),
        (lambda: capax.compile("x1"), "T:"),
        (lambda: capax.compile("x1 &", 5), "formula"),
        (lambda: capax.compile("x1", 5, eps=-0.1), "eps:"),
        (lambda: capax.compile("x1", 5, eps=math.nan), "eps:"),
        (lambda: capax.compile("x1", 5, eps=0.5), "eps:"),
        (lambda: capax.compile("x1", 5, encoding="onehot"), "encoding:"),
        (lambda: capax.compile("x1", 5, family="mlp"), "family:"),
        (lambda: capax.compile("x1", 5, dim=8), "dim:"),
        (lambda: capax.compile("x1", 5, encoding="incoherent", dim=0), "dim:"),
        (lambda: capax.compile("x1", 10**6, encoding="incoherent", dim=999), "encoding:"),
    ],
)
def test_nonsense_is_refused_in_one_line(call, word):
    with pytest.raises((InputError, InfeasibleError), match=word) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_irrelevant_variables_are_dropped_with_a_note():
    certificate = capax.compile("x1 & (x2 | ~x2)", 5).certificate
    assert (certificate.support, certificate.s) == ((1,), 1)
    assert any("x2 does not matter" in note for note in certificate.notes)


@pytest.mark.parametrize("encoding", ["deterministic", "trainable", "bag", "incoherent"])
@pytest.mark.parametrize("value", [0.0, 1.0, -2.5])
def test_constants_need_no_unit(encoding: str, value: float):
    made = capax.compile(SparseFunction((), np.array([value])), 6, encoding=encoding)
    assert made.certificate.mlp_units == 0 and made.certificate.worst_case_error == 0
    assert output(made.model, np.array([0, 1, 1, 0, 1, 0])) == value


@pytest.mark.parametrize("encoding", ["deterministic", "trainable", "bag", "incoherent"])
def test_real_values_are_computed_exactly(encoding: str):
    T = 7
    bits = (np.arange(1 << T)[:, None] >> np.arange(T)) & 1
    rising = monotone_symmetric([-1.0, 0.25, 0.25, 3.5], (1, 2, 6))
    table = SparseFunction((0, 3, 5), np.array([0.5, -2.0, 7.0, 0.5, 1.0, 4.0, 0.25, 0.5]))
    for f, family in ((rising, "symmetric"), (table, "general")):
        made = capax.compile(f, T, encoding=encoding)
        tables = head_tables(made.model)
        outputs = readout_output(made.model, tables.head(bits))
        assert np.abs(outputs - f(bits)).max() < 1e-11
        certificate = made.certificate
        assert (certificate.margin, certificate.sample_size) == (None, {})
        assert encoding == "bag" or certificate.family == family
        assert any("real-valued" in note for note in certificate.notes)


@settings(max_examples=15)
@given(st.lists(st.booleans(), min_size=5, max_size=5), st.integers(0, 15))
def test_literal_form_recovers_any_flipped_symmetric_function(values, flips):
    base = symmetric([float(v) for v in values], (0, 1, 2, 3))
    flipped = SparseFunction(base.support, base.table[np.arange(16) ^ flips])
    form = literal_form(flipped)
    assert form is not None
    bits = (np.arange(16)[:, None] >> np.arange(4)) & 1
    satisfied = np.where(np.array(form.signs) > 0, bits, 1 - bits).sum(axis=1)
    assert np.array_equal(np.array(form.phi)[satisfied], flipped.table)


def test_threshold_weights_separate_and_parity_has_none():
    f = parse("x0 & (x1 | x2 & x3)")
    weights = threshold_weights(f)
    assert weights is not None and np.array_equal(weights, [3, 2, 1, 1])
    assert threshold_weights(parse("x0 ^ x1")) is None


@pytest.mark.parametrize("T", [9, 400, 10**6])
@pytest.mark.parametrize("eps", [0.3, 0.03, 0.001])
def test_the_temperature_is_the_smallest_that_meets_eps(T: int, eps: float):
    f = parse("x1 & x4 & x6", T)
    made = choose(f, eps=eps)
    problem = scalar_problem("monotone-symmetric", f)
    assert isinstance(problem, threshold_head.ThresholdProblem)
    assert made.worst_case_error <= eps
    colder = dataclasses.replace(made.selection, a=made.selection.a - 1e-4)
    assert threshold_head.scalar_error(threshold_head.tuned(colder, problem), problem) > eps


def test_the_norm_of_the_head_grows_like_log_T_and_the_rest_stays_put():
    lengths = [10**e for e in range(1, 7)]
    made = [capax.compile("x2 & x3 & x8", T, eps=0.1).certificate.norms for T in lengths]
    heads = np.array([norms["W_QK"]["frobenius"] for norms in made])
    slopes = np.diff(heads) / math.log(10)
    assert slopes.min() > 1.5 and np.ptp(slopes[1:]) < 0.15
    for name in ("W_V", "W_C", "w"):
        assert np.ptp([norms[name]["frobenius"] for norms in made]) < 1e-9
    assert np.ptp([norms["W_K"]["frobenius"] for norms in made]) < 0.5
    assert max(norms["W_K"]["frobenius"] for norms in made) <= math.sqrt(3 + 2)
