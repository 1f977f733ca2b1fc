"""Sweeps in processes: the same outcomes, whatever happens to a process."""

import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from capax.errors import InfeasibleError, InputError
from capax.sweep.families.known_families import family_of
from capax.sweep.running import apart, other_end, sharing
from capax.sweep.running.apart import LearnerApart
from capax.sweep.running.runner import run_sweep
from capax.sweep.running.sharing import Share, Shares, divided_cores, multi_process_service
from capax.sweep.storage.store import Store
from capax.sweep.trial import Outcome, Run, Trial


@pytest.fixture
def warm(warm_commands, monkeypatch):
    """The real other end, without the seconds of its imports."""
    monkeypatch.setattr(apart, "_COMMAND", warm_commands.main_of("capax.sweep.running.other_end"))
    monkeypatch.setenv("JAX_ENABLE_X64", "0")
    return apart._COMMAND


@pytest.fixture
def speaking(monkeypatch):
    """Instead of the real other end: a script."""

    def replaced(script):
        monkeypatch.setattr(apart, "_COMMAND", (sys.executable, "-c", script))

    return replaced


def outcomes(path, experiment, **settings):
    with Store.create_or_resume(path, experiment) as store:
        run_sweep(experiment, store, **settings)
        query = "SELECT trial_id, T, m, number, solved FROM trials ORDER BY trial_id"
        runs = store.select("SELECT run_id, outcome, steps, curves FROM runs ORDER BY run_id")
        session = store.select("SELECT versions FROM sessions")
        return [tuple(r) for r in (*store.select(query), *runs)], [tuple(r) for r in session]


def one(experiment):
    panel = experiment.panels[0]
    trial = family_of(panel).trial(panel, 7, 40, 0)
    return panel, trial


def learned(panel, trials, place=None):
    return list(LearnerApart(panel, 7, place or Share())(iter(trials)))


def test_processes_give_what_threads_give(tmp_path, experiment):
    there, session = outcomes(
        tmp_path / "there.sqlite", experiment, jobs_at_once=2, in_processes=True
    )
    here, _ = outcomes(tmp_path / "here.sqlite", experiment)
    assert there == here
    assert len(here) > 30
    assert json.loads(session[0][0])["device"] == "none"  # told by the process that trained


@pytest.mark.usefixtures("warm")
def test_a_process_waits_for_the_next_job_on_its_cores(experiment):
    """Another panel and T, the same process; none of a job that failed, or with a part of a GPU."""
    panel, trial = one(experiment)
    far = family_of(panel).trial(panel, 31, 50, 1)
    with apart.Others() as others:
        (first,) = LearnerApart(panel, 7, Share(), others=others)(iter([trial]))
        (process,) = (other._process for other in others._waiting)
        (second,) = LearnerApart(panel, 31, Share(), others=others)(iter([far]))
        assert [other._process for other in others._waiting] == [process]
        assert others.take(Share(cores=(0,))) is None
        gone = LearnerApart(panel, 7, Share(), others=others)(iter([trial, None]))
        next(gone)
        gone.close()
        assert not others._waiting and process.poll() is not None
        on_gpu = Share(settings={"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5"})
        list(LearnerApart(panel, 7, on_gpu, others=others)(iter([trial])))
        assert not others._waiting
    here = [next(family_of(panel).learner(panel, t.T)(iter([t]))) for t in (trial, far)]
    assert [first.solved, second.solved] == [outcome.solved for outcome in here]
    assert (first.trial, second.trial) == (trial, far)


def test_a_run_survives_the_way():
    run = Run(
        "r", 1, "failed", None, 30, 0.1, {"T": 7}, {"loss": [0.1, math.nan]}, "p", "", b"\x00\xff"
    )
    trial = Trial("panel", 7, 11, 3, "id", None)
    sent = json.loads(json.dumps(other_end._plain(Outcome(trial, False, (run,), "why"))))
    back = apart._outcome(trial, sent)
    assert (back.trial, back.solved, back.reason) == (trial, False, "why")
    (got,) = back.runs
    assert repr(got) == repr(run)


@pytest.mark.parametrize(
    ("said", "kind"),
    [("wrong", InputError), ("infeasible", InfeasibleError), ("failed", RuntimeError)],
)
def test_what_goes_wrong_there_is_raised_here(experiment, speaking, said, kind):
    panel, trial = one(experiment)
    speaking(f'import sys; print(\'{{"{said}": "T: so it is"}}\'); sys.stdin.read()')
    with pytest.raises(kind, match="T: so it is"):
        learned(panel, [trial])


