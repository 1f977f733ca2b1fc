"""Measured models: tables reproduce scores, certificates hold on data, every type is answered."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from capax.attention import (
    AttentionLayer,
    BagOfVectors,
    BilinearScore,
    ClsMLP,
    ClsScalar,
    DeterministicPositions,
    Hardmax,
    Head,
    IncoherentCodes,
    Linear,
    OrthonormalBag,
    PaperBlock,
    PaperStack,
    Rowwise,
    Softmax,
    TrainablePositions,
    Transformer,
    TransformerSpec,
)
from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.certificates.portfolio import bound_from_norms
from capax.capacity.certificates.tails import holdout_bound
from capax.capacity.linear.norms import norm_2_1
from capax.capacity.margins import margins as margins_file
from capax.capacity.network.head_bounds import linear_head
from capax.capacity.network.sample_points import Sample
from capax.capacity.routes.certifying import certify, certify_margins
from capax.capacity.weights.model_bounds import measure
from capax.capacity.weights.one_layer_bounds import head_tables
from capax.capacity.weights.table_norms import score_table_norm, value_table_norms, value_weights
from capax.errors import InputError
from one_line import one_line


def normal(*shape, seed=0, scale=1.0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape) * scale)


def test_batches_change_nothing(monkeypatch):
    """Five batches of 7, the last one filled up; all 31 rows in one."""
    model, X = and_head(5, (1, 3)), np.arange(31)[:, None] >> np.arange(5) & 1
    y = X[:, 1] & X[:, 3]
    whole = margins_file.margins_of(model, X, y)
    monkeypatch.setattr(margins_file, "BATCH", 7)
    np.testing.assert_allclose(margins_file.margins_of(model, X, y), whole, rtol=1e-12)
    assert whole.shape == (31,)


def and_head(T, support, a=6.0, D=5.0):
    """Detect a zero, otherwise sit on [CLS]; positive output means AND."""
    d = T + 3
    kappa, W_Q, W_V = np.zeros((d, 1)), np.zeros((d, 1)), np.zeros((d, 1))
    kappa[list(support)], kappa[T + 1], kappa[T + 2] = a, -D, a - 2.0
    W_Q[-1], W_V[list(support)], W_V[-1] = 1.0, -1.0, 1.0
    arrays = (jnp.asarray(x) for x in (W_Q, kappa, W_V))
    return ClsScalar(DeterministicPositions(T), *arrays, jnp.ones((1, 1)), jnp.ones(1))


def and_data(T, support, m, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((m, T)) < 0.5 ** (1 / len(support))).astype(np.int64)
    return X, X[:, list(support)].all(axis=1).astype(np.int64)


def test_measured_head_is_the_one_written_down():
    measured = measure(and_head(7, (1, 4)))
    kappa = math.sqrt(2 * 36 + 25 + 16)
    assert measured.quantities["W_QK_F"] == pytest.approx(kappa)
    assert measured.quantities["v_2"] == pytest.approx(math.sqrt(3))
    assert measured.quantities["B_phi"] == pytest.approx(1.0)
    assert (measured.T, measured.alphabet) == (7, 2)


def test_a_description_of_another_predictor_never_speaks_for_the_model():
    """The described formula has a tiny bound; the model's own bounds stay what they are."""
    X, y = and_data(9, (1, 4, 7), 4000)
    model = and_head(9, (1, 4, 7))
    certificate = certify(model, X, y, target=0.1, described=(55, 0), holdout=(30, 1000))
    uniform, realizable, occam, holdout = certificate.entries
    assert occam.value < holdout.value < min(realizable.value, uniform.value)
    assert certificate.best is holdout
    assert certificate.best_of_each() == {"the model": holdout, "the described predictor": occam}
    assert certificate.m_needed > 2 * occam.m_needed
    assert certificate.union_cost == pytest.approx(math.log(4))
    without = certify(model, X, y, target=0.1, described=(55, 0))
    assert without.best in without.entries[:2]
    assert without.best.value > 5 * without.entries[2].value
    text = without.explain()
    for piece in ("with probability 0.95: error of the model", "nats", "realizable"):
        assert piece in text
    rows = without.to_json()["portfolio"]
    assert [row["predictor"] for row in rows] == ["the model"] * 2 + ["the described predictor"]
    assert math.fsum(row["delta"] for row in rows) == pytest.approx(0.05)
    assert all(row["assumes"] for row in rows)
    assert rows[2]["m_needed"] == pytest.approx(423, rel=0.1)


