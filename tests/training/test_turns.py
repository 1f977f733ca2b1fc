"""Who goes first: programs in the order they were asked for, restarts before first runs."""

import threading
import time
from concurrent.futures import Future

from capax.training.programs.in_order import InOrder
from capax.training.slots.worker import Desk, WaitingRun


def test_of_those_who_wait_the_lowest_number_goes_first_and_alone():
    gate, order, inside = InOrder(), [], []

    def visit(number):
        with gate.turn(number):
            inside.append(number)
            assert len(inside) == 1
            order.append(number)
            inside.remove(number)

    with gate.turn(0):
        threads = [threading.Thread(target=visit, args=(n,)) for n in (7, 3, 5, 3, 1)]
        for thread in threads:
            thread.start()
        while len(gate._waiting) < len(threads):
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == [1, 3, 3, 5, 7]


def test_who_fails_inside_lets_the_next_one_in():
    gate = InOrder()
    for _ in range(2):
        try:
            with gate.turn(1):
                raise ValueError
        except ValueError:
            pass
    with gate.turn(2):
        assert not gate._waiting


def test_a_restart_waits_before_first_runs(trial_of):
    desk, ready = Desk(), Future()
    ready.set_result(None)
    for trial, restart in ((0, 0), (1, 0), (2, 1)):
        desk.put(WaitingRun(trial, trial_of(restarts=2).run(restart), ready, ready))
    assert [job.trial for job in desk.take(2, wait=False)] == [2, 0]
    assert [job.trial for job in desk.take(2, wait=True)] == [1]


def test_what_is_trained_ahead_waits_behind_what_is_needed_and_is_forgotten(trial_of):
    desk, ready = Desk(), Future()
    ready.set_result(None)
    jobs = [WaitingRun(trial, trial_of(restarts=3).run(r), ready, ready)
            for trial, r in ((0, 1), (1, 0), (2, 2), (3, 1))]  # fmt: skip
    for job, ahead in zip(jobs, (True, False, True, False), strict=True):
        desk.put(job, ahead=ahead)
    assert [job.trial for job in desk.take(3, wait=False)] == [3, 0, 1]
    desk.forget(2)
    assert desk.take(2, wait=False) == []
    assert desk.is_wanted(jobs[0]) and not desk.is_wanted(jobs[2])
