"""Every layout against `transformers`: the same attention weights and outputs from the file."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from attacks import largest_scores
from tiny_models import CONFIGS

from capax.audit.auditing import audit
from capax.audit.heads.attend import attention_weights, head_output
from capax.audit.heads.folding import factors, softmax_keys
from capax.audit.heads.head_sizes import head_sizes
from capax.audit.heads.random_start import start_of
from capax.audit.layouts.attention_layer import Attention, Norm
from capax.audit.layouts.facts import Options, Settings
from capax.audit.layouts.rope import rotary
from capax.audit.layouts.table import recognise
from capax.audit.reading.opening import open_checkpoint
from capax.audit.reading.stored import Checkpoint
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
    part = part if attention.rotary is None else part.stretched(attention.rotary)
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


def test_heads_that_read_no_norm_have_no_radius_in_the_first_layer_alone(tmp_path, monkeypatch):
    """ALBERT with two groups of layers: only the first group reads the embedding as it is."""
    groups = ("AlbertConfig", CONFIGS["albert"][1] | {"num_hidden_groups": 2})
    monkeypatch.setitem(CONFIGS, "albert-groups", groups)
    tiny_models.build("albert-groups").save_pretrained(tmp_path)
    found = [(row["layer"], row["score_radius"] is None) for row in audit(tmp_path).rows]
    assert found == [(0, True)] * 4 + [(1, False)] * 4


def test_capacity_is_not_shared_out_where_queries_are_normalised(tmp_path):
    """The scale of W_QK cancels there: no row has a share."""
    for name, known in (("qwen3", False), ("llama", True)):
        tiny_models.build(name).save_pretrained(tmp_path / name)
        shares = {row["capacity_share"] is not None for row in audit(tmp_path / name).rows}
        assert shares == {known}


@pytest.mark.parametrize(
    ("written", "size", "where"),
    [(0.05, 0.05, "initializer_range"), (0, 0.02, "usual"), (-1, 0.02, "usual"),
     (None, 0.02, "usual")],
)  # fmt: skip
def test_the_random_start_has_the_size_that_the_file_states(written, size, where, tmp_path):
    tiny_models.build("gpt2").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"initializer_range": written}))
    start = start_of(recognise(open_checkpoint(tmp_path)))
    assert (start.kind, start.size, start.num_layers) == ("normal", size, 2)
    assert where in start.text
    asked = start_of(recognise(open_checkpoint(tmp_path), Options(init_std=0.3)))
    assert (asked.kind, asked.size, asked.num_layers) == ("normal", 0.3, 1)


def test_no_input_found_by_gradient_ascent_exceeds_the_radius(saved):
    """`benchmarks/score_radius.py` is the long run; float32 inside the norms: 1e-5 is allowed."""
    name, folder, model = saved
    found = audit(folder)
    best = largest_scores(model, found.rows, steps=6, inside=True, T=24)
    bounded = [row for row in found.rows if row["score_radius"] is not None]
    ratios = [best[row["part"], row["layer"], row["head"]] / row["score_radius"] for row in bounded]
    assert len(found.rows) - len(bounded) == (4 if name == "albert" else 0)  # layer 0: no norm
    assert 0.4 < max(ratios) <= 1 + 1e-5, name


@pytest.mark.parametrize(
    "name", ["llama-yarn", "llama-dynamic", "qwen3-yarn", "phi3-longrope", "llama3-rope"]
)
def test_a_head_that_vanishes_at_distance_0_is_seen_at_others(name, tmp_path):
    """Queries on the first coordinate of a plane, keys on the second: W_QK = 0 unless it turns."""
    model = tiny_models.build(name)
    k = getattr(model.config, "head_dim", None) or 6
    with torch.no_grad():
        for layer in model.layers:
            for key, value in layer.self_attn.state_dict().items():
                if key.startswith("q_norm"):
                    value.copy_(torch.eye(k)[0] * 10)
                elif key.startswith("k_norm"):
                    value.copy_(torch.eye(k)[k // 2] * 10)
                elif "bias" in key:
                    value.zero_()
                elif key.startswith("qkv_proj"):
                    block = value.view(8, k, -1)
                    block[:4, 1:], block[4:6, : k // 2], block[4:6, k // 2 + 1 :] = 0, 0, 0
                elif key.startswith(("q_proj", "k_proj")):
                    keep = 0 if key.startswith("q") else k // 2
                    value *= (torch.arange(len(value)) % k == keep)[:, None]
    model.save_pretrained(tmp_path)
    found = audit(tmp_path)
    best = largest_scores(model, found.rows, steps=4, inside=True, T=24)
    for row in found.rows:
        assert row["score_radius"] >= best["", row["layer"], row["head"]] > 0.1
        assert row["W_QK_F_max"] > 0.01 and row["D_max"] > 0
        assert "qwen3" in name or row["W_QK_F"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("scaling", ["mrope", "yarn of GGUF", "of tomorrow"])
def test_a_scaling_that_is_not_read_gets_no_radius(scaling, tmp_path):
    tiny_models.build("llama").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["rope_parameters"] |= {"rope_type": scaling}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = audit(tmp_path)
    assert {(row["score_radius"], row["W_QK_F_max"]) for row in found.rows} == {(None, None)}
    assert f"scaling of type '{scaling}' not supported: no score radius" in found.facts.positions


def test_frequencies_of_scaled_rotations_are_those_of_transformers():
    """Also the older names of Phi-3, an attention factor in the file, and long contexts."""
    from transformers import LlamaConfig, Phi3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    half = {"short_factor": [1.0, 1.5, 2.0], "long_factor": [2.0, 5.0, 9.0]}
    for type_, fields in {
        "yarn": {"factor": 8.0, "beta_fast": 4, "beta_slow": 2, "truncate": False},
        "longrope": {"factor": 3.0, **half},
        "dynamic": {"factor": 4.0},
        "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    }.items():
        given = {"rope_type": type_, "rope_theta": 50.0, **fields}
        original = {"original_max_position_embeddings": 64} if type_ != "dynamic" else {}
        config = LlamaConfig(**tiny_models.GROUPED, rope_parameters=given | original)
        settings = Settings(Checkpoint(Path("x"), "", {}, config.to_dict()), Options())
        ours, words = rotary(settings, 6)
        assert type_ in words
        for T in (32, 64, 65, 1000):
            theta, factor = ROPE_INIT_FUNCTIONS[type_](config, "cpu", seq_len=T)
            known = ours.frequencies(T)
            assert ours.factor == pytest.approx(factor)
            assert (known is None) == (type_ == "dynamic" and T > 32)
            if known is not None:
                np.testing.assert_allclose(known, theta.numpy(), rtol=1e-6)
    old = Phi3Config(**tiny_models.CONFIGS["phi3-longrope"][1]).to_dict()
    old["rope_parameters"] = None
    old |= {"rope_scaling": {"type": "su", **half}, "rope_theta": 10000.0}
    ours, _ = rotary(Settings(Checkpoint(Path("x"), "", {}, old), Options()), 6)
    assert ours.factor == pytest.approx(math.sqrt(1 + math.log(4) / math.log(8)))
    assert [T for T, _ in ours.contexts] == [8, math.inf]


def test_distances_are_searched_up_to_the_end_of_the_context(tmp_path):
    """One slow plane: W_QK grows up to distance 131 071, far beyond 8192."""
    model = tiny_models.build("llama")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["rope_parameters"]["rope_theta"] = 1e18
    far = audit(tmp_path, context=131072).rows
    assert far[0]["W_QK_F_max"] >= audit(tmp_path, context=8192).rows[0]["W_QK_F_max"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    attention = next(iter(recognise(open_checkpoint(tmp_path)).layers()))
    Q, K = np.zeros((1, 24, 6)), np.zeros((1, 24, 6))
    Q[0, 0, 1], K[0, 0, 4] = 1, 1  # the two coordinates of the plane with frequency 1e-6
    slow = replace(attention, W_Q=Q, W_K=K, norm=Norm("rms", np.ones(24)))
    sizes = head_sizes(slow, 0, 131072)
    theta = 1e18 ** (-1 / 3)
    assert (sizes.D_max, sizes.W_QK_F) == (131071, 0.0)
    assert sizes.W_QK_F_max == pytest.approx(slow.scale * math.sin(131071 * theta), rel=1e-9)
    assert head_sizes(slow, 0, 2**21).W_QK_F_max is None
    assert head_sizes(replace(slow, window=7), 0, 2**21).D_max == 6
    assert head_sizes(slow, 0, None).W_QK_F_max is None
