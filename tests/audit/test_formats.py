"""One model in every format: the same tensors come back, exactly where nothing is rounded."""

import json
import struct

import numpy as np
import pytest
import tiny_models
import torch
from safetensors.torch import save_file

from capax.audit.auditing import audit
from capax.audit.layouts.table import recognise
from capax.audit.reading.opening import open_checkpoint
from capax.errors import InputError

gguf = pytest.importorskip("gguf", reason="the package that writes GGUF files is not installed")
onnx = pytest.importorskip("onnx", reason="the package that writes ONNX files is not installed")

QUANTITIES = ("W_QK_F", "W_QK_2", "stable_rank", "W_VO_2", "W_VO_21", "score_radius")


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    model = tiny_models.build("bert")
    model.save_pretrained(folder)
    return folder, model


def numbers(found):
    return np.array([[row[name] for name in QUANTITIES] for row in found.rows])


def beside(folder, other):
    (other / "config.json").write_bytes((folder / "config.json").read_bytes())
    return other


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_safetensors_of_every_float_equals_torch(dtype, tmp_path):
    truth = torch.randn(5, 7, 3).to(getattr(torch, dtype))
    save_file({"a": truth, "b": torch.arange(6)}, tmp_path / "x.safetensors")
    tensors = open_checkpoint(tmp_path / "x.safetensors").tensors
    np.testing.assert_array_equal(tensors["a"].load(), truth.to(torch.float64).numpy())
    np.testing.assert_array_equal(tensors["b"].load(), np.arange(6))
    assert tensors["a"].kind == dtype


@pytest.mark.parametrize("legacy", [False, True], ids=["zip", "before 2020"])
def test_torch_files_of_both_kinds_equal_torch(legacy, tmp_path):
    base = torch.randn(11, 13)
    state = {
        "whole": base,
        "transposed": base.T,
        "slice": base[2:7, 3:5],
        "half": base.half(),
        "brain": base.bfloat16(),
        "parameter": torch.nn.Parameter(base.clone()),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(2.5),
    }
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    tensors = open_checkpoint(tmp_path / "x.pt").tensors
    assert tensors.keys() == state.keys()
    for name, truth in state.items():
        np.testing.assert_array_equal(tensors[name].load(), truth.detach().double().numpy())
        assert tensors[name].shape == tuple(truth.shape)


def test_wrappers_around_the_table_are_looked_through(tmp_path):
    torch.save({"epoch": 3, "state_dict": {"a": torch.ones(2)}, "opt": {"m": torch.zeros(1)}},
               tmp_path / "x.pt")  # fmt: skip
    assert set(open_checkpoint(tmp_path / "x.pt").tensors) == {"a", "opt.m"}


def test_shards_and_torch_files_give_the_same_audit(bert, tmp_path):
    folder, model = bert
    truth = numbers(audit(folder))
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    np.testing.assert_array_equal(numbers(audit(tmp_path)), truth)
    bins = tmp_path / "bins"
    bins.mkdir()
    torch.save(model.state_dict(), beside(folder, bins) / "pytorch_model.bin")
    np.testing.assert_array_equal(numbers(audit(bins)), truth)
    np.testing.assert_array_equal(numbers(audit(bins / "pytorch_model.bin")), truth)


def test_onnx_matmuls_get_their_names_back(bert, tmp_path):
    """A graph as PyTorch's exporter writes it: transposed weights, names in the nodes only."""
    folder, model = bert
    nodes, initialisers = [], []
    for i, (name, value) in enumerate(model.state_dict().items()):
        array = value.numpy()
        if name.endswith(".weight") and array.ndim == 2 and "embeddings" not in name:
            anonymous = f"onnx::MatMul_{470 + i}"
            initialisers.append(
                onnx.numpy_helper.from_array(np.ascontiguousarray(array.T), anonymous)
            )
            module = "/" + name.removesuffix(".weight").replace(".", "/").replace(
                "layer/", "layer."
            )
            nodes.append(onnx.helper.make_node("MatMul", ["x", anonymous], [f"y{i}"],
                                               name=f"{module}/MatMul"))  # fmt: skip
        else:
            initialisers.append(onnx.numpy_helper.from_array(array, name))
    graph = onnx.helper.make_graph(nodes, "g", [], [], initialisers)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "model.onnx")
    np.testing.assert_array_equal(numbers(audit(beside(folder, tmp_path))), numbers(audit(folder)))


