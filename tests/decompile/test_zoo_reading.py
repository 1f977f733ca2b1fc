"""Deep sets and linear attention in the form that is proved: against all inputs of small ones."""

import jax
import numpy as np
import pytest
from naive_head import all_inputs

from capax.boolean import SparseFunction
from capax.decompile.decompiling import _on_all_inputs
from capax.decompile.modules.zoo_reading import ZooNetwork, zoo_reading
from capax.decompile.proof.branching import branch
from capax.decompile.proof.table_forward import TableForward
from capax.decompile.reading.oracle import oracle
from capax.learners.zoo.deep_sets import DeepSets
from capax.learners.zoo.linear_attention import LinearAttention

T = 7
X = all_inputs(T)


def network(kind, least: float) -> ZooNetwork:
    """Random weights; the bias of the read-out makes `least` the smallest logit."""
    heads = {"heads": 2} if kind is LinearAttention else {}
    architecture = kind(T=T, d=8, mlp_width=12, init_scale=0.4, **heads)
    parameters = dict(architecture.init(jax.random.key(1)))
    moved = least - ZooNetwork(architecture, parameters)(X).min()
    return ZooNetwork(architecture, parameters | {"b": parameters["b"] + np.float32(moved)})


@pytest.mark.parametrize("kind", [DeepSets, LinearAttention])
def test_tables_give_the_numbers_of_the_network_and_bounds_hold_on_all_inputs(kind):
    net, f = network(kind, 0.3), SparseFunction((2, 4), np.array([0, 1, 1, 1.0]), T)
    layer, logits = zoo_reading(net).cases[0].layer, net(X)
    np.testing.assert_allclose(TableForward(layer).numbers(X), logits, atol=2e-5)
    assert np.ptp(logits) > 0.1  # the bits matter
    leaves = branch(layer, f, most=40)
    rows, signed = X[:, 2] + 2 * X[:, 4], np.where(f(X) > 0.5, logits, -logits)
    for row in range(4):
        assert leaves.margins[leaves.rows == row].min() <= signed[rows == row].min() + 2e-5


@pytest.mark.parametrize("kind", [DeepSets, LinearAttention])
@pytest.mark.parametrize(("least", "status"), [(0.05, "proved"), (-0.05, "refuted")])
def test_the_verdict_is_right_on_both_sides_of_the_threshold(kind, least, status):
    net, always = network(kind, least), SparseFunction((0,), np.array([1.0, 1.0]), T)
    found = _on_all_inputs(oracle(net, T), always, np.random.default_rng(0), 0.5, 512)
    assert found.status == status and found.method.startswith("read as ")
    assert not found.asked_all and found.margin < least + 1e-5
    if found.counterexample is not None:
        bits = np.isin(np.arange(T), found.counterexample)[None].astype(np.uint8)
        assert net(bits)[0] < 0
