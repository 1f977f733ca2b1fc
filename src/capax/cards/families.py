"""How the learners of a card are trained: the engine with sizes of the card, or processes."""

from functools import lru_cache
from typing import Any

from capax.cards.sizes import sizes
from capax.learners.names import Entry
from capax.sweep.families import Family
from capax.sweep.learner_family import PlainFamily
from capax.sweep.spec import Panel

_SLOTS = 64  # runs at once on a GPU
# Smaller pieces for those who keep much per example, none for those who take T steps per piece.
_OWN_BLOCK = {"transformer2": 64, "ssm": 64, "mixer": 64, "cnn": 64, "lstm": 1024, "gru": 1024}
_BLOCK = {"cpu": 64, "gpu": 256}  # examples per piece of a gradient
_EXAMINE_FROM = 0.9  # below the lowest accuracy asked for, by more than 512 rows can mislead


@lru_cache(maxsize=64)
def card_family(entry: Entry) -> Family:
    """The family of a learner in a card."""
    return _lanes(entry) if entry.in_lanes else PlainFamily(entry)


def _block(entry: Entry, platform: str) -> int:
    return _BLOCK["cpu"] if platform == "cpu" else _OWN_BLOCK.get(entry.name, _BLOCK["gpu"])


def _lanes(entry: Entry) -> Family:
    from capax.sweep.transformer_family import TransformerFamily
    from capax.training.hardware import Hardware

    class CardLanes(TransformerFamily):
        """The engine; whole validation sets from 90 % on, gradients in pieces."""

        examine_from = _EXAMINE_FROM
        block = _block(entry, Hardware().platform)

        def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
            del panel, T
            return 1, None

        def model(self, fields: dict[str, Any], T: int) -> Any:
            assert entry.spec is not None
            return entry.spec(T=T, **sizes(entry, T), **fields)

        def hardware(self, panel: Panel) -> Hardware:
            del panel
            found = Hardware()
            return found if found.platform == "cpu" else Hardware(slots=_SLOTS)

    return CardLanes()
