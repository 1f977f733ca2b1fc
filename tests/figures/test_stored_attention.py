"""Heads: shares by hand, effects against a direct computation, order, and a model from a store."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import store_cases

from capax.attention.checkpoint import save
from capax.attention.transformer import Transformer, TransformerSpec
from capax.errors import InputError
from capax.figures.heads.attention_weights import draw_attention_weights
from capax.figures.heads.head_dependence import (
    cross_entropy,
    head_dependence,
    head_writes,
    share_on,
)
from capax.figures.stored.attention import attention_maps, head_name, stored_model
from capax.sweep.storage.store import Store

T, HEADS = 11, 3
SPEC = TransformerSpec(T=T, d=12, heads=HEADS, mlp_width=7, init_scale=0.8)


def model(layers: int = 1) -> Transformer:
    spec = SPEC.model_copy(update={"layers": layers})
    return Transformer.init(spec, key=jax.random.key(3), dtype=np.float64)


def examples(n: int = 17) -> tuple[np.ndarray, np.ndarray]:
    X = (np.random.default_rng(5).random((n, T)) < 0.6).astype(np.uint8)
    return X, X[:, 2] & X[:, 7]


def test_share_leaves_out_cls():
    weights = np.array([[[0.1, 0.2, 0.1, 0.6], [0.5, 0.0, 0.5, 0.0]]])
    assert share_on(weights, (1,)) == pytest.approx([(0.5 + 0.0) / 2])


def test_contributions_of_the_heads_add_up_to_the_attention_output():
    network = model(layers=2)
    bits = jnp.asarray(examples()[0][0], jnp.int32)

    @jax.jit
    def both():
        first, last = network.blocks
        x, _ = first(network.tokens(bits), network.tokens(bits))
        return last.attention(x[-1:], x)[0][0]

    read = both()
    contributions = head_writes(network, bits[None])[-1][0, :, 0]  # [H, d] of the last layer
    assert np.allclose(contributions.sum(axis=0) + network.blocks[-1].b_O, read)


def without_head(network: Transformer, h: int, mean) -> Transformer:
    """The model whose head h of the last layer always writes `mean`."""
    block = network.blocks[-1]
    changed = (block.W_O.at[h].set(0.0), block.b_O + mean)
    return eqx.tree_at(lambda m: (m.blocks[-1].W_O, m.blocks[-1].b_O), network, changed)


def test_every_head_of_every_layer_is_measured():
    network = model(layers=2)
    X, y = examples()
    found = head_dependence(network, X, y, (2, 7))
    assert found.heads == tuple((layer, h) for layer in range(2) for h in range(HEADS))
    assert found.weights.shape == (2 * HEADS, len(X), T + 1) and found.effect.shape == (2 * HEADS,)
    assert head_name((1, 2), 2) == "layer 2, head 2" and head_name((0, 2)) == "head 2"
    # a head of the first layer that writes nothing changes nothing when it is cut
    idle = eqx.tree_at(lambda m: m.blocks[0].W_O, network, network.blocks[0].W_O.at[1].set(0.0))
    assert head_dependence(idle, X, y, (2, 7)).effect[1] == pytest.approx(0, abs=1e-12)


def test_effect_is_the_rise_of_the_loss_without_the_head():
    network = model()
    X, y = examples()
    found = head_dependence(network, X, y, (2, 7))
    bits = jnp.asarray(X, jnp.int32)
    mean = head_writes(network, bits)[-1][:, :, 0].mean(axis=0)
    run = eqx.filter_jit(lambda net: jax.vmap(lambda b: net(b, return_weights=True))(bits))
    logits, (weights,) = run(network)
    target = y.astype(float)
    for h in range(HEADS):
        changed, _ = run(without_head(network, h, mean[h]))
        rise = cross_entropy(np.array(changed), target) - cross_entropy(np.array(logits), target)
        assert found.effect[h] == pytest.approx(rise, abs=1e-9)
    assert found.accuracy == pytest.approx(np.mean((np.array(logits) > 0) == (y == 1)))
    assert np.allclose(found.weights, np.array(weights).transpose(1, 0, 2))
    assert np.allclose(found.weights.sum(axis=-1), 1)


def test_a_head_that_writes_nothing_has_no_effect():
    network = without_head(model(), 1, jnp.zeros(12))
    X, y = examples()
    effect = head_dependence(network, X, y, (2, 7)).effect
    assert effect[1] == pytest.approx(0, abs=1e-12)
    assert np.all(np.abs(effect[[0, 2]]) > 1e-6)


def test_cross_entropy_of_large_logits_is_finite():
    assert cross_entropy(np.array([1000.0, -1000.0]), np.array([1.0, 1.0])) == pytest.approx(500)


def test_maps_of_a_store_are_ordered_by_effect_and_prefer_solved_runs(tmp_path):
    path = attention_store(tmp_path)
    with Store.read(path) as store:
        (attention,) = attention_maps(store)
        loaded = stored_model(store, attention.run_id)
        with pytest.raises(InputError, match="were not kept"):
            stored_model(store, "0" * 64)
    assert attention.support == (2, 5, 7) and attention.m == 19
    assert list(attention.effect) == sorted(attention.effect, reverse=True)
    assert sorted(attention.heads) == [f"head {h}" for h in range(HEADS)]
    assert np.array_equal(loaded.w, model().w)
    draw_attention_weights((attention,))


def attention_store(folder):
    """Two runs with kept parameters, of which the second is solved."""
    weights = save(folder / "model.safetensors", model()).read_bytes()
    task = {"support": [2, 5, 7]}
    runs = [
        store_cases.stored_run(T, 19, 0, 0, store_cases.accuracy_curves(0.5, 0.6), task=task),
        store_cases.stored_run(
            T, 19, 0, 1, store_cases.accuracy_curves(0.5, 1.0), task=task, solved_step=100
        ),
    ]
    kept = [store_cases.with_parameters(run, weights) for run in runs]
    wanted = store_cases.experiment(maps=store_cases.grid([19], T=[T], keep_parameters=True))
    return store_cases.write(folder / "s.sqlite", wanted, [("maps", T, 19, 0, kept)])


def test_a_store_without_parameters_says_so(tmp_path):
    with (
        Store.read(store_cases.curve_store(tmp_path / "s.sqlite")) as store,
        pytest.raises(InputError, match="no run kept its parameters"),
    ):
        attention_maps(store)


def test_export_says_what_kept_models_compute(tmp_path):
    import pandas as pd

    from capax.analysis.tables.formulas import formulas_of
    from capax.analysis.tables.frames import export
    from capax.boolean import parse

    narrow = TransformerSpec(T=T, d=12, heads=HEADS, mlp_width=7, init_scale=0.8)
    weights = save(tmp_path / "m.safetensors", Transformer.init(narrow, key=jax.random.key(3)))
    run = store_cases.stored_run(T, 19, 0, 0, store_cases.accuracy_curves(0.5, 0.6), task={})
    kept = [store_cases.with_parameters(run, weights.read_bytes())]
    wanted = store_cases.experiment(maps=store_cases.grid([19], T=[T], keep_parameters=True))
    path = store_cases.write(tmp_path / "k.sqlite", wanted, [("maps", T, 19, 0, kept)])
    with Store.read(path) as store:
        columns = formulas_of(store)
        assert export(store, tmp_path / "runs.csv", columns) == 1
    (row,) = pd.read_csv(tmp_path / "runs.csv").to_dict("records")
    assert str(row["formula"]) == columns[row["run_id"]]["formula"]
    assert parse(str(row["formula"]), T).T == T
    assert 0.5 <= row["formula_agreement"] <= 1
