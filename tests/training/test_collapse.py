"""The collapse against PyTorch: forward and gradients, also when scores spread far."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention.collapsed.design import (
    in_thirds,
    one_hot,
    over_examples,
    over_positions,
    over_tokens,
)
from capax.attention.collapsed.one_layer import (
    attention_weights,
    collapse,
    expand,
    logits,
    support_mass,
    tabulate,
    tabulated_logits,
    why_not,
)
from capax.attention.transformer import Transformer, TransformerSpec
from capax.errors import InputError
from torch_transformer import as_written

T, m = 13, 7
VARIANTS = {
    "default": {},
    "no_layer_norm_three_symbols": {"layer_norm": False, "alphabet": 3},
    "one_head_paper_scale_relu": {"heads": 1, "scale": "paper", "activation": "relu"},
}


def spec(**changes) -> TransformerSpec:
    return TransformerSpec(**{"T": T, "d": 10, "heads": 5, "mlp_width": 11, **changes})


def model_of(spec, dtype=jnp.float64, spread=0.0):
    """All parameters random (biases and gains too); `spread` adds nats between the scores."""
    shapes = eqx.filter_eval_shape(Transformer.init, spec, key=jax.random.key(3), dtype=dtype)
    rng = np.random.default_rng(5)
    model = jax.tree.map(
        lambda x: jnp.asarray(rng.normal(size=x.shape, scale=0.3) + (x.shape == (spec.d,)), dtype),
        shapes,
    )
    if not spread:
        return model
    g = np.log(np.asarray(jax.jit(tabulate)(collapse(model)).w))
    factor = np.asarray(spread / np.max(g.max((0, 1)) - g.min((0, 1))), dtype)
    block = model.blocks[0]
    grown = [jnp.asarray(np.asarray(x) * factor) for x in (block.W_Q, block.b_Q)]
    return eqx.tree_at(lambda m: (m.blocks[0].W_Q, m.blocks[0].b_Q), model, grown)


def bits_of(spec):
    return jnp.asarray(np.random.default_rng(7).integers(0, spec.alphabet, (m, T)))


@jax.jit
@jax.value_and_grad
def collapsed_with_gradient(params, design, c):
    return logits(params, design) @ c


C = np.linspace(-1.0, 2.0, m)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
def test_forward_and_gradients_are_those_of_pytorch(changes):
    s = spec(**changes)
    model, bits = model_of(s), bits_of(s)
    z, _, wanted_grad = as_written(model, bits, C)
    got, grad = collapsed_with_gradient(collapse(model), one_hot(bits, s.alphabet, float), C)
    np.testing.assert_allclose(got, z @ C, rtol=1e-10)
    for a, b in zip(jax.tree.leaves(expand(grad, s)), jax.tree.leaves(wanted_grad), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("spread", [0.0, 8.0, 30.0])
def test_float32_stays_accurate_when_scores_spread(spread):
    """By one-hot products, and by those in thirds as tensor cores take them."""
    s = spec(scale="paper")
    exact, bits = model_of(s, spread=spread), bits_of(s)
    single = jax.tree.map(lambda x: jnp.asarray(np.asarray(x), jnp.float32), collapse(exact))
    z, _, wanted_grad = as_written(exact, bits, C)
    wanted = float(z @ C)
    for design in (one_hot(bits, 2, jnp.float32), in_thirds(bits, 2)):
        got, grad = collapsed_with_gradient(single, design, C.astype(np.float32))
        assert abs(float(got) - wanted) < 1e-5 * max(np.abs(C).sum(), abs(wanted))
        for a, b in zip(jax.tree.leaves(grad), jax.tree.leaves(collapse(wanted_grad)), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert np.abs(a - b).max() < 1e-5 * max(1.0, np.abs(b).max())


def test_products_in_thirds_lose_no_bit():
    """Whole numbers of 20 bits, scaled: sums of a dozen are exact in float32, in any order."""
    rng = np.random.default_rng(0)
    bits = jnp.asarray(rng.integers(0, 3, (m, T)), jnp.uint8)
    table = rng.integers(-(2**20), 2**20, (11, 3 * T)) * 2.0 ** rng.integers(-30, 30, (11, 1))
    numbers = rng.integers(-(2**20), 2**20, (m, 11)) * 2.0 ** rng.integers(-30, 30, 11)
    X, design = np.asarray(one_hot(bits, 3, float)), in_thirds(bits, 3)
    by_example = over_tokens(design, jnp.asarray(table, jnp.float32).reshape(11, 3, T))
    by_pair = over_examples(jnp.asarray(numbers, jnp.float32), design)
    np.testing.assert_array_equal(by_example, X @ table.T)
    np.testing.assert_array_equal(by_pair, numbers.T @ X)


def test_tables_serve_inference_and_attention():
    s = spec(alphabet=3)
    model, bits = model_of(s), bits_of(s)
    params = collapse(model)
    design = one_hot(bits, 3, jnp.float64)
    support, relevant = jnp.array([3, 11, 0]), jnp.array([1.0, 1.0, 0.0])

    @jax.jit
    def read(params):
        tab = tabulate(params)
        mass = support_mass(params, tab, design, bits, support, relevant)[1]
        values = tabulated_logits(params, tab, design)[0]
        return values, logits(params, design), attention_weights(tab, bits), mass

    values, wanted, shares, mass = map(np.asarray, read(params))
    np.testing.assert_allclose(values, wanted, rtol=1e-12)
    _, weights, _ = as_written(model, bits, C)
    np.testing.assert_allclose(shares, weights, atol=1e-12)
    np.testing.assert_allclose(mass, (weights[:, :, 3] + weights[:, :, 11]).mean(1), atol=1e-12)


def test_expand_inverts_collapse():
    model = model_of(spec())
    again = expand(collapse(model), model.spec)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(model), strict=True)
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"layers": 2}, "2 layers"), ({"normalizer": "sparsemax"}, "sparsemax")],
)
def test_what_the_collapse_does_not_cover_is_said(changes, words):
    s = spec(**changes)
    assert words in why_not(s)
    with pytest.raises(InputError, match=words):
        collapse(Transformer.init(s, key=jax.random.key(0)))


def test_the_affine_form_would_fail_where_ours_does_not():
    """The reason for the one-hot form: base + B delta loses everything at 20 nats in float32."""
    w0, w1, w_cls = np.float32(1.0), np.float32(np.exp(-20.0)), np.float32(np.exp(-20.0))
    exact = float(w1) + float(w_cls)
    affine = np.float32(w_cls + w0) + (w1 - w0)
    assert abs(affine - exact) > 0.1 * exact
    assert abs(np.float32(w_cls + w1) - exact) < 1e-6 * exact


@pytest.mark.parametrize("T", [4096, 5000, 4099])  # a power of two, a multiple of 125, a prime
def test_long_sums_in_pieces_are_the_same_sums(T):
    random = np.random.default_rng(T)
    a, b = (random.standard_normal((n, T)).astype(np.float32) for n in (5, 3))
    bits = jnp.zeros((2, T), jnp.uint8)

    @jax.jit
    def both(a, b):
        designs = in_thirds(bits, 2), one_hot(bits, 2, jnp.float32)
        ways = [partial(over_positions, b=b, design=design) for design in designs]
        return [(over(a), jax.vmap(over)(jnp.stack([a, -a]))) for over in ways]

    wanted = np.float64(a) @ np.float64(b).T
    for one, two in both(a, b):
        np.testing.assert_allclose(one, wanted, atol=1e-3)
        np.testing.assert_allclose(two, np.stack([wanted, -wanted]), atol=1e-3)
