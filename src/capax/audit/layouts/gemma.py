"""Gemma 2 and 3: gain 1 + w, a scale of its own, soft caps (2), q/k norms and two bases (3)."""

import math
import re
from dataclasses import replace

from capax.audit.layouts.attention_layer import Attention, Rotary
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.linear import four_matrices
from capax.audit.layouts.llama import layer_window
from capax.audit.layouts.rope import rotary
from capax.audit.layouts.tensor_table import TensorTable
from capax.errors import require

TYPES = ("gemma2", "gemma3", "gemma3_text")


def _third(settings: Settings) -> bool:
    return "gemma3" in str(settings.options.family or settings.get("model_type"))


def _scale(settings: Settings) -> float:
    if settings.options.scale is not None:
        return settings.options.scale
    scalar = settings.number("scale (query_pre_attn_scalar)", "query_pre_attn_scalar",
                             option="--scale")  # fmt: skip
    require(scalar > 0, "query_pre_attn_scalar", "a number > 0", scalar)
    return 1 / math.sqrt(scalar)


def _facts(settings: Settings, table: TensorTable) -> Facts:
    del table
    cap = settings.get("attn_logit_softcapping")
    third = _third(settings)
    facts = standard_facts(
        settings,
        "Gemma 3" if third else "Gemma 2",
        grouped=True,
        positions="",
        norm="pre-RMSNorm, gain 1 + w",
        scale=_scale(settings),
        notes=(("every q and k is normalised: their scale cancels",) if third else ())
        + ((f"scores pass through {cap:g} tanh(s / {cap:g})",) if cap else ()),
    )
    return replace(facts, positions=_rotary(settings, facts.head_width, 0)[1])


def _rotary(settings: Settings, k: int, layer: int) -> tuple[Rotary, str]:
    if not _third(settings):
        return rotary(settings, k)
    kinds = settings.get("layer_types")
    pattern = settings.whole("pattern of windows", "sliding_window_pattern", default=6)
    full = (layer + 1) % pattern == 0  # if the configuration has no list
    kind = kinds[layer] if isinstance(kinds, list) else f"{'full' if full else 'sliding'}_attention"
    local = settings.get("rope_local_base_freq") if kind == "sliding_attention" else None
    return rotary(settings, k, kind=kind, theta=local)


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at, k = f"{place.prefix}layers.{place.layer}.", facts.head_width
    plus = 0.0 if settings.get("norm_gain") == "as stored" else 1.0  # GGUF stores 1 + w
    gains = {
        side: table.maybe(f"{at}self_attn.{side}_norm.weight", k) for side in "qk"
    }  # fmt: skip
    cap = settings.get("attn_logit_softcapping")
    return Attention(
        layer=place.layer,
        **four_matrices(table, facts, *(f"{at}self_attn.{letter}_proj" for letter in "qkvo")),
        scale=facts.scale,
        norm=table.rms_norm(f"{at}input_layernorm", facts.width, plus),
        q_gain=None if gains["q"] is None else plus + gains["q"],
        k_gain=None if gains["k"] is None else plus + gains["k"],
        rotary=_rotary(settings, k, place.layer)[0],
        soft_cap=float(cap) if cap else None,
        causal=True,
        window=layer_window(settings, place.layer),
    )


LAYOUT = Layout(
    "Gemma",
    TYPES,
    re.compile(r"^(?P<prefix>.*?)layers\.(?P<layer>\d+)\.self_attn\.q_proj\.weight$"),
    _facts,
    _attention,
)
