"""OPT: a decoder with LayerNorm in front (behind in the 350m model), positions from index 2."""

import re

from capax.audit.layouts.attention import Attention, Norm
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    front = settings.flag("do_layer_norm_before", True)
    return standard_facts(
        settings,
        "OPT",
        positions="learned, from index 2",
        norm="LayerNorm in front" if front else "LayerNorm behind",
    )


def _norm(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Norm | None:
    at = f"{place.prefix}decoder.layers."
    if settings.flag("do_layer_norm_before", True):
        return shelf.layer_norm(f"{at}{place.layer}.self_attn_layer_norm", facts.width)
    if place.layer == 0:
        return None  # the 350m model feeds the first layer from the embedding, without a norm
    return shelf.layer_norm(f"{at}{place.layer - 1}.final_layer_norm", facts.width)


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    at = f"{place.prefix}decoder.layers.{place.layer}.self_attn."
    names = Four(*(f"{at}{letter}_proj" for letter in ("q", "k", "v", "out")))
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=_norm(shelf, settings, facts, place),
        causal=True,
    )


LAYOUT = Layout(
    "OPT",
    ("opt",),
    re.compile(r"^(?P<prefix>.*?)decoder\.layers\.(?P<layer>\d+)\.self_attn\.q_proj\.weight$"),
    _facts,
    _attention,
    init=("normal", "init_std", 0.02),
)
