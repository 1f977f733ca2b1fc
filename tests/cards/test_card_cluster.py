"""A card on a cluster asks for the same trials as here. Ray itself: `tests/sweep/test_cluster`."""

import types

import pytest

import capax
from capax.cards.measuring.run_card import card_on_ray
from capax.errors import InfeasibleError, InputError
from capax.learners.names import entry_of
from capax.sweep.running import cluster
from capax.sweep.running.job import Job
from capax.sweep.simulated import SimulatedFamily
from capax.sweep.spec import Panel
from capax.sweep.storage.store import Store


def inline_ray(chunks):
    """Ray's interface with tasks that run at once, in this process; notes the size of each."""

    def remote(**_):
        def task(function):
            def start(*arguments):
                chunks.append(len(arguments[-1]))
                return function(*arguments), len(chunks)

            return types.SimpleNamespace(remote=lambda *a: _Result(*start(*a)))

        return task

    return types.SimpleNamespace(
        cluster_resources=dict,
        remote=remote,
        wait=lambda running, num_returns, **_: (running[-num_returns:], running),
        get=lambda result: result.value,
        exceptions=types.SimpleNamespace(RayTaskError=KeyError, RayError=LookupError),
    )


class _Result:
    def __init__(self, value, number):
        self.value, self.number = value, number


def trials(path):
    with Store.read(path) as store:
        rows = store.select("SELECT trial_id, solved FROM trials ORDER BY trial_id")
    return [tuple(row) for row in rows]


def test_the_same_trials_as_here(tmp_path, monkeypatch):
    chunks = []
    monkeypatch.setattr(cluster, "_connected", lambda _: inline_ray(chunks))
    small = {"T": (7,), "m_high": 32, "max_trials": 8, "accuracies": (1.0,), "references": False}
    here = capax.card("version_space", store=tmp_path / "here.sqlite", **small)
    there = capax.card("version_space", store=tmp_path / "ray.sqlite", on="ray", **small)
    assert there.rows[0].m_star == here.rows[0].m_star
    assert trials(tmp_path / "ray.sqlite") == trials(tmp_path / "here.sqlite")
    assert sum(chunks) == len(trials(tmp_path / "here.sqlite"))
    assert max(chunks) > 2  # a process starts once for several fits


def fit(X, y):
    """A learner of this file only."""
    del X, y
    return lambda inputs: [0] * len(inputs)


def test_what_lives_in_this_process_cannot_travel():
    with pytest.raises(InputError, match="--on ray: wanted learners by name"):
        card_on_ray((entry_of(fit, "mine"),))


def test_a_cluster_that_is_gone_is_a_refusal_in_one_line():
    """Not exit code 1, which says that the answer is no, and not a mistake of ours."""
    ray = inline_ray([])

    def gone(*_, **__):
        raise LookupError("the head\nis dead")

    with pytest.raises(InfeasibleError, match="the cluster does not answer") as told:
        cluster._heard(ray, gone, [])
    assert told.value.exit_code == 2
    assert "\n" not in str(told.value)


class Endless(Job):
    """A job with more trials than anybody should be asked for at once."""

    def __init__(self):
        super().__init__((), SimulatedFamily(), Panel(name="p", T=(7,)), 7)
        self.asked = 0

    def take(self):
        self.asked += 1
        return object()

    def record(self, outcome):
        del outcome


def test_only_so_many_tasks_are_in_flight(monkeypatch):
    sent, job = [], Endless()
    ray = inline_ray([])
    ray.cluster_resources = lambda: {"CPU": 3.0}
    ray.remote = lambda **_: (
        lambda _: types.SimpleNamespace(remote=lambda *a: sent.append(a) or len(sent))
    )
    monkeypatch.setattr(cluster, "_connected", lambda _: ray)
    stops = iter([True])
    assert list(cluster.on_ray()([job], lambda: next(stops))) == []
    assert len(sent) == 12
    assert job.asked == 24  # two trials a task
