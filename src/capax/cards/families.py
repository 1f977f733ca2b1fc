"""How the learners of a card are trained: the engine with sizes of the card, or processes."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from capax.cards.sizes import sizes
from capax.learners.names import Entry
from capax.sweep.families import Family
from capax.sweep.learner_family import PlainFamily
from capax.sweep.search import GridSearch
from capax.sweep.spec import Panel
from capax.sweep.trial import Learner, Outcome, Trial

_BLOCK = 64  # examples per piece of a gradient on a CPU: a trial costs what its own m costs
_EXAMINE_FROM = 0.9  # below the lowest accuracy asked for, by more than 512 rows can mislead
# On a GPU a lane costs what its padded rows cost, busy or idle, and a program takes half a minute
# of a core to compile. So trials are sorted into programs of two sizes, with few lanes each:
# several processes share the device, and lanes that are few are busy.
_SIZES = (8, 1)  # the largest m divided by these
_EXAMPLES = 1 << 13  # examples per step of one program
_LANES = (8, 64)  # at least and at most so many lanes
_MEMORY = 10 << 30  # bytes of one program


@lru_cache(maxsize=64)
def card_family(entry: Entry) -> Family:
    """The family of a learner in a card."""
    if not entry.in_lanes:
        return PlainFamily(entry)
    from capax.training.hardware import Hardware

    return lanes_family(entry, on_cpu=Hardware().platform == "cpu")


def row_sizes(largest: int) -> tuple[int, ...]:
    """Rows of the programs that share the trials on a GPU, up to the largest m."""
    return tuple(max(8, -(-largest // part)) for part in _SIZES)


def lanes_of(rows: int) -> int:
    """Lanes of a program with so many rows."""
    return max(_LANES[0], min(_LANES[1], _EXAMPLES // rows))


def lanes_family(entry: Entry, *, on_cpu: bool) -> Family:
    """The engine for one architecture: core by core, or in programs of few sizes."""
    from capax.sweep.transformer_family import TransformerFamily
    from capax.training.hardware import Hardware

    class CardLanes(TransformerFamily):
        """The engine; whole validation sets from 90 % on."""

        examine_from = _EXAMINE_FROM
        block = _BLOCK if on_cpu else 0

        def m_range(self, panel: Panel, T: int) -> tuple[int, int | None]:
            del panel, T
            return 1, None

        def model(self, fields: dict[str, Any], T: int) -> Any:
            assert entry.spec is not None
            return entry.spec(T=T, **sizes(entry, T), **fields)

        def hardware(self, panel: Panel) -> Hardware:
            if on_cpu:
                return Hardware()
            slots = lanes_of(panel.search.largest_m)
            return Hardware(slots=slots, memory_bytes=_MEMORY)

        def learner(self, panel: Panel, T: int) -> Learner:
            if on_cpu:
                return super().learner(panel, T)
            by_rows = {
                rows: super(CardLanes, self).learner(_up_to(panel, rows), T)
                for rows in row_sizes(panel.search.at_length(T).largest_m)
            }
            return lambda trials: _by_size(trials, by_rows)

        def prepare(self, panel: Panel, T: int) -> None:
            largest = panel.search.at_length(T).largest_m
            for rows in (largest,) if on_cpu else row_sizes(largest):
                super().prepare(_up_to(panel, rows), T)

    return CardLanes()


def _up_to(panel: Panel, rows: int) -> Panel:
    """The panel as if m = `rows` were all it asked for."""
    return panel.model_copy(update={"search": GridSearch(m=(rows,), trials=1)})


def _by_size(trials: Iterator[Trial | None], by_rows: dict[int, Learner]) -> Iterator[Outcome]:
    """All trials that can be had now, each in the smallest program with room for it; then again."""
    while True:
        ended = True
        now: list[Trial] = []
        for trial in trials:
            if trial is None:
                ended = False
                break
            now.append(trial)
        for rows, learner in by_rows.items():
            mine = [t for t in now if t.m <= rows]
            now = [t for t in now if t.m > rows]
            if mine:
                yield from learner(iter(mine))
        assert not now, "every trial fits the largest program"
        if ended:
            return