def write_gguf(path, model, quantise=None):
    """A llama model as llama.cpp converts it: rows of Q and K permuted inside each head."""
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_array("tokenizer.ggml.tokens", [f"word{i}" for i in range(5000)])
    state = model.state_dict()
    names = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output"}
    for layer in range(config.num_hidden_layers):
        for module, short in names.items():
            W = state[f"layers.{layer}.self_attn.{module}.weight"].numpy()
            if module in ("q_proj", "k_proj"):
                heads = W.shape[0] // config.head_dim
                W = W.reshape(heads, 2, config.head_dim // 2, -1).swapaxes(1, 2).reshape(W.shape)
            if quantise is None:
                writer.add_tensor(f"blk.{layer}.{short}.weight", np.ascontiguousarray(W))
            else:
                raw = gguf.quants.quantize(np.ascontiguousarray(W), quantise)
                writer.add_tensor(f"blk.{layer}.{short}.weight", raw, raw_dtype=quantise)
        gain = state[f"layers.{layer}.input_layernorm.weight"].numpy()
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", gain)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_gguf_and_safetensors_of_one_model_agree(tmp_path):
    model = tiny_models.build("llama")
    model.save_pretrained(tmp_path)
    write_gguf(tmp_path / "x.gguf", model)
    here, there = audit(tmp_path / "x.gguf"), audit(tmp_path)
    np.testing.assert_allclose(numbers(here), numbers(there), rtol=1e-6)
    for a, b in zip(here.rows, there.rows, strict=True):  # the pairs that turn are the right ones
        assert a["D_max"] == b["D_max"]
        assert a["W_QK_F_max"] == pytest.approx(b["W_QK_F_max"], rel=1e-5)
    assert here.facts.kv_heads == 2


def test_quantised_blocks_are_undone_as_the_package_does(tmp_path):
    fields = tiny_models.CONFIGS["llama"][1]
    wide = {"hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32}
    kind = gguf.GGMLQuantizationType.Q8_0
    import transformers

    config = transformers.LlamaConfig(**{**fields, **wide})
    model = transformers.AutoModel.from_config(config)
    write_gguf(tmp_path / "x.gguf", model, kind)
    tensors = open_checkpoint(tmp_path / "x.gguf").tensors
    reader = gguf.GGUFReader(tmp_path / "x.gguf")
    truth = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    ours = tensors["model.layers.1.self_attn.v_proj.weight"]
    assert ours.kind == "Q8_0"
    np.testing.assert_array_equal(ours.load(), truth["blk.1.attn_v.weight"])


def test_torch_encoder_needs_heads_and_the_place_of_norms(tmp_path):
    layer = torch.nn.TransformerEncoderLayer(12, 3, 10, batch_first=True, norm_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    path = tmp_path / "x.pt"
    torch.save(encoder.state_dict(), path)
    with pytest.raises(InputError, match=r"heads: not found .* give --heads"):
        audit(path, norm="first")
    with pytest.raises(InputError, match="--norm first, last or none"):
        audit(path, heads=3)
    with pytest.raises(InputError, match="heads: wanted a divisor of the width 12, got 5"):
        audit(path, heads=5, norm="first")
    found = audit(path, heads=3, norm="first")
    assert (found.facts.layers, found.facts.heads, found.facts.head_width) == (2, 3, 4)
    (tmp_path / "config.json").write_text(json.dumps({"model": {"nhead": 3}}))
    assert "model.nhead" in audit(path, norm="first").facts.sources["heads"]
    with pytest.raises(InputError, match=r"--heads: wanted 3"):
        audit(path, norm="first", heads=2)


def test_torch_encoder_attends_as_torch_does(tmp_path):
    from capax.audit.heads.attend import attention_weights, head_output
    from capax.audit.layouts.facts import Options

    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(12, 3, 10, batch_first=True, norm_first=True).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    torch.save({f"layers.0.{k}": v for k, v in layer.state_dict().items()}, tmp_path / "x.pt")
    (attention,) = recognise(
        open_checkpoint(tmp_path / "x.pt"), Options(heads=3, norm="first")
    ).layers()
    X = torch.randn(1, 7, 12)
    read = layer.norm1(X)
    with torch.no_grad():
        out, weights = layer.self_attn(read, read, read, average_attn_weights=False)
    assert attention.norm is not None and attention.norm.offset is not None
    hat = (read[0].detach().double().numpy() - attention.norm.offset) / attention.norm.gain
    total = attention.b_O.astype(np.float64)
    for h in range(3):
        A = attention_weights(attention, h, hat)
        np.testing.assert_allclose(A, weights[0, h].numpy(), atol=1e-5)
        total = total + head_output(attention, h, A, hat)
    np.testing.assert_allclose(total, out[0].numpy(), atol=1e-5)


def test_an_unknown_layout_names_the_tensors_it_could_not_place(tmp_path):
    save_file({"blocks.0.attn.qkv_odd": torch.ones(3, 2), "head": torch.ones(2)},
              tmp_path / "x.safetensors")  # fmt: skip
    with pytest.raises(InputError, match=r"no known layout; its tensors are blocks\.0\.attn\.qkv_odd \[3, 2\], head"):  # noqa: E501  # fmt: skip
        audit(tmp_path / "x.safetensors")


def test_a_tensor_that_no_layer_takes_is_named(bert, tmp_path):
    folder, model = bert
    extra = {"encoder.layer.0.attention.self.distance_embedding.weight": torch.ones(3, 2)}
    save_file(model.state_dict() | extra, beside(folder, tmp_path) / "model.safetensors")
    assert audit(tmp_path).not_counted == tuple(extra)


def test_folders_without_or_with_several_checkpoints(tmp_path):
    with pytest.raises(InputError, match="no weights found in this folder"):
        audit(tmp_path)
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(struct.pack("<I", 1))
    with pytest.raises(InputError, match=r"several checkpoints .a\.gguf, b\.gguf"):
        audit(tmp_path)
    with pytest.raises(InputError, match="file not found"):
        audit(tmp_path / "absent")
