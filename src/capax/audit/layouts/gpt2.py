"""GPT-2: Conv1D [in, out], queries, keys and values side by side; pre-LayerNorm."""

import re

import numpy as np

from capax.audit.layouts.attention_layer import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.tensor_table import TensorTable


def _facts(settings: Settings, table: TensorTable) -> Facts:
    del table
    plain = settings.flag("scale_attn_weights", True)
    by_layer = settings.flag("scale_attn_by_inverse_layer_idx", False)
    return standard_facts(
        settings,
        "GPT-2",
        d=("n_embd", "hidden_size"),
        layers=("n_layer", "num_hidden_layers"),
        heads=("n_head", "num_attention_heads"),
        limit=("n_positions", "n_ctx"),
        positions="learned",
        norm="pre-LayerNorm",
        scale=None if plain else 1.0,
        notes=("scores also divided by layer + 1",) if by_layer else (),
    )


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at, H, k, d = f"{place.prefix}h.{place.layer}.", facts.heads, facts.head_width, facts.width
    inner = H * k
    W = table.take(f"{at}attn.c_attn.weight", d, 3 * inner)
    b = table.take(f"{at}attn.c_attn.bias", 3 * inner)
    W_Q, W_K, W_V = (part.reshape(d, H, k).transpose(1, 0, 2) for part in np.split(W, 3, axis=1))
    b_Q, b_K, b_V = (part.reshape(H, k) for part in np.split(b, 3))
    by_layer = settings.flag("scale_attn_by_inverse_layer_idx", False)
    return Attention(
        layer=place.layer,
        W_Q=W_Q, W_K=W_K, W_V=W_V, b_Q=b_Q, b_K=b_K, b_V=b_V,
        W_O=table.take(f"{at}attn.c_proj.weight", inner, d).reshape(H, k, d),
        b_O=table.take(f"{at}attn.c_proj.bias", d),
        scale=facts.scale / (place.layer + 1 if by_layer else 1),
        norm=table.layer_norm(f"{at}ln_1", d),
        causal=True,
    )  # fmt: skip


LAYOUT = Layout(
    "GPT-2",
    ("gpt2",),
    re.compile(r"^(?P<prefix>.*?)h\.(?P<layer>\d+)\.attn\.c_attn\.weight$"),
    _facts,
    _attention,
)
