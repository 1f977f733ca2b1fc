"""BERT and RoBERTa: LayerNorm after each half, so a layer reads the norm at the end of the last."""

import re

from capax.audit.layouts.attention import Array, Attention, DistanceVectors
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf
from capax.errors import require

DISTANCE_KINDS = {
    "relative_key": "learned vectors of the distance, added to every key",
    "relative_key_query": "learned vectors of the distance, added to every query and key",
}


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    roberta = settings.get("model_type") in ("roberta", "xlm-roberta", "camembert")
    kind = _position_kind(settings)
    learned = "learned, from index padding + 1" if roberta else "learned"
    return standard_facts(
        settings,
        "RoBERTa" if roberta else "BERT",
        positions=learned if kind == "absolute" else DISTANCE_KINDS[kind],
        norm="LayerNorm behind",
    )


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    at = f"{place.prefix}encoder.layer.{place.layer}."
    before = (
        f"{place.prefix}embeddings.LayerNorm" if place.layer == 0
        else f"{place.prefix}encoder.layer.{place.layer - 1}.output.LayerNorm"
    )  # fmt: skip
    inside = f"{at}attention.self."
    kind = _position_kind(settings)
    names = Four(f"{inside}query", f"{inside}key", f"{inside}value", f"{at}attention.output.dense")
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(before, facts.width),
        distance_vectors=None
        if kind == "absolute"
        else DistanceVectors(
            _vectors(shelf, f"{inside}distance_embedding.weight", facts.head_width),
            both=kind == "relative_key_query",
        ),
        causal=settings.flag("is_decoder", False),
    )


def _position_kind(settings: Settings) -> str:
    kind = settings.get("position_embedding_type", "absolute")
    known = kind == "absolute" or kind in DISTANCE_KINDS
    require(known, "position_embedding_type", f"absolute, {' or '.join(DISTANCE_KINDS)}", kind)
    return kind


def _vectors(shelf: Shelf, name: str, k: int) -> Array:
    rows = shelf.shape(name)[0]
    require(rows % 2 == 1, name, "an odd number of rows, one per distance", rows)
    return shelf.take(name, rows, k)


LAYOUT = Layout(
    "BERT",
    ("bert", "roberta", "xlm-roberta", "camembert", "electra"),
    re.compile(r"^(?P<prefix>.*?)encoder\.layer\.(?P<layer>\d+)\.attention\.self\.query\.weight$"),
    _facts,
    _attention,
)
