"""Stacks in both forms: against plain NumPy, against their own parts, and under vmap."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from capax.attention import (
    DeterministicPositions,
    PaperBlock,
    PaperStack,
    Transformer,
    TransformerSpec,
    activation,
    activation_lipschitz,
    assemble,
    layer_norm,
    parameters,
    project_rows,
    transformer_spec,
)
from capax.errors import InputError

T = 7
SMALL = {"T": T, "d": 6, "heads": 3, "mlp_width": 5, "layers": 2, "init_scale": 0.4}
BITS = np.array([1, 0, 0, 1, 1, 0, 1], dtype=np.uint8)


@settings(max_examples=30)
@given(
    Y=arrays(np.float64, (5, 3), elements=st.floats(-4, 4, allow_subnormal=False)),
    radius=st.floats(0.1, 3.0),
)
def test_projection_onto_the_ball(Y, radius):
    """Short rows stay, long rows end on the sphere, and distances never grow."""
    P = np.asarray(jax.jit(project_rows)(Y, jnp.asarray(radius)))
    before, after = np.linalg.norm(Y, axis=1), np.linalg.norm(P, axis=1)
    np.testing.assert_allclose(after, np.minimum(before, radius), rtol=1e-12, atol=1e-150)
    short = before <= radius
    np.testing.assert_allclose(P[short], Y[short], rtol=1e-14)
    moved = np.linalg.norm(P[:, None] - P[None], axis=-1)
    assert np.all(moved <= np.linalg.norm(Y[:, None] - Y[None], axis=-1) + 1e-12)


def test_projection_is_differentiable_at_zero():
    J = jax.jacobian(project_rows)(jnp.zeros(3))
    np.testing.assert_array_equal(J, np.eye(3))


def paper_stack(layers=2, width=5):
    encoding = DeterministicPositions(T)
    rng = np.random.default_rng(0)
    blocks, d = [], encoding.d
    for _ in range(layers):
        shapes = ((d, 3), (d, 3), (d, 4), (4, width))
        blocks.append(PaperBlock(*(jnp.asarray(rng.normal(size=s)) for s in shapes)))
        d = width
    return PaperStack(encoding, tuple(blocks), jnp.asarray(rng.normal(size=d)))


def test_paper_stack_against_numpy():
    model = paper_stack()

    def project(Y):
        return Y / np.maximum(1, np.linalg.norm(Y, axis=1, keepdims=True))

    X = np.asarray(model.encoding(BITS).dense())
    seen = []
    for block in model.blocks:
        W_Q, W_K, W_V, W_C = map(np.asarray, (block.W_Q, block.W_K, block.W_V, block.W_C))
        powers = np.exp(X @ W_Q @ W_K.T @ X.T)
        a = powers / powers.sum(1, keepdims=True)
        seen.append(a[-1])
        X = project(np.maximum(project(a @ X @ W_V), 0) @ W_C)
    y, weights = run(model, BITS, return_weights=True)
    assert float(y) == pytest.approx(float(X[-1] @ np.asarray(model.w)), rel=1e-12)
    for got, want in zip(weights, seen, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-12


def test_paper_stack_refuses_what_does_not_fit():
    good = paper_stack()
    with pytest.raises(InputError, match="blocks: wanted at least one"):
        PaperStack(good.encoding, (), good.w)
    with pytest.raises(InputError, match=r"blocks\.1\.W_Q: wanted 5 rows"):
        PaperStack(good.encoding, (good.blocks[0], good.blocks[0]), good.w)
    with pytest.raises(InputError, match="w: wanted shape"):
        PaperStack(good.encoding, good.blocks, jnp.ones(6))


def plain_transformer(model, bits):
    """Every token through every block, in NumPy, written without the library."""
    p = {path: np.asarray(leaf, np.float64) for path, leaf in parameters(model).items()}
    erf = np.vectorize(math.erf)

    def ln(x, path):
        if f"{path}.gain" not in p:
            return x
        unit = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return unit * p[f"{path}.gain"] + p[f"{path}.bias"]

    x = np.vstack([p["embed"][bits] + p["position"], p["cls"]])
    weights = []
    for i in range(model.spec.layers):
        q = {name.removeprefix(f"blocks.{i}."): leaf for name, leaf in p.items()}
        u, seen = ln(x, f"blocks.{i}.ln1"), []
        read = np.zeros_like(x) + q["b_O"]
        for h in range(model.spec.heads):
            Q, K, V = (u @ q[f"W_{n}"][h] + q[f"b_{n}"][h] for n in "QKV")
            powers = np.exp(Q @ K.T / math.sqrt(model.spec.head_width))
            a = powers / powers.sum(1, keepdims=True)
            seen.append(a[-1])
            read += a @ V @ q["W_O"][h]
        x = x + read
        hidden = ln(x, f"blocks.{i}.ln2") @ q["W_in"] + q["b_in"]
        x = x + (0.5 * hidden * (1 + erf(hidden / math.sqrt(2)))) @ q["W_out"] + q["b_out"]
        weights.append(np.stack(seen))
    return float(ln(x, "ln_final")[-1] @ p["w"] + p["b"]), weights


def shaken(spec, dtype=np.float64):
    """A model whose biases and gains are not at their initial values."""
    rng = np.random.default_rng(2)
    return assemble(
        spec,
        {
            path: jnp.asarray((0.5 * rng.normal(size=shape) + path.endswith("gain")).astype(dtype))
            for path, shape in spec.shapes().items()
        },
    )


@eqx.filter_jit
def run(model, bits, **options):
    return model(bits, **options)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("layers", [1, 2])
def test_transformer_against_numpy(layers, layer_norm):
    model = shaken(TransformerSpec(**{**SMALL, "layers": layers, "layer_norm": layer_norm}))
    logit, weights = run(model, BITS, return_weights=True)
    want, seen = plain_transformer(model, BITS)
    assert float(logit) == pytest.approx(want, rel=1e-11)
    assert [a.shape for a in weights] == [(3, T + 1)] * layers
    np.testing.assert_allclose(np.stack(weights), np.stack(seen), atol=1e-12)


def test_float32_agrees_with_float64():
    spec = TransformerSpec(**SMALL)
    y = run(shaken(spec, np.float32), BITS)
    assert y.dtype == jnp.float32
    assert float(y) == pytest.approx(plain_transformer(shaken(spec), BITS)[0], rel=1e-4)


def test_mask_hides_tokens():
    """A hidden token's symbol cannot matter."""
    model = shaken(TransformerSpec(**{**SMALL, "layers": 1}))
    keep = jnp.asarray(np.arange(T) != 3)
    other = BITS.copy()
    other[3] = 1 - other[3]
    y, weights = run(model, BITS, mask=keep, return_weights=True)
    assert float(y) == float(run(model, other, mask=keep, return_weights=True)[0])
    assert all(np.all(np.asarray(a)[:, 3] == 0) for a in weights)
    assert float(run(model, BITS)) != float(run(model, other))


