"""A card as rows and laws: from a store or a file, to JSON and CSV."""

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from capax.cards.answers.parity_rows import MixedRow, TimeRow
from capax.errors import InputError
from capax.html import html_table

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

UNFINISHED = "unfinished"
_UNANSWERED = (UNFINISHED, "no answer")
"""The first words of notes on cells without an answer."""


@dataclass(frozen=True)
class Row:
    """m* of one learner at one T and accuracy; None if the trials leave it open.

    `floor`: m of the best possible learner; None if unknown. `solved_share`: share of the scored
    trials that passed; `rate`: the chosen learning rate;
    `seconds`: mean time of one fit.
    """

    learner: str
    target: str
    T: int
    accuracy: float
    m_star: int | None
    low: int | None
    high: int | None
    floor: int | None
    solved_share: float
    rate: float | None
    seconds: float


@dataclass(frozen=True)
class LawRow:
    """The growth of a learner's m* with T: the remaining law (None: undecided, or the remaining
    law fits badly: p_value below 0.05)."""

    learner: str
    target: str
    accuracy: float
    law: str | None
    p_value: float | None
    ruled_out: tuple[str, ...]


@dataclass(frozen=True)
class CurveRow:
    """Mean validation accuracy during training, over the trials of a learner at one T and m."""

    learner: str
    target: str
    T: int
    m: int
    step: tuple[float, ...]
    accuracy: tuple[float, ...]


@dataclass(frozen=True)
class TroubleRow:
    """Trials that failed for another reason than training: a limit, an error in the learner.

    Trials for the choice of the rate are included.
    """

    learner: str
    target: str
    T: int
    trials: int
    reason: str


