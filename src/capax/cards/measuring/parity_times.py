"""The time axis of a card: steps to solve a parity of 2, 3 or 4 bits, from fresh samples.

Learners of the engine are trained on batches of `plan.parity_batch` fresh examples, for at most
`plan.parity_steps` steps. At every T and s the first `plan.tuning_trials` trials of every rate
choose the rate: most solved, then fewest steps. They do not count. The `plan.parity_trials` trials
after them do, by the estimator of `capax times`. Other learners have no gradient steps.
"""

from capax.cards.protocol.matched_sizes import sizes
from capax.cards.protocol.plan import Plan
from capax.learners.names import Entry, travels
from capax.sweep.experiments.spec import Panel
from capax.sweep.families.known_families import family_of_entry
from capax.sweep.running.job import Job
from capax.sweep.running.question import PanelQuestion
from capax.sweep.searching.search import GridSearch
from capax.sweep.storage.store import Store

TIMES = "times"
BITS = (2, 3, 4)


def time_panel(plan: Plan, entry: Entry, T: int, s: int, rate: float, trials: int) -> Panel:
    """The settings of `trials` trials of one learner at one rate."""
    budget = f"{plan.parity_steps} steps of {plan.parity_batch}, look every {plan.parity_every}"
    return Panel(
        name=f"{entry.name}: parity{s}, {budget}, lr = {rate:g}",
        T=(T,),
        search=GridSearch(m=(plan.parity_batch,), trials=trials),
        task={
            "function": f"parity{s}",
            "p": 0.5,
            "support": plan.support,
            "reject_ambiguous": False,
            "validation_size": plan.validation_size,
        },
        model={"family": entry.name, **sizes(entry, T)},
        optimiser={"lr": rate},
        training={
            "mode": "online",
            "batch_size": plan.parity_batch,
            "steps": plan.parity_steps,
            "eval_every": plan.parity_every,
            "restarts": 1,
        },
    )


def time_jobs(plan: Plan, entries: tuple[Entry, ...], store: Store, *, scored: bool) -> list[Job]:
    """A job for every learner and T: trials that choose the rates, or (scored) that count."""
    jobs = []
    for T in sorted(plan.T):
        for entry in (entry for entry in entries if entry.in_lanes):
            panels = []
            for s in (s for s in BITS if s <= T):
                chosen = best_rate(plan, entry, T, s, store) if scored else None
                rates = plan.rates if not scored else () if chosen is None else (chosen,)
                trials = plan.tuning_trials + (plan.parity_trials if scored else 0)
                panels += [time_panel(plan, entry, T, s, rate, trials) for rate in rates]
            asked = [PanelQuestion(panel, T, store.known(panel.name, T)) for panel in panels]
            if asked:
                most = sum(question.most_trials for question in asked)
                together = time_panel(plan, entry, T, 2, plan.rates[0], most)  # room for all
                family, moves = family_of_entry(entry), travels(entry)
                jobs.append(Job(asked, family, together, T, travels=moves))
    return jobs


def best_rate(plan: Plan, entry: Entry, T: int, s: int, store: Store) -> float | None:
    """The rate with the most solved tuning trials, then the fewest steps; None before all ended."""
    merits = {}
    for rate in plan.rates:
        rows = store.select(
            "SELECT t.solved, r.steps FROM trials t JOIN runs r USING (trial_id) "
            "WHERE t.panel = ? AND t.T = ? AND t.number < ?",
            time_panel(plan, entry, T, s, rate, 1).name,
            T,
            plan.tuning_trials,
        )
        if len(rows) < plan.tuning_trials:
            return None
        merits[rate] = (sum(row["solved"] for row in rows), -sum(row["steps"] for row in rows))
    return max(merits, key=lambda rate: merits[rate])
