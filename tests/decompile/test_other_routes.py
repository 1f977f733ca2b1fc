"""Beside the formula: hold-out, PAC-Bayes and norms, each with its own price."""

import math
import warnings
from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decompile_cases import random_transformer

from capax.boolean import parse
from capax.capacity.certificates.pac_bayes import pac_bayes_bound
from capax.compiler import compile
from capax.decompile.bounds.description import description_bits
from capax.decompile.bounds.other_routes import Prior, around_weights, other_routes
from capax.decompile.bounds.training_data import TrainingData
from capax.decompile.decompiling import decompile
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError


def examples(f, m, T, seed=0):
    X = np.random.default_rng(seed).integers(0, 2, (m, T)).astype(np.uint8)
    return TrainingData(X, f(X).astype(np.uint8))


def by_name(routes, beginning):
    return next(b for b in routes.found if b.statement.startswith(beginning))


def test_float64_weights_are_not_narrowed_in_32_bit_jax():
    """A float32 product of these weights has norm below 1; the real one is above."""
    f = parse("x1 & x4", 9)
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda x: x.astype(jnp.float64) * (1 + 1e-9) if eqx.is_inexact_array(x) else x,
            compile(f, 9, encoding="incoherent").model,
        )
    data = examples(f, 30, 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        narrow = other_routes(oracle(model), f, data, 0.05)
    with jax.enable_x64(True):
        wide = other_routes(oracle(model), f, data, 0.05)
    assert [b.value for b in narrow.found] == [b.value for b in wide.found]
    assert len(narrow.found) == 3 and not narrow.skipped


@pytest.mark.parametrize("text", ["x2 & x7", "x3 & ~x5", "maj(x1, x2, x9)"])
def test_pac_bayes_over_formulas_is_the_code_less_the_survivors(text):
    f, T, m = parse(text, 12), 12, 14
    data = examples(f, m, T, seed=3)
    found = by_name(other_routes(oracle(lambda X: f(X) - 0.5, T), f, data, 0.05), "Gibbs")
    left = set()
    for places in permutations(range(T), f.s):
        rows = sum(data.X[:, t].astype(int) << i for i, t in enumerate(places))
        if (f.table[rows] == data.y).all():
            left.add(frozenset(places) if f.is_symmetric else places)
    kl = description_bits(f, T) * math.log(2) - math.log(len(left))
    assert found.value == pytest.approx(pac_bayes_bound(0.0, kl, m, 0.05).value, rel=1e-6)


def test_pac_bayes_around_the_weights_needs_a_prior_near_by():
    model = random_transformer(1, T=5)
    bits = np.random.default_rng(0).integers(0, 2, (64, 5)).astype(np.uint8)
    data = TrainingData(bits, oracle(model)(bits).astype(np.uint8))
    (alone,) = around_weights(model, data, 0.05, 0.0, None)
    assert alone.vacuous and "not sampled" in alone.notes[0]
    (near,) = around_weights(model, data, 0.05, 0.0, Prior(model, 14))
    assert near.value < 1 and near.norms["KL"] == 0 and near.norms["n"] == 50
    assert near.predictor == "the Gibbs predictor around the model"
    with pytest.raises(InputError, match="prior_size: wanted between 0 and 56 of 64"):
        list(around_weights(model, data, 0.05, 0.0, Prior(model, 60)))


def test_redrawn_training_sets_are_paid_for_by_every_route_on_them():
    f, T = parse("x2 & x7", 12), 12
    asked, data = oracle(lambda X: f(X) - 0.5, T), examples(f, 40, T)
    data = TrainingData(data.X, data.y, data.X, data.y)
    free, paid = (other_routes(asked, f, data, 0.05, tried) for tried in ((0, 0), (1, 40)))
    assert by_name(paid, "Gibbs").value > by_name(free, "Gibbs").value
    assert by_name(paid, "Hold-out").value == by_name(free, "Hold-out").value
    assert {b.delta for b in paid.found} == {0.05}


def test_a_route_that_fails_is_said_and_the_others_stand():
    model = jax.tree.map(
        lambda x: 0 * x if eqx.is_inexact_array(x) else x, random_transformer(2, T=5)
    )
    f = parse("0", 5)
    found = decompile(model, examples(f, 20, 5), pairs=50, fillers=4, fresh=50)
    assert found.formula.text == "0" and 0 < found.certificate.bound.value < 1
    assert any(why.startswith("PAC-Bayes over formulas") for why in found.certificate.skipped)
    assert found.to_json()["certificate"]["skipped"] == list(found.certificate.skipped)
