"""The queue of runs: limits, order, and processes that die. No network is trained here."""

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from capax.errors import InputError
from capax.lab import app
from capax.lab.remembered import remember, remembered
from capax.lab.running import training_queue
from capax.lab.running.training_queue import AT_ONCE, KEPT, WAITING, TrainingQueue
from capax.lab.views.create_view import CreateQuestion, RunQuestion

# A process that obeys like the real one, and trains nothing: it ends a run on "stop" alone.
DOUBLE = """
import json, os, sys
for line in sys.stdin:
    told = json.loads(line)
    def say(**event):
        print(json.dumps({"run": told["run"], "event": event}), flush=True)
    if told["what"] == "start":
        if told["question"]["seed"] == 13: os._exit(3)
        if told["question"]["seed"] == 14: hoard = bytearray(300 << 20)
        say(kind="started", pid=os.getpid())
    if told["what"] == "stop": say(kind="ended", outcome="stopped", steps=1)
"""


@pytest.fixture
def queue(monkeypatch):
    monkeypatch.setattr(training_queue, "PROCESS", ("-c", DOUBLE))
    with TrainingQueue(memory=200 << 20) as made:
        yield made


def kinds(queue, name):
    return [event["kind"] for event in queue.events(name)]


def until(holds):
    for _ in range(200):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come true")


def started(queue, names):
    return [name for name in names if "started" in kinds(queue, name)]


def test_few_runs_are_trained_and_the_others_follow_in_order(queue):
    names = [queue.start(RunQuestion()) for _ in range(AT_ONCE + 3)]
    until(lambda: started(queue, names) == names[:AT_ONCE])
    queue.steer(names[1], {"what": "stop"})
    until(lambda: started(queue, names) == names[: AT_ONCE + 1])
    queue.steer(names[0], {"what": "pause"})  # gives its place away
    until(lambda: started(queue, names) == names[: AT_ONCE + 2])
    queue.steer(names[-1], {"what": "stop"})  # while it waits
    assert kinds(queue, names[-1]) == ["waiting", "ended"]


def test_too_many_runs_are_refused(queue):
    for _ in range(AT_ONCE + WAITING):
        queue.start(RunQuestion())
    with pytest.raises(InputError, match=f"at most {WAITING} waiting"):
        queue.start(RunQuestion())


def test_paused_runs_are_kept_up_to_a_number(queue):
    names = []
    for _ in range(KEPT + 2):
        names.append(queue.start(RunQuestion()))
        queue.steer(names[-1], {"what": "pause"})
    until(lambda: kinds(queue, names[0])[-1] == "ended")
    alive = [name for name in names if kinds(queue, name)[-1] != "ended"]
    assert alive == names[2:]


def test_a_process_that_dies_ends_its_runs_and_the_next_run_gets_a_new_one(queue):
    first = queue.start(RunQuestion())
    until(lambda: "started" in kinds(queue, first))
    queue.start(RunQuestion(seed=13))
    until(lambda: kinds(queue, first)[-1] == "ended")
    assert queue.events(first)[-1]["reason"] == "the training process ended"
    again = queue.start(RunQuestion())
    until(lambda: "started" in kinds(queue, again))
    assert queue.events(again)[1]["pid"] != queue.events(first)[1]["pid"]


def test_a_process_that_takes_too_much_memory_is_ended(queue):
    name = queue.start(RunQuestion(seed=14))
    events = queue.wait(name, 10.0)
    assert "memory limit" in events[-1]["reason"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [({"what": "evil"}, "what: "), ({"what": "rate", "lr": -1}, "lr: "),
     ({"what": "rate", "lr": "nan"}, "lr: "), ({"what": "rate"}, "lr: ")],
)  # fmt: skip
def test_runs_are_steered_by_what_is_known(queue, fields, said):
    name = queue.start(RunQuestion())
    with pytest.raises(InputError, match=said):
        queue.steer(name, fields)
    with pytest.raises(InputError, match="run: "):
        queue.steer("nobody", {"what": "stop"})
    with pytest.raises(InputError, match="run: "):
        queue.recorded("nobody")


@pytest.mark.parametrize(
    "fields",
    [{"T": 1}, {"T": 5000}, {"m": 0}, {"T": 1000, "m": 20_000}, {"steps": 150}, {"lr": 0},
     {"formula": "x1 &"}, {"heads": 5, "d": 16}, {"T": 2}],
    ids=str,
)  # fmt: skip
def test_runs_that_do_not_fit_are_refused_before_they_wait(queue, fields):
    with pytest.raises(InputError):
        queue.start(RunQuestion(**fields))


def test_two_runs_differ_in_m_alone():
    first, second = CreateQuestion(m=50, m2=7, seed=3).runs()
    assert first.model_dump() == {**second.model_dump(), "m": 50} and second.m == 7


def test_port_and_token_are_remembered_for_this_user_alone(tmp_path):
    path = tmp_path / "folder" / "lab.json"
    first = remembered(path)
    assert first.port == 0 and len(first.token) >= 32
    remember(8123, first.token, path)
    assert remembered(path) == (8123, first.token)
    assert path.stat().st_mode & 0o777 == 0o600
    for bad in ("", "[]", '{"port": 1}', json.dumps({"port": 10**9, "token": "t" * 40}),
                json.dumps({"port": 1, "token": "short"}),
                json.dumps({"port": 1, "token": "\r\nx: y" + "t" * 40})):  # fmt: skip
        path.write_text(bad)
        assert remembered(path).port == 0 and remembered(path).token != first.token


def test_numbers_of_ended_runs_are_forgotten_first(queue, monkeypatch):
    """Each run here keeps 3 events of T = 50 numbers; 400 of them may be kept."""
    monkeypatch.setattr(training_queue, "KEPT_NUMBERS", 400)
    names = []
    for _ in range(6):
        names.append(queue.start(RunQuestion()))
        queue.steer(names[-1], {"what": "stop"})
        queue.wait(names[-1], 10.0)
    kept = [name for name in names if queue.events(name) is not None]
    assert kept == names[-len(kept) :] and 2 <= len(kept) <= 4
    live = queue.start(RunQuestion())
    monkeypatch.setattr(training_queue, "KEPT_NUMBERS", 0)
    queue.start(RunQuestion())
    assert queue.events(live) is not None  # a run that is trained is never forgotten


class Waiting(TrainingQueue):
    """A queue whose runs say nothing."""

    def events(self, name):
        del name
        return [{"kind": "waiting", "before": 0}]


def parts_of(streams, seconds):
    """What so many streams of one server say within some seconds, and which of them ended."""

    async def read(lab, found):
        async for part in lab._stream("run", 0):
            found.append(part)
        found.append("end")

    async def together():
        lab, found = app.Lab(Waiting()), [[] for _ in range(streams)]
        tasks = [asyncio.create_task(read(lab, one)) for one in found]
        await asyncio.wait(tasks, timeout=seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found

    with ThreadPoolExecutor(1) as thread:  # in this one the loop of a browser may run
        return thread.submit(lambda: asyncio.run(together())).result()


def test_streams_take_turns_where_a_browser_would_run_out_of_connections(monkeypatch):
    monkeypatch.setattr(app, "TURN", 0.1)
    many = parts_of(app.FEW + 2, 0.6)
    ended = [parts for parts in many if parts[-1] == "end"]
    assert all(parts[-2].startswith("event: turn") for parts in ended)
    assert len(ended) == 2  # enough to let the others stay
    assert all("id: 0" in parts[1] for parts in many)
    assert not [parts for parts in parts_of(app.FEW, 0.6) if parts[-1] == "end"]
