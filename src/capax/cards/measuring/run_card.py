"""Run a card into a store, on the runner of sweeps: one writer, resumable, within a time budget."""

import time
from pathlib import Path

from capax.cards.measuring.card_jobs import card_jobs
from capax.cards.measuring.parity_times import time_jobs
from capax.cards.protocol.plan import Plan
from capax.errors import InputError
from capax.files import cache_folder
from capax.identity import digest
from capax.learners.names import Entry, travels
from capax.sweep.running.cluster import on_ray
from capax.sweep.running.job import Job, Status
from capax.sweep.running.runner import Report, Way, in_other_processes, in_threads, run_jobs
from capax.sweep.running.sharing import has_gpu
from capax.sweep.running.shipping import files_of
from capax.sweep.storage.store import Store


def default_store(plan: Plan, entries: tuple[Entry, ...]) -> Path:
    """A file in the cache for these learners and this protocol; a later call resumes it."""
    folder = cache_folder() / "cards"
    folder.mkdir(parents=True, exist_ok=True)
    protocol = plan.model_dump(mode="json")
    fields = {k: v for k, v in protocol.items() if not k.startswith("parity_")}
    fields["learners"] = [(e.name, e.source) for e in entries]
    return folder / f"{digest(fields)[:16]}.sqlite"


def run_card(
    plan: Plan,
    entries: tuple[Entry, ...],
    store: Store,
    *,
    at_once: int = 1,
    minutes: float | None = None,
    report: Report | None = None,
    way: Way | None = None,
) -> Status:
    """Train the missing trials of the store, here or by `way`; returns the status of the card.

    at_once: jobs in parallel; on a CPU each in a separate process. minutes: the time budget.
    """
    jobs = card_jobs(plan, entries, store)
    way = way or _here(jobs, at_once, store)
    return run_jobs(jobs, store, way, report=report, minutes=minutes)


def run_parity_times(
    plan: Plan,
    entries: tuple[Entry, ...],
    store: Store,
    *,
    at_once: int = 1,
    minutes: float | None = None,
    report: Report | None = None,
    way: Way | None = None,
) -> None:
    """The same for steps to solve parities: first trials for the rates, then trials that count."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    for scored in (False, True):
        jobs = time_jobs(plan, entries, store, scored=scored)
        left = None if end is None else max(0.0, end - time.monotonic()) / 60
        run_jobs(jobs, store, way or _here(jobs, at_once, store), report=report, minutes=left)


def _here(jobs: list[Job], at_once: int, store: Store) -> Way:
    """Jobs of the engine in processes, each on its own cores, if there are enough cores.

    XLA's programs on a CPU give parts of their work to a pool of one thread per core, shared by the
    whole process. A step of a small model gains little by it, and needs a third to two thirds more
    CPU time; a process with one core has no such pool. The trials are the same; only the rounding
    of sums may differ.
    """
    several = min(at_once, sum(job.travels and not job.finished for job in jobs)) >= 2
    return in_other_processes(at_once, store) if several and not has_gpu() else in_threads(at_once)


def card_on_ray(entries: tuple[Entry, ...], address: str | None = None) -> Way:
    """The jobs of a card on the cluster at `address` (a local one if None).

    Raises `InputError` for learners that exist in this process only, when Ray is not installed, or
    when the cluster cannot be reached.
    """
    for entry in entries:
        if not travels(entry):
            raise InputError(f"--on ray: wanted learners by name or file.py:name, got {entry.name}")
    return on_ray(address, files=files_of(entry.reference for entry in entries))
