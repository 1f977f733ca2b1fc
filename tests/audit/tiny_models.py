"""Tiny random models of every layout, made by `transformers`, and what they compute eagerly.

Every gain, offset and bias is made random too: at initialisation they are 1 and 0 and would hide
mistakes in folding.
"""

import re
from dataclasses import dataclass
from typing import Any

import torch

# Modules that return attention weights, and those that project the heads' outputs back.
ATTENDING = re.compile(
    r"\.(attn|self_attn|encoder_attn|SelfAttention|EncDecAttention|attention|self)$"
)
PROJECTING = re.compile(
    r"(attn\.c_proj|attention\.dense|attention\.output\.dense|out_lin|o_proj|out_proj|Attention\.o)$"
)

TINY = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2,
        "intermediate_size": 20, "vocab_size": 31, "max_position_embeddings": 32}  # fmt: skip
GROUPED = TINY | {"num_key_value_heads": 2, "head_dim": 6}
WIDE = TINY | {"num_key_value_heads": 2, "head_dim": 10}  # H k != d

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", {"n_embd": 24, "n_head": 4, "n_layer": 2, "vocab_size": 31,
                            "n_positions": 32}),
    "gpt2-by-layer": ("GPT2Config", {"n_embd": 24, "n_head": 4, "n_layer": 2, "vocab_size": 31,
                                     "n_positions": 32, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_neox": ("GPTNeoXConfig", TINY | {"rotary_pct": 0.34}),
    "bert": ("BertConfig", TINY),
    "bert-relative_key": ("BertConfig", TINY | {"position_embedding_type": "relative_key"}),
    "bert-relative_key_query": ("BertConfig",
                                TINY | {"position_embedding_type": "relative_key_query"}),
    "roberta": ("RobertaConfig", TINY),
    "distilbert": ("DistilBertConfig", {"dim": 24, "n_heads": 4, "n_layers": 2, "hidden_dim": 20,
                                        "vocab_size": 31, "max_position_embeddings": 32}),
    "albert": ("AlbertConfig", TINY | {"embedding_size": 14}),
    "llama": ("LlamaConfig", GROUPED),
    "llama-wide-bias": ("LlamaConfig", WIDE | {"attention_bias": True}),
    "llama-yarn": ("LlamaConfig", GROUPED | {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0,
        "original_max_position_embeddings": 8}}),
    "llama-dynamic": ("LlamaConfig", GROUPED | {"rope_parameters": {
        "rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0}}),
    "llama-linear": ("LlamaConfig", GROUPED | {"rope_parameters": {
        "rope_type": "linear", "rope_theta": 100.0, "factor": 4.0}}),
    "llama-proportional": ("LlamaConfig", GROUPED | {"rope_parameters": {
        "rope_type": "proportional", "rope_theta": 100.0, "partial_rotary_factor": 0.7}}),
    "gpt_neox-yarn": ("GPTNeoXConfig", TINY | {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "partial_rotary_factor": 0.67,
        "mscale": 2.0, "mscale_all_dim": 0.5, "original_max_position_embeddings": 8}}),
    "qwen3-yarn": ("Qwen3Config", WIDE | {"rope_parameters": {
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "attention_factor": 3.0,
        "original_max_position_embeddings": 16}}),
    "phi3-longrope": ("Phi3Config", TINY | {
        "num_key_value_heads": 2, "pad_token_id": 0, "original_max_position_embeddings": 8,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0, 1.5, 2.0],
                         "long_factor": [2.0, 5.0, 9.0]}}),
    "llama3-rope": ("LlamaConfig", GROUPED | {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}),
    "mistral": ("MistralConfig", GROUPED | {"sliding_window": 5}),
    "qwen2": ("Qwen2Config", TINY | {"num_key_value_heads": 2}),
    "qwen3": ("Qwen3Config", WIDE),
    "phi3": ("Phi3Config", TINY | {"num_key_value_heads": 2, "pad_token_id": 0}),
    "gemma2": ("Gemma2Config", WIDE | {"query_pre_attn_scalar": 17, "sliding_window": 4}),
    "gemma3": ("Gemma3TextConfig", WIDE | {"query_pre_attn_scalar": 17, "sliding_window": 4,
                                           "num_hidden_layers": 7}),
    "opt": ("OPTConfig", {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2,
                          "ffn_dim": 20, "vocab_size": 31, "max_position_embeddings": 32,
                          "word_embed_proj_dim": 24}),
    "t5": ("T5Config", {"d_model": 24, "num_heads": 4, "d_kv": 10, "num_layers": 2, "d_ff": 20,
                        "vocab_size": 31, "num_decoder_layers": 3}),
    "vit": ("ViTConfig", {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 2,
                          "intermediate_size": 20, "image_size": 9, "patch_size": 3}),
    "whisper": ("WhisperConfig", {"d_model": 24, "encoder_attention_heads": 4, "encoder_layers": 2,
                                  "decoder_attention_heads": 4, "decoder_layers": 3,
                                  "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "vocab_size": 31,
                                  "max_source_positions": 8, "max_target_positions": 16,
                                  "num_mel_bins": 6, "pad_token_id": 0, "bos_token_id": 1,
                                  "eos_token_id": 2, "decoder_start_token_id": 1}),
}  # fmt: skip


