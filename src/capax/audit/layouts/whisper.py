"""Whisper: encoder, decoder and cross attention; keys have no bias."""

import re

from capax.audit.layouts.attention import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf
from capax.errors import require


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    facts = standard_facts(
        settings,
        "Whisper",
        d=("d_model",),
        layers=("encoder_layers",),
        heads=("encoder_attention_heads",),
        positions="sinusoidal (encoder), learned (decoder)",
        norm="LayerNorm in front",
        limit=("max_target_positions",),
    )
    decoder = settings.whole("decoder heads", "decoder_attention_heads", default=facts.heads)
    require(decoder == facts.heads, "decoder_attention_heads", f"{facts.heads} as the encoder's",
            decoder)  # fmt: skip
    return facts


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    del settings
    part, cross = place.groups["part"], place.groups["kind"] == "encoder_attn"
    at = f"{place.prefix}{part}.layers.{place.layer}.{place.groups['kind']}"
    names = Four(*(f"{at}.{letter}_proj" for letter in ("q", "k", "v", "out")))
    outside = f"{place.prefix}encoder.layer_norm"
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(f"{at}_layer_norm", facts.width),
        key_norm=shelf.layer_norm(outside, facts.width) if cross else None,
        part="cross" if cross else part,
        causal=part == "decoder" and not cross,
    )


LAYOUT = Layout(
    "Whisper",
    ("whisper",),
    re.compile(
        r"^(?P<prefix>.*?)(?P<part>encoder|decoder)\.layers\.(?P<layer>\d+)\."
        r"(?P<kind>self_attn|encoder_attn)\.q_proj\.weight$"
    ),
    _facts,
    _attention,
    init=("normal", "init_std", 0.02),
    layers_of=lambda facts, settings: (
        facts.layers + 2 * settings.whole("decoder layers", "decoder_layers", default=facts.layers)
    ),
)
