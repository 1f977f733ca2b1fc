"""A wall around the user's code: what it does wrong fails one fit, with the reason."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from capax.errors import InputError
from capax.learners import fit_clock, isolation
from capax.learners import time_limit as time_limits
from capax.learners.fit_clock import FitClock
from capax.learners.fitting import attempt
from capax.learners.isolation import Isolated
from capax.learners.names import entry_of
from capax.learners.setting import Setting

BAD = Path(__file__).parent / "bad_learners.py"
X = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 0], [0, 0, 1]], np.uint8)
y = np.array([1, 0, 1, 1, 0], np.uint8)


def fitted(name, seconds=20.0, memory=2 << 30):
    with Isolated(f"{BAD}:{name}", seconds=seconds, memory_bytes=memory) as workshop:
        return workshop.attempt(Setting(T=3), X, y, X, 1)


def test_a_good_learner_answers_and_may_print():
    """The next fit meets the same process; one that died is replaced."""
    with Isolated(f"{BAD}:majority", seconds=20.0, memory_bytes=2 << 30) as workshop:
        processes = []
        for _ in range(3):
            assert workshop.attempt(Setting(T=3), X, y, X, 1).answers.tolist() == [[True] * 5]
            processes.append(workshop._process)
            if len(processes) == 2:
                workshop._process.kill()
                workshop._process.wait()
    assert processes[0] is processes[1] is not processes[2]
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
    """Another process that never rests, on the core that this one is bound to.

    It is a session of its own, as a learner's process is: Linux may share a core among sessions,
    and a session that is busy on other cores too gets less than half of this one.
    """
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


@pytest.fixture
def bound():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system binds no cores")
def test_to_wait_for_a_core_is_not_the_learners_time(bound):
    """Work of 0.4 s takes more than a limit of 0.6 s by the clock; a minute of it is too long."""
    del bound
    with Isolated(f"{BAD}:works", seconds=0.6, memory_bytes=2 << 30) as workshop:
        assert workshop.attempt(Setting(T=3), X, y, X, 0).reason == ""  # it has started
        with one_busy_core():
            made = workshop.attempt(Setting(T=3), X, y, X, 4)
            assert made.reason == ""
            assert made.seconds > 0.6
            workshop.seconds = 0.2
            assert "time limit of 0.2 s" in workshop.attempt(Setting(T=3), X, y, X, 600).reason


class Told:
    """A process as psutil sees it: what it does, and its seconds on cores."""

    def __init__(self, status, used):
        self.status, self.used = lambda: status, used

    def oneshot(self):
        return nullcontext()

    def cpu_times(self):
        return SimpleNamespace(user=0.75 * self.used, system=0.25 * self.used)


@pytest.mark.parametrize(
    "platform, seen, counts",
    [
        ("linux", [("running", 0.0), ("running", 1.0)], 1.0),  # it got a second in ten
        ("linux", [("running", 0.0), ("running", 9.0)], 9.0),
        ("linux", [("running", 0.0), ("running", 35.0)], 10.0),  # four threads: never above ten
        ("linux", [("running", 0.0), ("running", 0.0)], 0.5),  # nothing at all: not for ever
        ("linux", [("sleeping", 0.0), ("sleeping", 0.0)], 10.0),
        ("linux", [("running", 0.0), ("disk-sleep", 1.0)], 10.0),
        ("linux", [("running", 3.0), None], 10.0),  # gone
        ("darwin", [("running", 0.0), ("running", 1.0)], 10.0),  # says so of those that sleep, too
    ],
)
def test_which_seconds_count(monkeypatch, platform, seen, counts):
    """Ten seconds between two looks."""

    def process(_):
        told = looks.pop(0)
        if told is None:
            raise psutil.NoSuchProcess(1)
        return Told(*told)

    looks, clock = list(seen), iter([100.0, 110.0])
    monkeypatch.setattr(fit_clock.psutil, "Process", process)
    monkeypatch.setattr(fit_clock.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(fit_clock.sys, "platform", platform)
    assert FitClock(1).look() == pytest.approx(counts)


@pytest.mark.parametrize(("resident", "ended"), [(50, False), (51, True)])
def test_a_workshop_that_keeps_half_of_its_memory_is_replaced(monkeypatch, resident, ended):
    workshop, closed = Isolated("mine.py:fit", seconds=1.0, memory_bytes=100), []
    head = {"shape": [1, 2], "reason": "", "diverged": False, "seconds": 0.25}
    monkeypatch.setattr(workshop, "_ask", lambda *_: None)
    monkeypatch.setattr(workshop, "_answer", lambda: (head, b"\x01\x00"))
    monkeypatch.setattr(workshop, "_resident", lambda: resident)
    monkeypatch.setattr(workshop, "close", lambda: closed.append(True))
    made = workshop.attempt(Setting(T=3), X, y, X, 1)
    assert made.answers.tolist() == [[True, False]] and made.seconds == 0.25
    assert bool(closed) == ended


@pytest.mark.parametrize(
    ("took", "resident", "reason"),
    [(3.0, 100, None), (3.1, 100, "time limit of 3 s for one fit"), (3.0, 101, "memory limit")],
)
def test_limits_are_passed_by_more_than_them(monkeypatch, took, resident, reason):
    workshop = Isolated("mine.py:fit", seconds=3.0, memory_bytes=100)
    pipe = Path(os.devnull).open("rb")  # noqa: SIM115
    workshop._process = SimpleNamespace(pid=1, stdout=pipe)
    ready = iter([([],), ([1],)])  # one glance, then the answer
    monkeypatch.setattr(isolation.select, "select", lambda *_: next(ready))
    monkeypatch.setattr(isolation, "FitClock", lambda _: SimpleNamespace(look=lambda: took))
    monkeypatch.setattr(workshop, "_resident", lambda: resident)
    ends = nullcontext() if reason is None else pytest.raises(isolation._Overrun, match=reason)
    with pipe, ends:
        workshop._wait(3.0, "for one fit")


def test_an_alarm_in_this_process_ticks_and_asks(monkeypatch):
    """Every 0.2 s, or at the limit where that comes first; what `check` raises ends the block."""
    set_to, real = [], time_limits.signal.setitimer
    monkeypatch.setattr(
        time_limits.signal, "setitimer", lambda *a: (set_to.append(a[1:]), real(*a))[1]
    )
    for seconds, first in ((0.05, 0.05), (60.0, 0.2)):
        with time_limits.time_limit(seconds):
            pass
        assert set_to[-2:] == [(first, 0.2), (0,)]

    def stop():
        raise KeyError("enough")

    with pytest.raises(KeyError), time_limits.time_limit(60.0, stop):
        time.sleep(5.0)  # the first tick comes before
    with pytest.raises(TimeoutError, match=r"time limit of 0.01 s"), time_limits.time_limit(0.01):
        time.sleep(5.0)
    seen = []
    with time_limits.time_limit(60.0, lambda: seen.append(time.monotonic())):
        while not seen:  # a tick before the limit asks, and interrupts nothing
            time.sleep(0.01)


def test_limits_are_kept_and_the_next_fit_gets_a_new_process():
    with Isolated(f"{BAD}:hangs", seconds=0.5, memory_bytes=2 << 30) as workshop:
        for _ in range(2):
            made = workshop.attempt(Setting(T=3), X, y, X, 1)
            assert made.reason == "took more than the time limit of 0.5 s for one fit"
    assert "memory limit of 0.25 GiB" in fitted("eats_memory", memory=1 << 28).reason


def test_a_learner_that_changes_its_data_in_place_changes_its_own_copies():
    """Also the inputs that it labels: the next snapshot sees them as they were."""

    class Greedy:
        def __len__(self):
            return 2

        def at(self, index, inputs):
            seen.append((index, inputs.sum()))
            inputs[:] = 1 - inputs
            return inputs[:, 0]

        def __call__(self, inputs):
            return self.at(-1, inputs)

    def fit(X, y, *, key):
        del key
        X[:], y[:] = 1 - X, 1 - y
        return Greedy() if y[0] else lambda inputs: Greedy()(inputs)

    for first in (0, 1):
        seen = []
        X, y = np.eye(5, 3, dtype=np.uint8), np.full(5, first, np.uint8)
        inputs = np.eye(4, 3, dtype=np.uint8)
        made = attempt(fit, X, y, inputs, key=3)
        assert not made.reason
        assert (np.eye(5, 3) == X).all()
        assert (y == first).all()
        assert (inputs == np.eye(4, 3)).all()
        assert {total for _, total in seen} == {3}
        assert len(seen) == 2 - first


def test_snapshots_are_what_has_a_length_and_answers_at_a_place():
    """A predictor with one of the two alone is called."""

    class Sized:
        def __len__(self):
            return 3

        def __call__(self, inputs):
            return inputs[:, 1]

    class Placed:
        def at(self, index, inputs): ...

        def __call__(self, inputs):
            return inputs[:, 1]

    for made in (Sized(), Placed()):
        answers = attempt(lambda X, y, *, key, made=made: made, X, y, X, key=0).answers
        assert answers.tolist() == [[bool(x) for x in X[:, 1]]]


def test_a_signal_that_a_learner_sends_to_its_group_reaches_no_one_else():
    """SIGHUP to process group 0 ended the whole sweep as interrupted."""
    assert fitted("hangs_up").reason == "its process ended without an answer (killed by signal 1)"


def test_a_learner_that_closes_its_descriptors_is_told_apart(tmp_path, capfd):
    reason = fitted("closes_everything").reason
    assert reason.startswith("its process ended without an answer (exit code")
    file = tmp_path / "closing.py"
    file.write_text("import os\n\ndef build():\n    os.close(2)\n    return lambda X, y: None\n")
    with pytest.raises(InputError, match="closes the standard streams"):
        entry_of(f"{file}:build")
    os.write(2, b"still heard")
    assert "still heard" in capfd.readouterr().err
    file = tmp_path / "calm.py"
    file.write_text("def build():\n    return lambda X, y: None\n")
    entry_of(f"{file}:build")  # closes nothing, and is not refused
