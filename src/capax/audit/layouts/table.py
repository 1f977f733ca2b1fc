"""All layouts, and the recognition of the layout of a checkpoint."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from capax.audit.layouts import gemma, gpt2, gpt_neox, llama, phi3, torch_encoder
from capax.audit.layouts.attention_layer import Attention
from capax.audit.layouts.facts import Facts, Options, Settings
from capax.audit.layouts.layout import Layout
from capax.audit.layouts.linear_families import LINEAR_FAMILIES
from capax.audit.layouts.tensor_table import TensorTable
from capax.audit.reading.stored import Checkpoint
from capax.errors import InputError, require, shown

LAYOUTS: tuple[Layout, ...] = (
    *(module.LAYOUT for module in (gpt2, gpt_neox, llama, phi3, gemma, torch_encoder)),
    *(family.layout() for family in LINEAR_FAMILIES),
)
BY_TYPE = {kind: layout for layout in LAYOUTS for kind in layout.model_types}
ATTENTION_NAME = re.compile(r"attn|attention", re.IGNORECASE)
NOT_WEIGHTS = re.compile(
    r"(attn|attention)\.(masked_)?bias$|inv_freq$|LayerNorm|layer_?norm|relative_attention_bias"
)


@dataclass(frozen=True)
class Recognised:
    """A checkpoint with its layout: facts to print, and layers to stream."""

    checkpoint: Checkpoint
    layout: Layout
    settings: Settings
    facts: Facts
    table: TensorTable

    def layers(self) -> Iterator[Attention]:
        """The attention layers in order; each is read from disk when the iterator reaches it."""
        for place in self.layout.places(self.table):
            with _sound_configuration(self.settings):
                attention = self.layout.attention(self.table, self.settings, self.facts, place)
            yield attention

    def unplaced(self) -> list[str]:
        """Attention tensors that no layer used; complete after `layers` is exhausted."""
        names = (n for n in self.table.tensors if ATTENTION_NAME.search(_inside_layer(n)))
        return sorted(n for n in names if n not in self.table.taken and not NOT_WEIGHTS.search(n))


@contextmanager
def _sound_configuration(settings: Settings) -> Iterator[None]:
    """Values of the wrong type (a text for a number, a short list) raise a one-line InputError."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        where = settings.origin or "configuration"
        raise InputError(f"{where}: a value of the wrong type ({shown(str(error))})") from None


def _inside_layer(name: str) -> str:
    """The name inside its layer: the part after the last number."""
    return re.split(r"\.\d+\.", name)[-1] if re.search(r"\.\d+\.", name) else ""


def recognise(checkpoint: Checkpoint, options: Options = Options()) -> Recognised:
    """The layout by `model_type` (or --family), else by names that fit one family only."""
    table, settings = TensorTable(checkpoint.tensors), Settings(checkpoint, options)
    layout = _layout(table, settings)
    places = layout.places(table)
    require(places, "checkpoint", f"tensor names of {layout.family}", _some(table))
    with _sound_configuration(settings):
        facts = layout.facts(settings, table)
        wanted = layout.layers_of(facts, settings)
    require(len(places) == wanted, "checkpoint", f"{wanted} attention layers, as its configuration "
            "says", len(places))  # fmt: skip
    return Recognised(checkpoint, layout, settings, facts, table)


def _layout(table: TensorTable, settings: Settings) -> Layout:
    kind, family = settings.get("model_type"), settings.options.family
    require(kind is None or isinstance(kind, str), "model_type", "a text", kind)
    if family is not None:
        require(family in BY_TYPE, "--family", f"one of {', '.join(BY_TYPE)}", family)
        clash = kind in BY_TYPE and BY_TYPE[kind] is not BY_TYPE[family]
        require(not clash, "--family", f"{kind}, as {settings.origin} says", family)
        return BY_TYPE[family]
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if isinstance(kind, str):
        raise InputError(
            f"model_type: wanted one of {', '.join(BY_TYPE)}, got {kind[:40]!r}; "
            f"its tensors are {_some(table)}"
        )
    fitting = [layout for layout in LAYOUTS if layout.places(table)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        types = ", ".join(kind for layout in fitting for kind in layout.model_types)
        raise InputError(f"family: the tensor names fit several families ({types}): give --family")
    raise InputError(f"checkpoint: no known layout; its tensors are {_some(table)}")


def _some(table: TensorTable, most: int = 6) -> str:
    names = sorted(table.tensors, key=lambda n: (not ATTENTION_NAME.search(n), n))
    shown = ", ".join(f"{n[:60]} {list(table.tensors[n].shape)}" for n in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (shown or "no tensors") + more
