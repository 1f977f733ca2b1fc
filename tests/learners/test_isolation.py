"""A wall around the user's code: what it does wrong fails one fit, with the reason."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from capax.learners.adapters import Setting
from capax.learners.isolation import Isolated
from capax.learners.stopwatch import Stopwatch

BAD = Path(__file__).parent / "bad_learners.py"
X = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 1]], np.uint8)
y = np.array([1, 0, 1, 1, 0], np.uint8)


def fitted(name, seconds=20.0, memory=2 << 30):
    with Isolated(f"{BAD}:{name}", seconds=seconds, memory_bytes=memory) as workshop:
        return workshop.attempt(Setting(T=3), X, y, X, 1)


def test_a_good_learner_answers_and_may_print():
    assert fitted("majority").answers.tolist() == [[True] * 5]
    assert fitted("prints").answers.tolist() == [[False] * 5]
    assert fitted("build").reason == ""


@pytest.mark.parametrize(
    "name, said",
    [
        ("nan", "NaN in 5 of 5 answers"),
        ("wrong_shape", "got an array of shape (5, 3)"),
        ("logits", "got values from -2 to 3"),
        ("not_a_predictor", "wanted a predictor from fit, got int"),
        ("dies", "its process ended without an answer (exit code 3)"),
        ("leaves", "SystemExit"),
        ("absent", "has no 'absent'"),
    ],
)
def test_each_misdeed_is_a_reason(name, said):
    made = fitted(name)
    assert said in made.reason
    assert made.diverged == (name == "nan")
    assert made.answers.size == 0


@contextmanager
def one_busy_core():
    """Three others that never rest, on the core that this process is bound to."""
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(3)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


@pytest.fixture
def bound():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no cores")
def test_to_wait_for_a_core_is_not_the_learners_time(bound):
    """Work of 0.3 s takes more than a limit of 0.6 s by the clock; a minute of it is too long."""
    del bound
    with Isolated(f"{BAD}:works", seconds=0.6, memory_bytes=2 << 30) as workshop:
        assert workshop.attempt(Setting(T=3), X, y, X, 0).reason == ""  # it has started
        with one_busy_core():
            made = workshop.attempt(Setting(T=3), X, y, X, 3)
            assert made.reason == ""
            assert made.seconds > 0.6
            workshop.seconds = 0.2
            assert "time limit of 0.2 s" in workshop.attempt(Setting(T=3), X, y, X, 600).reason


def test_a_process_that_is_gone_is_timed_by_the_clock():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    watch = Stopwatch(process.pid)
    time.sleep(0.05)
    assert watch.look() >= 0.05


def test_limits_are_kept_and_the_next_fit_gets_a_new_process():
    with Isolated(f"{BAD}:hangs", seconds=0.5, memory_bytes=2 << 30) as workshop:
        for _ in range(2):
            made = workshop.attempt(Setting(T=3), X, y, X, 1)
            assert made.reason == "took more than the time limit of 0.5 s for one fit"
    assert "memory limit of 0.25 GiB" in fitted("eats_memory", memory=1 << 28).reason