@dataclass
class Seen:
    """One attention module while the model ran: what it read, what it returned."""

    name: str
    queries: torch.Tensor
    keys: torch.Tensor
    weights: torch.Tensor
    bias: torch.Tensor | None
    output: torch.Tensor | None = None  # what the output projection returned


def build(name: str) -> Any:
    """A tiny model with random weights everywhere, computing eagerly."""
    import transformers  # seconds, that a worker without such tests need not spend

    kind, fields = CONFIGS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = getattr(transformers, kind)(**fields)
    config._attn_implementation = "eager"
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    if "relative" in name:
        add_distance_vectors(model)
    with torch.no_grad():
        for parameter in model.parameters():
            size = 0.3 if parameter.ndim > 1 else 0.5
            parameter.add_(size * torch.randn_like(parameter))
    return model


def add_distance_vectors(model: Any) -> None:
    """What BERT of transformers 4 had and 5 dropped: e_{l-r} added to keys, or to both sides."""
    from transformers.models.bert import modeling_bert

    config = model.config
    n, k = config.max_position_embeddings, config.hidden_size // config.num_attention_heads
    for layer in model.encoder.layer:
        layer.attention.self.distance_embedding = torch.nn.Embedding(2 * n - 1, k)
    if not hasattr(modeling_bert, "without_distance"):
        modeling_bert.without_distance = modeling_bert.eager_attention_forward
        modeling_bert.eager_attention_forward = _with_distance


def _with_distance(module: Any, query: Any, key: Any, value: Any, mask: Any, **rest: Any) -> Any:
    from transformers.models.bert import modeling_bert

    if not hasattr(module, "distance_embedding"):
        return modeling_bert.without_distance(module, query, key, value, mask, **rest)
    T, E = query.shape[2], module.distance_embedding
    distance = torch.arange(T)[:, None] - torch.arange(T)[None, :]
    positional = E(distance + module.config.max_position_embeddings - 1)
    scores = query @ key.transpose(2, 3) + torch.einsum("bhld,lrd->bhlr", query, positional)
    if module.config.position_embedding_type == "relative_key_query":
        scores = scores + torch.einsum("bhrd,lrd->bhlr", key, positional)
    scores = scores / query.shape[-1] ** 0.5
    weights = torch.nn.functional.softmax(scores if mask is None else scores + mask, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def inputs_of(model: Any) -> dict[str, Any]:
    """Something to read: tokens, pixels or sound."""
    torch.manual_seed(3)
    config = model.config
    if config.model_type == "vit":
        return {"pixel_values": torch.randn(1, 3, 9, 9)}
    tokens = torch.randint(3, 31, (1, 11))
    if config.model_type == "t5":
        return {"input_ids": tokens, "decoder_input_ids": torch.randint(3, 31, (1, 7))}
    if config.model_type == "whisper":
        return {"input_features": torch.randn(1, 6, 16),
                "decoder_input_ids": torch.randint(3, 31, (1, 7))}  # fmt: skip
    return {"input_ids": tokens}


def watch(model: Any) -> list[Seen]:
    """Run the model once; what each attention module read and returned, in order."""
    seen: list[Seen] = []

    def attended(name: str) -> Any:
        def record(module: Any, args: Any, kwargs: Any, out: Any) -> None:
            del module
            maps = [o for o in out if torch.is_tensor(o) and o.ndim == 4]
            weights = [o for o in maps if torch.allclose(o.sum(-1), torch.ones(()), atol=1e-4)]
            read = args[0] if args else kwargs["hidden_states"]
            given = [*args[1:2], *(kwargs.get(key) for key in ("key_value_states",))]
            other = next((o for o in given if torch.is_tensor(o) and o.ndim == 3), read)
            bias = next((o[0] for o in maps if o is not weights[0]), None)
            seen.append(Seen(name, read[0], other[0], weights[0][0], bias))

        return record

    def projected(module: Any, args: Any, out: Any) -> None:
        del module, args
        waiting.append(out[0])

    waiting: list[torch.Tensor] = []
    modules = dict(model.named_modules())
    for name, module in modules.items():
        if ATTENDING.search(name) and f"{name}.self" not in modules:
            module.register_forward_hook(attended(name), with_kwargs=True)
        elif PROJECTING.search(name):
            module.register_forward_hook(projected)
    with torch.no_grad():
        model(**inputs_of(model), output_attentions=True)
    assert len(seen) == len(waiting)
    for one, output in zip(seen, waiting, strict=True):
        one.output = output
    return seen
