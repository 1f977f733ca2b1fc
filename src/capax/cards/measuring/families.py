"""How the learners of a card are trained: the engine with sizes of the card, or processes."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from capax.cards.protocol.sizes import sizes
from capax.learners.names import Entry
from capax.sweep.families import Family
from capax.sweep.learner_family import PlainFamily
from capax.sweep.spec import Panel
from capax.sweep.trial import Learner, Outcome, Trial

_EXAMINE_FROM = 0.9  # below the lowest accuracy asked for, by more than 512 rows can mislead
# Gradients in pieces of so many examples: a step costs what its lanes' m cost, and one program
# serves every m. On a GPU that program takes up to half a minute of a core to compile, and short
# inputs are to be many: its kernels take a few microseconds, whatever they do.
_BLOCK, _GPU_BLOCK, _GPU_BLOCK_SHORT, _SHORT = 32, 128, 256, 50
_LANES = 256  # on a GPU: idle ones cost next to nothing, and few would leave places empty
_PROGRAMS = 3  # that are on a GPU at once, with `--jobs` and as one ends and the next begins


@lru_cache(maxsize=64)
def card_family(entry: Entry) -> Family:
    """The family of a learner in a card."""
    if not entry.in_lanes:
        return PlainFamily(entry)
    from capax.training.hardware import Hardware

    return lanes_family(entry, on_cpu=Hardware().platform == "cpu")


def lanes_family(entry: Entry, *, on_cpu: bool) -> Family:
    """The engine for one architecture: core by core, or in programs of few sizes."""
    from capax.sweep.transformer_family import TransformerFamily
    from capax.training.hardware import Hardware
    from capax.training.memory import all_memory

    class CardLanes(TransformerFamily):
        """The engine; whole validation sets from 90 % on."""

        examine_from = _EXAMINE_FROM

        def block(self, T: int) -> int:
            if on_cpu:
                return _BLOCK
            return _GPU_BLOCK_SHORT if T <= _SHORT else _GPU_BLOCK

        def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
            del panel, T
            return 1, None

        def model(self, fields: dict[str, Any], T: int) -> Any:
            assert entry.spec is not None
            return entry.spec(T=T, **sizes(entry, T), **fields)

        def hardware(self, panel: Panel) -> Hardware:
            del panel
            found = Hardware()
            if on_cpu:
                return found
            memory = all_memory(found.all_devices[0]) // _PROGRAMS
            return Hardware(slots=_LANES, memory_bytes=memory)

        def learner(self, panel: Panel, T: int) -> Learner:
            learn = super().learner(panel, T)
            if on_cpu:
                return learn
            return lambda trials: _largest_first(trials, learn)

    return CardLanes()


def _largest_first(trials: Iterator[Trial | None], learn: Learner) -> Iterator[Outcome]:
    """All trials that can be had now by their m, so that like sizes share a step; then again."""
    while True:
        ended = True
        now: list[Trial] = []
        for trial in trials:
            if trial is None:
                ended = False
                break
            now.append(trial)
        if now:
            yield from learn(iter(sorted(now, key=lambda trial: -trial.m)))
        if ended:
            return
