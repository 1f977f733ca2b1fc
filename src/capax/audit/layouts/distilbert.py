"""DistilBERT: BERT with shorter names, `n_heads` and `dim`."""

import re

from capax.audit.layouts.attention import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    return standard_facts(
        settings,
        "DistilBERT",
        d=("dim", "hidden_size"),
        layers=("n_layers", "num_hidden_layers"),
        heads=("n_heads", "num_attention_heads"),
        positions="sinusoidal" if settings.flag("sinusoidal_pos_embds", False) else "learned",
        norm="LayerNorm behind",
    )


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    del settings
    at = f"{place.prefix}transformer.layer.{place.layer}."
    before = (
        f"{place.prefix}embeddings.LayerNorm" if place.layer == 0
        else f"{place.prefix}transformer.layer.{place.layer - 1}.output_layer_norm"
    )  # fmt: skip
    names = Four(*(f"{at}attention.{letter}_lin" for letter in ("q", "k", "v", "out")))
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(before, facts.width),
    )


LAYOUT = Layout(
    "DistilBERT",
    ("distilbert",),
    re.compile(r"^(?P<prefix>.*?)transformer\.layer\.(?P<layer>\d+)\.attention\.q_lin\.weight$"),
    _facts,
    _attention,
)
