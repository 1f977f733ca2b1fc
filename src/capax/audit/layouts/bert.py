"""BERT and RoBERTa: LayerNorm after each half, so a layer reads the norm at the end of the last."""

import re

from capax.audit.layouts.attention import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    roberta = settings.get("model_type") in ("roberta", "xlm-roberta", "camembert")
    return standard_facts(
        settings,
        "RoBERTa" if roberta else "BERT",
        positions="learned, from index padding + 1" if roberta else "learned",
        norm="LayerNorm behind",
    )


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    at = f"{place.prefix}encoder.layer.{place.layer}."
    before = (
        f"{place.prefix}embeddings.LayerNorm" if place.layer == 0
        else f"{place.prefix}encoder.layer.{place.layer - 1}.output.LayerNorm"
    )  # fmt: skip
    inside = f"{at}attention.self."
    names = Four(f"{inside}query", f"{inside}key", f"{inside}value", f"{at}attention.output.dense")
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(before, facts.width),
        causal=settings.flag("is_decoder", False),
    )


LAYOUT = Layout(
    "BERT",
    ("bert", "roberta", "xlm-roberta", "camembert", "electra"),
    re.compile(r"^(?P<prefix>.*?)encoder\.layer\.(?P<layer>\d+)\.attention\.self\.query\.weight$"),
    _facts,
    _attention,
)
