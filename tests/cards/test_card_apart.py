"""Jobs of a card in processes of their own: the same trials as here, up to rounding."""

import pytest

from capax.cards.measuring import apart
from capax.cards.measuring.apart import goes_apart, in_processes, travels
from capax.cards.measuring.jobs import jobs_of
from capax.cards.protocol.plan import Plan
from capax.learners.names import entry_of
from capax.sweep.running.apart import JobApart
from capax.sweep.running.sharing import Places
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
        yield opened, jobs_of(plan, entries, opened)


def ended(outcomes):
    return {
        o.trial.trial_id: (o.trial.panel, o.trial.m, o.solved, o.runs[0].spec) for o in outcomes
    }


def test_the_same_trials_as_here(store):
    """Both rates, then the search; models so small that no core rounds them otherwise."""
    opened, jobs = store
    job = next(job for job in jobs if job.entry.name == "mlp")
    (again,) = (j for j in jobs_of(*asked(jobs), opened) if (j.entry, j.T) == (job.entry, job.T))
    heard = []
    there = JobApart(job, Places([job.T], 1, {}), heard.append, job.panel_of, apart._COMMAND)
    over_there = ended(there.outcomes())
    assert over_there == ended(again.outcomes())
    assert len({panel for panel, *_ in over_there.values()}) == 3  # scored, two rates
    assert job.finished
    assert len(heard) == 1


def asked(jobs):
    """The plan of these jobs, and the learner that the engine trains."""
    (plan,) = {question.plan for job in jobs for question in job.questions}
    return plan, (entry_of("mlp"),)


def test_only_jobs_of_the_engine_go_apart_and_only_where_several_have_cores(store, monkeypatch):
    opened, jobs = store
    assert {job.entry.name for job in jobs if goes_apart(job)} == {"mlp"}
    assert in_processes(jobs, 2, opened) is not None
    assert in_processes(jobs, 1, opened) is None
    one = [job for job in jobs if job.entry.name == "tree" or job.T == 5]
    assert in_processes(one, 2, opened) is None
    monkeypatch.setattr(apart, "has_gpu", lambda: True)
    assert in_processes(jobs, 2, opened) is None


def test_each_job_of_the_engine_gets_its_own_panels_and_the_cards_own_command(store, monkeypatch):
    opened, jobs = store
    made = []

    class Silent:
        def __init__(self, job, _places, _heard, panel_of, command):
            made.append((job, panel_of == job.panel_of, command[-1]))

        def prepare(self):
            pass

        def outcomes(self, _should_stop):
            return iter(())

    monkeypatch.setattr(apart, "JobApart", Silent)
    ours = [job for job in jobs if job.entry.name == "mlp"]
    assert list(in_processes(jobs, 2, opened)(ours)) == []
    assert made == [(job, True, "capax.cards.measuring.apart") for job in ours]


def fit(X, y):
    """A learner of this file only."""
    del X, y
    return lambda inputs: [0] * len(inputs)


def test_what_lives_in_this_process_stays_in_it():
    assert travels(entry_of("mlp"))
    assert not travels(entry_of(fit, "mine"))
