"""Claims that were once too small, each with the networks that contradict the smaller number."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from capax.attention import (
    AttentionLayer,
    BilinearScore,
    ClsScalar,
    DeterministicPositions,
    Head,
    Linear,
    Softmax,
    Sparsemax,
    Transformer,
    TransformerSpec,
)
from capax.attention.parts.normalizers import ScaledSigmoid
from capax.capacity.linear.cover_pieces import total_cover
from capax.capacity.linear.norms import MatrixNorms
from capax.capacity.network.layer_pieces import Inputs
from capax.capacity.network.network_bounds import ResidualBlock, residual_network
from capax.capacity.network.sample_points import Sample
from capax.capacity.weights.model_bounds import measure
from capax.capacity.weights.plain_norms import class_from_norms

ONE = MatrixNorms(1.0, 1.0, 1.0, 1.0)
run = eqx.filter_jit(lambda model, *inputs: model(*inputs))


def shattering_head(signs):
    """A sparsemax head whose output on sequence i is signs[i] * 0.95.

    Sequence i has 500 tokens a e_i + b u and 500 tokens -(a e_i + b u). Scores +-s with s >= 1/1000
    put all weight on one half: 0.001 in a score turns the output from -0.95 to 0.95.
    """
    a, b, num = 0.3, 0.95, len(signs)
    kappa = np.append(0.0011 / a * signs, 0.0)
    W_QK = np.zeros((num + 1, num + 1))
    W_QK[-1] = kappa  # the query is u
    v = np.zeros((num + 1, 1))
    v[-1] = 1.0
    parts = (BilinearScore(jnp.asarray(W_QK)), Sparsemax(), Linear(jnp.asarray(v)))
    X = np.zeros((num, num + 1))
    X[np.arange(num), np.arange(num)], X[:, -1] = a, b
    return Head(*parts, Linear(jnp.ones((1, 1)))), X


def test_a_sparsemax_head_that_realises_all_sign_patterns_is_covered_at_its_own_T():
    rng = np.random.default_rng(0)
    num, half = 200, 500
    patterns = rng.choice([-1.0, 1.0], size=(3, num))
    for signs in patterns:
        head, tokens = shattering_head(signs)
        for i in rng.choice(num, size=5, replace=False):
            X = np.concatenate([np.tile(tokens[i], (half, 1)), np.tile(-tokens[i], (half, 1))])
            output = float(np.asarray(run(head, X, np.eye(num + 1)[-1]))[0])
            assert output == pytest.approx(0.95 * signs[i])
    # 2^200 functions more than 1.8 apart: every cover at 0.9 has at least as many elements
    measured = measure(head, B_X=1.0)
    assert measured.quantities["W_QK_F"] < 0.06
    claimed = measured.exact().cover(measured.sample(num, 1000), 0.9)
    assert claimed.value >= num * math.log(2)
    assert claimed.norms["C_N"] == 1001


def deep(b_K=0.0, b_O=0.0, normalizer="scaled_sigmoid", layers=2):
    spec = TransformerSpec(
        T=5, d=8, heads=2, layers=layers, mlp_width=7, normalizer=normalizer, init_scale=0.4
    )
    model = Transformer.init(spec, key=jax.random.key(0), dtype=jnp.float64)
    biases = (np.full((2, 4), b_K), np.full((2, 4), 0.7), np.full((8,), b_O))
    first = lambda m: (m.blocks[0].b_K, m.blocks[0].b_Q, m.blocks[0].b_O)  # noqa: E731
    return eqx.tree_at(first, model, tuple(map(jnp.asarray, biases)))


@pytest.mark.parametrize(
    ("normalizer", "layers"),
    [("scaled_sigmoid", 2), ("sigmoid", 1), ("softplus", 1), ("relu", 1)],
)
def test_the_key_bias_counts_where_it_changes_the_output(normalizer, layers):
    bits = jnp.asarray([0, 1, 1, 0, 1])
    plain, shifted = (
        deep(0.0, layers=layers, normalizer=normalizer),
        deep(9.0, layers=layers, normalizer=normalizer),
    )
    assert abs(float(run(plain, bits)) - float(run(shifted, bits))) > 1e-3
    small, large = measure(plain), measure(shifted)
    assert large.quantities != small.quantities
    sample = small.sample(100)
    bounds = [x.exact().cover(sample, 0.01).log_value for x in (small, large)]
    assert bounds[0] < bounds[1]


def test_the_key_bias_of_softmax_is_free():
    small, large = (measure(deep(b, normalizer="softmax")) for b in (0.0, 9.0))
    assert small.quantities == large.quantities


@pytest.mark.parametrize("layers", [1, 2])
def test_an_output_bias_is_not_routed_through_weights_that_do_not_sum_to_one(layers):
    """b_O reaches the output whole; the mixture of a constant row would shrink it."""
    plain, shifted = (measure(deep(b_O=b, layers=layers)) for b in (0.0, 5.0))
    name = "constant_2" if layers == 1 else "L0 b_O_2"
    assert shifted.quantities[name] >= plain.quantities[name] + 5 * math.sqrt(8) - 2
    pieces = [p for p in shifted.exact().build(shifted.sample(10)) if "b_O" in p.name]
    assert len(pieces) == layers
    assert pieces[0].num_parameters == 8


def test_values_of_weights_that_do_not_sum_to_one_have_no_centre():
    """With sigmoid/T a constant added to every value moves with the total weight."""
    d = 8
    W_V = np.zeros((d, 1))
    W_V[5:7] = 3.0  # every token reads 3, whatever its bit; [CLS] reads 0
    arrays = (jnp.asarray(x) for x in (np.eye(d, 1), np.ones((d, 1)), W_V))
    reach = {}
    for norm in (Softmax(), ScaledSigmoid()):
        model = ClsScalar(
            DeterministicPositions(5), *arrays, jnp.ones((1, 1)), jnp.ones(1), norm=norm
        )
        model = eqx.tree_at(lambda m: m.W_Q, model, jnp.asarray(np.eye(d)[:, -1:]))
        reach[type(norm)] = measure(model).quantities["B_phi"]
        arrays = (model.W_Q, model.W_K, model.W_V)
    assert reach[Softmax] == pytest.approx(1.5)
    assert reach[ScaledSigmoid] == pytest.approx(3.0)


def test_bias_rows_are_parameters():
    """Four blocks of two heads, d = 2, two hidden units: 99 entries without bias rows, 147 free."""
    block = ResidualBlock(((ONE, ONE),) * 2, ONE, ONE, 2, 2)
    pieces = residual_network([block] * 4, 1.0).build(Sample(10, 5))
    counted = sum(piece.num_parameters for piece in pieces)
    per_block = 2 * (3 * 2 + 3 * 2) + 3 * 2 + 3 * 2  # W_QK, W_VO, W_1, W_2 with their bias rows
    assert counted == 4 * per_block + 3 == 147


def test_the_output_width_of_a_layer_is_not_its_token_width():
    """d = 2, d_out = 10^6: e_1 e_j^T for all j and signs are sqrt(2) apart at one point."""
    d, d_out = 2, 10**6
    layer = AttentionLayer(
        jnp.ones((1, d, 1)), jnp.ones((1, d, 1)), jnp.ones((1, d, 1)), jnp.zeros((1, 1, d_out))
        .at[0, 0, 3].set(1 / math.sqrt(2)),
    )  # fmt: skip
    measured = measure(layer)
    pieces = [p for p in measured.exact().build(measured.sample(1, 1)) if "W_VO" in p.name]
    packing = math.log(2 * d_out)
    assert total_cover(pieces, math.log(0.7)).log_cover >= packing
    assert pieces[0].outputs == d_out
    assert pieces[0].num_parameters == d * d_out


def test_a_constant_given_by_hand_does_not_earn_the_finite_form_of_softmax():
    norms = {"W_QK_F": 3.0, "v_2": 1.0}
    by_hand = class_from_norms({**norms, "C_N": 1.0}, d=16).build(Sample(10, 5))[0]
    softmax = class_from_norms(norms, d=16).build(Sample(10, 5))[0]
    assert softmax.softmax_slope == 1.0
    assert by_hand.softmax_slope is None
    # at eps = 2 the softmax scores need no cover: ||a - a'||_1 <= 2 whatever they are
    assert by_hand.log_log_cover(math.log(2.5)) > softmax.log_log_cover(math.log(2.5)) == -math.inf


def test_a_query_is_as_long_as_a_token_unless_said_otherwise():
    assert Inputs(B_X=5.0).norms()["B_z"] == 5.0
    assert Inputs(B_X=5.0, B_z=1.0).norms()["B_z"] == 1.0
    same = Linear(jnp.eye(3))
    head = Head(BilinearScore(jnp.eye(3)), Softmax(), same, same)
    wide, narrow = (measure(head, B_X=B) for B in (5.0, 1.0))
    scores = [x.exact().build(x.sample(3, 4))[0].log_scale for x in (wide, narrow)]
    assert scores[0] - scores[1] == pytest.approx(2 * math.log(5.0))
