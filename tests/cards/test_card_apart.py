"""Jobs of a card in processes of their own: the same trials as here, up to rounding."""

import pytest

import capax
from capax.cards.measuring import apart
from capax.cards.measuring.apart import goes_apart, in_processes, travels
from capax.cards.measuring.jobs import jobs_of
from capax.cards.protocol.plan import Plan
from capax.learners.names import entry_of
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
    "references": False,
}


def trials(path):
    with Store.read(path) as store:
        rows = store.select(
            "SELECT trial_id, panel, T, m, number, solved, steps, r.spec FROM trials "
            "JOIN runs r USING (trial_id) ORDER BY trial_id"
        )
    return [tuple(row) for row in rows]


def test_the_same_trials_as_here(tmp_path):
    """Both rates and two T; models so small that no core rounds them otherwise."""
    for name, at_once in (("here", 1), ("apart", 2)):
        capax.card("mlp", store=tmp_path / name, at_once=at_once, **SMALL)
    assert trials(tmp_path / "here") == trials(tmp_path / "apart")
    assert len({panel for _, panel, *_ in trials(tmp_path / "apart")}) == 3  # scored, two rates


@pytest.fixture
def store(tmp_path):
    plan = Plan(**{k: v for k, v in SMALL.items() if k != "references"})
    entries = (entry_of("mlp"), entry_of("tree"))
    with Store.create_or_resume(tmp_path / "s", plan.experiment(entries)) as opened:
        yield opened, jobs_of(plan, entries, opened)


def test_only_jobs_of_the_engine_go_apart_and_only_where_several_have_cores(store, monkeypatch):
    opened, jobs = store
    assert {job.entry.name for job in jobs if goes_apart(job)} == {"mlp"}
    assert in_processes(jobs, 2, opened) is not None
    assert in_processes(jobs, 1, opened) is None
    one = [job for job in jobs if job.entry.name == "tree" or job.T == 5]
    assert in_processes(one, 2, opened) is None
    monkeypatch.setattr(apart, "has_gpu", lambda: True)
    assert in_processes(jobs, 2, opened) is None


def fit(X, y):
    """A learner of this file only."""
    del X, y
    return lambda inputs: [0] * len(inputs)


def test_what_lives_in_this_process_stays_in_it():
    assert travels(entry_of("mlp"))
    assert not travels(entry_of(fit, "mine"))
