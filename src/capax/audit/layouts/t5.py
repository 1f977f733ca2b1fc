"""T5: no scale, RMSNorm in front, a learned bias per distance; self and cross attention."""

import re

from capax.audit.layouts.attention import Array, Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf
from capax.errors import require


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    k = settings.whole("head_width", "d_kv", option="--head-width")
    settings.config["head_dim"] = k
    facts = standard_facts(
        settings,
        "T5",
        d=("d_model",),
        layers=("num_layers",),
        heads=("num_heads",),
        positions="learned bias per distance, added to the scores",
        norm="RMSNorm in front",
        limit=("n_positions",),
        scale=1.0,
        notes=("the bias per distance is in the score radius, not in W_QK",),
    )
    for name in shelf.tensors:
        if name.endswith("relative_attention_bias.weight"):
            H = shelf.shape(name)[-1]
            require(facts.heads == H, "heads", f"{H}, as {name} has", facts.heads)
    return facts


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    part, layer = place.groups["part"], place.layer
    cross = place.groups["kind"] == "EncDecAttention"
    at = f"{place.prefix}{part}.block.{layer}.layer.{1 if cross else 0}."
    names = Four(*(f"{at}{place.groups['kind']}.{letter}" for letter in "qkvo"))
    outside = f"{place.prefix}encoder.final_layer_norm"
    del settings
    bias = None if cross else _bias(shelf, f"{place.prefix}{part}.", facts)
    return Attention(
        layer=layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.rms_norm(f"{at}layer_norm", facts.width),
        key_norm=shelf.rms_norm(outside, facts.width) if cross else None,
        distance_bias=bias,
        part="cross" if cross else part,
        causal=part == "decoder" and not cross,
    )


def _bias(shelf: Shelf, at: str, facts: Facts) -> Array:
    """[H, buckets] of distances; stored in the first block, added in every block of its stack."""
    name = f"{at}block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    return shelf.take(name, shelf.shape(name)[0], facts.heads).T


def _layers(facts: Facts, settings: Settings) -> int:
    decoder = settings.whole("decoder layers", "num_decoder_layers", default=facts.layers)
    return facts.layers + 2 * decoder


LAYOUT = Layout(
    "T5",
    ("t5", "mt5"),
    re.compile(
        r"^(?P<prefix>.*?)(?P<part>encoder|decoder)\.block\.(?P<layer>\d+)\.layer\.[01]\."
        r"(?P<kind>SelfAttention|EncDecAttention)\.q\.weight$"
    ),
    _facts,
    _attention,
    init=("t5", "initializer_factor", 1.0),
    layers_of=_layers,
)
