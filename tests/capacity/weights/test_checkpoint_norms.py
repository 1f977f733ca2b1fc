"""GPT-2 and BERT files: extraction against naive products, folding, speed."""

import math

import numpy as np
import pytest
from safetensors.numpy import save_file

from capax.capacity.linear.norms import norm_2_1, spectral_upper
from capax.capacity.weights.block_norms import folded
from capax.capacity.weights.checkpoint_norms import (
    checkpoint_blocks,
    read_tensors,
)
from one_line import one_line

RNG = np.random.default_rng(0)


def draw(*shape):
    return (0.3 * RNG.normal(size=shape)).astype(np.float32)


def tensors(name, weight, outputs):
    return {f"{name}.weight": weight, f"{name}.bias": draw(outputs)}


def gpt2(d, n, layers, prefix="transformer."):
    weights = {}
    for layer in range(layers):
        at = f"{prefix}h.{layer}."
        for name, shape in {
            "attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, n),
            "mlp.c_proj": (n, d),
        }.items():  # fmt: skip
            weights |= tensors(f"{at}{name}", draw(*shape), shape[1])
        for name in ("ln_1", "ln_2"):
            weights |= tensors(f"{at}{name}", 1 + draw(d), d)
    return weights


def bert(d, n, layers, prefix="bert."):
    weights = {}
    for layer in range(layers):
        at = f"{prefix}encoder.layer.{layer}."
        for name, shape in {
            "attention.self.query": (d, d), "attention.self.key": (d, d),
            "attention.self.value": (d, d), "attention.output.dense": (d, d),
            "intermediate.dense": (n, d), "output.dense": (d, n),
        }.items():  # fmt: skip
            weights |= tensors(f"{at}{name}", draw(*shape), shape[0])
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights |= tensors(f"{at}{name}", 1 + draw(d), d)
    return weights | tensors(f"{prefix}embeddings.LayerNorm", 1 + draw(d), d)


def test_gpt2_heads_reproduce_scores_and_values():
    """Scores and head outputs computed the usual way equal those of the folded products."""
    d, H, k = 6, 2, 3
    W = {name: x.astype(np.float64) for name, x in gpt2(d, 11, 1).items()}
    at = "transformer.h.0."
    x = RNG.normal(size=(4, d))
    unit = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
    y = unit * W[f"{at}ln_1.weight"] + W[f"{at}ln_1.bias"]
    q, key, v = np.split(y @ W[f"{at}attn.c_attn.weight"] + W[f"{at}attn.c_attn.bias"], 3, axis=1)
    blocks = checkpoint_blocks(W, num_heads=H)
    ones = np.hstack([unit, np.ones((4, 1))])
    for h in range(H):
        part = slice(h * k, (h + 1) * k)
        scores = q[:, part] @ key[:, part].T / math.sqrt(k)
        fold = (W[f"{at}ln_1.weight"], W[f"{at}ln_1.bias"])
        cols = W[f"{at}attn.c_attn.weight"]
        bias = W[f"{at}attn.c_attn.bias"]
        W_Q = folded(cols[:, part], bias[part], fold)
        W_K = folded(cols[:, d : 2 * d][:, part], np.zeros(k), fold)[:-1]
        W_V = folded(cols[:, 2 * d :][:, part], bias[2 * d :][part], fold)
        mine = (ones @ W_Q) @ (unit @ W_K).T / math.sqrt(k)
        centred = scores - scores.mean(axis=1, keepdims=True)  # the key bias cancels in softmax
        np.testing.assert_allclose(mine - mine.mean(axis=1, keepdims=True), centred, atol=1e-9)
        np.testing.assert_allclose(ones @ W_V, v[:, part], atol=1e-9)
        qk, vo = blocks[0].heads[h]
        product = W_Q @ W_K.T / math.sqrt(k)
        assert qk.norm_F == pytest.approx(np.linalg.norm(product), rel=1e-6)
        assert qk.norm_2 == pytest.approx(np.linalg.norm(product, 2), rel=1e-6)
        W_VO = W_V @ W[f"{at}attn.c_proj.weight"][part]
        if h == 0:
            W_VO[-1] += W[f"{at}attn.c_proj.bias"]
        assert vo.norm_2_1 == pytest.approx(norm_2_1(W_VO), rel=1e-6)


