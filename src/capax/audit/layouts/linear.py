"""Four Linear matrices and their biases, under any four names: the common case."""

from typing import Any

from capax.audit.layouts.attention_layer import bias_of, by_columns, by_rows
from capax.audit.layouts.facts import Facts
from capax.audit.layouts.tensor_table import TensorTable


def four_matrices(
    table: TensorTable, facts: Facts, query: str, key: str, value: str, output: str
) -> dict[str, Any]:
    """W_Q, W_K, W_V, W_O and the biases that exist, as arguments of `Attention`."""
    H, G, k, d = facts.heads, facts.kv_heads, facts.head_width, facts.width
    return {
        "W_Q": by_rows(table.take(f"{query}.weight", H * k, d), H),
        "W_K": by_rows(table.take(f"{key}.weight", G * k, d), G),
        "W_V": by_rows(table.take(f"{value}.weight", G * k, d), G),
        "W_O": by_columns(table.take(f"{output}.weight", d, H * k), H),
        "b_Q": bias_of(table.maybe(f"{query}.bias", H * k), H),
        "b_K": bias_of(table.maybe(f"{key}.bias", G * k), G),
        "b_V": bias_of(table.maybe(f"{value}.bias", G * k), G),
        "b_O": table.maybe(f"{output}.bias", d),
    }
