"""Enclosures hold on every input, and would be caught if they were a little too narrow."""

from dataclasses import replace
from fractions import Fraction

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from decompile_cases import all_inputs, logits_of, random_transformer
from hypothesis import given, settings
from hypothesis import strategies as st

from capax.attention.parts.normalizers import Hardmax, Softmax
from capax.boolean import parse
from capax.compiler import compile
from capax.compiler.proof.enclosed import between
from capax.decompile.proof import all_inputs as all_inputs_module
from capax.decompile.proof.all_inputs import on_all_inputs
from capax.decompile.proof.branching import Leaves, _Cell, branch
from capax.decompile.proof.enclosure import _product, enclose
from capax.decompile.proof.head_sets import Cells, HeadSets, extremes
from capax.decompile.proof.one_query_layer import one_query_layer
from capax.decompile.proof.relaxation import relaxed
from capax.decompile.reading.oracle import oracle
from capax.errors import InputError


def cells_of(X, fixed, rows, first, last):
    """Which inputs lie in each cell."""
    pattern = sum((X[:, t].astype(int) << i for i, t in enumerate(fixed)), np.zeros(len(X), int))
    rest = np.delete(X, list(fixed), axis=1).sum(1)
    return [
        (pattern == r) & (rest >= a) & (rest <= b)
        for r, a, b in zip(rows, first, last, strict=True)
    ]


