"""`train`: thousands of runs through a fixed number of slots, results as they finish.

Trials are pulled from their source only when a slot is free; a trial's next restart starts only if
the earlier ones failed; finished runs leave, waiting ones enter. The result of a run depends on its
spec alone, never on its slot, its neighbours or the order.
"""

import time
from collections.abc import Callable, Iterable, Iterator

from capax.errors import require
from capax.training.alarm.giving_up import GiveUp
from capax.training.alarm.live_file import LiveFile
from capax.training.slots.crew import Crew, Tally
from capax.training.slots.record import Leaving
from capax.training.specs.hardware import Hardware, enable_cache
from capax.training.specs.run_results import TrialResult
from capax.training.specs.trial_specs import TrialSpec

OnTally = Callable[[Tally], None]


def train(
    trials: Iterable[TrialSpec | None],
    *,
    hardware: Hardware | None = None,
    keep: str = "none",
    progress: OnTally | None = None,
    max_m: int = 1,
    early_exit: bool = True,
    stop_memorised: bool = False,
    full_validation: bool = False,
    examine_from: float = 1.0,
    block: int = 0,
    measure_progress: bool = False,
    give_up: GiveUp | None = None,
    live: LiveFile | None = None,
    check: Callable[[], None] | None = None,
) -> Iterator[TrialResult]:
    """Train every trial; yields each as soon as it is finished.

    trials: specs that share everything but the task's data (function, m, support, noise, seed),
    the rates and the restarts; None from the source means: no trial before the next result.
    keep: parameters in the results: none, final or best (highest validation accuracy).
    max_m: largest m to expect; saves a compilation when m grows later.
    early_exit: a solved run leaves its slot. stop_memorised: so does one that has memorised its
    sample without a rule (`capax.training.slots.record.has_memorised`), as failed.
    full_validation: the whole validation set at every evaluation, not only when its first rows are
    all right; examine_from: or when this share of them is (for success at less than 100 %).
    block: gradients are summed over pieces of so many examples, so that the cost of a trial depends
    on its own m, not on `max_m` (0: all at once). The trials may then have four values of p.
    measure_progress: the measures of hidden progress at every evaluation (`progress_names`), for
    inputs with two symbols. Training does not depend on them, except with give_up: a run with a
    small predicted chance leaves its slot, as failed. live: a file for evaluations of current runs.
    check: called regularly while runs are awaited; an error that it raises ends the training.
    A trial without a possible training set is returned unsolved, without runs, with the reason.
    Raises `InputError` for trials that do not fit together, `InfeasibleError` for lack of memory.
    """
    require(keep in ("none", "final", "best"), "keep", "none, final or best", keep)
    require(max_m >= 1, "max_m", "at least 1", max_m)
    require(0 <= examine_from <= 1, "examine_from", "a share in [0, 1]", examine_from)
    hardware = hardware or Hardware()
    enable_cache(hardware)
    require(block >= 0, "block", "a number of examples, or 0", block)
    measure_progress = measure_progress or give_up is not None
    leaving = Leaving(early_exit, stop_memorised, give_up)
    from_share = 0.0 if full_validation else examine_from
    crew = Crew(hardware, keep, max_m, leaving, from_share, block, measure_progress, live)
    try:
        yield from _drive(iter(trials), crew, progress or (lambda _: None), check)
    finally:
        crew.close()


def _drive(
    trials: Iterator[TrialSpec | None],
    crew: Crew,
    progress: OnTally,
    check: Callable[[], None] | None,
) -> Iterator[TrialResult]:
    exhausted = False
    while True:
        pausing = False
        while not exhausted and not pausing and crew.has_room():
            trial = next(trials, _END)
            exhausted, pausing = trial is _END, trial is None
            if isinstance(trial, TrialSpec):
                crew.submit(trial)
        if crew.open_trials:
            crew.use_idle_slots()
            result = crew.next_event(check)
            progress(crew.tally())
            if result is not None:
                yield result
        elif exhausted:
            return
        else:
            time.sleep(0.01)  # the source has no trial yet, and no result is expected


_END = object()
