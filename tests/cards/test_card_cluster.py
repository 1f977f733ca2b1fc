"""A card on a cluster asks for the same trials as here. Ray itself: `tests/sweep/test_cluster`."""

import types

import pytest

import capax
from capax.cards.measuring.run_card import card_on_ray
from capax.errors import InputError
from capax.learners.names import entry_of
from capax.sweep.running import cluster
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
        exceptions=types.SimpleNamespace(RayTaskError=RuntimeError),
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
