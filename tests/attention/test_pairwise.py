"""Several layers over whole arrays against PyTorch, also at extreme scores."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from capax.attention.collapsed import pairwise, pairwise_table
from capax.attention.collapsed.design import one_hot, over_pairs
from capax.attention.transformer import Transformer, TransformerSpec
from torch_transformer import as_written

T, m = 13, 7
C = np.linspace(-1.0, 2.0, m)
THREE = {"layers": 3}
OTHER = {"layers": 3, "alphabet": 3, "layer_norm": False, "scale": "paper", "activation": "relu"}
GROWN = (1.0, 10.0, 28.0)


def spec(**changes) -> TransformerSpec:
    sizes = {"T": T, "d": 10, "heads": 5, "mlp_width": 11, "layers": 2}
    return TransformerSpec(**{**sizes, **changes})


def model_of(spec, grown=1.0):
    """All parameters random, biases and gains too; `grown` enlarges the first layer's queries."""
    shapes = eqx.filter_eval_shape(Transformer.init, spec, key=jax.random.key(3), dtype=jnp.float64)
    rng = np.random.default_rng(5)
    model = jax.tree.map(
        lambda x: np.asarray(rng.normal(size=x.shape, scale=0.3) + (x.shape == (spec.d,))), shapes
    )
    first = model.blocks[0]
    larger = (grown * first.W_Q, grown * first.b_Q)
    return eqx.tree_at(lambda m: (m.blocks[0].W_Q, m.blocks[0].b_Q), model, larger)


def bits_of(spec):
    return jnp.asarray(np.random.default_rng(7).integers(0, spec.alphabet, (m, T)), jnp.uint8)


def wanted_of(model, bits):
    """By PyTorch, in the order of `found_of`."""
    z, weights, gradient = as_written(jax.tree.map(jnp.asarray, model), bits, C)
    return (z @ C, (z, weights)), gradient


def ours(model, bits, tensor_cores):
    values, weights = pairwise.logits_and_weights(model, bits, tensor_cores=tensor_cores)
    return values @ jnp.asarray(C, values.dtype), (values, weights)


found_of = jax.jit(jax.value_and_grad(ours, has_aux=True), static_argnums=2)


@partial(jax.jit, static_argnums=(2, 3))
def found_together(models, bits, tensor_cores, positions):
    del positions  # another program for each
    one = partial(jax.value_and_grad(ours, has_aux=True), bits=bits, tensor_cores=tensor_cores)
    # a CPU has no batches of products in bfloat16
    return lax.map(one, models) if tensor_cores else jax.vmap(one)(models)


