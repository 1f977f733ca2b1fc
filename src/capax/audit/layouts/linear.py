"""Four Linear matrices and their biases, under any four names: the common case."""

from dataclasses import dataclass
from typing import Any

from capax.audit.layouts.attention import bias_of, by_columns, by_rows
from capax.audit.layouts.facts import Facts
from capax.audit.layouts.shelf import Shelf


@dataclass(frozen=True)
class Four:
    """Names of the modules for queries, keys, values and output."""

    query: str
    key: str
    value: str
    output: str


def four_matrices(shelf: Shelf, facts: Facts, names: Four) -> dict[str, Any]:
    """W_Q, W_K, W_V, W_O and the biases that exist, as arguments of `Attention`."""
    H, G, k, d = facts.heads, facts.kv_heads, facts.head_width, facts.width
    return {
        "W_Q": by_rows(shelf.take(f"{names.query}.weight", H * k, d), H),
        "W_K": by_rows(shelf.take(f"{names.key}.weight", G * k, d), G),
        "W_V": by_rows(shelf.take(f"{names.value}.weight", G * k, d), G),
        "W_O": by_columns(shelf.take(f"{names.output}.weight", d, H * k), H),
        "b_Q": bias_of(shelf.maybe(f"{names.query}.bias", H * k), H),
        "b_K": bias_of(shelf.maybe(f"{names.key}.bias", G * k), G),
        "b_V": bias_of(shelf.maybe(f"{names.value}.bias", G * k), G),
        "b_O": shelf.maybe(f"{names.output}.bias", d),
    }
