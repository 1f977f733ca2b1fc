"""Sizes of the zoo in a card: as many parameters as the Transformer of width 32 has, or nearly.

At T = 100 that is about 16 000. A size that does not depend on T is a constant here; the MLP and
the Mixer, whose parameters grow differently with T, get the width that comes nearest.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from capax.learners.names import Entry
from capax.training.programs.memory import num_parameters

_FRAME = {"d": 32, "mlp_width": 128}
_WRITTEN: dict[str, dict[str, Any]] = {
    "transformer": {**_FRAME, "heads": 8},
    "transformer2": {"d": 24, "heads": 6, "mlp_width": 96},
    "linear_attention": {**_FRAME, "heads": 8},
    "deep_sets": {"d": 36, "mlp_width": 144},
    "cnn": {"d": 32, "mlp_width": 96, "channels": 20},
    "lstm": {"d": 32, "mlp_width": 32, "hidden": 40},
    "gru": {"d": 32, "mlp_width": 32, "hidden": 48},
    "ssm": {**_FRAME, "states": 4},
    "mixer": {"d": 24, "mlp_width": 96, "channel_width": 48},
}
_MATCHED = {"mlp": "width", "mixer": "position_width"}


@lru_cache(maxsize=512)
def _matched(entry: Entry, T: int, wanted: int) -> int:
    """The size whose number of parameters comes nearest to `wanted`.

    The number is a polynomial of degree two in the size (or less): three values determine it.
    """
    first, second, third = (_count(entry, T, n) for n in (4, 5, 6))
    rise, bend = second - first, third - 2 * second + first
    n = np.arange(4, 513)
    counts = first + (n - 4) * rise + (n - 4) * (n - 5) // 2 * bend
    return int(n[np.argmin(np.abs(counts - wanted))])


def _count(entry: Entry, T: int, size: int) -> int:
    fields = {**_WRITTEN.get(entry.name, {}), _MATCHED[entry.name]: size}
    assert entry.spec is not None
    return num_parameters(entry.spec(T=T, **fields))


def sizes(entry: Entry, T: int) -> dict[str, Any]:
    """Fields of the architecture at T; empty for the user's own architecture."""
    if not entry.in_zoo:
        return {}
    fields = dict(_WRITTEN.get(entry.name, {}))
    if entry.name in _MATCHED:
        fields[_MATCHED[entry.name]] = _matched(entry, T, _budget(T))
    return fields


def _budget(T: int) -> int:
    from capax.attention.transformer import TransformerSpec

    return num_parameters(TransformerSpec(T=T, **_WRITTEN["transformer"]))


def parameters_of(entry: Entry, T: int) -> int | None:
    """Number of parameters of a learner at T; None if they are not counted."""
    if entry.spec is None:
        return None
    return num_parameters(entry.spec(T=T, **sizes(entry, T)))
