"""Bounds of rounding: against float32 in several orders of summation, and where they are met."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from decompile_cases import all_inputs, random_transformer
from float_runs import ORDERS, run, total

from capax.attention.block import LayerNorm
from capax.boolean import parse
from capax.decompile.machine.every_input import every_input, real_logit
from capax.decompile.machine.forward_error import (
    FLOAT32,
    FLOAT64,
    FloatUnit,
    Normed,
    SizeAndError,
    Stream,
    _heads,
    forward_error,
    norm_rounding,
    token_stream,
)
from capax.decompile.proof.all_inputs import on_all_inputs
from capax.decompile.proof.enclosure import enclose
from capax.decompile.proof.head_sets import Cells, HeadSets
from capax.decompile.proof.layer_rounding import as_run
from capax.decompile.proof.one_query_layer import layer_as_run, one_query_layer
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError
from capax.rounding import UNIT32

X = all_inputs(5)
UNIT = np.float32(UNIT32)


class NoSums(FloatUnit):
    """The planted fault: sums are taken to be exact."""

    def sum(self, n: int) -> float:
        del n
        return 0.0


FAULTY = NoSums(FLOAT32.unit, FLOAT32.library, FLOAT32.tiny)


@pytest.mark.parametrize(("layers", "activation"), [(1, "gelu"), (2, "relu")])
def test_float32_is_within_the_bound_in_every_order_of_summation(layers, activation):
    model = random_transformer(3, T=5, layers=layers, activation=activation, d=22, mlp_width=31)
    found = every_input(model, parse("x1 & x4", 5))
    exact = run(model, X, np.float64)
    off = max(np.abs(run(model, X, np.float32, order) - exact).max() for order in ORDERS.values())
    assert 1e-7 < off < found.error32
    assert found.error < 1e-5 * found.error32 or layers == 2


@pytest.mark.parametrize("seed", [3, 4])
def test_float32_is_inside_the_enclosure_of_the_layer_as_it_is_run(seed):
    model = random_transformer(seed, T=5, d=22, mlp_width=31)
    rows = np.arange(32)
    cells = Cells(np.tile(np.arange(5), (32, 1)), rows, 0 * rows, 0 * rows)
    shaken, exact = layer_as_run(model, FLOAT32), one_query_layer(model)
    found, real = (enclose(layer, HeadSets(layer.tables, cells)) for layer in (shaken, exact))
    assert (real.high - real.low).max() < 1e-6
    width = (found.high - found.low).max()
    for order in ORDERS.values():
        numbers = run(model, X, np.float32, order)
        assert (found.low < numbers).all() and (numbers < found.high).all()
    assert 1e-6 < width < 1e-2
    every = every_input(model, parse("x1 & x4", 5))
    assert width / 2 < every.error32  # errors that are pushed back stay correlated


# Each case: what a sum of n float32 terms loses in the worst order, and its bound on a machine.


def _residual(machine):
    """1 + n units: each one alone is rounded away."""
    n = 4000
    u = np.concatenate([[1.0], np.full(n - 1, float(UNIT))])
    start = Stream(SizeAndError(np.zeros((1, 1)), np.zeros((1, 1))), np.zeros(1))
    known = SizeAndError(u[None], 0 * u[None])
    bound = start.plus(known, np.ones((n, 1)), np.zeros(1), machine).x.error[0, 0]
    return abs(float(total(u.astype(np.float32), np.arange)) - u.sum()), bound


def _product(machine):
    d = 4000
    bias = np.concatenate([[1.0], np.full(d - 1, float(UNIT))])
    ln = LayerNorm(jnp.zeros(d), jnp.asarray(bias, jnp.float32))
    normed = Normed(ln, np.zeros((1, d)), np.zeros(1))
    bound = normed.product(np.ones((d, 1)), np.zeros(1), machine).error[0, 0]
    return abs(float(total(bias.astype(np.float32), np.arange)) - bias.sum()), bound


def _mean(machine):
    """1/2 + delta and 3/2 + delta, 4096 terms: delta is lost where the sum is above 2048."""
    d = 4096
    x = np.where(np.arange(d) % 2, 1.5 + 0.9 * 2.0**-13, 0.5 + 0.9 * 2.0**-13).astype(np.float32)
    exact = x.astype(np.float64)
    mu = abs(float(total(x, np.arange)) / d - exact.mean())
    sigma = np.sqrt(exact.var() + 1e-5)
    level, _ = norm_rounding(d, np.array([exact.mean() / sigma]), replace_small(machine))
    return mu / sigma, level[0]


def replace_small(machine):
    """The same machine; its library errors have no part in the mean."""
    return replace(machine, library=0.0)


def _variance(machine):
    """Deviations of +-1 and many of 2^-12: their squares are lost beside the sum."""
    d = 4096
    c = np.concatenate([[1.0, -1.0], np.resize([2.0**-11.6, -(2.0**-11.6)], d - 2)])
    c = c.astype(np.float32)
    lost = float(total(c * c, np.arange)) / (c.astype(np.float64) ** 2).sum() - 1
    _, along = norm_rounding(d, np.zeros(1), replace_small(machine))
    return abs(lost) / 2, along[0]


def one_heavy_token(T=2000):
    """[CLS] has weight 1 and every other token 2^-25; all values are 1."""
    model = random_transformer(1, T=T, d=2, mlp_width=1)
    half = 12.5 * np.log(2)
    zero = jnp.zeros((2, 2, 1))
    new = {
        "W_Q": zero, "W_K": zero.at[:, 0].set(half), "W_V": zero, "b_Q": jnp.ones((2, 1)),
        "b_K": zero[:, 0], "b_V": jnp.ones((2, 1)),
    }  # fmt: skip
    block = model.blocks[0]
    for name, value in new.items():
        block = eqx.tree_at(lambda b, name=name: getattr(b, name), block, value)
    plain = LayerNorm(jnp.ones(2), jnp.zeros(2))
    block = eqx.tree_at(lambda b: b.ln1, block, plain)
    ends = (jnp.tile(jnp.array([-1.0, 1.0]), (2, 1)), jnp.zeros((T, 2)), jnp.array([1.0, -1.0]))
    places = lambda m: (m.embed, m.position, m.cls, m.blocks)  # noqa: E731
    return eqx.tree_at(places, model, (*ends, (block,)))


def _lost_shares(T):
    """The normaliser is summed from its small terms, the mean from its large one."""
    weights = np.concatenate([[1.0], np.full(T, 0.98 * 2.0**-25)]).astype(np.float32)
    D = total(weights, ORDERS["backwards"])
    return 1 - float(total(weights / D, np.arange))


def _shares(machine):
    model = one_heavy_token()
    found = _heads(model.blocks[0], token_stream(model, machine)[1], 1, 2001, machine)
    return _lost_shares(2000), found.error.max()


def _table(machine):
    model = one_heavy_token()
    layer = one_query_layer(model)
    np.testing.assert_allclose(layer.tables.weights[0].mid, 2.0**-25, rtol=1e-3)
    return _lost_shares(2000), as_run(model, layer.tables, machine)[0].heads.values.rad.max()


@pytest.mark.parametrize("case", [_residual, _product, _mean, _variance, _shares, _table])
def test_sums_come_near_their_bound_and_a_dropped_gamma_is_seen(case):
    lost, bound = case(FLOAT32)
    assert 0.02 * bound < lost <= bound
    assert lost > case(FAULTY)[1]


def welford(x):
    """The variance of every row in float32, one entry after the other."""
    mean = square = np.zeros(len(x), np.float32)
    for i, value in enumerate(x.T):
        away = value - mean
        mean = mean + away / np.float32(i + 1)
        square = square + away * (value - mean)
    return square / np.float32(x.shape[1])


@pytest.mark.parametrize("d", [5, 23, 64])
def test_the_variance_by_updates_is_within_the_error_that_is_assumed_of_it(d):
    """Rows far from 0, sorted, with an outlier, of two values, over three orders of size."""
    z = np.random.default_rng(d).normal(size=(200, d))
    two = np.where(np.arange(d) % 2, 1, -1) * (1 + 1e-3 * z)
    kinds = [z, np.sort(z), z * np.where(np.arange(d), 1, 50), two, np.geomspace(1e-3, 1, d) * z]
    x = np.concatenate([k + shift for k in kinds for shift in (0, 1, 30, 1e3, 1e4)])
    x = x.astype(np.float32)
    exact = x.astype(np.longdouble)
    mean, variance = exact.mean(1), exact.var(1)
    bound = FLOAT32.sum(2 * d + 16) * (1 + abs(mean) / np.sqrt(variance))
    share = (abs(welford(x) - variance) / variance / bound).max()
    assert 0.02 < share < 1


def test_scores_with_a_large_key_bias_are_not_promised_in_float32():
    model, f = random_transformer(1, T=5), parse("x1 & x4", 5)
    far = eqx.tree_at(lambda m: m.blocks[0].b_K, model, model.blocks[0].b_K + 1e5)
    off = np.abs(run(far, X, np.float32) - run(far, X, np.float64)).max()
    found, calm = (every_input(m, f) for m in (far, model))
    assert 1e-4 < off < found.error32 and calm.error32 < 1e-2 * found.error32
    assert found.margin == pytest.approx(calm.margin, abs=1e-6)


def test_every_input_is_within_its_error_of_a_wider_type():
    model = random_transformer(5, T=5, layers=2, activation="relu")
    f = parse("x0 ^ x3", 5)
    found = every_input(model, f, threshold=0.1, block=8)
    wide = run(model, X, np.longdouble) - np.longdouble(0.1)
    signed = np.where(f(X) > 0.5, wide, -wide)
    assert abs(float(signed.min()) - found.margin) <= found.error < 1e-4
    np.testing.assert_array_equal(found.bits, X[signed.argmin()])
    value, error = real_logit(model, found.bits)
    assert abs(float(wide[signed.argmin()]) + 0.1 - value) <= error <= found.error


@pytest.mark.parametrize(("least", "status"), [(0.2, "proved"), (-0.2, "refuted")])
def test_two_layers_are_decided_in_real_arithmetic(least, status):
    model = random_transformer(5, T=5, layers=2, activation="relu")
    moved = least - run(model, X, np.float64).min()
    model = eqx.tree_at(lambda m: m.b, model, model.b + np.float32(moved))
    found = on_all_inputs(oracle(model), parse("1", 5), np.random.default_rng(0), p=0.5)
    assert found.status == status and found.found_margin == pytest.approx(least, abs=1e-6)
    assert "run in float64, off by at most" in found.method and not found.asked_all
    if status == "proved":
        assert found.holds[0] == "real arithmetic" and 0 < found.margin < found.found_margin
    else:
        bad = np.isin(np.arange(5), found.counterexample)[None].astype(np.uint8)
        assert run(model, bad, np.longdouble)[0] < 0 and found.holds == ()


def test_what_has_no_bound_says_so():
    model = random_transformer(1, T=5)
    assert forward_error(model, (0.0, 0.0), FLOAT64) < np.inf  # sigma is at least the root of eps
    huge = eqx.tree_at(lambda m: m.blocks[0].W_out, model, model.blocks[0].W_out * 1e36)
    assert forward_error(huge, (1.0, 1.0)) == np.inf
    with pytest.raises(InputError, match="deviations: wanted 2 numbers, got 1"):
        forward_error(model, (1.0,))
    plain = random_transformer(1, T=5, layer_norm=False)
    assert every_input(plain, parse("x1", 5)) is None and layer_as_run(plain, FLOAT32) is None
    with pytest.raises(InputError, match="no LayerNorm"):
        forward_error(plain, (1.0, 1.0))
