"""A card on a cluster asks for the same trials as here. Ray itself: `tests/sweep/test_cluster`."""

import os
import socket
import types

import pytest

import capax
from capax.cards.measuring.run_card import card_on_ray
from capax.errors import InfeasibleError, InputError
from capax.learners.names import entry_of
from capax.sweep.experiments.spec import Panel
from capax.sweep.families import fit_pool
from capax.sweep.families.known_families import family_of
from capax.sweep.families.simulated import SimulatedFamily
from capax.sweep.running import cluster, pulse
from capax.sweep.running.job import Job
from capax.sweep.running.shipping import files_of, staged
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
        get_runtime_context=lambda: None,
        remote=remote,
        wait=lambda running, num_returns, **_: (running[-num_returns:], running),
        get=lambda result, **_: result.value,
        exceptions=types.SimpleNamespace(
            RayTaskError=KeyError, RayError=LookupError, GetTimeoutError=TimeoutError
        ),
    )


class _Result:
    def __init__(self, value, number):
        self.value, self.number = value, number


def trials(path):
    with Store.read(path) as store:
        rows = store.select("SELECT trial_id, solved FROM trials ORDER BY trial_id")
    return [tuple(row) for row in rows]


def test_the_same_trials_as_here(tmp_path, monkeypatch):
    chunks, started = [], []
    real = fit_pool.FitPool.__init__

    def counted(self, entry, memory, workers):
        started.extend([entry.name] if workers == 1 else [])
        real(self, entry, memory, workers)

    monkeypatch.setattr(fit_pool.FitPool, "__init__", counted)
    monkeypatch.setattr(fit_pool, "_kept", kept := {})
    monkeypatch.setattr(cluster, "_connected", lambda *_: inline_ray(chunks))
    small = {"T": (7,), "m_high": 32, "max_trials": 8, "accuracies": (1.0,), "references": False}
    here = capax.card("version_space", store=tmp_path / "here.sqlite", **small)
    there = capax.card("version_space", store=tmp_path / "ray.sqlite", on="ray", **small)
    assert there.rows[0].m_star == here.rows[0].m_star
    assert trials(tmp_path / "ray.sqlite") == trials(tmp_path / "here.sqlite")
    assert sum(chunks) == len(trials(tmp_path / "here.sqlite")) and len(chunks) > 2
    kept.popitem()[1].__exit__()
    assert len(started) == 1  # the process of the learner stays between tasks


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


def test_a_head_that_is_gone_is_noticed_before_ray_ends_the_process(monkeypatch):
    ray, clock = inline_ray([]), [0.0]
    monkeypatch.setattr(pulse, "time", types.SimpleNamespace(monotonic=lambda: clock[0]))
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        ray.get_runtime_context = lambda: types.SimpleNamespace(gcs_address=address)
        ray.shutdown = print
        watched = pulse.Pulse(ray)
        for clock[0] in (1.0, 100.0):
            watched.check()
    for clock[0] in (101.0, 106.0, 111.0):  # a head may come back, and is asked now and then
        watched.check()
    with pytest.raises(InfeasibleError, match="its head is down") as told:
        for clock[0] in (116.0, 121.0, 126.0):
            watched.check()
    assert told.value.exit_code == 2 and clock[0] < 60 + 100
    ray.get_runtime_context = lambda: None  # `ray://`
    pulse.Pulse(ray).check()


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
    monkeypatch.setattr(cluster, "_connected", lambda *_: ray)
    stops = iter([True])
    assert list(cluster.on_ray()([job], lambda: next(stops))) == []
    assert len(sent) == 12
    assert job.asked == 24  # two trials a task


def test_only_what_the_engine_trains_asks_for_a_part_of_a_gpu(monkeypatch):
    """One GPU on the cluster does not make fitted and simulated learners wait for it."""
    asked, ray = [], inline_ray([])
    ray.cluster_resources = lambda: {"CPU": 2.0, "GPU": 1.0}
    ray.remote = lambda **needs: (
        lambda _: types.SimpleNamespace(
            remote=lambda *a: asked.append((needs, len(a[-1]))) or len(asked)
        )
    )
    monkeypatch.setattr(cluster, "_connected", lambda *_: ray)
    engine, plain = Endless(), Endless()
    engine.family = family_of(Panel(name="p", T=(7,)))
    jobs, stops = [engine, plain], iter([True])
    assert list(cluster.on_ray(gpus=0.25)(jobs, lambda: next(stops))) == []
    on_gpu = [size for needs, size in asked if needs.get("num_gpus") == 0.25]
    on_core = [size for needs, size in asked if needs.get("num_cpus") == 1]
    assert on_gpu == [1024] * 16 and on_core == [2] * 8
    with pytest.raises(InputError, match="gpus: wanted a part of a GPU"):
        cluster.on_ray(gpus=2.0)


def test_files_of_the_user_travel_under_their_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("mine/build.py", "mine/beside.py", "mine/data.npz", "other.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    files = files_of(["tree", "mine/build.py:make", "sklearn.tree.Tree"], ["mine/data.npz"])
    assert {str(path) for path in files} == {"mine/build.py", "mine/beside.py", "mine/data.npz"}
    (there := tmp_path / "there").mkdir()
    assert staged(files, there) == there
    assert (there / "mine/data.npz").read_text() == "mine/data.npz"
    assert files_of([f"{tmp_path}/mine/build.py:make", "../x.py:f"]) == ()
    assert staged((), there) is None


def test_standard_output_is_for_results_alone(capfd):
    """What Ray prints while a worker dies, from Python or below it, goes to standard error."""
    with cluster._stdout_kept():
        print("(raylet) a worker died")
        os.write(1, b"from below\n")
    print("{}")
    said = capfd.readouterr()
    assert said.out == "{}\n" and "from below" in said.err and "a worker died" in said.err
