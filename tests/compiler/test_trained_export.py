"""Trained Transformers elsewhere: the same logits in PyTorch and under TransformerLens names."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

from capax.attention.encodings import wanted_shape
from capax.attention.transformer import assemble, transformer_spec
from capax.compiler.trained_lens import save_trained_lens
from capax.compiler.transformer_lens import to_transformer_lens
from capax.errors import InputError

T = 7


def trained(layers: int, **fields):
    """A model with random weights, biases and gains."""
    spec = transformer_spec(
        **{"T": T, "d": 6, "heads": 3, "mlp_width": 5, "layers": layers} | fields
    )
    rng = np.random.default_rng(layers)
    arrays = {
        path: jnp.asarray(path.endswith("gain") + 0.5 * rng.standard_normal(shape), jnp.float32)
        for path, shape in spec.shapes().items()
    }
    return assemble(spec, arrays)


def bits() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2, (20, T))


def logits(model) -> np.ndarray:
    return np.asarray(jax.jit(jax.vmap(lambda b: model(b)))(jnp.asarray(bits(), jnp.int32)))


@pytest.mark.parametrize("layers, fields", [(1, {}), (3, {"activation": "tanh"})])
def test_pytorch_gives_the_same_logits(layers, fields):
    torch = pytest.importorskip("torch")
    from capax.compiler.torch_export import from_torch, to_torch

    model = trained(layers, **fields)
    module = to_torch(model, torch.float64)
    got = module(torch.tensor(bits())).detach().numpy()
    np.testing.assert_allclose(got, logits(model), rtol=1e-4, atol=1e-4)
    assert from_torch(module)["blocks__0__W_Q"].shape == model.blocks[0].W_Q.shape


def hooked(settings, state, tokens):
    """What TransformerLens computes with these settings, in float64."""

    def normed(name, x):
        if settings["normalization_type"] is None:
            return x
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + settings["eps"])
        return x * state[f"{name}.w"] + state[f"{name}.b"]

    from scipy.special import erf

    x = state["embed.W_E"][tokens] + state["pos_embed.W_pos"]
    scale = np.sqrt(settings["d_head"]) if settings["use_attn_scale"] else 1.0
    for layer in range(settings["n_layers"]):
        a, m, y = (f"blocks.{layer}.{part}" for part in ("attn.", "mlp.", "ln1"))
        y = normed(y, x)
        for h in range(settings["n_heads"]):
            q, k, v = (y @ state[f"{a}W_{n}"][h] + state[f"{a}b_{n}"][h] for n in "QKV")
            scores = q @ k.T / scale
            w = np.exp(scores - scores.max(1, keepdims=True))
            x = x + w / w.sum(1, keepdims=True) @ v @ state[f"{a}W_O"][h]
        x = x + state[f"{a}b_O"]
        z = normed(f"blocks.{layer}.ln2", x) @ state[f"{m}W_in"] + state[f"{m}b_in"]
        z = (
            0.5 * z * (1 + erf(z / np.sqrt(2)))
            if settings["act_fn"] == "gelu"
            else np.maximum(z, 0)
        )
        x = x + z @ state[f"{m}W_out"] + state[f"{m}b_out"]
    out = normed("ln_final", x) @ state["unembed.W_U"] + state["unembed.b_U"]
    return float(out[-1, 0])


@pytest.mark.parametrize("layers, fields", [(1, {}), (2, {"layer_norm": False, "scale": "paper"})])
def test_transformer_lens_gives_the_same_logits(tmp_path, layers, fields):
    model = trained(layers, **fields)
    settings, state = to_transformer_lens(model)
    wide = {name: array.astype(np.float64) for name, array in state.items()}
    got = [hooked(settings, wide, np.append(row, 2)) for row in bits()]
    np.testing.assert_allclose(got, logits(model), rtol=1e-4, atol=1e-4)
    path = save_trained_lens(tmp_path / "lens.safetensors", model)
    with safe_open(str(path), framework="np") as file:
        assert json.loads(file.metadata()["settings"]) == settings
        assert np.array_equal(file.get_tensor("embed.W_E"), state["embed.W_E"])


def test_what_has_no_such_form_is_told():
    with pytest.raises(InputError, match="activation: wanted one of gelu, relu"):
        to_transformer_lens(trained(1, activation="tanh"))
    with pytest.raises(InputError, match="normalizer: wanted softmax"):
        to_transformer_lens(trained(1, normalizer="sparsemax"))


def test_a_batch_is_told_to_use_vmap():
    assert "jax.vmap" in wanted_shape(T, (3, T))
    assert "jax.vmap" not in wanted_shape(T, (3,))
