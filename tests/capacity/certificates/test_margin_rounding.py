"""Running error analysis: against 60 digits, on attacks that float32 gets wrong."""

import itertools
import math
from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from capax.attention import ClsScalar, DeterministicPositions, Transformer, TransformerSpec
from capax.capacity.margins.margins import holdout_errors, margins_of, rounding_assumption
from capax.capacity.margins.running_error import (
    RULES,
    Op,
    UnknownOperation,
    evaluate_with_error,
)
from capax.capacity.routes.certifying import certify

T = 4
BITS = ((np.arange(2**T)[:, None] >> np.arange(T)) & 1).astype(np.int64)


def head(scores, values, dtype=jnp.float32):
    W_Q = np.zeros((T + 3, 1))
    W_Q[-1] = 1.0
    columns = (W_Q, scores[:, None], values[:, None], np.ones((1, 1)), np.ones(1))
    return ClsScalar(DeterministicPositions(T), *(jnp.asarray(x, dtype) for x in columns))


def exact_output(model, bits):
    """The head in 60 digits, from the weights as they are stored."""
    with mpmath.workdps(60):
        s, v = ([mpmath.mpf(float(x)) for x in np.asarray(W)[:, 0]] for W in (model.W_K, model.W_V))
        rows = [(t, T + int(b)) for t, b in enumerate(bits)]
        pairs = [(s[t] + s[b], v[t] + v[b]) for t, b in rows] + [(s[T + 2], v[T + 2])]
        weights = [mpmath.exp(score) for score, _ in pairs]
        return sum(w * x for w, (_, x) in zip(weights, pairs, strict=True)) / sum(weights)


SCALES = [(40.0, 1.0), (300.0, 1e6), (0.01, 1e-12)]


@pytest.mark.parametrize("scales", SCALES)
def test_the_error_bound_holds_against_sixty_digits(scales):
    rng = np.random.default_rng(1)
    scores, values = (scale * rng.normal(size=T + 3) for scale in scales)
    model = head(scores, values)
    labels = np.array([int(exact_output(model, bits) > 0) for bits in BITS])
    margins = margins_of(model, BITS, labels)
    for lower, bits, y in zip(margins, BITS, labels, strict=True):
        exact = (2 * int(y) - 1) * exact_output(model, bits)
        assert lower <= exact
        assert exact - lower <= 1e-9 * (1 + scales[0]) * (abs(exact) + scales[1])


def test_values_that_cancel_in_float32_are_not_called_right():
    """1e8 + 1 - 1e8: float32 loses the one; a guard of 1e-9 on the margin would not notice."""
    scores, values = np.zeros(T + 3), np.zeros(T + 3)
    values[:3] = (1e8, -1e8, -3.0)
    model = head(scores, values)
    X = np.array([[0, 0, 0, 0]])
    assert margins_of(model, X, np.array([1]))[0] < 0 < margins_of(model, X, np.array([0]))[0]
    values[:3] = (1e20, -1e20, 1e-6)  # beyond float64 too: neither label is proved
    model = head(scores, values)
    assert holdout_errors(model, X, np.array([1])) == (1, 1)
    assert holdout_errors(model, X, np.array([0])) == (1, 1)


class Weighing(eqx.Module):
    """A model of the user's with weights in NumPy, which may change in place."""

    weights: np.ndarray

    def __call__(self, bits):
        Weighing.traced += 1
        return jnp.sum(jnp.asarray(self.weights) * bits.astype(float)) - 1.5


def test_training_rows_and_holdout_rows_are_one_program():
    """Traced once for 16 rows and for 320; changed weights are never missed."""
    model, y = Weighing(np.array([1.0, 1.0, 0.0, 0.0])), BITS[:, 0] & BITS[:, 1]
    Weighing.traced = 0
    assert margins_of(model, BITS, y).min() > 0
    first = Weighing.traced
    assert holdout_errors(model, np.tile(BITS, (20, 1)), np.tile(y, 20)) == (0, 320)
    assert Weighing.traced == first > 0
    model.weights[0] = 0.0  # in place
    assert holdout_errors(model, BITS, y) == (4, 16)


class Changing:
    """A model that is no tree of numbers: JAX sees an object that is equal to itself."""

    weight = 1.0

    def __call__(self, bits):
        return self.weight * (jnp.sum(bits.astype(float)) - 1.5)


class Holding(eqx.Module):
    inner: Changing

    def __call__(self, bits):
        return self.inner(bits)


@pytest.mark.parametrize("wrap", [lambda model: model, Holding, lambda model: model.__call__])
def test_a_model_that_changed_since_the_last_call_has_its_own_margins(wrap):
    model, X, y = Changing(), np.array([[0] * T, [1] * T]), np.array([0, 1])
    assert (margins_of(wrap(model), X, y) > 0).all()
    model.weight = -1.0
    assert (margins_of(wrap(model), X, y) < 0).all()


def test_an_operation_without_a_rule_is_named_and_becomes_an_assumption():
    with pytest.raises(UnknownOperation, match="operation sort"):
        evaluate_with_error(jnp.sort, jnp.arange(3.0))
    spec = TransformerSpec(T=T, d=4, heads=1, mlp_width=3, normalizer="sparsemax")
    model = Transformer.init(spec, key=jax.random.key(0))
    assumed = rounding_assumption(model, T)
    assert assumed.holds is None
    assert "1e-06" in assumed.text
    either = [margins_of(model, BITS, np.full(len(BITS), label)) for label in (0, 1)]
    assert (sum(either) <= -2e-6).all()  # the guess is subtracted from both
    certificate = certify(model, BITS, BITS[:, 1])
    assert assumed in certificate.entries[0].assumptions
    assert rounding_assumption(head(np.ones(T + 3), np.ones(T + 3)), T).holds is True


