"""Llama, Mistral, Qwen2, Qwen3, SmolLM2: grouped queries, pre-RMSNorm, rotary positions.

Qwen2 has biases on q, k and v; Qwen3 normalises every q and k before the rotation.
"""

import re
from dataclasses import replace

from capax.audit.layouts.attention_layer import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.linear import four_matrices
from capax.audit.layouts.rope import rotary
from capax.audit.layouts.tensor_table import TensorTable

FAMILIES = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}


def _facts(settings: Settings, table: TensorTable) -> Facts:
    del table
    family = FAMILIES[settings.options.family or settings.get("model_type")]
    facts = standard_facts(settings, family, grouped=True, positions="", norm="pre-RMSNorm")
    positions = rotary(settings, facts.head_width)[1]
    notes = ("every q and k is normalised: their scale cancels",) if family == "Qwen3" else ()
    window = sliding_window(settings)
    notes += (f"sliding window of {window} on some or all layers",) if window else ()
    return replace(facts, positions=positions, notes=notes)


def sliding_window(settings: Settings) -> int | None:
    """The sliding window, or None if it is off."""
    window = settings.get("sliding_window")
    used = settings.flag("use_sliding_window", True)
    return window if type(window) is int and used else None


def layer_window(settings: Settings, layer: int) -> int | None:
    """The window of one layer, by `layer_types` where the configuration lists them."""
    kinds = settings.get("layer_types")
    if isinstance(kinds, list) and layer < len(kinds) and kinds[layer] == "full_attention":
        return None
    return sliding_window(settings)


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at, k = f"{place.prefix}layers.{place.layer}.", facts.head_width
    return Attention(
        layer=place.layer,
        **four_matrices(table, facts, *(f"{at}self_attn.{letter}_proj" for letter in "qkvo")),
        scale=facts.scale,
        norm=table.rms_norm(f"{at}input_layernorm", facts.width),
        q_gain=table.maybe(f"{at}self_attn.q_norm.weight", k),
        k_gain=table.maybe(f"{at}self_attn.k_norm.weight", k),
        rotary=rotary(settings, k)[0],
        causal=True,
        window=layer_window(settings, place.layer),
    )


LAYOUT = Layout(
    "Llama",
    ("llama", "mistral", "qwen2", "qwen3"),
    re.compile(r"^(?P<prefix>.*?)layers\.(?P<layer>\d+)\.self_attn\.q_proj\.weight$"),
    _facts,
    _attention,
)
