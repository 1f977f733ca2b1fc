"""ViT: an encoder with LayerNorm in front; positions are patches."""

import re
from dataclasses import replace

from capax.audit.layouts.attention import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    patches = next(
        (t.shape[1] for n, t in shelf.tensors.items()
         if n.endswith("embeddings.position_embeddings") and len(t.shape) == 3), None,
    )  # fmt: skip
    facts = standard_facts(
        settings, "ViT", positions="learned", norm="LayerNorm in front", limit=()
    )
    return replace(facts, limit=facts.limit or patches)


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    del settings
    at = f"{place.prefix}encoder.layer.{place.layer}."
    inside = f"{at}attention.attention."
    names = Four(f"{inside}query", f"{inside}key", f"{inside}value", f"{at}attention.output.dense")
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(f"{at}layernorm_before", facts.width),
    )


LAYOUT = Layout(
    "ViT",
    ("vit", "deit"),
    re.compile(
        r"^(?P<prefix>.*?)encoder\.layer\.(?P<layer>\d+)\.attention\.attention\.query\.weight$"
    ),
    _facts,
    _attention,
)
