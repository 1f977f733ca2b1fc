"""Searches: which (m, trial number) to run next, given every outcome so far.

A search proceeds in rounds. The batch of a round is a function of the outcomes of all earlier
rounds only: not of the order in which results arrive, of the machine, or of a crash in between.
Hence a sweep that is killed and resumed, or distributed over a cluster, requests exactly the same
trials as an uninterrupted one.
"""

import itertools
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any, Literal, Protocol, runtime_checkable

import numpy as np
from pydantic import Field, model_validator

from capax.data.spec_base import Spec
from capax.errors import InputError, require
from capax.sweep.searching.counts import TARGET, Counts
from capax.sweep.searching.curve import LEVEL, CurveGrid, Estimate, estimate
from capax.sweep.searching.next_trials import next_batch

Cell = tuple[int, int]
"""One trial of a search: the number of examples m and the number of the trial at this m."""


MOST_TRIALS = 100_000
"""The largest number of trials at one T; a larger number is probably a typing error."""


class GridSearch(Spec):
    """Every m of a list, `trials` trials each, all in one round."""

    method: Literal["grid"] = "grid"
    m: tuple[Annotated[int, Field(ge=1, lt=2**31)], ...] = Field(min_length=1, max_length=1000)
    trials: int = Field(default=40, ge=1, le=MOST_TRIALS)

    @property
    def most_trials(self) -> int:
        return self.trials * len(set(self.m))

    @property
    def largest_m(self) -> int:
        return max(self.m)

    @property
    def round_size(self) -> int:
        """Trials that can run at once."""
        return self.most_trials

    def at_length(self, T: int) -> "GridSearch":
        """The same at every T."""
        del T
        return self

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The missing trials at every m: all of them at first, an empty list afterwards.

        The largest m first: its steps take longest but most runs are solved early, and later runs
        do not wait for them.
        """
        del restarts
        done = dict(zip(counts.m, counts.total, strict=True))
        missing = ((m, self.trials - done.get(m, 0)) for m in sorted(set(self.m), reverse=True))
        return tuple(m for m, number in missing for _ in range(number))


_SINGLE = ("m_low", "m_high", "batch", "min_trials", "max_trials")
"""Settings that may differ at a single T."""


class AdaptiveSearch(Spec):
    """Rounds of `batch` trials at the most informative m, until the interval is narrow enough.

    Stops when high / low <= `precision` (after at least `min_trials`) or after `max_trials`.
    Candidates are whole m from `m_low` to `m_high`, `step` apart on a log scale. `at` holds other
    settings for single T: `at = { 1000 = { m_low = 40, max_trials = 24 } }`.
    """

    method: Literal["adaptive"] = "adaptive"
    m_low: int = Field(default=5, ge=1, lt=2**31)
    m_high: int = Field(default=400, ge=2, lt=2**31)
    batch: int = Field(default=32, ge=1, le=MOST_TRIALS)
    min_trials: int = Field(default=64, ge=1, le=MOST_TRIALS)
    max_trials: int = Field(default=256, ge=1, le=MOST_TRIALS)
    precision: float = Field(default=1.25, gt=1.0)
    step: float = Field(default=0.05, ge=1e-3, le=1.0)
    target: float = Field(default=TARGET, gt=0.0, lt=1.0)
    at: dict[int, dict[str, int]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _range(self) -> "AdaptiveSearch":
        require(self.m_high > self.m_low, "m_high", f"more than m_low = {self.m_low}", self.m_high)
        return self

    @model_validator(mode="after")
    def _single_lengths(self) -> "AdaptiveSearch":
        for T in self.at:
            self.at_length(T)
        return self

    def at_length(self, T: int) -> "AdaptiveSearch":
        """The search at one T, with its own settings in place of the common ones."""
        own = self.at.get(T)
        if own is None:
            return self
        unknown = sorted(set(own) - set(_SINGLE))
        require(not unknown, f"at.{T}", f"only {', '.join(_SINGLE)}", ", ".join(unknown))
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in type(self).model_fields if name != "at"
        }
        fields |= dict(own)
        return type(self)(**fields)

    @property
    def most_trials(self) -> int:
        return self.max_trials

    @property
    def largest_m(self) -> int:
        return self.m_high

    @property
    def round_size(self) -> int:
        """Trials that can run at once."""
        return self.batch

    @property
    def candidates(self) -> tuple[int, ...]:
        low, high = np.log(self.m_low), np.log(self.m_high)
        number = max(2, int(np.ceil((high - low) / self.step)) + 1)
        return tuple(int(m) for m in np.unique(np.rint(np.exp(np.linspace(low, high, number)))))

    @property
    def grid(self) -> CurveGrid:
        return _grid(self.m_low, self.m_high, self.target)

    def estimate(self, counts: Counts, level: float = LEVEL) -> Estimate:
        return estimate(self.grid, counts, level=level)

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The next batch; empty when the interval is narrow enough or all trials are used."""
        done = counts.trials
        size = min(self.batch, self.max_trials - done)
        if size <= 0 or (done >= self.min_trials and self._narrow(counts)):
            return ()
        return next_batch(self.grid, counts, self.candidates, size, restarts=restarts)

    def _narrow(self, counts: Counts) -> bool:
        return self.estimate(counts).log_width <= math.log(self.precision)


