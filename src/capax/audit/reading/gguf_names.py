"""Names and metadata of GGUF files (llama.cpp's), translated to those of `config.json` and PyTorch.

Besides the names, two things differ from a file of PyTorch. Rows of W_Q and W_K of the architecture
`llama` are permuted inside each head, so that rotary pairs are neighbours (2i, 2i + 1); W_Q W_K^T
does not change, but the rotation must use these pairs. Norms of Gemma are stored as 1 + w.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any

from capax.audit.reading.stored import StoredTensor
from capax.errors import InputError, shown

LLAMA_LIKE = ("llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3")
BLOCK = re.compile(r"^blk\.(\d+)\.(.+)\.(weight|bias)$")
MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "rope.freq_base": "rope_theta",
    "rope.dimension_count": "rope_width",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "vocab_size": "vocab_size",
}


def config_of(metadata: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The metadata under the names of `config.json`; `names` are those of the tensors."""
    family = metadata.get("general.architecture")
    if family not in LLAMA_LIKE:
        known = ", ".join(LLAMA_LIKE)
        raise InputError(f"general.architecture: wanted one of {known}, got {shown(family)}")
    config = {
        name: metadata[f"{family}.{key}"]
        for key, name in KEYS.items()
        if f"{family}.{key}" in metadata
    }
    config["model_type"] = family
    config["rope_pairs"] = "adjacent" if family == "llama" else "halves"
    config["norm_gain"] = "as stored"
    scaling = metadata.get(f"{family}.rope.scaling.type")
    if scaling == "linear":
        factor = metadata.get(f"{family}.rope.scaling.factor")
        config["rope_scaling"] = {"rope_type": "linear", "factor": factor}
    elif scaling not in (None, "none"):  # llama.cpp has formulas of its own: not read
        config["rope_scaling"] = {"rope_type": f"{scaling} of GGUF"}
    elif "rope_freqs.weight" in names:  # factors that stretch some frequencies (Llama 3.1)
        config["rope_scaling"] = {"rope_type": "rope_freqs.weight"}
    return config


def renamed(tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Tensors of the blocks under their names in PyTorch; all others as they are."""
    return {_name(name): tensor for name, tensor in tensors.items()}


def _name(name: str) -> str:
    match = BLOCK.match(name)
    if match is None or match[2] not in MODULES:
        return name
    return f"model.layers.{match[1]}.{MODULES[match[2]]}.{match[3]}"
