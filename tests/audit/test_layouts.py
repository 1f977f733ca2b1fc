"""Every layout against `transformers`: the same attention weights and outputs from the file."""

import json
import math

import numpy as np
import pytest
import tiny_models
from tiny_models import CONFIGS

from capax.audit.heads.attend import attention_weights, head_output
from capax.audit.heads.folding import factors, softmax_keys
from capax.audit.heads.sizes import head_sizes
from capax.audit.layouts.attention import Attention, Norm
from capax.audit.layouts.facts import Options
from capax.audit.layouts.table import recognise
from capax.audit.reading.opening import open_checkpoint
from capax.errors import InputError

TOLERANCE = 1e-5


@pytest.fixture(scope="module", params=list(CONFIGS))
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    model = tiny_models.build(request.param)
    model.save_pretrained(folder)
    return request.param, folder, model


def unfolded(rows, norm: Norm | None):
    """What the norm made of x, back to x^: without gain and offset."""
    X = rows.numpy().astype(np.float64)
    if norm is None:
        return X
    X = X if norm.offset is None else X - norm.offset
    X = X / norm.gain
    np.testing.assert_allclose((X * X).mean(1), 1.0, atol=5e-3)  # so the right norm was found
    return X


def test_attention_weights_and_outputs_equal_those_of_transformers(saved):
    name, folder, model = saved
    recognised = recognise(open_checkpoint(folder))
    seen = {(one.name, i): one for i, one in enumerate(tiny_models.watch(model))}
    eps = getattr(model.config, "rms_norm_eps", 0.0)
    layers = list(recognised.layers())
    assert layers and not recognised.unplaced()
    checked = 0
    for attention, one in zip(layers, ordered(seen, name), strict=True):
        behind = attention.key_norm or attention.norm
        X, Y = unfolded(one.queries, attention.norm), unfolded(one.keys, behind)
        total = 0.0 if attention.b_O is None else attention.b_O.astype(np.float64)
        for h in range(len(attention.W_Q)):
            bias = None if one.bias is None else one.bias[h].numpy().astype(np.float64)
            A = attention_weights(attention, h, X, Y, eps=eps, bias=bias)
            np.testing.assert_allclose(A, one.weights[h].numpy(), atol=TOLERANCE)
            total = total + head_output(attention, h, A, Y)
            checked += 1
        np.testing.assert_allclose(total, one.output.numpy(), atol=TOLERANCE, rtol=TOLERANCE)
    assert checked == len(layers) * recognised.facts.heads


def ordered(seen, name):
    """What was seen, in the order of our layers: by part, and self before cross attention."""
    if name == "albert":
        return list(seen.values())[1:]  # the first composition reads no norm
    if name not in ("t5", "whisper"):
        return list(seen.values())
    cross = ("EncDecAttention", "encoder_attn")
    kinds = {
        part: [one for (label, _), one in seen.items() if label.startswith(part)]
        for part in ("decoder", "encoder")
    }
    own = [one for one in kinds["decoder"] if not one.name.endswith(cross)]
    other = [one for one in kinds["decoder"] if one.name.endswith(cross)]
    first = [*other, *own] if name in ("t5", "whisper") else [*own, *other]
    return [*first, *kinds["encoder"]]


def naive(attention: Attention, h: int):
    """W_QK and W_VO as whole matrices, from the definition."""
    part = factors(attention, h)
    return attention.scale * part.Q @ softmax_keys(part.K, attention).T, part.V @ part.O


def test_norms_are_those_of_the_whole_matrices(saved):
    _, folder, _ = saved
    recognised = recognise(open_checkpoint(folder))
    for attention in recognised.layers():
        for h in range(len(attention.W_Q)):
            W_QK, W_VO = naive(attention, h)
            sizes = head_sizes(attention, h, 12)
            top = np.linalg.norm(W_QK, 2)
            assert math.isclose(sizes.W_QK_F, np.linalg.norm(W_QK), rel_tol=1e-9)
            assert math.isclose(sizes.W_QK_2, top, rel_tol=1e-7)
            assert math.isclose(sizes.stable_rank, (np.linalg.norm(W_QK) / top) ** 2, rel_tol=1e-6)
            assert math.isclose(sizes.W_VO_2, np.linalg.norm(W_VO, 2), rel_tol=1e-7)
            columns = np.linalg.norm(W_VO, axis=0).sum()
            assert math.isclose(sizes.W_VO_21, columns, rel_tol=1e-9)


def test_a_wrong_number_of_heads_is_caught(saved):
    _, folder, _ = saved
    checkpoint = open_checkpoint(folder)
    with pytest.raises(InputError, match=r"--heads: wanted 4, as config.json says .*, got 3"):
        recognise(checkpoint, Options(heads=3))


def test_without_a_configuration_nothing_is_guessed(saved):
    name, folder, _ = saved
    checkpoint = open_checkpoint(folder)
    bare = type(checkpoint)(checkpoint.path, checkpoint.format, checkpoint.tensors)
    with pytest.raises(InputError, match=r"give --family|config\.json|give --head"):
        recognise(bare)
    assert name


@pytest.mark.parametrize("name, key", [("llama", "num_key_value_heads"), ("qwen3", "head_dim"),
                                       ("t5", "num_heads"), ("phi3", "num_attention_heads"),
                                       ("gemma2", "num_key_value_heads")])  # fmt: skip
def test_a_configuration_that_lies_about_heads_is_caught_by_shapes(name, key, tmp_path):
    tiny_models.build(name).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config[key] = 1 if key == "num_key_value_heads" else config[key] // 2
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match="wanted"):
        list(recognise(open_checkpoint(tmp_path)).layers())


def test_a_layer_too_few_is_caught(tmp_path):
    tiny_models.build("gpt2").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_layer": 3}))
    with pytest.raises(InputError, match="wanted 3 attention layers, as its configuration says"):
        recognise(open_checkpoint(tmp_path))


def test_scale_and_score_radius_hold_on_data(saved):
    """No score passes the stated radius, on rows of the largest length a norm lets through."""
    name, folder, _ = saved
    rng = np.random.default_rng(5)
    from capax.audit.heads.attend import scores

    for attention in recognise(open_checkpoint(folder)).layers():
        d = attention.W_Q.shape[1]
        X = rng.normal(size=(40, d))
        if attention.norm is not None and attention.norm.kind == "layer":
            X -= X.mean(1, keepdims=True)
        X *= math.sqrt(d) / np.linalg.norm(X, axis=1, keepdims=True)
        for h in range(len(attention.W_Q)):
            radius = head_sizes(attention, h, 40).score_radius
            assert radius is not None
            S = scores(attention, h, X)
            if attention.rotary is None:  # softmax does not see what all keys share
                part = factors(attention, h)
                S = (
                    S
                    - attention.scale
                    * (np.hstack([X, np.ones((40, 1))]) @ part.Q @ part.K[-1])[:, None]
                )
            assert np.abs(S).max() <= radius * (1 + 1e-9), name
