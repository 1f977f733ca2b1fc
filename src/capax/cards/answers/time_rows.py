"""From a store to the time axis of a card: steps to solve, by the estimator of `capax times`."""

from capax.analysis.times import run_times, solve_times
from capax.cards.answers.card_rows import UNFINISHED
from capax.cards.answers.parity_rows import TimeRow
from capax.cards.measuring.parity_times import BITS, best_rate, time_panel
from capax.cards.protocol.plan import Plan
from capax.learners.names import Entry
from capax.sweep.storage.store import Store

NO_STEPS = "is not trained by gradient steps of the engine"


def time_rows(plan: Plan, entries: tuple[Entry, ...], store: Store) -> tuple[TimeRow, ...]:
    """Steps to solve of every learner, T and s, from the trials in the store."""
    cells = [(e, T, s) for e in entries for T in sorted(plan.T) for s in BITS if s <= T]
    return tuple(_row(plan, *cell, store) for cell in cells)


def _row(plan: Plan, entry: Entry, T: int, s: int, store: Store) -> TimeRow:
    batch, limit = plan.parity_batch, plan.parity_steps
    if not entry.in_lanes:
        return TimeRow(entry.name, T, s, None, None, None, 0, 0, limit, batch, None, NO_STEPS)
    rate, wanted = best_rate(plan, entry, T, s, store), plan.parity_trials
    name = "" if rate is None else time_panel(plan, entry, T, s, rate, 1).name
    runs = len([n for _, n in store.known(name, T) if n >= plan.tuning_trials])
    if rate is None or not runs:
        note = f"{UNFINISHED}, no run that counts yet"
        return TimeRow(entry.name, T, s, None, None, None, 0, 0, limit, batch, rate, note)
    cells = run_times(store, name, first=plan.tuning_trials)
    found = solve_times(next(cell for cell in cells if cell.T == T))
    note = "" if runs >= wanted else f"{UNFINISHED}, {runs} of {wanted} runs"
    median, ends = found.median.value, (found.median.low, found.median.high)
    return TimeRow(
        entry.name, T, s, median, *ends, found.solved, found.censored, limit, batch, rate, note
    )