@lru_cache(maxsize=64)
def _grid(low: int, high: int, target: float) -> CurveGrid:
    """Cached, with its axes: a search uses it in every round."""
    return CurveGrid(low, high, target)


Search = GridSearch | AdaptiveSearch


@runtime_checkable
class InRounds(Protocol):
    """An object that requests trials in rounds: a search, or several of them together."""

    def next_round(self, counts: Counts, restarts: int = 1) -> tuple[int, ...]:
        """The m of the next trials; empty at the end."""
        ...


class Progress:
    """A running search: hands out the trials of a round, and starts the next when all are finished.

    `known`: outcomes of an earlier, interrupted sweep, which count like new ones.
    `given`: outcomes of another search, known before the first round.
    `spent`: trials without an outcome, whose numbers are not used again.
    Without a search no trial is requested.
    """

    def __init__(
        self,
        search: InRounds | None,
        *,
        restarts: int,
        known: dict[Cell, bool],
        given: dict[Cell, bool] | None = None,
        spent: Iterable[Cell] = (),
    ) -> None:
        self._search = search
        self._restarts = restarts
        self._known = known
        self._outcomes: dict[Cell, bool] = dict(given or {})
        self._spent = set(spent)
        self._waiting: list[Cell] = []
        self._open: set[Cell] = set()
        self.num_solved = sum(self._outcomes.values())
        self.finished = False
        self._advance()

    @property
    def counts(self) -> Counts:
        """Outcomes of all finished trials."""
        return Counts.of([(m, solved) for (m, _), solved in self._outcomes.items()])

    @property
    def num_done(self) -> int:
        return len(self._outcomes)

    @property
    def num_running(self) -> int:
        return len(self._open)

    def take(self) -> Cell | None:
        """The next trial to start, or `None` while the round's last results are awaited."""
        if not self._waiting:
            return None
        cell = self._waiting.pop(0)
        self._open.add(cell)
        return cell

    def record(self, cell: Cell, solved: bool | None) -> None:
        """Record the outcome of a trial that was handed out; None: it gave no evidence."""
        if cell not in self._open:
            raise InputError(f"trial {cell}: this trial is not running")
        self._open.remove(cell)
        if solved is None:
            self._spent.add(cell)
        else:
            self._note(cell, solved)
        self._advance()

    def is_open(self, cell: Cell) -> bool:
        """Whether a trial was handed out here and is not finished."""
        return cell in self._open

    def _note(self, cell: Cell, solved: bool) -> None:
        self._outcomes[cell] = solved
        self.num_solved += solved

    def _advance(self) -> None:
        while not (self._waiting or self._open or self.finished):
            search = self._search
            batch = search.next_round(self.counts, self._restarts) if search else ()
            self.finished = not batch
            self._settle(numbered(batch, (*self._outcomes, *self._spent)))

    def _settle(self, cells: list[Cell]) -> None:
        for cell in cells:
            if cell in self._known:
                self._note(cell, self._known[cell])
            else:
                self._waiting.append(cell)


def numbered(batch: Iterable[int], done: Iterable[Cell]) -> list[Cell]:
    """Give every m of a batch the smallest free trial number at that m."""
    used, cells = set(done), []
    free: dict[int, int] = {}
    for m in batch:
        number = next(n for n in itertools.count(free.get(m, 0)) if (m, n) not in used)
        free[m] = number + 1
        cells.append((m, number))
    return cells