def compared(found, wanted, tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert np.abs(a - b).max() < tolerance * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("changes", [{}, THREE, OTHER], ids=["two", "three", "other"])
def test_logits_weights_and_gradients_are_those_of_pytorch(changes):
    s = spec(**changes)
    model, bits = model_of(s), bits_of(s)
    compared(found_of(model, bits, False), wanted_of(model, bits), 1e-12)


def scores_of(model):
    """Scores of all pairs with all pairs in the first layer: [head, pair, pair]."""
    block = model.blocks[0]
    symbols = model.embed[:, None] + model.position[None]
    cls = np.broadcast_to(model.cls, (2, 1, model.spec.d))
    x = np.concatenate([symbols, cls], axis=1).reshape(-1, model.spec.d)
    z = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    z = z * block.ln1.gain + block.ln1.bias
    Q, K = (np.einsum("nd,hdk->hnk", z, W) + b[:, None]
            for W, b in ((block.W_Q, block.b_Q), (block.W_K, block.b_K)))  # fmt: skip
    return Q @ K.transpose(0, 2, 1) / np.sqrt(model.spec.head_width)


def spread_of(model, bits):
    """(high - low of the widest query, how far below `high` an example's own best is), in nats."""
    S = scores_of(model).reshape(5, 2, T + 1, 2, T + 1)
    high, low = S.max((3, 4)), S.min(3).max(3)
    at, places = np.arange(T + 1), np.pad(np.asarray(bits), ((0, 0), (0, 1)))
    below = [high[:, c, at] - S[:, c, at][:, :, c, at].max(2) for c in places]
    return (high - low).max(), np.max(below)


@pytest.mark.parametrize(("tensor_cores", "positions"), [(False, T + 1), (True, 5)])
def test_float32_keeps_its_digits_over_128_nats(tensor_cores, positions, monkeypatch):
    """Three models, from 4 nats to 121; tables also in three pieces, the last one filled up."""
    monkeypatch.setattr(pairwise_table, "PIECE", 28 * 3 * 5 * 2 * positions)
    s = spec()
    bits, models = bits_of(s), [model_of(s, grown) for grown in GROWN]
    wide, below = spread_of(models[-1], bits)
    assert 120 < wide < 128 and below > 90  # exp(S - high) is 0 for the whole example
    all_ = jax.tree.map(lambda *x: np.float32(np.stack(x)), *models)
    found = jax.device_get(found_together(all_, bits, tensor_cores, positions))
    for i, model in enumerate(models):
        compared(jax.tree.map(lambda x: x[i], found), wanted_of(model, bits), 2e-5)  # noqa: B023


@pytest.mark.parametrize("grown", [45.0, 1000.0])
def test_beyond_that_there_is_no_number_rather_than_a_wrong_one(grown):
    s = spec()
    exact, bits = model_of(s, grown), bits_of(s)
    assert spread_of(exact, bits)[0] > 128
    wanted = np.asarray(wanted_of(exact, bits)[0][1][0])
    found = np.asarray(found_logits(jax.tree.map(np.float32, exact), bits))
    right = np.isfinite(found)
    assert right.sum() < m
    np.testing.assert_allclose(found[right], wanted[right], atol=1e-3)


found_logits = jax.jit(lambda model, bits: pairwise.logits(model, bits, tensor_cores=True))


def test_no_array_has_examples_and_pairs_of_positions():
    s = spec(T=89)
    bits = jnp.zeros((67, 89), jnp.uint8)
    loss = jax.grad(lambda x: jnp.sum(pairwise.logits(x, bits, tensor_cores=False)))
    program = jax.make_jaxpr(loss)(model_of(s))
    sizes = [np.prod(x.aval.shape) for x in every_output(program.jaxpr)]
    assert 67 * 90 * 2 * 15 <= max(sizes) < 67 * 89 * 89  # sums over tokens for each pair, at most


def every_output(jaxpr):
    for equation in jaxpr.eqns:
        yield from equation.outvars
        for inner in jax.core.jaxprs_in_params(equation.params):
            yield from every_output(inner)


def test_products_in_thirds_lose_no_bit():
    """Whole numbers of 20 bits, scaled: sums of a dozen are exact in float32, in any order."""
    rng = np.random.default_rng(0)
    table = rng.integers(-(2**20), 2**20, (3 * T, 11)) * 2.0 ** rng.integers(-30, 30, 11)
    numbers = rng.integers(-(2**20), 2**20, (m, 11)) * 2.0 ** rng.integers(-30, 30, 11)
    places = jnp.asarray(rng.integers(0, 3, (m, T)))
    X = np.asarray(one_hot(places, 3, float))
    design = one_hot(places, 3, jnp.bfloat16)
    sums, back = jax.vjp(partial(over_pairs, design), jnp.asarray(table, jnp.float32))
    np.testing.assert_array_equal(sums, X @ table)
    np.testing.assert_array_equal(back(jnp.asarray(numbers, jnp.float32))[0], X.T @ numbers)


@pytest.mark.parametrize(
    ("changes", "words"), [({"layers": 1}, "1 layer"), ({"normalizer": "sparsemax"}, "sparsemax")]
)
def test_what_is_not_covered_is_said(changes, words):
    assert words in pairwise.why_not(spec(**changes))
