"""Several sweeps on this machine, each into its own store, as one queue of jobs.

One after the other, each would end with a core that has nothing to do while its last runs train,
and begin with compilations that nobody trains beside. In one queue the next sweep fills the gaps.
No result depends on it: a job knows nothing of its neighbours.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from capax.sweep.running.job import Job
from capax.sweep.running.runner import Books, Report, concurrently, preparing, short_turns
from capax.sweep.spec import Experiment
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome


@dataclass(frozen=True)
class Sweep:
    """What to train, where to, and whom to tell."""

    experiment: Experiment
    store: Path
    report: Report | None = None


def run_sweeps(sweeps: Sequence[Sweep], *, jobs_at_once: int = 1) -> Iterator[int]:
    """Train what the stores do not have yet; the number of each sweep once its store is closed.

    The others go on training while the caller looks at it: what comes in meanwhile is written when
    the next number is asked for. Raises `InputError` before anything trains when a sweep or a store
    cannot be used.
    """
    with ExitStack() as stack:
        stores = [
            stack.enter_context(Store.create_or_resume(one.store, one.experiment)) for one in sweeps
        ]
        books = [Books(s.experiment, t, s.report) for s, t in zip(sweeps, stores, strict=True)]
        left = [len(book.waiting) for book in books]
        parts = [_Part(i, job) for i, book in enumerate(books) for job in book.waiting]

        def closed(number: int) -> int:
            books[number].close()
            stores[number].close()
            return number

        for number, book in enumerate(books):
            if not left[number]:
                book.tell()
                yield closed(number)
        with short_turns(), preparing(parts):
            for news in concurrently(parts, jobs_at_once):
                if news.outcome is not None:
                    books[news.sweep].add(news.outcome)
                elif not news.over:
                    books[news.sweep].tell()
                left[news.sweep] -= news.over
                if news.over and not left[news.sweep]:
                    yield closed(news.sweep)


@dataclass(frozen=True)
class _News:
    """From a job of a sweep: it begins, it has an outcome, it is over."""

    sweep: int
    outcome: Outcome | None = None
    over: bool = False


@dataclass(frozen=True)
class _Part:
    """A job, and the number of the sweep it belongs to."""

    sweep: int
    job: Job

    def prepare(self) -> None:
        self.job.prepare()

    def outcomes(self, should_stop: Callable[[], bool] = lambda: False, /) -> Iterator[_News]:
        yield _News(self.sweep)
        for outcome in self.job.outcomes(should_stop):
            yield _News(self.sweep, outcome)
        yield _News(self.sweep, over=True)
