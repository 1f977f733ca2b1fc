"""ALBERT: one layer (or a few groups) composed `num_hidden_layers` times.

The first composition reads the embedding's projection, which no norm bounds; from the second on the
layer reads its own `full_layer_layer_norm`. That norm is folded in. The first composition gets no
score radius, because it does not read that norm.
"""

import re

from capax.audit.layouts.attention import Attention
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import Layout, Place
from capax.audit.layouts.linear import Four, four_matrices
from capax.audit.layouts.shelf import Shelf
from capax.errors import require


def _facts(settings: Settings, shelf: Shelf) -> Facts:
    del shelf
    inner = settings.whole("inner groups", "inner_group_num", default=1)
    require(inner == 1, "inner_group_num", "1 (one attention per group)", inner)
    return standard_facts(
        settings,
        "ALBERT",
        positions="learned",
        norm="LayerNorm behind",
        notes=(
            "the same weights in every layer: composed many times, covered once",
            "no score radius in layer 0: it reads the embedding, which no norm bounds",
        ),
    )


def _attention(shelf: Shelf, settings: Settings, facts: Facts, place: Place) -> Attention:
    at = f"{place.prefix}encoder.albert_layer_groups.{place.layer}.albert_layers.0."
    inside = f"{at}attention."
    names = Four(f"{inside}query", f"{inside}key", f"{inside}value", f"{inside}dense")
    return Attention(
        layer=place.layer,
        **four_matrices(shelf, facts, names),
        scale=facts.scale,
        norm=shelf.layer_norm(f"{at}full_layer_layer_norm", facts.width),
        shared_by=facts.layers // _groups(settings),
        bare_first=place.layer == 0,
    )


def _groups(settings: Settings) -> int:
    return settings.whole("groups", "num_hidden_groups", default=1)


LAYOUT = Layout(
    "ALBERT",
    ("albert",),
    re.compile(
        r"^(?P<prefix>.*?)encoder\.albert_layer_groups\.(?P<layer>\d+)"
        r"\.albert_layers\.0\.attention\.query\.weight$"
    ),
    _facts,
    _attention,
    layers_of=lambda _, settings: _groups(settings),
)
