"""The float32 margin against float32 forward passes: subnormals kept or flushed, either order."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest
from extended_forward import tokens_of
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_head import all_inputs
from tampering import arrays_of, with_arrays

import capax
from capax.attention import ClsScalar
from capax.boolean import from_table, parse
from capax.compiler.certificate.float32 import (
    EXP32,
    _mlp_error,
    _range,
    _swayed,
    exponent_error,
    float32_margin,
    float32_tables,
)
from capax.compiler.certificate.underflow import ETA
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import head_tables
from capax.rounding import UNIT32

T = 5
FORMULAS = ("x1 & x4", "x1 ^ x4", "(x1 & x4) | (~x1 & x2)")
ENCODINGS = ("deterministic", "trainable", "bag", "incoherent")


@functools.cache
def compiled(formula: str, encoding: str):
    return capax.compile(formula, T, encoding=encoding, dtype=np.float64)


class Machine:
    """Float32 arithmetic, one rounding for each operation; subnormals kept or flushed to zero."""

    def __init__(self, flush: bool):
        self.flush = flush

    def __call__(self, x) -> np.ndarray:
        with np.errstate(over="ignore", under="ignore"):
            single = np.asarray(x, np.float64).astype(np.float32)
        if self.flush:
            single = np.where(np.abs(single) < 2.0**-126, np.float32(0), single)
        return single.astype(np.float64)

    def dot(self, A, B) -> np.ndarray:
        """A @ B with every product and every sum rounded."""
        total = np.zeros((*A.shape[:-1], *B.shape[1:]))
        for i in range(A.shape[-1]):
            total = self(total + self(np.multiply.outer(A[..., i], B[i])))
        return total


def single_outputs(model, machine: Machine, left: bool) -> np.ndarray:
    """The float32 output on all inputs; `left`: products of three matrices from the left."""
    tokens, cls = (machine(part.astype(np.float64)) for part in tokens_of(model.encoding))
    weights = {name: machine(M) for name, M in arrays_of(model).items()}
    q = machine.dot(cls, weights["W_Q"])
    if left:
        score = machine.dot(machine.dot(tokens, weights["W_K"]), q)
        cls_score = machine.dot(machine.dot(cls, weights["W_K"]), q)
    else:
        direction = machine.dot(weights["W_K"], q)
        score, cls_score = machine.dot(tokens, direction), machine.dot(cls, direction)
    values, cls_value = machine.dot(tokens, weights["W_V"]), machine.dot(cls, weights["W_V"])
    bits, at = all_inputs(T), np.arange(T)
    scores = np.concatenate([score[at, bits], np.full((len(bits), 1), cls_score)], axis=1)
    power = machine(np.exp(machine(scores - scores.max(axis=1, keepdims=True))))
    total = functools.reduce(lambda a, b: machine(a + b), power.T)
    share = machine(power / total[:, None])
    mixed = [machine(share[:, t, None] * values[t][bits[:, t]]) for t in range(T)]
    mixed.append(machine(share[:, -1:] * cls_value))
    u = functools.reduce(lambda a, b: machine(a + b), mixed)
    if isinstance(model, ClsScalar):
        if left:
            return machine.dot(machine.dot(u, weights["W_C"]), weights["w"])
        exact = arrays_of(model)
        return machine.dot(u, machine(exact["W_C"] @ exact["w"]))
    hidden = np.maximum(machine(machine.dot(u, weights["W_1"]) + weights["b_1"]), 0)
    return machine(machine.dot(hidden, weights["w_2"]) + weights["b_2"])


def check(model, f) -> bool:
    """The promise holds on every machine; True where decisions are promised."""
    found = float32_margin(model, head_tables(model), f)
    y = f(all_inputs(T))
    signed = isinstance(model, ClsScalar)
    target, cut = (2 * y - 1, 0.0) if signed else (y, 0.5)
    for flush in (False, True):
        for left in (False, True):
            with np.errstate(all="ignore"):
                out = single_outputs(model, Machine(flush), left)
            if math.isfinite(found.error):
                assert np.abs(out - target).max() <= found.error
            if found.margin is not None:
                assert found.margin <= np.where(y > 0.5, out - cut, cut - out).min()
            if found.decided:
                assert ((out > cut) == (y > 0.5)).all()
    return found.decided


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_compiled_networks_keep_their_decisions(formula, encoding):
    made = compiled(formula, encoding)
    assert check(made.model, made.construction.function)
    found = float32_margin(made.model, head_tables(made.model), made.construction.function)
    out, y = single_outputs(made.model, Machine(False), True), made.construction.function
    cut = 0.0 if isinstance(made.model, ClsScalar) else 0.5
    least = np.where(y(all_inputs(T)) > 0.5, out - cut, cut - out).min()
    assert found.margin > least - 1e-3  # not far below what is attained either


def scaled(model, powers: dict[str, int]):
    arrays = arrays_of(model)
    return with_arrays(model, {n: np.ldexp(arrays[n], e) for n, e in powers.items()})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_values_below_the_range_of_float32_promise_nothing(encoding):
    """The same real function, margin 1/2, and float32 gives 0 on every input."""
    made = compiled("x1 & x4", encoding)
    model = scaled(made.model, {"W_V": -152, "W_C": 100, "w": 52})
    assert (single_outputs(model, Machine(True), True) == 0).all()
    assert not check(model, made.construction.function)


@pytest.mark.parametrize(
    "powers", [{"W_C": 200, "w": -200}, {"W_Q": -140, "W_K": 140}, {"W_K": 130, "W_Q": -130}]
)
def test_weights_above_the_range_of_float32_promise_nothing(powers):
    made = compiled("x1 & x4", "trainable")
    assert not check(scaled(made.model, powers), made.construction.function)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_tables_whose_numbers_vanish_in_float32_allow_for_it(encoding):
    """Values or scores that float32 makes 0: the stated errors reach from the real ones to 0."""
    model = compiled("x1 & x4", encoding).model
    vanished = scaled(model, {"W_V": -152})
    tables = head_tables(vanished)
    wide = float32_tables(vanished, tables)[0]
    assert (wide.values.rad >= np.abs(tables.values.mid)).all()
    assert (wide.cls_value.rad >= np.abs(tables.cls_value.mid)).all()
    largest = np.abs(np.asarray(model.W_K)).max()
    vanished = scaled(model, {"W_Q": -140, "W_K": 124 - math.ceil(math.log2(largest))})
    tables = head_tables(vanished)
    wide = float32_tables(vanished, tables)[0]
    assert np.abs(tables.logits.mid).max() > 2.0**-18
    assert (wide.logits.rad >= np.abs(tables.logits.mid)).all()
    assert wide.cls_logit.rad >= np.abs(tables.cls_logit.mid)


def test_products_of_weights_and_values_may_all_vanish():
    """Equal weights 1/201 times values of 150 eta: every product is flushed, and so is the sum."""
    long = capax.compile("x1 & x4", 200, dtype=np.float64).model
    arrays = arrays_of(long)
    model = with_arrays(
        long, {"W_Q": 0 * arrays["W_Q"], "W_V": 75 * ETA + 0 * arrays["W_V"]}
    )  # fmt: skip
    tables = head_tables(model)
    assert np.abs(tables.values.mid).max() == 150 * ETA
    assert (float32_tables(model, tables)[0].values.rad >= 150 * ETA).all()


@settings(max_examples=20)
@given(data=st.data())
def test_rescaled_weights_are_promised_nothing_false(data):
    """Powers of two that cancel in real arithmetic and push float32 to its limits."""
    made = compiled(data.draw(st.sampled_from(FORMULAS)), data.draw(st.sampled_from(ENCODINGS)))
    power = st.integers(-170, 170)
    a, b, c = data.draw(power), data.draw(power), data.draw(st.integers(-60, 60))
    powers = {"W_Q": a, "W_K": -a, "W_V": b}
    if isinstance(made.model, ClsScalar):
        powers |= {"W_C": c - b, "w": -c}
    else:
        powers |= {"W_1": -b}
    check(scaled(made.model, powers), made.construction.function)


def test_a_common_part_of_all_scores_costs_float32_its_decisions():
    """10^7 added to every score cancels in real arithmetic only."""
    made = compiled("x1 & x4", "deterministic")
    arrays = arrays_of(made.model)
    arrays["W_K"][T : T + 3] += 1e7 / float(arrays["W_Q"][T + 2, 0])
    model = with_arrays(made.model, {"W_K": arrays["W_K"]})
    assert not check(model, made.construction.function)


def test_the_error_of_an_exponent_holds_where_it_is_attained():
    """A difference halfway between two float32 numbers, and exp off by all that is allowed."""
    x, y = np.float32(2.0**23 + 1), np.float32(-(2.0**23))
    lost = abs(Fraction(float(x - y)) - (Fraction(float(x)) - Fraction(float(y))))
    assert lost == 1
    subtraction = exponent_error(float(x)) - exponent_error(0.0)
    assert lost <= Fraction(subtraction) <= 1 + 2 * Fraction(UNIT32)
    assert EXP32 == 2.0**-20
    assert -math.log1p(-EXP32) <= exponent_error(0.0) <= EXP32 * 1.0001


@pytest.mark.parametrize("sway", [2.0**-20 / 3, 0.01])
def test_a_factor_near_one_moves_the_ends_outward(sway):
    """[low, high] times any sigma in [1/(1 + sway), 1/(1 - sway)], against exact fractions."""
    rng = np.random.default_rng(0)
    low, high = np.sort(rng.normal(size=(2, 200)), axis=0)
    below, above = _swayed(low, high, sway)
    for a, b, x, y in zip(low, high, below, above, strict=True):
        factors = [1 / (1 + Fraction(sway)), 1 / (1 - Fraction(sway))]
        assert Fraction(float(x)) <= min(Fraction(float(a)) * f for f in factors)
        assert Fraction(float(y)) >= max(Fraction(float(b)) * f for f in factors)
    np.testing.assert_allclose(below, low, rtol=3e-6 + 1.02 * sway)
    np.testing.assert_allclose(above, high, rtol=3e-6 + 1.02 * sway)


def test_rounding_inside_the_mlp_counts_every_term_by_its_size():
    """Terms that cancel leave their rounding errors: 1000 (1 - 1) is as inexact as 1000 (1 + 1)."""
    made = capax.compile("x0 ^ x1", 3)
    k, n = np.shape(made.model.W_1)
    signs = np.where(np.arange(k) % 2 == 0, 1.0, -1.0)[:, None]
    found = []
    for W_1 in (1000.0 * signs * np.ones((k, n)), 1000.0 * np.ones((k, n))):
        model = with_arrays(made.model, {"W_1": W_1, "b_1": np.full(n, -1.0), "w_2": np.ones(n)})
        found.append(_mlp_error(model, np.ones(k), np.zeros(n, int), np.full((1, 1), 5.0))[0])
    assert k > 1 and found[0] == found[1] > n * 5 * UNIT32 * 1000 * k


def test_small_terms_that_a_sum_loses_one_by_one_are_counted():
    """Added from left to right, 1 + t + t + ... stays 1 in float32 for t below half an ulp."""
    made, n = capax.compile("x0 ^ x1", 3), 100
    w_2 = np.append(1.0, np.full(n - 1, 0.98 * 2.0**-24))
    total = np.float32(0)
    for term in w_2.astype(np.float32):
        total = np.float32(total + term)
    k = len(made.model.W_1)
    arrays = {"W_1": np.zeros((k, n)), "b_1": np.ones(n), "w_2": w_2, "b_2": np.zeros(())}
    model = with_arrays(made.model, arrays)
    (allowed,) = _mlp_error(model, np.ones(k), np.zeros(n, int), np.zeros((1, 1)))
    assert total == 1 and float(w_2.sum()) - 1 <= allowed < 3 * n * UNIT32


@pytest.mark.parametrize("loud", ["tokens", "[CLS]"])
def test_softmax_loses_as_much_as_the_largest_score_of_all_allows(loud):
    """The largest score is subtracted from every one: a small score suffers from a large one."""
    model = compiled("x1 & x4", "deterministic").model
    W_K = np.zeros_like(np.asarray(model.W_K))
    W_K[-1 if loud == "[CLS]" else slice(None, -1)] = 1e4
    model = with_arrays(model, {"W_K": W_K})
    tables = head_tables(model)
    sizes = np.abs(tables.logits.mid).max(), abs(float(tables.cls_logit.mid))
    assert max(sizes) > 1e3 > min(sizes) and (sizes[1] > sizes[0]) == (loud == "[CLS]")
    shaken, _ = float32_tables(model, tables)
    for part in (shaken.logits, shaken.cls_logit):
        assert (part.rad >= exponent_error(float(max(sizes)))).all()


@pytest.mark.parametrize("b_2", [0.1, -0.7])
def test_a_network_without_units_is_its_bias_for_every_pattern(b_2):
    f = from_table([b_2] * 4, (0, 2), 3)
    made = capax.compile("x0 ^ x2", 3).model
    empty = {"W_1": np.zeros((len(made.W_1), 0)), "b_1": np.zeros(0), "w_2": np.zeros(0)}
    model = with_arrays(made, {**empty, "b_2": np.asarray(b_2)})
    tables = head_tables(model)
    low, high = output_range(model, tables, f.support)
    assert low.shape == high.shape == f.table.shape and (low == b_2).all() and (high == b_2).all()
    found = float32_margin(model, tables, f)
    assert found.margin is None and not found.decided  # a real-valued function has no decisions
    lost = abs(float(np.float32(b_2)) - b_2)
    assert 0 < lost <= found.error <= 4 * UNIT32


@pytest.mark.parametrize("b_2", [0.1, -0.7, 1e-42])
def test_a_network_without_active_units_gives_its_rounded_bias(b_2):
    """Every hidden unit is dead: the float32 output is float32(b_2), or 0 where it is flushed."""
    made = capax.compile("x0 ^ x1", 3)
    model = with_arrays(made.model, {"w_2": 0 * np.asarray(made.model.w_2), "b_2": np.asarray(b_2)})
    tables = head_tables(model)
    low, high = _range(model, tables, parse("x0 ^ x1", 3))
    for output in (float(np.float32(b_2)), 0.0 if abs(b_2) < 2.0**-126 else b_2):
        assert (low <= output).all() and (output <= high).all()