def test_conditioning_is_paid_before_and_never_turns_a_probability_negative():
    measured = measure(and_head(9, (1, 4, 7)))
    settings = {"holdout": (3, 100), "described": (30, 0)}
    free = certify_margins(measured, [0.6] * 10**5, **settings)
    paid = certify_margins(measured, [0.6] * 10**5, tries=10**6, **settings)
    assert 0 < paid.delta == 0.05 < 1
    assert "with probability 0.95" in paid.headline()
    shares = [entry.delta for entry in paid.entries]
    assert math.fsum(shares) + paid.conditioning.delta == pytest.approx(0.05)
    for before, after in zip(free.entries[:3], paid.entries[:3], strict=True):
        assert after.value > before.value
    # the hold-out set was not selected: it pays for one more statement and nothing else
    assert paid.entries[3].value == pytest.approx(holdout_bound(3, 100, 0.01).value)
    nats = paid.conditioning.cost
    assert nats == pytest.approx(math.log(10**6 / 0.01), rel=0.01)


def test_a_certificate_spends_no_more_than_it_says():
    bounds = tuple(holdout_bound(1, 50, 0.03) for _ in range(2))
    with pytest.raises(InputError, match="shares that add up to delta"):
        ErrorCertificate(bounds, 0.05)
    with pytest.raises(InputError, match="delta: wanted"):
        ErrorCertificate(bounds[:1], 1.5)


def test_more_data_and_larger_margins_give_smaller_certificates():
    measured = measure(and_head(9, (1, 4, 7)))
    values = [certify_margins(measured, [0.6] * m).best.log_value for m in (100, 10_000, 10**6)]
    assert values == sorted(values, reverse=True)
    wide, narrow = (certify_margins(measured, [u] * 10**5).best.log_value for u in (0.6, 0.3))
    assert wide <= narrow
    training_errors = certify_margins(measured, [0.6, -0.1] * 500)
    assert len(training_errors.entries) == 1
    assert [str(route) for route in training_errors.skipped] == [
        "realizable margin bound: 500 training margins are not positive"
    ]
    assert training_errors.vacuous


def test_shares_do_not_depend_on_the_sample():
    measured = measure(and_head(9, (1, 4, 7)))
    separable, not_separable = ([0.5] * 10, [0.5] * 9 + [-0.5])
    for margins in (separable, not_separable):
        entry = certify_margins(measured, margins, delta=0.04).entries[0]
        assert entry.norms["delta"] == pytest.approx(0.02)


def test_bound_from_norms():
    certificate = bound_from_norms(
        linear_head(5.0, 2.0), Sample(1000, 50), margin=0.5, delta=0.05, target=0.1
    )
    assert certificate.best.m_needed > 1000
    assert [entry.delta for entry in certificate.entries] == [0.025, 0.025]


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from([(3, 2), (5, 3), (2, 4)]))
def test_score_table_norm_is_the_smallest(seed, shape):
    rng = np.random.default_rng(seed)
    g, g_cls = rng.normal(size=shape), float(rng.normal())
    T, A = shape

    def cost(x):
        pi, psi, const = x[:T], x[T : T + A], x[-1]
        xi = g + const - pi[:, None] - psi
        return float(pi @ pi + psi @ psi + (xi**2).sum() + (g_cls + const) ** 2)

    best = minimize(cost, np.zeros(T + A + 1), method="BFGS", options={"gtol": 1e-9})
    assert score_table_norm(g, g_cls) == pytest.approx(math.sqrt(best.fun), rel=1e-6)


