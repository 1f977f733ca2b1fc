"""A question: which m does a panel need at one T? It requests trials until the answer is known."""

from abc import ABC, abstractmethod

from capax.sweep.experiments.spec import Panel
from capax.sweep.families.family import Family
from capax.sweep.families.known_families import family_of, m_range
from capax.sweep.searching.search import AdaptiveSearch, Cell, Progress, Search
from capax.sweep.trial import Outcome, Trial


class Question(ABC):
    """The requested trials of one panel at one T, and their outcomes.

    `note`: a remark for readers of the results: no m is in range, or the work had to stop.
    `recorded` outcomes were received, with `runs` runs; `written` of them are in the store.
    """

    def __init__(self, panel: Panel, T: int, note: str = "") -> None:
        self.panel, self.T, self.note = panel, T, note
        self.runs = self.recorded = self.written = 0
        self.closed = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether no further trial is needed."""

    @abstractmethod
    def take(self) -> Trial | None:
        """The next trial to start; None while results are awaited."""

    @abstractmethod
    def hear(self, outcome: Outcome) -> None:
        """Use the outcome of a trial that was taken."""

    @property
    @abstractmethod
    def num_done(self) -> int:
        """Trials whose outcome is known, also from earlier sessions."""

    @property
    @abstractmethod
    def num_solved(self) -> int:
        """Trials that were solved."""

    @property
    @abstractmethod
    def num_running(self) -> int:
        """Trials that were started and are not finished."""

    @property
    @abstractmethod
    def most_trials(self) -> int:
        """The largest number of trials of the question, including finished ones."""

    @property
    def so_far(self) -> str:
        """A line with the result so far, while the search is unfinished; may be empty."""
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        """The panels under which its trials are stored."""
        return (self.panel.name,)

    def panel_of(self, trial: Trial) -> Panel:
        """The settings of a trial that was taken."""
        del trial
        return self.panel

    def record(self, outcome: Outcome) -> None:
        """Record the outcome of a trial."""
        self.recorded += 1
        self.runs += len(outcome.runs)
        self.hear(outcome)

    @property
    def is_over(self) -> bool:
        """Whether no more trials will be requested: finished, or stopped with a note."""
        return self.finished or bool(self.note)

    @property
    def is_written(self) -> bool:
        """Whether it is over and all its trials are in the store."""
        return self.is_over and self.written == self.recorded


class PanelQuestion(Question):
    """The search of a sweep: known outcomes count, first the outcomes of an earlier search."""

    def __init__(
        self, panel: Panel, T: int, known: dict[Cell, bool], before: set[Cell] | None = None
    ) -> None:
        search, note = in_range(panel, T)
        super().__init__(panel, T, note)
        self.family: Family = family_of(panel)
        given = {cell: known[cell] for cell in before or ()}
        new = {cell: solved for cell, solved in known.items() if cell not in given}
        self.progress = Progress(search, restarts=panel.restarts, known=new, given=given)

    @property
    def finished(self) -> bool:
        return self.progress.finished

    def take(self) -> Trial | None:
        cell = self.progress.take()
        return None if cell is None else self.family.trial(self.panel, self.T, *cell)

    def hear(self, outcome: Outcome) -> None:
        self.progress.record((outcome.trial.m, outcome.trial.index), outcome.solved)

    @property
    def num_done(self) -> int:
        return self.progress.num_done

    @property
    def num_solved(self) -> int:
        return self.progress.num_solved

    @property
    def num_running(self) -> int:
        return self.progress.num_running

    @property
    def most_trials(self) -> int:
        return self.num_done if self.is_over else self.panel.search.at_length(self.T).most_trials


def in_range(panel: Panel, T: int) -> tuple[Search | None, str]:
    """The panel's search within the useful m at T; None and the reason if no m is useful.

    A list of m is used as it is: the user chose these values.
    """
    least, most = m_range(panel, T)
    search = panel.search.at_length(T)
    if not isinstance(search, AdaptiveSearch):
        return search, ""
    low, high = max(search.m_low, least), min(search.m_high, most or search.m_high)
    if low >= high:
        reason = (
            f"out of range: hardly any training set with m <= {search.m_high} leaves one rule"
            if least > search.m_low
            else f"out of range: the file has {most} examples"
        )
        return None, f"{reason}, and the least useful m is {least}"
    return search.model_copy(update={"m_low": low, "m_high": high}), ""
