"""A layout: the name of a family, the tensor that identifies it, and the reader of a layer."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from capax.audit.layouts.attention_layer import Attention
from capax.audit.layouts.facts import Facts, Settings
from capax.audit.layouts.tensor_table import TensorTable


@dataclass(frozen=True)
class AttentionPlace:
    """A layer in the file: the prefix of its names, its number, all groups of the marker."""

    prefix: str
    layer: int
    groups: dict[str, str]


@dataclass(frozen=True)
class Layout:
    """One family. `marker` matches one tensor per attention layer, with groups prefix and layer.

    model_types: values of `model_type` with this layout. facts: reads the configuration.
    attention: reads one layer. init: (distribution of random weights, key of its size, usual size).
    """

    family: str
    model_types: tuple[str, ...]
    marker: re.Pattern[str]
    facts: Callable[[Settings, TensorTable], Facts]
    attention: Callable[[TensorTable, Settings, Facts, AttentionPlace], Attention]
    init: tuple[str, str, float] = ("normal", "initializer_range", 0.02)
    layers_of: Callable[[Facts, Settings], int] = lambda facts, _: facts.layers

    def places(self, table: TensorTable) -> list[AttentionPlace]:
        """The attention layers of the file, in order."""
        found = [match for match in map(self.marker.match, sorted(table.tensors)) if match]
        places = [
            AttentionPlace(
                m["prefix"], int(m["layer"]), {k: v or "" for k, v in m.groupdict().items()}
            )
            for m in found
        ]
        return sorted(places, key=lambda p: (p.groups.get("part", ""), p.groups.get("kind", ""),
                                             p.layer))  # fmt: skip