def test_bert_is_the_transpose_of_gpt2():
    d, n = 6, 11
    B = bert(d, n, 2)
    G = {}
    for layer in range(2):
        src, dst = f"bert.encoder.layer.{layer}.", f"h.{layer}."
        parts = [B[f"{src}attention.self.{x}.weight"].T for x in ("query", "key", "value")]
        G[f"{dst}attn.c_attn.weight"] = np.hstack(parts)
        biases = [B[f"{src}attention.self.{x}.bias"] for x in ("query", "key", "value")]
        G[f"{dst}attn.c_attn.bias"] = np.concatenate(biases)
        for old, new in (("attention.output.dense", "attn.c_proj"), ("intermediate.dense",
                         "mlp.c_fc"), ("output.dense", "mlp.c_proj")):  # fmt: skip
            G[f"{dst}{new}.weight"] = B[f"{src}{old}.weight"].T
            G[f"{dst}{new}.bias"] = B[f"{src}{old}.bias"]
        before = "bert.embeddings" if layer == 0 else "bert.encoder.layer.0.output"
        for name, source in (("ln_1", before), ("ln_2", f"{src}attention.output")):
            G[f"{dst}{name}.weight"] = B[f"{source}.LayerNorm.weight"]
            G[f"{dst}{name}.bias"] = B[f"{source}.LayerNorm.bias"]
    for ours, theirs in zip(checkpoint_blocks(B, 2), checkpoint_blocks(G, 2), strict=True):
        for a, b in zip(ours.heads, theirs.heads, strict=True):
            assert a[0].norm_F == pytest.approx(b[0].norm_F)
            assert a[1].norm_2_1 == pytest.approx(b[1].norm_2_1)
        assert ours.W_1.norm_2 == pytest.approx(theirs.W_1.norm_2)


def test_spectral_upper_bound_is_above_and_close():
    for shape in ((120, 150), (150, 120), (101, 101), (7, 5)):
        W = RNG.normal(size=shape)
        exact = np.linalg.norm(W, 2)
        assert exact <= spectral_upper(W) <= exact * 1.001
    assert spectral_upper(np.eye(200)) == pytest.approx(1.0, rel=1e-3)


def test_files(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(gpt2(6, 11, 1), path)
    assert len(checkpoint_blocks(read_tensors(path), 2)) == 1
    with one_line("file not found"):
        read_tensors(tmp_path / "none.safetensors")


def test_bytes_that_are_no_safetensors_file(tmp_path):
    (tmp_path / "broken.safetensors").write_bytes(b"no")
    with one_line("not readable as a safetensors"):
        read_tensors(tmp_path / "broken.safetensors")


INCOMPLETE = {n: w for n, w in gpt2(6, 11, 1).items() if "c_proj" not in n}
NAN = gpt2(6, 11, 1)
NAN["transformer.h.0.attn.c_attn.weight"][0, 0] = np.nan


@pytest.mark.parametrize(
    "weights, heads, message",
    [
        ({"foo": np.ones(3)}, None, "wanted GPT-2 or BERT"),
        (gpt2(6, 11, 1), None, "heads: the file does not contain the number"),
        (gpt2(6, 11, 1), 4, "heads: wanted a divisor of d = 6"),
        (INCOMPLETE, 2, "c_proj.weight: wanted a tensor"),
        (NAN, 2, "wanted finite numbers"),
    ],
    ids=["foreign", "no heads", "no divisor", "incomplete", "nan"],
)
def test_weights_that_are_no_checkpoint_are_one_line(weights, heads, message):
    with one_line(message):
        checkpoint_blocks(weights, heads)
