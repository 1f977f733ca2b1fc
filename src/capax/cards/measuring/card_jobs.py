"""The jobs of a card: questions about one learner, answered in one call of the learner."""

from typing import Any

from capax.cards.measuring.card_question import CardQuestion, rates_of
from capax.cards.measuring.looks import stored_looks, tuning_name
from capax.cards.protocol.plan import BRIEF, SLOW, Plan
from capax.cards.protocol.targets import target_of
from capax.learners.names import Entry, travels
from capax.sweep.families.known_families import family_of_entry
from capax.sweep.running.job import Job
from capax.sweep.storage.store import Store
from capax.training.specs.trial_specs import MAX_POOLS


def card_jobs(plan: Plan, entries: tuple[Entry, ...], store: Store) -> list[Job]:
    """All jobs, each with its outcomes in the store; cheap and informative ones first.

    In the engine a job has the questions of one learner at one T and one p. On a grid it has up to
    `MAX_POOLS` values of p, in the order of the targets: more trials share each step.
    """
    groups: dict[tuple[Any, ...], list[CardQuestion]] = {}
    for T in plan.T:
        for target in plan.targets:
            for entry in entries:
                if plan.asks(entry, target, T):
                    found = question_of(plan, entry, target, T, store)
                    groups.setdefault(_group(plan, found), []).append(found)
    for questions in groups.values():
        questions.sort(key=lambda q: (q.target != plan.targets[0], q.T))
    return [_job(plan, groups[key]) for key in sorted(groups)]


def _job(plan: Plan, questions: list[CardQuestion]) -> Job:
    first = questions[0]
    panel = first.at(next(iter(rates_of(plan, first.entry)), None))
    moves = first.entry.in_lanes and travels(first.entry)
    return Job(questions, family_of_entry(first.entry), panel, first.T, travels=moves)


def question_of(plan: Plan, entry: Entry, target: str, T: int, store: Store) -> CardQuestion:
    """A question with all its trials in the store. One that has trials begins at once: if it needs
    no more of them, its job starts no process and compiles nothing."""
    name = plan.panel(entry, target).name
    rates = rates_of(plan, entry)
    tuning = {rate: stored_looks(store, tuning_name(name, rate), T) for rate in rates}
    found = CardQuestion(plan, entry, target, T, stored_looks(store, name, T), tuning)
    if found.num_done:
        found.begin()
    return found


def _group(plan: Plan, asked: CardQuestion) -> tuple[Any, ...]:
    """Questions with the same key share a job; jobs come in the order of their keys.

    The first target before the others; slow learners come last where T is large, most of all those
    that take T steps in a row. Not so on a grid, where the whole set is wanted from a machine that
    trains many at once: there all targets come together, and the largest T first, or the machine
    would wait for it at the end.
    A learner outside the engine has one job: its processes start once. At every T the learners with
    short jobs come last: a long job at the end would leave other cores idle.
    """
    entry, T = asked.entry, asked.T
    if not entry.in_lanes:
        return False, False, False, 0, False, entry.name, 0.0
    p = target_of(asked.target).p
    if plan.design == "grid":
        all_p = list(dict.fromkeys(target_of(target).p for target in plan.targets))
        return True, False, False, -T, False, entry.name, all_p.index(p) // MAX_POOLS
    long, recurrent = entry.name in SLOW and T > 100, entry.name in ("lstm", "gru")
    others, brief = asked.target != plan.targets[0], entry.name in BRIEF
    return long, others, recurrent, T, brief, entry.name, p