@dataclass(frozen=True)
class Card:
    """The content of a card. `notes`: (learner, target, T, accuracy) -> a note about m*.

    `remarks`: sentences about the whole card.

    Examples:
        >>> import capax
        >>> capax.Card((), ()).rows
        ()
    """

    rows: tuple[Row, ...]
    laws: tuple[LawRow, ...]
    curves: tuple[CurveRow, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)
    learners: dict[str, dict[str, Any]] = field(default_factory=dict)
    targets: dict[str, dict[str, Any]] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    measured: tuple[str, ...] = ()
    mixed: tuple[MixedRow, ...] = ()
    times: tuple[TimeRow, ...] = ()
    troubles: tuple[TroubleRow, ...] = ()
    remarks: tuple[str, ...] = ()

    def row(self, learner: str, target: str, T: int, accuracy: float) -> Row | None:
        """The row of this learner, target, T and accuracy, or None."""
        at = (learner, target, T, accuracy)
        found = (r for r in self.rows if (r.learner, r.target, r.T, r.accuracy) == at)
        return next(found, None)

    def note(self, row: Row) -> str:
        """`closed`, `> 640`, `does not reach 80 % for any m tried`, ..."""
        return self.notes.get(note_key(row.learner, row.target, row.T, row.accuracy), "")

    @property
    def unanswered(self) -> tuple[str, ...]:
        """The cells without an answer: the search is not finished, or errors prevented it."""
        late = (f"{t.learner}|s = {t.s}|{t.T}" for t in self.times if t.note.startswith(UNFINISHED))
        cells = (key for key, note in self.notes.items() if note.startswith(_UNANSWERED))
        return (*cells, *late)

    @property
    def names(self) -> tuple[str, ...]:
        """Learners in the order of their rows."""
        return tuple(dict.fromkeys(row.learner for row in (*self.rows, *self.times)))

    @property
    def target_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.target for row in self.rows))

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `from_dict` undoes it."""
        return {**asdict(self), "measured": list(self.measured)}

    def to_csv(self) -> str:
        """One line per row."""
        text = io.StringIO()
        names = [*Row.__dataclass_fields__, "note"]
        writer = csv.DictWriter(text, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows({**asdict(row), "note": self.note(row)} for row in self.rows)
        return text.getvalue()

    def frame(self) -> "pd.DataFrame":
        """The rows as a pandas table, with their notes."""
        import pandas as pd

        names = [*Row.__dataclass_fields__, "note"]
        return pd.DataFrame(
            [{**asdict(row), "note": self.note(row)} for row in self.rows], columns=names
        )

    def plot(self, **options: Any) -> "Figure":
        """A Matplotlib figure: examples needed against T, your own learners highlighted; steps
        against T if the card has only these.

        options: of `capax.figures.experiments.card_curves.draw_card` (targets, accuracies, most,
        dark).
        """
        # figures are a later layer: imported only for a plot
        if self.times and not self.rows:
            return import_module("capax.figures.experiments.card_times").draw_card_times(self)
        return import_module("capax.figures.experiments.card_curves").draw_card(self, **options)

    def _repr_html_(self) -> str:
        """A table of each target for notebooks: m* with its interval by learner and T."""
        parts = []
        for target in self.target_names:
            rows = [row for row in self.rows if row.target == target]
            top = max(row.accuracy for row in rows)
            lengths = sorted({row.T for row in rows})
            table = [
                (name, *(self._cell(self.row(name, target, T, top)) for T in lengths))
                for name in dict.fromkeys(row.learner for row in rows)
            ]
            head = ("learner", *(f"T = {T}" for T in lengths))
            title = f"{target}: m* at {100 * top:.4g} % accuracy"
            parts.append(html_table(table, head=head, title=title, notes=self.remarks))
        return "".join(parts) or html_table([("card", "no rows")])

    def _cell(self, row: Row | None) -> str:
        if row is None:
            return ""
        if row.m_star is None:
            return self.note(row)
        low, high = ("open" if end is None else str(end) for end in (row.low, row.high))
        return f"{row.m_star} [{low}, {high}]"

    def joined(self, other: "Card") -> "Card":
        """Both cards in one; for a learner in both, the rows of this card are kept."""
        mine = {(r.learner, r.target, r.T) for r in self.rows}
        pairs = {(r.learner, r.target) for r in self.rows}
        return Card(
            rows=(*self.rows, *(r for r in other.rows if (r.learner, r.target, r.T) not in mine)),
            laws=(*self.laws, *(w for w in other.laws if (w.learner, w.target) not in pairs)),
            curves=(*self.curves, *(c for c in other.curves if (c.learner, c.target) not in pairs)),
            notes={**other.notes, **self.notes},
            learners={**other.learners, **self.learners},
            targets={**other.targets, **self.targets},
            protocol=self.protocol or other.protocol,
            measured=self.measured,
            mixed=(*self.mixed, *(r for r in other.mixed if r.learner not in self.measured)),
            times=(*self.times, *(r for r in other.times if r.learner not in self.measured)),
            troubles=(
                *self.troubles,
                *(t for t in other.troubles if (t.learner, t.target, t.T) not in mine),
            ),
            remarks=(*self.remarks, *other.remarks),
        )

    def only(
        self, targets: Iterable[str], T: Iterable[int], learners: Iterable[str] | None = None
    ) -> "Card":
        """The part of the card about these targets, lengths and learners."""
        names = set(self.names if learners is None else learners)
        wanted, lengths = set(targets), set(T)
        return Card(
            rows=tuple(
                r for r in self.rows if r.target in wanted and r.T in lengths and r.learner in names
            ),
            laws=tuple(w for w in self.laws if w.target in wanted and w.learner in names),
            curves=tuple(
                c
                for c in self.curves
                if c.target in wanted and c.T in lengths and c.learner in names
            ),
            notes=self.notes,
            learners={k: v for k, v in self.learners.items() if k in names},
            targets={k: v for k, v in self.targets.items() if k in wanted},
            protocol=self.protocol,
            measured=tuple(n for n in self.measured if n in names),
            mixed=tuple(r for r in self.mixed if r.T in lengths and r.learner in names),
            times=tuple(r for r in self.times if r.T in lengths and r.learner in names),
            troubles=tuple(
                t
                for t in self.troubles
                if t.target in wanted and t.T in lengths and t.learner in names
            ),
            remarks=self.remarks,
        )


def note_key(learner: str, target: str, T: int, accuracy: float) -> str:
    """The key of a note."""
    return f"{learner}|{target}|{T}|{accuracy:g}"


def _law(fields: dict[str, Any]) -> LawRow:
    fields["ruled_out"] = tuple(fields["ruled_out"])
    return LawRow(**fields)


def _curve(fields: dict[str, Any]) -> CurveRow:
    fields["step"], fields["accuracy"] = tuple(fields["step"]), tuple(fields["accuracy"])
    return CurveRow(**fields)


def from_json(text: str, source: str) -> Card:
    """The card in a JSON file. Raises `InputError` for other files."""
    try:
        data = json.loads(text)
        return Card(
            rows=tuple(Row(**row) for row in data["rows"]),
            laws=tuple(_law(law) for law in data["laws"]),
            curves=tuple(_curve(curve) for curve in data["curves"]),
            notes=dict(data["notes"]),
            learners=dict(data["learners"]),
            targets=dict(data["targets"]),
            protocol=dict(data["protocol"]),
            mixed=tuple(MixedRow(**row) for row in data.get("mixed", ())),
            times=tuple(TimeRow(**row) for row in data.get("times", ())),
            troubles=tuple(TroubleRow(**row) for row in data.get("troubles", ())),
            remarks=tuple(data.get("remarks", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{source}: not a card ({error})") from None
