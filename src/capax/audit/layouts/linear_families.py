"""Families whose layers hold four Linear matrices and one norm: a table of facts, and one reader.

A row of the table has the names of the tensors, the keys of the configuration and a description.
{layer} is the number of a layer; encoder-decoder families also have {part} (encoder or decoder),
{kind} (self or cross attention) and, in T5, {half} of a block. Some families also have two small
functions that complete the facts and the layer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from capax.audit.layouts.attention_layer import Array, Attention, DistanceVectors, Norm
from capax.audit.layouts.facts import Facts, Settings, standard_facts
from capax.audit.layouts.layout import AttentionPlace, Layout
from capax.audit.layouts.linear import four_matrices
from capax.audit.layouts.tensor_table import TensorTable
from capax.errors import require

Added = Callable[[Settings, TensorTable], dict[str, Any]]
AddedToLayer = Callable[[TensorTable, Settings, Facts, AttentionPlace], dict[str, Any]]


@dataclass(frozen=True)
class LinearFamily:
    """One family. four: modules of queries, keys, values and output, after the layer's name `at`.

    norm: the norm of a layer. It comes before attention (pre-norm). If `first` is given it comes
    after (post-norm): a layer then reads the norm of the layer before it, and layer 0 reads the
    norm `first` ("": no norm).
    kinds, key_norm: names of self and cross attention, and the norm of the encoder's output.
    keys: arguments of `standard_facts`. facts, more: complete the facts and a layer.
    """

    name: str
    types: tuple[str, ...]
    at: str
    four: tuple[str, str, str, str]
    norm: str
    norm_kind: Literal["layer", "rms"] = "layer"
    first: str | None = None
    positions: str = "learned"
    kinds: tuple[str, str] | None = None
    key_norm: str = ""
    decoder_layers: str = ""
    causal: bool = False
    keys: tuple[tuple[str, Any], ...] = ()
    facts: Added = lambda *_: {}
    more: AddedToLayer = lambda *_: {}
    init: tuple[str, str, float] = ("normal", "initializer_range", 0.02)
    layers_of: Callable[[Facts, Settings], int] = lambda facts, _: facts.layers

    def layout(self) -> Layout:
        """The reader of this family."""
        counted = self._with_decoder if self.decoder_layers else self.layers_of
        return Layout(self.name, self.types, self._marker(), self._facts, self._attention,
                      init=self.init, layers_of=counted)  # fmt: skip

    def _marker(self) -> re.Pattern[str]:
        pattern = re.escape(self.at + self.four[0])
        groups = {"layer": r"\d+", "part": "encoder|decoder", "half": "[01]",
                  "kind": "|".join(self.kinds or ())}  # fmt: skip
        for name, values in groups.items():
            pattern = pattern.replace(rf"\{{{name}\}}", f"(?P<{name}>{values})")
        return re.compile(rf"^(?P<prefix>.*?){pattern}\.weight$")

    def _facts(self, settings: Settings, table: TensorTable) -> Facts:
        place = "pre" if self.first is None else "post"
        norm = f"{place}-{'LayerNorm' if self.norm_kind == 'layer' else 'RMSNorm'}"
        said: dict[str, Any] = {"family": self.name, "positions": self.positions, "norm": norm}
        said |= dict(self.keys)
        return standard_facts(settings, **(said | self.facts(settings, table)))

    def _attention(
        self, table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
    ) -> Attention:
        at, groups = place.prefix + self.at, place.groups
        cross = self.kinds is not None and groups["kind"] == self.kinds[1]
        part = groups.get("part", "")
        arguments: dict[str, Any] = {
            **four_matrices(table, facts, *((at + one).format(**groups) for one in self.four)),
            "norm": self._norm(table, facts, place),
            "key_norm": self._read(table, place.prefix + self.key_norm, facts) if cross else None,
            "part": "cross" if cross else part,
            "causal": self.causal or (part == "decoder" and not cross),
            **self.more(table, settings, facts, place),
        }
        return Attention(layer=place.layer, scale=facts.scale, **arguments)

    def _norm(self, table: TensorTable, facts: Facts, place: AttentionPlace) -> Norm | None:
        at = place.prefix + self.at + self.norm
        if self.first is None:
            return self._read(table, at.format(**place.groups), facts)
        if place.layer > 0:
            return self._read(table, at.format(layer=place.layer - 1), facts)
        return self._read(table, place.prefix + self.first, facts) if self.first else None

    def _read(self, table: TensorTable, name: str, facts: Facts) -> Norm:
        read = table.layer_norm if self.norm_kind == "layer" else table.rms_norm
        return read(name, facts.width)

    def _with_decoder(self, facts: Facts, settings: Settings) -> int:
        """Self-attention of both stacks, and cross attention in every layer of the decoder."""
        decoder = settings.whole("decoder layers", self.decoder_layers, default=facts.layers)
        return facts.layers + 2 * decoder


ROBERTA = ("roberta", "xlm-roberta", "camembert")
DISTANCE_KINDS = {
    "relative_key": "learned vectors for the distance, added to every key",
    "relative_key_query": "learned vectors for the distance, added to every query and key",
}


def _position_kind(settings: Settings) -> str:
    kind = settings.get("position_embedding_type", "absolute")
    known = kind == "absolute" or kind in DISTANCE_KINDS
    require(known, "position_embedding_type", f"absolute, {' or '.join(DISTANCE_KINDS)}", kind)
    return kind


def _bert_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    roberta = settings.get("model_type") in ROBERTA
    learned = "learned, from index padding + 1" if roberta else "learned"
    positions = DISTANCE_KINDS.get(_position_kind(settings), learned)
    return {"family": "RoBERTa" if roberta else "BERT", "positions": positions}


def _bert_more(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> dict[str, Any]:
    vectors, kind = None, _position_kind(settings)
    if kind != "absolute":
        at = f"{place.prefix}encoder.layer.{place.layer}.attention.self."
        name = f"{at}distance_embedding.weight"
        rows = table.shape(name)[0]
        require(rows % 2 == 1, name, "an odd number of rows, one per distance", rows)
        numbers = table.take(name, rows, facts.head_width)
        vectors = DistanceVectors(numbers, both=kind == "relative_key_query")
    return {"distance_vectors": vectors, "causal": settings.flag("is_decoder", False)}


def _distilbert_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    waves = settings.flag("sinusoidal_pos_embds", False)
    return {"positions": "sinusoidal" if waves else "learned"}


def _albert_groups(settings: Settings) -> int:
    """ALBERT composes one layer, or a few groups, `num_hidden_layers` times."""
    return settings.whole("groups", "num_hidden_groups", default=1)


def _albert_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    inner = settings.whole("inner groups", "inner_group_num", default=1)
    require(inner == 1, "inner_group_num", "1 (one attention per group)", inner)
    return {"norm": "post-LayerNorm"}


def _albert_more(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> dict[str, Any]:
    """The layer reads its own norm; only its first composition reads the embedding."""
    del table
    return {"shared_by": facts.layers // _albert_groups(settings), "bare_first": place.layer == 0}


def _t5_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    settings.config["head_dim"] = settings.whole("head_width", "d_kv", option="--head-width")
    return {}


def _t5_more(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> dict[str, Any]:
    """The bias [H, buckets] per distance is stored in the first block and used in all blocks."""
    del settings
    if place.groups["kind"] == "EncDecAttention":
        return {}
    at = f"{place.prefix}{place.groups['part']}.block.0.layer.0.SelfAttention."
    name = f"{at}relative_attention_bias.weight"
    bias: Array = table.take(name, table.shape(name)[0], facts.heads).T
    return {"distance_bias": bias}


def _vit_facts(settings: Settings, table: TensorTable) -> dict[str, Any]:
    """The context is the number of patches plus one, the [CLS] token."""
    name = next((n for n in table.tensors if n.endswith("embeddings.position_embeddings")), None)
    shape = () if name is None else table.shape(name)
    settings.config["num_patches"] = shape[1] if len(shape) == 3 else None
    return {}


def _whisper_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    encoder, decoder = (settings.get(f"{side}_attention_heads") for side in ("encoder", "decoder"))
    same = decoder is None or decoder == encoder
    require(same, "decoder_attention_heads", f"{encoder}, as in the encoder", decoder)
    return {}


def _opt_facts(settings: Settings, _: TensorTable) -> dict[str, Any]:
    front = settings.flag("do_layer_norm_before", True)
    return {} if front else {"norm": "post-LayerNorm"}


def _opt_more(
    table: TensorTable, settings: Settings, facts: Facts, place: AttentionPlace
) -> dict[str, Any]:
    """The 350m model is post-norm, and its layer 0 reads the embedding without a norm."""
    if settings.flag("do_layer_norm_before", True):
        return {}
    before = f"{place.prefix}decoder.layers.{place.layer - 1}.final_layer_norm"
    return {"norm": table.layer_norm(before, facts.width) if place.layer else None}


def _under(before: str, names: str, after: str = "") -> tuple[str, str, str, str]:
    one, two, three, four = (f"{before}{name}{after}" for name in names.split())
    return one, two, three, four


LINEAR_FAMILIES = (
    LinearFamily(
        "BERT", ("bert", *ROBERTA, "electra"), "encoder.layer.{layer}.",
        ("attention.self.query", "attention.self.key", "attention.self.value",
         "attention.output.dense"),
        norm="output.LayerNorm", first="embeddings.LayerNorm", facts=_bert_facts, more=_bert_more,
    ),
    LinearFamily(
        "DistilBERT", ("distilbert",), "transformer.layer.{layer}.",
        _under("attention.", "q k v out", "_lin"),
        norm="output_layer_norm", first="embeddings.LayerNorm", facts=_distilbert_facts,
        keys=(("d", ("dim", "hidden_size")), ("layers", ("n_layers", "num_hidden_layers")),
              ("heads", ("n_heads", "num_attention_heads"))),
    ),
    LinearFamily(
        "ALBERT", ("albert",), "encoder.albert_layer_groups.{layer}.albert_layers.0.",
        _under("attention.", "query key value dense"),
        norm="full_layer_layer_norm", facts=_albert_facts, more=_albert_more,
        layers_of=lambda _, settings: _albert_groups(settings),
        keys=(("notes", ("all layers share their weights: one cover counts for all of them",
                         "no score radius in layer 0: no norm bounds the embedding it reads")),),
    ),
    LinearFamily(
        "OPT", ("opt",), "decoder.layers.{layer}.", _under("self_attn.", "q k v out", "_proj"),
        norm="self_attn_layer_norm", causal=True, positions="learned, from index 2",
        facts=_opt_facts, more=_opt_more, init=("normal", "init_std", 0.02),
    ),
    LinearFamily(
        "T5", ("t5", "mt5"), "{part}.block.{layer}.layer.{half}.", _under("{kind}.", "q k v o"),
        norm="layer_norm", norm_kind="rms", kinds=("SelfAttention", "EncDecAttention"),
        key_norm="encoder.final_layer_norm", decoder_layers="num_decoder_layers",
        positions="learned bias per distance, added to the scores", facts=_t5_facts, more=_t5_more,
        init=("t5", "initializer_factor", 1.0),
        keys=(("d", ("d_model",)), ("layers", ("num_layers",)), ("heads", ("num_heads",)),
              ("limit", ("n_positions",)), ("scale", 1.0),
              ("notes", ("the bias per distance is in the score radius, not in W_QK",))),
    ),
    LinearFamily(
        "ViT", ("vit", "deit"), "encoder.layer.{layer}.",
        ("attention.attention.query", "attention.attention.key", "attention.attention.value",
         "attention.output.dense"),
        norm="layernorm_before", facts=_vit_facts, keys=(("limit", ("num_patches",)),),
    ),
    LinearFamily(
        "Whisper", ("whisper",), "{part}.layers.{layer}.", _under("{kind}.", "q k v out", "_proj"),
        norm="{kind}_layer_norm", kinds=("self_attn", "encoder_attn"),
        key_norm="encoder.layer_norm", decoder_layers="decoder_layers",
        positions="sinusoidal (encoder), learned (decoder)", facts=_whisper_facts,
        init=("normal", "init_std", 0.02),
        keys=(("d", ("d_model",)), ("layers", ("encoder_layers",)),
              ("heads", ("encoder_attention_heads",)), ("limit", ("max_target_positions",))),
    ),
)  # fmt: skip
