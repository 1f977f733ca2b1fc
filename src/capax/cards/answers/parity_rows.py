"""Rows of a card about parities: which of two rules is learned, and how many steps one takes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class MixedRow:
    """Mixed parity at T with m examples: shares of trials by learned rule (`cards.mixed`)."""

    learner: str
    T: int
    m: int
    trials: int
    sparse: float
    dense: float
    neither: float
    rate: float | None


@dataclass(frozen=True)
class TimeRow:
    """Steps to solve a parity of s of T bits from fresh batches (`measuring.parity_times`).

    median, high: None beyond the limit of steps; solved, censored: runs that count. `note`: empty,
    or why a number is missing.
    """

    learner: str
    T: int
    s: int
    median: int | None
    low: int | None
    high: int | None
    solved: int
    censored: int
    limit: int
    batch: int
    rate: float | None
    note: str = ""

    @property
    def words(self) -> str:
        """`350 [300, 450], 10 of 10`, `> 5000, 2 of 10`, or its note."""
        runs = self.solved + self.censored
        if not runs:
            return self.note
        ends = f" [{self.low}, {'open' if self.high is None else self.high}]"
        steps = f"> {self.limit}" if self.median is None else f"{self.median}{ends}"
        note = f", {self.note}" if self.note else ""
        return f"{steps}, {self.solved} of {runs}{note}"