def test_many_models_and_many_examples_at_once():
    spec = TransformerSpec(**{**SMALL, "layers": 1})
    keys = jax.random.split(jax.random.key(3), 4)
    models = jax.jit(jax.vmap(lambda key: Transformer.init(spec, key=key)))(keys)
    X = np.random.default_rng(0).integers(0, 2, (5, T)).astype(np.uint8)
    logits = jax.jit(lambda ms, X: jax.vmap(lambda m: jax.vmap(m)(X))(ms))(models, X)
    assert logits.shape == (4, 5)
    alone = jax.tree.map(lambda leaf: leaf[2], models)
    np.testing.assert_allclose(logits[2, 3], run(alone, X[3]), rtol=1e-5, atol=1e-6)


def test_initial_values():
    """Weights ~ N(0, 0.02^2): with over 10^5 draws the sample deviation is off by > 2 % with
    probability below 1e-15; biases 0, gains 1."""
    spec = TransformerSpec(T=101)
    model = jax.jit(lambda key: Transformer.init(spec, key=key))(jax.random.key(0))
    p = parameters(model)
    weights = {
        n for n in p if n.split(".")[-1][:2] == "W_" or n in ("embed", "position", "cls", "w")
    }
    drawn = np.concatenate([np.ravel(p[n]) for n in weights])
    assert np.std(drawn) == pytest.approx(0.02, rel=0.02)
    for name in p.keys() - weights:
        np.testing.assert_array_equal(p[name], 1.0 if name.endswith("gain") else 0.0)
    assert p["blocks.0.W_Q"].shape == (16, 64, 4)
    assert sum(leaf.size for leaf in p.values()) == sum(
        leaf.size for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))
    )


def test_assemble_undoes_parameters():
    model = shaken(TransformerSpec(**SMALL))
    again = assemble(model.spec, parameters(model))
    assert eqx.tree_equal(model, again)
    leaves = parameters(model)
    del leaves["blocks.1.ln2.gain"]
    with pytest.raises(InputError, match=r"blocks\.1\.ln2\.gain: wanted an array"):
        assemble(model.spec, leaves)


@pytest.mark.parametrize("name", ["identity", "relu", "tanh", "gelu"])
def test_activation_slopes(name):
    """L_sigma is the largest slope on a fine grid, and sigma(0) = 0."""
    x = np.linspace(-6, 6, 200_001)
    y = np.asarray(activation(name)(jnp.asarray(x)))
    slope = np.abs(np.diff(y) / np.diff(x)).max()
    assert slope <= activation_lipschitz(name) * (1 + 1e-9)
    assert slope == pytest.approx(activation_lipschitz(name), rel=1e-6)
    assert float(activation(name)(jnp.zeros(()))) == 0


def test_layer_norm_bounds():
    """Output norm at most sqrt(d), and Lipschitz 1 / sqrt(1e-5) everywhere."""
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(50, 5)) * 10.0 ** rng.uniform(-6, 3, (50, 1)))
    y = np.asarray(layer_norm(x, jnp.ones(5), jnp.zeros(5)))
    assert np.linalg.norm(y, axis=1).max() <= math.sqrt(5)
    apart = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(x)[None], axis=-1)
    moved = np.linalg.norm(y[:, None] - y[None], axis=-1)
    assert np.all(moved <= apart / math.sqrt(1e-5) + 1e-12)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"T": 0}, "T: Input should be greater than or equal to 1, got 0"),
        ({"T": 5, "d": 10, "heads": 4}, "heads: wanted a divisor of d = 10, got 4"),
        ({"T": 5, "activation": "gely"}, "activation: wanted one of"),
        ({"T": 5, "normalizer": "max"}, "normalizer: wanted one of"),
        ({"T": 5, "head": 4}, "head: not a field of a Transformer; did you mean heads"),
        ({"T": 5, "zzz": 4}, "zzz: not a field of a Transformer"),
        ({"T": 5, "init_scale": float("nan")}, "init_scale: "),
    ],
)
def test_spec_mistakes_in_one_line(fields, message):
    with pytest.raises(InputError) as caught:
        transformer_spec(**fields)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_unknown_activation():
    for ask in (activation, activation_lipschitz):
        with pytest.raises(InputError, match="activation: wanted one of"):
            ask("swish")


def test_spec_is_frozen_and_hashable():
    spec = TransformerSpec(T=5)
    assert hash(spec) == hash(TransformerSpec(T=5))
    with pytest.raises(ValueError, match="frozen"):
        spec.d = 3
