"""A card on a Ray cluster: the same trials, trained elsewhere; this process is the only writer."""

from collections.abc import Callable, Iterator

from capax.cards.measuring.apart import travels
from capax.cards.measuring.families import card_family
from capax.cards.measuring.jobs import CardJob
from capax.errors import InputError
from capax.learners.names import Entry, entry_of
from capax.sweep.learner_family import PlainFamily
from capax.sweep.running.cluster import Cluster
from capax.sweep.spec import Panel
from capax.sweep.trial import Outcome, Trial

_FITS = 16  # trials per task of a plain learner: a process of its own must start first


def on_ray(
    entries: tuple[Entry, ...], address: str | None = None
) -> Callable[[list[CardJob]], Iterator[Outcome]]:
    """For `run_card`: trains its jobs on the cluster at `address` (a local one if None).

    Raises `InputError` for learners that live in this process only, when Ray is not installed, or
    when the cluster cannot be reached.
    """
    for entry in entries:
        if not travels(entry):
            raise InputError(f"--on ray: wanted learners by name or file.py:name, got {entry.name}")
    cluster = Cluster(run_chunk, address)
    return lambda jobs: cluster.outcomes(
        jobs,
        lambda job: (job.entry.name, job.panel, job.T),
        lambda job: None if job.entry.in_lanes else _FITS,
    )


def run_chunk(learner: str, panel: Panel, T: int, trials: list[Trial]) -> list[Outcome]:
    """What a worker does: train these trials and hand back how they ended."""
    entry = entry_of(learner)
    family = card_family(entry) if entry.in_lanes else PlainFamily(entry, workers=1)
    return list(family.learner(panel, T)(iter(trials)))
