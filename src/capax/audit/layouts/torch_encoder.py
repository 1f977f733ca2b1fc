"""`torch.nn.TransformerEncoder`: in_proj stacks queries, keys and values.

Such a file has neither the number of heads nor the place of the norms. The number of heads comes
from a key `nhead` or `num_heads` anywhere in `config.json` (PyTorch's own names), or from --heads;
the place of the norms from `norm_first`, or from --norm.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from capax.audit.layouts.attention_layer import Attention, Norm, by_columns, by_rows
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.tensor_table import TensorTable
from capax.errors import require

MARKER = re.compile(r"^(?P<prefix>.*?)layers\.(?P<layer>\d+)\.self_attn\.in_proj_weight$")
PRE, POST, UNFOLDED = "pre-LayerNorm", "post-LayerNorm", "none"


def _facts(settings: Settings, table: TensorTable) -> Facts:
    names = [name for name in table.tensors if MARKER.match(name)]
    shape = table.shape(names[0])
    sound = len(shape) == 2 and shape[0] == 3 * shape[1]
    require(sound, names[0], "shape (3 d, d)", shape)
    settings.config |= {"hidden_size": shape[1], "num_hidden_layers": len(names)}
    nested = dict(_found(settings.config, ("nhead", "num_heads")))
    values = set(nested.values())
    require(len(values) <= 1, "heads", "one value for nhead in config.json", nested)
    if values:
        settings.config["nhead"] = values.pop()
    facts = standard_facts(
        settings, "torch.nn", heads=("nhead",), positions="outside the encoder",
        norm=_norm_place(settings),
    )  # fmt: skip
    settings.sources |= {"width": "in_proj_weight", "layers": "names of tensors"}
    if nested:
        settings.sources["heads"] = ", ".join(nested)
    return facts


def _found(
    node: Any, keys: tuple[str, ...], at: str = "", depth: int = 0
) -> Iterator[tuple[str, int]]:
    if isinstance(node, Mapping) and depth < 8:
        for key, value in node.items():
            if key in keys and type(value) is int:
                yield f"config.json: {at}{key}", value
            yield from _found(value, keys, f"{at}{key}.", depth + 1)


def _norm_place(settings: Settings) -> str:
    given = settings.options.norm
    if given is None and isinstance(settings.get("norm_first"), bool):
        given = "first" if settings.get("norm_first") else "last"
    known = given in ("first", "last", "none")
    require(known, "norm", "--norm first, last or none (the file does not say)", given)
    return {"first": PRE, "last": POST, "none": UNFOLDED}[str(given)]


def _norm(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Norm | None:
    where = _norm_place(settings)
    if where == PRE:
        return table.layer_norm(f"{place.prefix}layers.{place.layer}.norm1", facts.width)
    if where == UNFOLDED or place.layer == 0:
        return None
    return table.layer_norm(f"{place.prefix}layers.{place.layer - 1}.norm2", facts.width)


def _attention(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> Attention:
    at = f"{place.prefix}layers.{place.layer}.self_attn."
    H, d = facts.heads, facts.width
    W_Q, W_K, W_V = np.split(table.take(f"{at}in_proj_weight", 3 * d, d), 3)
    b = table.maybe(f"{at}in_proj_bias", 3 * d)
    b_Q, b_K, b_V = (None,) * 3 if b is None else b.reshape(3, H, -1)
    return Attention(
        layer=place.layer,
        W_Q=by_rows(W_Q, H), W_K=by_rows(W_K, H), W_V=by_rows(W_V, H), b_Q=b_Q, b_K=b_K, b_V=b_V,
        W_O=by_columns(table.take(f"{at}out_proj.weight", d, d), H),
        b_O=table.maybe(f"{at}out_proj.bias", d),
        scale=facts.scale,
        norm=_norm(table, settings, facts, place),
    )  # fmt: skip


LAYOUT = Layout("torch.nn", ("torch.nn",), MARKER, _facts, _attention, init=("torch", "", 1.0))
