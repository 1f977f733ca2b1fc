"""Run a card into a store: jobs side by side, one writer, resumable, within a budget of time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from capax.cards.measuring.apart import in_processes
from capax.cards.measuring.jobs import CardJob, jobs_of
from capax.cards.protocol.plan import Plan
from capax.files import cache_folder
from capax.identity import digest
from capax.learners.names import Entry
from capax.sweep.running.runner import concurrently, preparing
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome


@dataclass(frozen=True)
class Standing:
    """Where a card stands."""

    jobs: int
    finished: int
    trials: int
    at_work: str


Report = Callable[[Standing], None]
Elsewhere = Callable[[list[CardJob]], Iterator[Outcome]]


def default_store(plan: Plan, entries: tuple[Entry, ...]) -> Path:
    """A file in the cache that belongs to these learners and this protocol: resumed by itself."""
    folder = cache_folder() / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    fields = {**plan.model_dump(mode="json"), "learners": [(e.name, e.source) for e in entries]}
    return folder / f"{digest(fields)[:16]}.sqlite"


def run_card(
    plan: Plan,
    entries: tuple[Entry, ...],
    store: Store,
    *,
    at_once: int = 1,
    minutes: float | None = None,
    report: Report | None = None,
    elsewhere: Elsewhere | None = None,
) -> bool:
    """Train what the store does not have yet. False if the time ran out before the end.

    at_once: jobs side by side; on a CPU each in a process of its own (`apart`).
    elsewhere: yields the outcomes of the jobs (`cluster.on_ray`); here if None.
    """
    tell = report or (lambda _: None)
    jobs = jobs_of(plan, entries, store)
    elsewhere = elsewhere or in_processes(jobs, at_once, store)
    trials = sum(len(q.scores) for job in jobs for q in job.questions)
    end = None if minutes is None else time.monotonic() + 60 * minutes
    with preparing([] if elsewhere else _first_of_each(jobs)):
        for outcome in elsewhere(jobs) if elsewhere else concurrently(jobs, at_once):
            store.add(outcome)
            trials += 1
            tell(_standing(jobs, trials, outcome.trial.panel, outcome.trial.T))
            if end is not None and time.monotonic() > end:
                return False
    tell(_standing(jobs, trials, "", 0))
    return True


def _standing(jobs: list[CardJob], trials: int, panel: str, T: int) -> Standing:
    at_work = f"{panel}, T = {T}" if panel else ""
    questions = [q for job in jobs for q in job.questions]
    return Standing(len(questions), sum(q.finished for q in questions), trials, at_work)


def _first_of_each(jobs: list[CardJob]) -> list[CardJob]:
    """One job of each compiled program: targets share it. The first is at work already."""
    seen: dict[tuple[str, int], CardJob] = {}
    for job in jobs:
        if job.entry.in_lanes:
            seen.setdefault((job.entry.name, job.T), job)
    return list(seen.values())[1:]
