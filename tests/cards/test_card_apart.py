"""Jobs of a card in processes of their own: the same trials as here, up to rounding."""

import pytest

from capax.cards.measuring import run_card as measuring
from capax.cards.measuring.card_jobs import card_jobs
from capax.cards.protocol.plan import Plan
from capax.learners.names import entry_of, travels
from capax.sweep.running import apart
from capax.sweep.running.apart import outcomes_apart
from capax.sweep.running.sharing import Shares
from capax.sweep.storage.store import Store

SMALL = {
    "T": (5, 7),
    "m_high": 16,
    "max_trials": 8,
    "accuracies": (1.0,),
    "rates": (1e-3, 1e-2),
    "tuning_trials": 1,
    "steps": 40,
    "eval_every": 20,
    "validation_size": 64,
}


@pytest.fixture
def store(tmp_path):
    plan = Plan(**SMALL)
    entries = (entry_of("mlp"), entry_of("tree"))
    with Store.create_or_resume(tmp_path / "s", plan.experiment(entries)) as opened:
        yield opened, plan, card_jobs(plan, entries, opened)


def ended(outcomes):
    return {
        o.trial.trial_id: (o.trial.panel, o.trial.m, o.solved, o.runs[0].spec) for o in outcomes
    }


def test_the_same_trials_as_here(store, warm_commands, monkeypatch):
    """Both rates, then the search; models so small that no core rounds them otherwise."""
    monkeypatch.setattr(apart, "_COMMAND", warm_commands.main_of("capax.sweep.running.other_end"))
    monkeypatch.setenv("JAX_ENABLE_X64", "0")
    opened, plan, jobs = store
    job = next(job for job in jobs if job.travels)
    again = next(j for j in card_jobs(plan, (entry_of("mlp"),), opened) if j.T == job.T)
    heard = []
    over_there = ended(outcomes_apart(job, Shares([job.T], 1, {}), heard.append, lambda: False))
    assert over_there == ended(again.outcomes())
    assert len({panel for panel, *_ in over_there.values()}) == 3  # scored, two rates
    assert job.finished
    assert len(heard) == 1


def test_only_jobs_of_the_engine_go_apart_and_only_where_several_have_cores(store, monkeypatch):
    opened, _, jobs = store
    assert {job.panel.family for job in jobs if job.travels} == {"mlp"}
    there, here = (lambda *_: iter(())), (lambda *_: iter(()))
    monkeypatch.setattr(measuring, "in_other_processes", lambda *_: there)
    monkeypatch.setattr(measuring, "in_threads", lambda _: here)
    assert measuring._here(jobs, 2, opened) is there
    assert measuring._here(jobs, 1, opened) is here
    one = [job for job in jobs if not job.travels or job.T == 5]
    assert measuring._here(one, 2, opened) is here
    monkeypatch.setattr(measuring, "has_gpu", lambda: True)
    assert measuring._here(jobs, 2, opened) is here


def fit(X, y):
    """A learner of this file only."""
    del X, y
    return lambda inputs: [0] * len(inputs)


def mlp(X, y):
    """A learner of this file with a name of the zoo."""
    return fit(X, y)


def test_a_learner_that_lives_in_this_process_stays_in_it():
    assert travels(entry_of("mlp"))
    assert not travels(entry_of(fit, "mine"))
    assert not travels(entry_of(mlp))
    assert entry_of(mlp) != entry_of("mlp")
