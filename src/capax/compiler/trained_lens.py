"""Trained Transformers of any depth under the array names of TransformerLens.

Tokens: 0, 1 and [CLS] = 2, the last of T + 1 positions; W_E = (embed, cls), W_pos = (position, 0).
Our layers are pre-LN with the same order of operations as a HookedTransformer; attention is
bidirectional (`attention_dir`), because tokens of a second layer read their whole sequence.
The logit is the output at [CLS]: W_U = w, b_U = b.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as to_safetensors

from capax.attention.block import LAYER_NORM_EPSILON
from capax.attention.transformer import Transformer, parameters
from capax.errors import require
from capax.files import write_atomically

FORMAT = "capax-transformer-lens-1"
ACTIVATIONS = {"gelu": "gelu", "relu": "relu"}  # ours -> theirs; both exact
State = dict[str, np.ndarray]


def trained_to_lens(model: Transformer) -> tuple[dict[str, Any], State]:
    """(settings, arrays) of a HookedTransformer that computes the same logit at [CLS].

    Raises `InputError` for an alphabet of more than two symbols, an activation or a normalizer that
    TransformerLens does not have.
    """
    spec = model.spec
    known = ", ".join(ACTIVATIONS)
    require(spec.activation in ACTIVATIONS, "activation", f"one of {known}", spec.activation)
    require(spec.normalizer == "softmax", "normalizer", "softmax", spec.normalizer)
    require(spec.alphabet == 2, "alphabet", "2 (bits)", spec.alphabet)
    leaves = {path: np.asarray(leaf) for path, leaf in parameters(model).items()}
    state: State = {
        "embed.W_E": np.concatenate([leaves["embed"], leaves["cls"][None]]),
        "pos_embed.W_pos": np.concatenate([leaves["position"], np.zeros((1, spec.d), np.float32)]),
        "unembed.W_U": leaves["w"][:, None],
        "unembed.b_U": leaves["b"][None],
    }
    for path, leaf in leaves.items():
        if path.startswith(("blocks.", "ln_final.")):
            state[_their_name(path)] = leaf
    return _settings(model), state


def save_trained_lens(path: Path | str, model: Transformer) -> Path:
    """Write the arrays to a safetensors file, the settings as JSON in its metadata."""
    settings, state = trained_to_lens(model)
    header = {"format": FORMAT, "settings": json.dumps(settings)}
    content = to_safetensors({k: np.ascontiguousarray(v) for k, v in state.items()}, header)
    return write_atomically(path, lambda file: file.write(content))


def _their_name(path: str) -> str:
    """blocks.0.W_Q -> blocks.0.attn.W_Q, blocks.0.ln1.gain -> blocks.0.ln1.w, and so on."""
    path = path.replace(".gain", ".w").replace(".bias", ".b")
    *front, name = path.split(".")
    if front[0] == "blocks" and len(front) == 2:
        part = "mlp" if name in ("W_in", "b_in", "W_out", "b_out") else "attn"
        front.append(part)
    return ".".join([*front, name])


def _settings(model: Transformer) -> dict[str, Any]:
    """The fields of a HookedTransformerConfig."""
    spec = model.spec
    return {
        "n_layers": spec.layers,
        "n_heads": spec.heads,
        "d_model": spec.d,
        "d_head": spec.head_width,
        "d_mlp": spec.mlp_width,
        "n_ctx": spec.T + 1,
        "d_vocab": 3,
        "d_vocab_out": 1,
        "act_fn": ACTIVATIONS[spec.activation],
        "attn_only": False,
        "normalization_type": "LN" if spec.layer_norm else None,
        "eps": LAYER_NORM_EPSILON,
        "attention_dir": "bidirectional",
        "use_attn_scale": spec.scale == "sqrt",
    }
