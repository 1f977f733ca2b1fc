"""Sweeps: resumed, spread over threads or not, they ask for the same runs."""

import itertools

import pytest

from capax.errors import InputError
from capax.sweep.families import known_families
from capax.sweep.families.simulated import SimulatedFamily, SimulatedLearner
from capax.sweep.running import runner
from capax.sweep.running.job import jobs_of
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store


def contents(store):
    runs = store.select("SELECT run_id, outcome, restart FROM runs ORDER BY run_id")
    trials = store.select("SELECT trial_id, solved FROM trials ORDER BY trial_id")
    return [tuple(r) for r in runs], [tuple(t) for t in trials]


def sweep(path, experiment, **options):
    with Store.create_or_resume(path, experiment) as store:
        status = run_sweep(experiment, store, **options)
        return contents(store), status


def test_all_jobs_are_done_and_told(tmp_path, experiment):
    seen = []
    (runs, trials), status = sweep(tmp_path / "a.sqlite", experiment, report=seen.append)
    assert status.finished_jobs == status.jobs == 3
    assert status.trials == status.most_trials == len(trials) == len(seen) - 1
    assert status.runs == len(runs) >= len(trials)
    assert status.solved == sum(solved for _, solved in trials)
    assert status.running == 0
    assert [s.trials for s in seen] == list(range(len(trials) + 1))


def test_threads_change_nothing(tmp_path, experiment):
    one, _ = sweep(tmp_path / "a.sqlite", experiment)
    many, _ = sweep(tmp_path / "b.sqlite", experiment, jobs_at_once=3)
    assert one == many


def test_running_again_does_nothing(tmp_path, experiment):
    first, _ = sweep(tmp_path / "a.sqlite", experiment)
    seen = []
    second, status = sweep(tmp_path / "a.sqlite", experiment, report=seen.append)
    assert first == second and len(seen) == 1 and status.finished_jobs == 3


class Flaky:
    """A family whose learner breaks after some trials."""

    def __init__(self, after):
        self.after = after
        self.real = SimulatedFamily()

    def trial(self, panel, T, m, index):
        return self.real.trial(panel, T, m, index)

    def prepare(self, panel, T):
        raise RuntimeError(f"cannot prepare {panel.name} at {T}")  # must not matter

    def learner(self, panel, T):
        del panel, T

        def run(trials):
            yield from itertools.islice(SimulatedLearner()(trials), self.after)
            raise RuntimeError("the machine broke")

        return run


@pytest.mark.parametrize("jobs_at_once", [1, 3])
def test_what_was_finished_before_a_crash_is_not_repeated(
    tmp_path, experiment, monkeypatch, jobs_at_once
):
    whole, _ = sweep(tmp_path / "a.sqlite", experiment)
    monkeypatch.setitem(known_families._FAMILIES, "simulated", Flaky(5))
    with pytest.raises(RuntimeError, match="the machine broke"):
        sweep(tmp_path / "b.sqlite", experiment, jobs_at_once=jobs_at_once)
    monkeypatch.undo()
    with Store.create_or_resume(tmp_path / "b.sqlite", experiment) as store:
        (_, before) = contents(store)
        assert 5 <= len(before) < len(whole[1])
        assert sum(j.questions[0].progress.counts.trials for j in jobs_of(experiment, store)) >= 5
        run_sweep(experiment, store)
        assert contents(store) == whole


def test_a_learner_that_drops_trials_is_noticed(tmp_path, experiment, monkeypatch):
    class Lazy(SimulatedFamily):
        def learner(self, panel, T):
            del panel, T
            return lambda _: iter(())

    monkeypatch.setitem(known_families._FAMILIES, "simulated", Lazy())
    with pytest.raises(InputError, match="left trials unfinished"):
        sweep(tmp_path / "a.sqlite", experiment)


def test_nobody_divides_the_machine_among_more_processes_than_there_are_jobs(
    tmp_path, experiment, monkeypatch
):
    """`--jobs 2147483648` is a way to say: all at once."""
    asked = []
    monkeypatch.setattr(runner, "Shares", lambda _, at_once, __: asked.append(at_once))
    monkeypatch.setattr(runner, "concurrently", lambda works, at_once, _: [at_once, len(works)])
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        jobs = jobs_of(experiment, store)
        way = runner.in_other_processes(2**31, store)
        assert [*way(jobs, lambda: False)] == [len(jobs), len(jobs)] and asked == [len(jobs)]
        assert [*way([], lambda: False)] == [1, 0]
