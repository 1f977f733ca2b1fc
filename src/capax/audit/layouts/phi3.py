"""Phi-3: Llama with rows of queries, keys and values fused into one matrix."""

import re
from dataclasses import replace

import numpy as np

from capax.audit.layouts.attention_layer import Attention, by_columns, by_rows
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.llama import layer_window
from capax.audit.layouts.rope import rotary
from capax.audit.layouts.tensor_table import TensorTable


def _facts(settings: Settings, table: TensorTable) -> Facts:
    del table
    facts = standard_facts(settings, "Phi-3", grouped=True, positions="", norm="pre-RMSNorm")
    return replace(facts, positions=rotary(settings, facts.head_width)[1])


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at = f"{place.prefix}layers.{place.layer}."
    H, G, k, d = facts.heads, facts.kv_heads, facts.head_width, facts.width
    W = table.take(f"{at}self_attn.qkv_proj.weight", (H + 2 * G) * k, d)
    W_Q, W_K, W_V = np.split(W, [H * k, (H + G) * k])
    return Attention(
        layer=place.layer,
        W_Q=by_rows(W_Q, H),
        W_K=by_rows(W_K, G),
        W_V=by_rows(W_V, G),
        W_O=by_columns(table.take(f"{at}self_attn.o_proj.weight", d, H * k), H),
        scale=facts.scale,
        norm=table.rms_norm(f"{at}input_layernorm", d),
        rotary=rotary(settings, k)[0],
        causal=True,
        window=layer_window(settings, place.layer),
    )


LAYOUT = Layout(
    "Phi-3",
    ("phi3",),
    re.compile(r"^(?P<prefix>.*?)layers\.(?P<layer>\d+)\.self_attn\.qkv_proj\.weight$"),
    _facts,
    _attention,
)