def test_value_weights_reproduce_the_table():
    rng = np.random.default_rng(0)
    v, v_cls = rng.normal(size=(5, 3, 2)), rng.normal(size=2)
    weights = value_weights(v, v_cls)
    pi, psi, xi, chi = np.split(weights, [5, 8, 23])
    np.testing.assert_allclose(pi[:, None] + psi + xi.reshape(5, 3, 2), v, atol=1e-12)
    np.testing.assert_allclose(chi[0], v_cls)
    naive = np.concatenate([v.reshape(15, 2), v_cls[None]])
    assert value_table_norms(v, v_cls).norm_F <= np.linalg.norm(naive)
    assert value_table_norms(v, v_cls).norm_2_1 >= norm_2_1(weights)


@pytest.mark.parametrize("layer_norm", [True, False])
def test_head_tables_reproduce_the_transformer(layer_norm):
    spec = TransformerSpec(T=5, d=12, heads=3, mlp_width=7, layer_norm=layer_norm, init_scale=0.5)
    model = Transformer.init(spec, key=jax.random.key(1), dtype=jnp.float64)
    model = eqx.tree_at(lambda m: m.blocks[0].b_V, model, normal(3, 4, seed=2))
    model = eqx.tree_at(lambda m: m.blocks[0].b_Q, model, normal(3, 4, seed=3))
    model = eqx.tree_at(lambda m: m.blocks[0].b_O, model, normal(12, seed=4))
    bits = np.array([0, 1, 1, 0, 1])
    row = np.zeros(12)
    for h in range(3):
        g, g_cls, v, v_cls = head_tables(model, h)
        scores = np.append(g[np.arange(5), bits], g_cls)
        weights = np.exp(scores - scores.max())
        row += weights @ np.vstack([v[np.arange(5), bits], v_cls]) / weights.sum()

    @eqx.filter_jit
    def cls_after_attention(model, bits):
        X = model.tokens(bits)
        return X[-1] + model.blocks[0].attention(X[-1:], X)[0][0]

    np.testing.assert_allclose(row, np.asarray(cls_after_attention(model, bits)), atol=1e-10)


