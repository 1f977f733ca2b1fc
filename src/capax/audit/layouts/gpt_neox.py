"""GPT-NeoX, Pythia: one Linear whose rows are (H, 3, k); rotary on a part of each head."""

import re

from capax.audit.layouts.attention_layer import Attention, by_columns
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.rope import rotary
from capax.audit.layouts.tensor_table import TensorTable


def _part(settings: Settings) -> float:
    return settings.number("rotary part", "rotary_pct", default=0.25)


def _facts(settings: Settings, table: TensorTable) -> Facts:
    del table
    d, H = settings.whole("width", "hidden_size"), settings.whole(
        "heads", "num_attention_heads", option="--heads"
    )  # fmt: skip
    _, positions = rotary(settings, d // H, part=_part(settings))
    parallel = settings.flag("use_parallel_residual", True)
    return standard_facts(
        settings,
        "GPT-NeoX",
        positions=positions,
        norm="pre-LayerNorm",
        notes=("attention and MLP read the same input (parallel residual)",) if parallel else (),
    )


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at = f"{place.prefix}layers.{place.layer}."
    H, k, d = facts.heads, facts.head_width, facts.width
    W = table.take(f"{at}attention.query_key_value.weight", 3 * H * k, d).reshape(H, 3, k, d)
    b = table.maybe(f"{at}attention.query_key_value.bias", 3 * H * k)
    b_Q, b_K, b_V = (None,) * 3 if b is None else b.reshape(H, 3, k).transpose(1, 0, 2)
    W_Q, W_K, W_V = W.transpose(1, 0, 3, 2)
    return Attention(
        layer=place.layer,
        W_Q=W_Q, W_K=W_K, W_V=W_V, b_Q=b_Q, b_K=b_K, b_V=b_V,
        W_O=by_columns(table.take(f"{at}attention.dense.weight", d, H * k), H),
        b_O=table.maybe(f"{at}attention.dense.bias", d),
        scale=facts.scale,
        norm=table.layer_norm(f"{at}input_layernorm", d),
        rotary=rotary(settings, k, part=_part(settings))[0],
        causal=True,
    )  # fmt: skip


LAYOUT = Layout(
    "GPT-NeoX",
    ("gpt_neox",),
    re.compile(r"^(?P<prefix>.*?)layers\.(?P<layer>\d+)\.attention\.query_key_value\.weight$"),
    _facts,
    _attention,
)