def test_a_process_that_dies_stops_its_T_alone(tmp_path, experiment, warm, speaking):
    """The others go on, the note says what happened, and the same sweep is finished later."""
    dies = f"""
import os, subprocess, sys
line = sys.stdin.readline()
if '"T": 31' in line:
    print("out of luck", file=sys.stderr)
    os._exit(3)
child = subprocess.Popen({list(warm)!r}, stdin=subprocess.PIPE, text=True)
child.stdin.write(line)
for line in sys.stdin:
    child.stdin.write(line)
    child.stdin.flush()
child.stdin.close()
child.wait()
"""
    speaking(dies)
    path = tmp_path / "s.sqlite"
    with Store.create_or_resume(path, experiment) as store:
        run_sweep(experiment, store, jobs_at_once=3, in_processes=True)
        (left,) = store.unfinished()
        assert (left.T, left.note) == (
            31,
            "stopped: the process of T = 31 ended (exit code 3): out of luck",
        )
    found, _ = outcomes(path, experiment)
    assert found == outcomes(tmp_path / "other.sqlite", experiment)[0]


def test_without_the_service_if_it_does_not_work_with_it(experiment, warm, speaking):
    panel, trial = one(experiment)
    picky = "import os, sys; 'CUDA_MPS_PIPE_DIRECTORY' in os.environ and sys.exit(1);"
    speaking(f"{picky} os.execvp({warm[0]!r}, {list(warm)!r})")
    place = Share(settings={"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"})
    assert len(learned(panel, [trial], place)) == 1


def test_places_share_memory_by_length(monkeypatch):
    monkeypatch.setattr(sharing, "has_gpu", lambda: True)
    lengths = (100_000, 30_000, 1000, 100)
    places = Shares(lengths, 3, {"CUDA_MPS_PIPE_DIRECTORY": "p"})
    parts = {}
    for T in lengths:
        with places.one(T) as place:
            parts[T] = float(place.settings["XLA_PYTHON_CLIENT_MEM_FRACTION"])
            assert place.settings["CUDA_MPS_PIPE_DIRECTORY"] == "p"
            assert "CUDA_MPS_PIPE_DIRECTORY" not in place.alone.settings
    assert sum(sorted(parts.values())[-3:]) == pytest.approx(0.92, abs=1e-3)
    assert parts[100_000] > parts[30_000] > parts[1000] == parts[100] > 0.01


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="macOS")
def test_cores_are_divided_where_they_go_round(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {2, 3, 5, 7, 11})
    assert divided_cores(2) == [(2, 5, 11), (3, 7)]
    assert divided_cores(6) == [(2, 3, 5, 7, 11)] * 6


def test_the_service_is_started_and_ended(tmp_path, monkeypatch):
    log, control = tmp_path / "log", tmp_path / "nvidia-cuda-mps-control"
    control.write_text(f'#!/bin/sh\necho "$CUDA_MPS_PIPE_DIRECTORY $1 $(cat)" >> {log}\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(sharing, "has_gpu", lambda: True)
    with multi_process_service() as shared:
        folder = shared["CUDA_MPS_PIPE_DIRECTORY"]
        assert Path(folder).is_dir()
    assert log.read_text().split() == [folder, "-d", folder, "quit", "-t", "2"]
    control.write_text("#!/bin/sh\nexit 1\n")
    with multi_process_service() as shared:
        assert shared == {}
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "theirs")
    with multi_process_service() as shared:
        assert shared == {}


@pytest.mark.usefixtures("warm")
def test_a_different_seed_is_a_different_panel_there(experiment):
    """The panel goes over whole: what it says about itself counts there as here."""
    panel, trial = one(experiment)
    (first,) = learned(panel, [trial])
    other = panel.model_copy(update={"seed": 5})
    moved = family_of(other).trial(other, 7, 40, 0)
    assert moved.trial_id != trial.trial_id
    (second,) = learned(other, [moved])
    assert first.runs[0].run_id != second.runs[0].run_id
    assert replace(first.trial, spec=None) == replace(trial, spec=None)


def test_a_card_has_a_job_for_each_core_up_to_eight_or_one_on_a_gpu(monkeypatch):
    for cores, jobs in ((1, 1), (2, 2), (64, 8)):
        monkeypatch.setattr(sharing, "num_cores", lambda cores=cores: cores)
        monkeypatch.setattr(sharing, "has_gpu", lambda: False)
        assert sharing.one_for_each_core() == jobs
        monkeypatch.setattr(sharing, "has_gpu", lambda: True)
        assert sharing.one_for_each_core() == 1