ENCODINGS = {
    "deterministic": lambda T, _: DeterministicPositions(T),
    "orthonormal bag": lambda T, _: OrthonormalBag(T),
    "trainable": lambda T, d: TrainablePositions(normal(2, d), normal(T, d), normal(d)),
    "bag": lambda T, d: BagOfVectors(normal(T, d), normal(d)),
    "codes": lambda T, d: IncoherentCodes(T, d, jax.random.key(0), dtype=jnp.float64),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_every_encoding_is_measured(name, activation):
    encoding = ENCODINGS[name](5, 6)
    d = encoding.d
    arrays = (normal(d, 2), normal(d, 2), normal(d, 3), normal(3, 4), normal(4))
    model = ClsScalar(encoding, *arrays, activation=activation)
    measured = measure(model)
    bound = measured.exact().cover(measured.sample(100), 0.5)
    assert bound.value > 0
    assert measured.rounded()[0].cover(measured.sample(100), 0.5).value >= bound.value
    # the absorbed score norm bounds every score difference from the centre
    bits = jnp.asarray([0, 1, 1, 0, 1])
    dense = np.asarray(eqx.filter_jit(lambda code, x: code(x) @ jnp.eye(d))(encoding, bits))
    scores = dense @ np.asarray(model.W_K @ (model.W_Q.T @ dense[-1]))
    assert np.ptp(scores) <= 2 * measured.quantities["W_QK_F"] * math.sqrt(2) * 1.5


def stack(d=8):
    block = PaperBlock(normal(d, 2), normal(d, 2), normal(d, 3), normal(3, d))
    return PaperStack(DeterministicPositions(5), (block, block), normal(d))


def transformer(layers, layer_norm):
    spec = TransformerSpec(T=5, d=8, heads=2, layers=layers, mlp_width=7, layer_norm=layer_norm)
    return Transformer.init(spec, key=jax.random.key(0), dtype=jnp.float64)


MODELS = {
    "ClsMLP": lambda: ClsMLP(
        DeterministicPositions(5),
        *(normal(8, 2), normal(8, 2), normal(8, 3), normal(3, 4), normal(4), normal(4)),
        jnp.asarray(0.3),
    ),
    "AttentionLayer": lambda: AttentionLayer(
        normal(2, 8, 3), normal(2, 8, 3), normal(2, 8, 3), normal(2, 3, 8)
    ),
    "Head": lambda: Head(
        BilinearScore(normal(8, 8)), Softmax(), Linear(normal(8, 3)), Linear(normal(3, 2))
    ),
    "PaperStack": stack,
    "Transformer": lambda: transformer(1, True),
    "Transformer without layer norm": lambda: transformer(1, False),
    "Transformer of two layers": lambda: transformer(2, True),
    "Transformer of two layers without layer norm": lambda: transformer(2, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_module_type_has_a_bound(name):
    measured = measure(MODELS[name]())
    sample = measured.sample(100, T=5)
    assert measured.T in (5, None)
    bound = measured.exact().cover(sample, 1e-3)  # below the reach of freshly drawn weights
    assert bound.value > measured.exact().cover(sample, 5.0).value
    assert all(check.holds is not False for check in measured.checks(5))
    rounded, grid = measured.rounded()
    assert grid.cost >= len(measured.quantities) * math.log(2) * (1 - 1e-12)
    assert rounded.cover(sample, 1e-3).log_value >= bound.log_value - 1e-9


def nan_head():
    return eqx.tree_at(lambda m: m.W_V, and_head(5, (1,)), jnp.full((8, 1), jnp.nan))


X, Y = and_data(5, (1,), 7)
BAD = [
    (lambda: measure(eqx.nn.MLP(2, 2, 2, 1, key=jax.random.key(0))), "no bound for MLP"),
    (lambda: measure(nan_head()), "W_V: wanted finite entries"),
    (
        lambda: measure(eqx.tree_at(lambda m: m.W_K, and_head(5, (1,)), jnp.zeros((8, 1)))),
        "W_QK: wanted a matrix that is not zero",
    ),
    (
        lambda: measure(
            Head(BilinearScore(normal(3, 3)), Softmax(), Rowwise(lambda x: x), Linear(normal(3, 2)))
        ),
        "phi_in, phi_out",
    ),
    (
        lambda: measure(
            Head(BilinearScore(normal(3, 3)), Hardmax(), Linear(normal(3, 3)), Linear(normal(3, 2)))
        ),
        "normalizer",
    ),
    (lambda: certify(and_head(5, (1,)), X, Y[:3]), "y: wanted 7 labels"),
    (lambda: certify(and_head(5, (1,)), X, Y + 1), "y: wanted labels 0 and 1"),
    (lambda: certify(and_head(5, (1,)), X, Y, delta=1.0), "delta"),
    (lambda: certify(nan_head(), X, Y), "finite"),
    (lambda: certify_margins(measure(and_head(5, (1,))), []), "margins"),
    (lambda: certify_margins(measure(and_head(5, (1,))), [math.nan]), "margins"),
    (lambda: certify_margins(measure(and_head(5, (1,))), [1.0], tries=0), "tries"),
    (lambda: certify(and_head(5, (1,)), X + 0.5, Y), "X: wanted symbols"),
    (lambda: score_table_norm(np.full((2, 2), np.nan), 0.0), "table"),
]


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_one_line(call, message):
    with one_line(message):
        call()