def test_a_comparison_that_rounding_leaves_open_is_doubtful_without_limit():
    with jax.enable_x64(True):
        x = jnp.asarray([1.0, 2.0**-53, 1.0])  # 1 + 2^-53 is rounded to 1

        def step(z):
            return jnp.where(z[0] + z[1] - z[2] > 0, 1.0, -1.0)

        value, error = evaluate_with_error(step, x)
        assert abs(float(value)) == 1.0
        assert np.isinf(float(error))
        _, clear = evaluate_with_error(
            lambda z: jnp.where(z[0] + z[1] > z[2] / 2, z[0] + z[1], z[1]), x
        )
        assert float(clear) < 1e-15
        _, other_way = evaluate_with_error(
            lambda z: jnp.where(z[2] / 2 > z[0] + z[1], z[1], z[0] + z[1]), x
        )
        assert float(other_way) < 1e-15


CORNERS = {
    "add": (lambda x, y: x + y, (2.0, -3.0)), "sub": (lambda x, y: x - y, (2.0, -3.0)),
    "mul": (lambda x, y: x * y, (2.0, -3.0)), "div": (lambda x, y: x / y, (2.0, -3.0)),
    "max": (max, (2.0, 2.1)), "min": (min, (-2.0, -2.1)), "neg": (lambda x: -x, (2.0,)),
    "abs": (abs, (-2.0,)), "exp": (math.exp, (-1.3,)), "log": (math.log, (1.7,)),
    "log1p": (math.log1p, (0.7,)), "sqrt": (math.sqrt, (1.7,)),
    "rsqrt": (lambda x: x**-0.5, (1.7,)), "square": (lambda x: x * x, (-1.7,)),
    "integer_pow": (lambda x: x**3, (-1.7,)), "tanh": (math.tanh, (0.1,)),
    "logistic": (lambda x: 1 / (1 + math.exp(-x)), (0.1,)), "erf": (math.erf, (0.05,)),
    "erfc": (math.erfc, (0.05,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CORNERS)
def test_every_rule_holds_at_the_corners_of_its_errors(name):
    """Operands off by 0.25 and 0.5: the result moves by at most the bound, and nearly by it."""
    function, values = CORNERS[name]
    errors = (0.25, 0.5)[: len(values)]
    moves = itertools.product(*((v - e, v, v + e) for v, e in zip(values, errors, strict=True)))
    at = function(*values)
    worst = max(abs(function(*moved) - at) for moved in moves)
    v, e = ([jnp.asarray(x, jnp.float64) for x in part] for part in (values, errors))
    bound = float(RULES[name](Op(v, e, jnp.asarray(at, jnp.float64), {"y": 3})))
    assert worst * (1 - 1e-12) <= bound <= 1.5 * worst


def test_errors_of_sums_and_dot_products_add_up():
    e, v = jnp.asarray([0.5, 0.25, 2.0]), jnp.asarray([1.0, -2.0, 4.0])
    out = jnp.asarray(3.0)
    assert float(RULES["reduce_sum"](Op([v], [e], out, {"axes": (0,)}))) == pytest.approx(2.75)
    assert float(RULES["reduce_max"](Op([v], [e], out, {"axes": (0,)}))) == 2.0
    other, off = jnp.asarray([-1.0, 3.0, 0.5]), jnp.asarray([0.1, 0.2, 0.3])
    dims = {"dimension_numbers": (((0,), (0,)), ((), ()))}
    found = float(RULES["dot_general"](Op([v, other], [e, off], out, dims)))
    exact = sum(
        abs(a) * d + c * (abs(b) + d)
        for a, b, c, d in zip(v.tolist(), other.tolist(), e.tolist(), off.tolist(), strict=True)
    )
    assert found == pytest.approx(exact)
    small = float(RULES["dot_general"](Op([v, other], [0 * e, 0 * off], out, dims)))
    assert small >= 5 * 2.0**-53 * 9.0  # gamma_5 times sum |x||y|


def lost(x):
    """1e10 + x - 1e10: the digits of x beyond 2e-6 are lost, and the analysis must say so."""
    return (1e10 + x) - 1e10


RULES_BY_FRACTIONS = {
    "sum": (lambda x: lost(x).sum(), lambda x: sum(x)),
    "cube": (lambda x: lost(x[0]) ** 3, lambda x: x[0] ** 3),
    "product with a negative": (lambda x: lost(x[0]) * (-1e6), lambda x: x[0] * -(10**6)),
    "dot": (lambda x: lost(x) @ (0 * x - 3.0), lambda x: -3 * sum(x)),
    "quotient": (lambda x: 1e6 / lost(x[0]), lambda x: 10**6 / x[0]),
    "square": (lambda x: jnp.square(lost(x[0])), lambda x: x[0] ** 2),
}


@pytest.mark.parametrize("name", RULES_BY_FRACTIONS)
def test_every_rule_bounds_an_error_that_is_nearly_as_large(name):
    """Against exact fractions; half of the stated error would be too small somewhere."""
    function, exactly = RULES_BY_FRACTIONS[name]
    ratios = []
    for start in (8.0000007, 8.0000009, 8.0000028, 8.0000047):
        x = np.full(8, start)
        value, error = evaluate_with_error(function, jnp.asarray(x))
        true = abs(Fraction(float(value)) - exactly([Fraction(v) for v in x.tolist()]))
        assert true <= Fraction(float(error))
        ratios.append(float(true / Fraction(float(error))))
    assert max(ratios) > 0.3
