"""Several sweeps on this machine, each into its own store, as one queue of jobs.

One after the other, each would end with idle cores while its last runs train, and begin with
compilations while no run trains. In one queue the next sweep uses this time. No result depends on
it: jobs are independent.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from capax.sweep.experiments.spec import Experiment
from capax.sweep.families.known_families import check_experiment
from capax.sweep.running.job import Job, ShouldStop, jobs_of
from capax.sweep.running.runner import Books, Report, concurrently, preparing, short_turns
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome


@dataclass(frozen=True)
class Sweep:
    """An experiment, its store, and a function for progress reports."""

    experiment: Experiment
    store: Path
    report: Report | None = None


def run_sweeps(sweeps: Sequence[Sweep], *, jobs_at_once: int = 1) -> Iterator[int]:
    """Train the missing trials of the stores; yields the numbers of closed sweeps.

    The other sweeps continue meanwhile: their outcomes are written when the next number is
    requested. Raises `InputError` before the training when a sweep or a store cannot be used.
    """
    with ExitStack() as stack:
        stores = [
            stack.enter_context(Store.create_or_resume(one.store, one.experiment)) for one in sweeps
        ]
        for one in sweeps:
            check_experiment(one.experiment)
        books = [
            Books(jobs_of(s.experiment, t), t, s.report)
            for s, t in zip(sweeps, stores, strict=True)
        ]
        left = [len(book.waiting) for book in books]
        numbered = [(i, job) for i, book in enumerate(books) for job in book.waiting]

        finished = [number for number, jobs in enumerate(left) if not jobs]
        for number in finished:
            books[number].tell()

        def closed() -> Iterator[int]:
            while finished:
                number = finished.pop(0)
                books[number].close()
                stores[number].close()
                yield number

        works = [partial(_news, number, job) for number, job in numbered]
        with short_turns(), preparing([job.prepare for _, job in numbered]):
            for news in concurrently(works, jobs_at_once):
                if news.outcome is not None:
                    books[news.sweep].add(news.outcome)
                elif not news.over:
                    books[news.sweep].tell()
                left[news.sweep] -= news.over
                if news.over and not left[news.sweep]:
                    finished.append(news.sweep)
                yield from closed()  # from the first message on: by then the others are running
        yield from closed()


@dataclass(frozen=True)
class _News:
    """A message from a job of a sweep: it begins, it has an outcome, it is over."""

    sweep: int
    outcome: Outcome | None = None
    over: bool = False


def _news(sweep: int, job: Job, should_stop: ShouldStop) -> Iterator[_News]:
    """All messages of a job, with the number of its sweep."""
    yield _News(sweep)
    for outcome in job.outcomes(should_stop):
        yield _News(sweep, outcome)
    yield _News(sweep, over=True)
