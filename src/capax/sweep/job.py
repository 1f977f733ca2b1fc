"""A job: the search of one panel at one T. A sweep is a list of jobs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from capax.errors import InputError
from capax.sweep.families import family_of
from capax.sweep.search import Cell, Progress
from capax.sweep.spec import Experiment, Panel
from capax.sweep.store import Store
from capax.sweep.trial import Learner, Outcome, Trial


class Stopped(Exception):
    """Raised into a learner that asks for work after the sweep was told to stop."""


class Job:
    """One panel at one T: knows which trials are still wanted, and takes in outcomes."""

    def __init__(self, panel: Panel, T: int, known: dict[Cell, bool]) -> None:
        self.panel = panel
        self.T = T
        self._family = family_of(panel)
        self.progress = Progress(panel.search, restarts=panel.restarts, known=known)

    @property
    def finished(self) -> bool:
        return self.progress.finished

    def take(self) -> Trial | None:
        """The next trial to start, or `None` while results are awaited."""
        cell = self.progress.take()
        return None if cell is None else self._family.trial(self.panel, self.T, *cell)

    def record(self, outcome: Outcome) -> None:
        trial = outcome.trial
        self.progress.record((trial.m, trial.index), outcome.solved)

    def prepare(self) -> None:
        """Compile what the job needs; in a thread, while another job trains."""
        self._family.prepare(self.panel, self.T)

    def learner(self) -> Learner:
        return self._family.learner(self.panel, self.T)

    def outcomes(self, should_stop: Callable[[], bool] = lambda: False) -> Iterator[Outcome]:
        """Train until the search is finished; every outcome as soon as it is known."""
        for outcome in self.learner()(self._source(should_stop)):
            self.record(outcome)
            yield outcome
        if not self.finished:
            raise InputError(f"model.family: {self.panel.family!r} left trials unfinished")

    def _source(self, should_stop: Callable[[], bool]) -> Iterator[Trial | None]:
        while not self.finished:
            if should_stop():
                raise Stopped
            yield self.take()


@dataclass(frozen=True)
class Status:
    """Where a sweep stands, for progress bars."""

    trials: int
    most_trials: int
    solved: int
    running: int
    runs: int
    jobs: int
    finished_jobs: int


class Tally:
    """Counts of a sweep under way; reads numbers only, so other threads may go on meanwhile."""

    def __init__(self, jobs: list[Job], runs: int) -> None:
        self._jobs = jobs
        self._runs = runs

    def add(self, outcome: Outcome) -> None:
        self._runs += len(outcome.runs)

    def status(self) -> Status:
        progress = [job.progress for job in self._jobs]
        most = [
            job.progress.num_done if job.finished else job.panel.search.most_trials
            for job in self._jobs
        ]
        return Status(
            trials=sum(p.num_done for p in progress),
            most_trials=sum(most),
            solved=sum(p.num_solved for p in progress),
            running=sum(p.num_running for p in progress),
            runs=self._runs,
            jobs=len(self._jobs),
            finished_jobs=sum(job.finished for job in self._jobs),
        )


def jobs_of(experiment: Experiment, store: Store) -> list[Job]:
    """All jobs of an experiment, each as far as the store remembers it."""
    return [
        Job(panel, T, store.known(panel.name, T)) for panel in experiment.panels for T in panel.T
    ]
