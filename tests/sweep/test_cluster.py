"""Ray: the same runs as on one machine, also when a worker dies in the middle."""

import importlib.util
import os
import time
import warnings

import psutil
import pytest

from capax.errors import InputError
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.store import Store

ray_is_missing = importlib.util.find_spec("ray") is None
pytestmark = pytest.mark.skipif(ray_is_missing, reason="the extra capax[ray] is not installed")

FIELDS = {
    "name": "cluster",
    "model": {"family": "simulated", "threshold": 20.0, "seconds": 0.03},
    "training": {"restarts": 2},
    "panels": {
        "threshold": {
            "T": [10, 30],
            "search": {"m_low": 8, "m_high": 99, "batch": 9, "min_trials": 18, "max_trials": 18},
        }
    },
    "scales": {"quick": {}},
}


def contents(store):
    runs = store.select("SELECT run_id, outcome FROM runs ORDER BY run_id")
    return [tuple(row) for row in runs]


def kill_a_worker(driver):
    """SIGKILL one of our cluster's processes that trains right now; whether there was one."""
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if words[0].startswith("ray::run_chunk") and f"capax_{driver}" in process.environ():
            process.kill()
            return True
    return False


def test_a_worker_that_dies_only_delays_its_chunk(tmp_path, monkeypatch):
    """A worker process is killed while another works on. Nodes: `benchmarks/kills_on_ray.py`."""
    monkeypatch.setenv(mark := f"capax_{os.getpid()}", "1")  # inherited by our own workers
    monkeypatch.setenv("RAY_worker_niceness", "0")  # behind nobody on a busy machine
    from ray.cluster_utils import Cluster

    from capax.sweep.running.cluster import run_on_ray

    experiment = build_experiment(FIELDS)
    with monkeypatch.context() as here:
        here.setattr(time, "sleep", lambda _: None)  # what runs here need not take its time
        with Store.create_or_resume(tmp_path / "here.sqlite", experiment) as store:
            run_sweep(experiment, store)
            expected = contents(store)
    killed = []

    def report(status):
        if status.trials >= 4 and not killed and kill_a_worker(os.getpid()):
            killed.append(status.trials)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = {"num_cpus": 2, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=alone)
        try:
            with Store.create_or_resume(tmp_path / "ray.sqlite", experiment) as store:
                run_on_ray(experiment, store, address=cluster.address, report=report)
                assert killed and contents(store) == expected, mark
        finally:
            import ray

            ray.shutdown()
            cluster.shutdown()


def test_no_cluster_at_the_address(tmp_path, experiment):
    from capax.sweep.running.cluster import run_on_ray

    with (
        Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store,
        pytest.raises(InputError, match="address: no Ray cluster at"),
    ):
        run_on_ray(experiment, store, address="nowhere")
