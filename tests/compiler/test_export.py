"""The same numbers in PyTorch and under TransformerLens names, and the way back."""

from pathlib import Path

import numpy as np
import pytest
from extended_forward import naive_outputs
from forward_pass import outputs

import capax
from capax.compiler.transformer_lens import (
    from_transformer_lens,
    load_transformer_lens,
    save_transformer_lens,
    to_transformer_lens,
)
from capax.errors import InfeasibleError, InputError

FORMULAS = ("x1 & x4 & ~x6", "x1 ^ x4 ^ x6", "(x1 & x4) | (~x1 & x6)", "1")
ENCODINGS = ("deterministic", "trainable", "bag", "incoherent")
# Both read-outs with every encoding; exports do not tell one network with an MLP from another.
NETWORKS = [(formula, encoding) for formula in FORMULAS[:2] for encoding in ENCODINGS]
NETWORKS += [(formula, ENCODINGS[0]) for formula in FORMULAS[2:]]


def inputs(T: int) -> np.ndarray:
    """Random inputs and the adversarial ones: all irrelevant bits 0 or 1 around every pattern."""
    random = np.random.default_rng(1).integers(0, 2, (12, T))
    corners = np.concatenate([np.zeros((8, T), int), np.ones((8, T), int)])
    for row in range(8):
        for i, t in enumerate((1, 4, 6)):
            corners[[row, row + 8], t] = row >> i & 1
    return np.concatenate([random, corners])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_model_is_the_naive_network(encoding: str):
    model, bits = capax.compile(FORMULAS[1], 23, encoding=encoding).model, inputs(23)
    want = naive_outputs(model, bits)
    assert np.abs(outputs(model, bits) - want).max() < 1e-12
    if encoding in ("deterministic", "bag"):  # on one input, operation by operation
        assert abs(float(model(bits[0])) - want[0]) < 1e-12


@pytest.mark.parametrize(("formula", "encoding"), NETWORKS)
def test_pytorch_gives_the_same_outputs(formula: str, encoding: str):
    torch = pytest.importorskip("torch", reason="the optional extra capax[torch]")
    from capax.compiler.torch_export import from_torch, to_torch

    T = 300
    model = capax.compile(formula, T, encoding=encoding).model
    bits = inputs(T)
    want = naive_outputs(model, bits)
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        module = to_torch(model, dtype)
        got = module(torch.tensor(bits)).detach().numpy()
        assert np.abs(got - want).max() < tolerance
    arrays = from_torch(to_torch(model, torch.float64))
    assert np.array_equal(arrays["W_Q"], np.asarray(model.W_Q))
    assert {"W_Q", "W_K", "W_V"} <= set(arrays)


def hooked_transformer(settings: dict, state: dict[str, np.ndarray], tokens: np.ndarray) -> float:
    """What TransformerLens computes: residual stream, causal softmax / sqrt(d_head), ReLU MLP."""
    stream = state["embed.W_E"][tokens] + state["pos_embed.W_pos"]
    a = {name: state[f"blocks.0.attn.{name}"] for name in ("W_Q", "W_K", "W_V", "W_O")}
    b = {name: state[f"blocks.0.attn.{name}"] for name in ("b_Q", "b_K", "b_V", "b_O")}
    q, k, v = (stream @ a[f"W_{n}"][0] + b[f"b_{n}"][0] for n in "QKV")
    scores = q @ k.T / np.sqrt(settings["d_head"])
    scores[np.triu_indices(len(tokens), 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    stream = stream + weights / weights.sum(axis=1, keepdims=True) @ v @ a["W_O"][0] + b["b_O"]
    if not settings["attn_only"]:
        m = {name: state[f"blocks.0.mlp.{name}"] for name in ("W_in", "b_in", "W_out", "b_out")}
        stream = stream + np.maximum(stream @ m["W_in"] + m["b_in"], 0) @ m["W_out"] + m["b_out"]
    return float((stream @ state["unembed.W_U"] + state["unembed.b_U"])[-1, 0])


@pytest.mark.parametrize(("formula", "encoding"), [case for case in NETWORKS if case[1] != "bag"])
def test_transformer_lens_form_and_back(tmp_path: Path, formula: str, encoding: str):
    T = 23
    compiled = capax.compile(formula, T, encoding=encoding)
    settings, state = to_transformer_lens(compiled.model)
    path = save_transformer_lens(tmp_path / "lens.safetensors", compiled)
    back = load_transformer_lens(path)
    assert settings["n_ctx"] == T + 1
    bits = inputs(T)
    want = naive_outputs(compiled.model, bits)
    hooked = [hooked_transformer(settings, state, np.append(row, 2)) for row in bits]
    assert np.abs(np.array(hooked) - want).max() < 1e-10
    assert np.abs(naive_outputs(back, bits) - want).max() < 1e-10


def test_what_transformer_lens_cannot_hold_is_refused():
    with pytest.raises(InputError, match="encoding"):
        to_transformer_lens(capax.compile("x1", 5, encoding="bag").model)
    with pytest.raises(InfeasibleError, match="GiB"):
        to_transformer_lens(capax.compile("x1", 10**5).model)
    settings, state = to_transformer_lens(capax.compile("x1", 5).model)
    del state["blocks.0.attn.W_O"]
    with pytest.raises(InputError, match="W_O"):
        from_transformer_lens(settings, state)
