"""A card's jobs in processes of their own, each on cores of its own. Both ends of the line.

XLA's programs on a CPU hand parts of their work to a pool that all of a process share, of one
thread per core. A step of a small model gains next to nothing by it, and costs a third to two
thirds more of the machine; a process that has one core has no such pool. The trials are the same;
only how sums are rounded may differ.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from capax.cards.measuring.families import card_family
from capax.cards.measuring.jobs import CardJob
from capax.errors import InputError
from capax.learners.names import Entry, entry_of
from capax.sweep.families import Family
from capax.sweep.running.apart import JobApart
from capax.sweep.running.other_end import main
from capax.sweep.running.runner import concurrently
from capax.sweep.running.sharing import Places, has_gpu
from capax.sweep.spec import Panel
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome

_COMMAND = (sys.executable, "-m", "capax.cards.measuring.apart")


def travels(entry: Entry) -> bool:
    """Whether another process finds the learner by its name."""
    try:
        return entry.thing is None and entry_of(entry.name) == entry
    except InputError:
        return False


def goes_apart(job: CardJob) -> bool:
    """Whether a job trains in the engine, and can do so in another process."""
    return job.entry.in_lanes and not job.finished and travels(job.entry)


def in_processes(
    jobs: Sequence[CardJob], at_once: int, store: Store
) -> Callable[[list[CardJob]], Iterator[Outcome]] | None:
    """For `run_card`; None where nothing is gained: on a GPU, or with one job of the engine."""
    lengths = [job.T for job in jobs if goes_apart(job)]
    if has_gpu() or min(at_once, len(lengths)) < 2:
        return None
    places = Places(lengths, min(at_once, len(lengths)), {})
    heard = partial(setattr, store, "device")

    def outcomes(jobs: list[CardJob]) -> Iterator[Outcome]:
        yield from concurrently(
            [
                JobApart(job, places, heard, job.panel_of, _COMMAND) if goes_apart(job) else job
                for job in jobs
            ],
            at_once,
        )

    return outcomes


def _family(panel: Panel) -> Family:
    return card_family(entry_of(panel.family))


if __name__ == "__main__":
    main(_family)