def enclosed(model, cells):
    layer = one_query_layer(model)
    return enclose(layer, HeadSets(layer.tables, cells))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    scale=st.sampled_from([0.1, 0.5, 1.5, 4.0]),
    activation=st.sampled_from(["gelu", "relu", "tanh", "identity"]),
    layer_norm=st.booleans(),
    fixed=st.lists(st.integers(0, 6), unique=True, max_size=4).map(tuple),
)
def test_enclosures_hold_on_every_input(seed, scale, activation, layer_norm, fixed):
    model = random_transformer(seed, scale=scale, activation=activation, layer_norm=layer_norm)
    X = all_inputs(7)
    z = logits_of(model, X)
    F = 7 - len(fixed)
    rows = np.repeat(np.arange(1 << len(fixed)), 3)
    first = np.tile([0, 0, F // 2], 1 << len(fixed))
    last = np.tile([F, F // 2, F // 2], 1 << len(fixed))
    found = enclosed(model, Cells.at(fixed, rows, first, last))
    for i, inside in enumerate(cells_of(X, fixed, rows, first, last)):
        assert (z[inside] >= found.low[i]).all() and (z[inside] <= found.high[i]).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_slightly_narrowed_enclosure_is_caught(seed):
    model = random_transformer(seed)
    fixed = tuple(range(7))
    rows = np.arange(128)
    none = np.zeros(128, int)
    found = enclosed(model, Cells.at(fixed, rows, none, none))
    z = logits_of(model, all_inputs(7))
    assert (found.low <= z).all() and (z <= found.high).all()
    width = found.high - found.low
    assert width.max() < 1e-4 * np.ptp(z)  # one input each: a point up to rounding
    narrowed = found.low + 0.75 * width
    assert (z < narrowed).any()


def test_tables_say_what_the_model_says():
    model = random_transformer(3, T=11)
    X = np.random.default_rng(0).integers(0, 2, (64, 11))
    direct = np.asarray(jax.vmap(lambda b: model(b))(jnp.asarray(X, jnp.int32)))
    np.testing.assert_allclose(logits_of(model, X), direct, rtol=2e-5, atol=2e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), F=st.integers(0, 8))
def test_extremes_are_those_of_all_fillers(seed, F):
    rng = np.random.default_rng(seed)
    terms = rng.standard_normal((1, 3, F, 2)) * np.exp(3 * rng.standard_normal((1, 3, F, 2)))
    first = rng.integers(0, F + 1, 4)
    last = np.array([rng.integers(a, F + 1) for a in first])
    low, high = extremes(terms, Cells.at((), np.zeros(4, int), first, last))
    X = all_inputs(F) if F else np.zeros((1, 0), np.uint8)
    sums = np.stack([np.where(X, t[:, 1], t[:, 0]).sum(1) for t in terms[0]], axis=1)  # [n, 3]
    for i in range(4):
        inside = (X.sum(1) >= first[i]) & (X.sum(1) <= last[i])
        np.testing.assert_allclose(low[i], sums[inside].min(0), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(high[i], sums[inside].max(0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "tanh", "relu", "identity"])
def test_activations_lie_between_their_lines(name):
    rng = np.random.default_rng(1)
    low = rng.uniform(-6, 6, 200)
    high = low + 10.0 ** rng.uniform(-9, 1, 200)
    alpha, below, above = relaxed(name, low, high)
    exact = {
        "gelu": lambda h: h * (1 + mpmath.erf(h / mpmath.sqrt(2))) / 2,
        "gelu_tanh": lambda h: (
            h
            * (1 + mpmath.tanh(mpmath.sqrt(2 / mpmath.pi) * (h + mpmath.mpf(0.044715) * h**3)))
            / 2
        ),
        "tanh": mpmath.tanh,
        "relu": lambda h: max(h, mpmath.mpf(0)),
        "identity": lambda h: h,
    }[name]
    with mpmath.workdps(40):
        for i in range(200):
            for share in (0.0, 0.31, 0.5, 0.77, 1.0):
                h = mpmath.mpf(low[i]) + (mpmath.mpf(high[i]) - mpmath.mpf(low[i])) * share
                rest = exact(h) - mpmath.mpf(alpha[i]) * h
                assert below[i] <= rest <= above[i]
    assert np.median((above - below) / (high - low)) < 0.2  # and the lines are near


def test_products_of_ends_are_rounded_outward():
    """[low, high] times r in [least, most], every sign, against exact fractions."""
    rng = np.random.default_rng(0)
    low, high = np.sort(rng.normal(size=(2, 400)), axis=0)
    r = between(rng.uniform(0.3, 0.5, 400), rng.uniform(0.5, 0.9, 400))
    bottom, top = _product(low, high, r)
    for i in range(400):
        ends = [Fraction(float(x)) for x in (r.low[i], r.high[i])]
        assert Fraction(float(bottom[i])) <= min(Fraction(float(low[i])) * e for e in ends)
        assert Fraction(float(top[i])) >= max(Fraction(float(high[i])) * e for e in ends)


def enclosed_alone(model, f):
    """The verdict before inputs are asked about one by one."""
    rng = np.random.default_rng(0)
    return all_inputs_module._proved(oracle(model), f, rng, 0.5, 8, None, "no tables")


def test_only_a_plain_softmax_with_a_known_read_out_has_tables():
    made = compile("x0 & x1", 3).model
    for model, known in (
        (made, True),
        (replace(made, norm=Softmax(temperature=2.0)), False),
        (replace(made, norm=Hardmax()), False),
        (replace(made, activation="relu"), False),
        (compile("x0 ^ x1", 3).model, True),
    ):
        found = enclosed_alone(model, parse("x0", 3))
        assert (found.method == "no tables") != known


def test_an_activation_without_lines_is_refused():
    with pytest.raises(InputError, match=r"activation: wanted identity, relu, gelu, .*got 'silu'"):
        relaxed("silu", np.zeros(1), np.ones(1))


def test_the_chance_of_a_cell():
    """Bits 1 and 2 fixed to 1 and 0, at least two of the five others are ones."""
    chance = 0.3 * 0.7 * (1 - 0.7**5 - 5 * 0.3 * 0.7**4)
    assert _Cell((1, 2), 0b01, 2, 5).probability(7, 0.3) == pytest.approx(chance)
    nothing = Leaves(
        s=1, T=3, rows=np.zeros(1, int), fixed_ones=np.zeros(1, int), fixed=np.zeros(1, int),
        first=np.zeros(1, int), last=np.full(1, 2), margins=np.array([-1.0]), enclosed=1,
    )  # fmt: skip
    assert nothing.proved_ones(0.5) == (None, 0.0) and nothing.proved_share(0.5) == 0.0


@pytest.mark.parametrize(("number", "status"), [(-7.0, "refuted"), (7.0, "open"), (None, "open")])
def test_an_input_refutes_only_where_the_running_model_says_so(number, status, monkeypatch):
    """The search finds an input at which the tables say 0; the model as run may say otherwise."""
    model, f = random_transformer(3, T=5), parse("1", 5)
    model = eqx.tree_at(lambda m: m.b, model, model.b - 9)
    given = None if number is None else np.array([number])
    monkeypatch.setattr(all_inputs_module, "numbers", lambda *_: given)
    found = enclosed_alone(model, f)
    assert found.status == status
    assert (found.counterexample is not None) == (status == "refuted")
    assert found.found_margin < 0


def test_branching_covers_all_inputs_and_margins_hold():
    model = random_transformer(8, T=9, scale=1.0)
    X = all_inputs(9)
    z = logits_of(model, X)
    f = parse("x1 & x4", 9)
    leaves = branch(one_query_layer(model), f, most=200)
    assert leaves.fixed.max() > 1 and len(leaves.margins) > 20  # cells were cut, more than once
    assert leaves.proved_share(0.3) <= 1
    pattern = X[:, 1] + 2 * X[:, 4]
    signed = np.where(pattern == 3, z, -z)
    total = np.delete(X, [1, 4], axis=1).sum(1)
    covered = np.zeros(len(X), bool)
    for i in range(len(leaves.margins)):
        a, b = leaves.first[i] + leaves.fixed_ones[i], leaves.last[i] + leaves.fixed_ones[i]
        covered |= (pattern == leaves.rows[i]) & (total >= a) & (total <= b)
    assert covered.all()
    assert signed.min() >= leaves.margins.min()
    share = (
        np.array([0.3 ** X.sum(1)[j] * 0.7 ** (9 - X.sum(1)[j]) for j in range(len(X))])
        * (signed > 0)
    ).sum()
    assert leaves.proved_share(0.3) <= share + 1e-9


def test_hostile_scales_stay_sound():
    """Scores hundreds of nats apart: the enclosure may be wide, but it holds."""
    for seed in range(3):
        model = random_transformer(seed, T=6, scale=30.0)
        X = all_inputs(6)
        z = logits_of(model, X)
        rows, none = np.arange(4), np.zeros(4, int)
        found = enclosed(model, Cells.at((0, 3), rows, none, none + 4))
        for i, inside in enumerate(cells_of(X, (0, 3), rows, none, none + 4)):
            kept = z[inside][np.isfinite(z[inside])]
            assert (kept >= found.low[i]).all() and (kept <= found.high[i]).all()


def moved_weights(model, where, change):
    return eqx.tree_at(where, model, change(where(model)))


EXTREME = {
    "scores": lambda m: m.blocks[0].W_K,
    "values": lambda m: m.blocks[0].W_V,
    "outputs": lambda m: m.blocks[0].W_O,
    "hidden": lambda m: m.blocks[0].W_in,
    "positions": lambda m: m.position,
}


@pytest.mark.parametrize("where", EXTREME.values(), ids=EXTREME)
@pytest.mark.parametrize("size", [1e8, 1e37])
def test_extreme_weights_are_open_or_proved_and_raise_nothing(where, size):
    model = moved_weights(random_transformer(1), where, lambda W: W * np.float32(size))
    asked = oracle(model)
    found = on_all_inputs(asked, parse("x1 & x4", 7), np.random.default_rng(0), p=0.5, cells=16)
    assert found.status in ("open", "refuted") or found.asked_all
    assert found.found_margin is None or np.isfinite(found.found_margin)


def test_a_proof_is_about_real_arithmetic_and_says_how_far_the_running_model_is():
    """A key bias moves all scores of a head alike: nothing in real arithmetic, much in float32."""
    always = moved_weights(random_transformer(1), lambda m: m.b, lambda b: b + 9)
    biased = moved_weights(always, lambda m: m.blocks[0].b_K, lambda b: b + 1e7)
    f = parse("1", 7)
    found = [on_all_inputs(oracle(m), f, np.random.default_rng(0), p=0.5) for m in (always, biased)]
    assert [x.status for x in found] == ["proved", "proved"]
    assert found[0].margin == pytest.approx(found[1].margin)
    assert found[0].holds == ("real arithmetic", "float32") and found[1].holds[1:] == ()
    assert found[0].as_run < 1e-5 and found[1].as_run > 1e-2
