"""Several sweeps in one queue: what each store holds is what it would hold alone."""

import threading
from contextlib import closing

import pytest
from experiments_for_tests import fields

from capax.errors import InputError
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families import known_families
from capax.sweep.families.simulated import SimulatedFamily, SimulatedLearner
from capax.sweep.running.runner import run_sweep
from capax.sweep.running.several import Sweep, run_sweeps
from capax.sweep.storage.store import Store


@pytest.fixture
def experiments():
    """Two with the same panels and T: only the sweep they belong to tells their trials apart."""
    other = {"family": "simulated", "threshold": 29.0, "growth": 1.0, "spread": 0.2}
    return [build_experiment(fields()), build_experiment(fields(model=other))]


def contents(path):
    with Store.read(path) as store:
        runs = store.select("SELECT run_id, outcome, restart, curves FROM runs ORDER BY run_id")
        trials = store.select("SELECT trial_id, solved FROM trials ORDER BY trial_id")
        return [tuple(r) for r in runs], [tuple(t) for t in trials], store.unfinished()


def alone(folder, experiments):
    for number, experiment in enumerate(experiments):
        with Store.create_or_resume(folder / f"alone{number}.sqlite", experiment) as store:
            run_sweep(experiment, store)
    return [contents(folder / f"alone{number}.sqlite") for number in range(len(experiments))]


def sweeps(folder, experiments, report=lambda _: None):
    return [Sweep(one, folder / f"{n}.sqlite", report) for n, one in enumerate(experiments)]


@pytest.mark.parametrize("jobs_at_once", [1, 3])
def test_each_store_is_as_if_it_were_alone(tmp_path, experiments, jobs_at_once):
    wanted, seen = alone(tmp_path, experiments), []
    for number in run_sweeps(sweeps(tmp_path, experiments, seen.append), jobs_at_once=jobs_at_once):
        assert contents(tmp_path / f"{number}.sqlite") == wanted[number]  # closed, and complete
        assert not list(tmp_path.glob(f"{number}.sqlite?*"))  # neither a log nor a lock
    over = {status.runs for status in seen if status.finished_jobs == status.jobs}
    assert over >= {len(runs) for runs, *_ in wanted}  # either sweep may be the last to report


def test_finished_sweeps_are_handed_out_again_at_once(tmp_path, experiments):
    list(run_sweeps(sweeps(tmp_path, experiments), jobs_at_once=2))
    seen = []
    again = sweeps(tmp_path, experiments, seen.append)
    assert list(run_sweeps(again, jobs_at_once=2)) == [0, 1]
    assert [status.finished_jobs for status in seen] == [3, 3]


def test_who_leaves_early_can_resume(tmp_path, experiments):
    wanted = alone(tmp_path, experiments)
    with closing(run_sweeps(sweeps(tmp_path, experiments), jobs_at_once=2)) as finished:
        next(finished)
    assert not list(tmp_path.glob("*.lock"))
    list(run_sweeps(sweeps(tmp_path, experiments), jobs_at_once=2))
    assert [contents(tmp_path / f"{n}.sqlite") for n in (0, 1)] == wanted


def test_an_error_in_one_is_everybodys(tmp_path, experiments, monkeypatch):
    class Broken(SimulatedFamily):
        def learner(self, panel, T):
            del T
            if panel.model["threshold"] == 13.0:
                return SimulatedLearner()
            raise InputError("the machine broke")

    monkeypatch.setitem(known_families._FAMILIES, "simulated", Broken())
    with pytest.raises(InputError, match="the machine broke"):
        list(run_sweeps(sweeps(tmp_path, experiments), jobs_at_once=2))


def test_an_impossible_sweep_is_refused_before_anything_trains(tmp_path, experiments):
    wrong = build_experiment(fields(task={"function": "and3"}))
    with pytest.raises(InputError, match="a simulated learner has none"):
        list(run_sweeps(sweeps(tmp_path, [experiments[0], wrong])))
    assert contents(tmp_path / "0.sqlite")[0] == []


def test_who_is_finished_already_is_handed_out_while_the_others_train(tmp_path, experiments):
    list(run_sweeps(sweeps(tmp_path, experiments[:1])))
    handed = run_sweeps(sweeps(tmp_path, experiments), jobs_at_once=2)
    with closing(handed):
        assert next(handed) == 0
        assert any(thread.name.startswith("job") for thread in threading.enumerate())
        assert list(handed) == [1]
