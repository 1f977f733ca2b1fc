"""The checkpoint as a model of `transformers`, filled from our own reader.

`transformers` builds the architecture from the configuration; the numbers come through `reading`,
so no pickle is run and GGUF files work too. Nothing is downloaded.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from capax.audit.layouts.table import Recognised
from capax.errors import InputError, require

# Families that process text with one stack of self-attention.
TEXT = {"GPT-2", "GPT-NeoX", "BERT", "RoBERTa", "DistilBERT", "ALBERT", "Llama", "Mistral", "Qwen2",
        "Qwen3", "Phi-3", "Gemma 2", "Gemma 3", "OPT"}  # fmt: skip
EVERYWHERE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm",
              "output": "lm_head"}  # fmt: skip
BUILDING = (ValueError, RuntimeError, KeyError, OSError, TypeError)
IN_A_BLOCK = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
              "ffn_norm": "post_attention_layernorm"}  # fmt: skip


def packages() -> tuple[Any, Any]:
    """torch and transformers; if missing, an InputError that says how to install them."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import torch
        import transformers
    except ImportError:
        raise InputError(
            "--text needs torch and transformers: pip install 'capax[audit]'"
        ) from None
    transformers.utils.logging.disable_progress_bar()
    return torch, transformers


@dataclass(frozen=True)
class BuiltModel:
    """The model without its output layer, and with it if the file has one."""

    body: Any
    whole: Any = None


def build_model(recognised: Recognised, *, attention: str, causal: bool) -> BuiltModel:
    """The model with the weights of the file."""
    torch, transformers = packages()
    config = _config(recognised, transformers)
    torch.manual_seed(0)
    kinds = (transformers.MODEL_FOR_CAUSAL_LM_MAPPING if causal
             else transformers.MODEL_FOR_MASKED_LM_MAPPING)  # fmt: skip
    try:
        filled, info = kinds[type(config)].from_pretrained(
            None, config=config, state_dict=_state(recognised, torch),
            attn_implementation=attention, output_loading_info=True,
        )  # fmt: skip
    except BUILDING as error:
        raise InputError(
            f"--text: transformers could not build the model ({str(error)[:120]})"
        ) from None
    filled = filled.eval().float()
    missing, body = sorted(info["missing_keys"]), f"{filled.base_model_prefix}."
    lost = [name for name in missing if name.startswith(body)]
    require(
        not lost, "--text", f"all weights of the model, {lost[:1]} among them", "a file without"
    )
    return BuiltModel(filled.base_model, None if missing else filled)


def random_model(recognised: Recognised, *, attention: str, seed: int) -> Any:
    """The same architecture with random weights, without an output layer."""
    torch, transformers = packages()
    config = _config(recognised, transformers)
    torch.manual_seed(seed)
    try:
        drawn = transformers.AutoModel.from_config(config, attn_implementation=attention)
    except BUILDING as error:
        raise InputError(
            f"--text: transformers could not build the model ({str(error)[:120]})"
        ) from None
    return drawn.eval().float()


def _config(recognised: Recognised, transformers: Any) -> Any:
    checkpoint = recognised.checkpoint
    fields = {key: value for key, value in checkpoint.config.items() if key != "model_type"}
    kind = checkpoint.config["model_type"]
    for key in ("rope_pairs", "norm_gain", "rope_width", "architectures", "transformers_version"):
        fields.pop(key, None)
    fields["use_cache"] = False  # no layer needs the keys of an earlier reading
    try:
        return transformers.AutoConfig.for_model(kind, **fields)
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"--text: transformers rejects the configuration ({error})") from None


def _state(recognised: Recognised, torch: Any) -> dict[str, Any]:
    """Every tensor of the file under its name in PyTorch."""
    state = {}
    for name, tensor in recognised.checkpoint.tensors.items():
        values = tensor.load()
        if recognised.checkpoint.config.get("rope_pairs") == "adjacent":
            name, values = _as_halves(name, values, recognised)
        elif recognised.checkpoint.format == "GGUF":
            name = _full_name(name)
        state[name] = torch.from_numpy(np.array(values))
    return state


def _as_halves(name: str, values: np.ndarray, recognised: Recognised) -> tuple[str, np.ndarray]:
    """Rows from llama.cpp's order (pairs adjacent) to PyTorch's (pairs k/2 apart)."""
    if name.endswith(("self_attn.q_proj.weight", "self_attn.k_proj.weight")):
        heads = values.shape[0] // recognised.facts.head_width
        apart = values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2)
        return name, apart.reshape(values.shape)
    return _full_name(name), values


def _full_name(name: str) -> str:
    stem, _, last = name.rpartition(".")
    if stem in EVERYWHERE:
        return f"{EVERYWHERE[stem]}.{last}"
    head, _, module = stem.rpartition(".")
    if head.startswith("blk.") and module in IN_A_BLOCK:
        return f"model.layers.{head.removeprefix('blk.')}.{IN_A_BLOCK[module]}.{last}"
    return name
