"""The store: whole trials or nothing, one writer, and plain words when something is wrong."""

import fcntl
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from experiments_for_tests import fields

from capax.errors import InputError
from capax.reading import MAX_DEPTH
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.families.known_families import family_of
from capax.sweep.families.simulated import SimulatedLearner
from capax.sweep.storage import lock
from capax.sweep.storage.file import _asks_for_a_log, address, check_before_writing
from capax.sweep.storage.salvage import _readable, rows_left
from capax.sweep.storage.store import Store, StoreError
from capax.sweep.storage.store_identity import difference, joined
from capax.sweep.trial import Outcome, Run, Trial


def outcomes(experiment, num):
    panel = experiment.panels[0]
    trials = (family_of(panel).trial(panel, 7, 13, i) for i in range(num))
    return list(SimulatedLearner()(trials))


def test_what_goes_in_comes_out(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    written = outcomes(experiment, 5)
    with Store.create_or_resume(path, experiment) as store:
        for outcome in written:
            store.add(outcome)
    with Store.read(path) as store:
        assert store.experiment == experiment
        assert store.known("threshold", 7) == {(13, i): o.solved for i, o in enumerate(written)}
        assert store.known("threshold", 31) == {}
        rows = {row["run_id"]: row for row in store.select("SELECT * FROM runs")}
        versions = json.loads(store.select("SELECT versions FROM sessions")[0]["versions"])
    runs = [run for outcome in written for run in outcome.runs]
    assert set(rows) == {run.run_id for run in runs}
    for run in runs:
        assert json.loads(rows[run.run_id]["spec"]) == run.spec
        assert json.loads(rows[run.run_id]["curves"]) == run.curves
        assert rows[run.run_id]["outcome"] == run.outcome
    assert {"capax", "numpy", "python"} <= set(versions)


def test_parameters_are_kept_on_request(tmp_path, experiment):
    trial = Trial("threshold", 7, 13, 0, "t", None)
    run = Run("r", 0, "solved", 3, 9, 0.5, {}, parameters=b"tensors")
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        store.add(Outcome(trial, True, (run,)))
        assert store.parameters("r") == b"tensors"
        assert store.parameters("other") is None


def test_no_run_twice(tmp_path, experiment):
    first, second = outcomes(experiment, 2)
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        store.add(first)
        with pytest.raises(StoreError, match="already has"):
            store.add(first)
        mixed = Outcome(second.trial, second.solved, (*second.runs, first.runs[0]))
        with pytest.raises(StoreError, match="already has"):
            store.add(mixed)  # the second trial must not be there by half
        assert list(store.known("threshold", 7)) == [(13, 0)]
        store.add(second)
        assert len(store.known("threshold", 7)) == 2


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    with Store.create_or_resume(path, experiment) as store:
        store.add(outcomes(experiment, 1)[0])
        with pytest.raises(InputError, match=rf"another process \(pid {os.getpid()}\) is writing"):
            Store.create_or_resume(path, experiment)
        with Store.read(path) as reader:
            assert len(reader.known("threshold", 7)) == 1
    Store.create_or_resume(path, experiment).close()
    assert not path.with_name("s.sqlite.lock").exists()


def test_a_closed_store_is_one_file_and_readers_leave_nothing_behind(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    first, second = outcomes(experiment, 2)
    with Store.create_or_resume(path, experiment) as store:
        store.add(first)
        assert store.select("PRAGMA journal_mode")[0][0] == "wal"
    with Store.read(path) as reader:
        reader.known("threshold", 7)
    assert [file.name for file in tmp_path.iterdir()] == ["s.sqlite"]
    writer, reader = Store.create_or_resume(path, experiment), Store.read(path)
    writer.add(second)
    writer.close()  # a reader loses nothing
    assert len(reader.known("threshold", 7)) == 2
    reader.close()
    Store.create_or_resume(path, experiment).close()
    assert [file.name for file in tmp_path.iterdir()] == ["s.sqlite"]


def test_a_store_closes_twice_and_when_it_was_damaged_meanwhile(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    store = Store.create_or_resume(path, experiment)
    store.close()
    store.close()
    store = Store.create_or_resume(path, experiment)
    path.write_bytes(b"not a database any more" * 500)
    store.close()
    assert not path.with_name("s.sqlite.lock").exists()


def test_a_lock_whose_file_goes_in_the_race_is_taken_again(tmp_path, monkeypatch):
    """The other process removes the file between our open and our lock: what we hold then keeps
    nobody out, because the next one makes a file of its own."""
    store = tmp_path / "s.sqlite"
    path, taken = tmp_path / "s.sqlite.lock", []
    real = fcntl.flock

    def race(handle, how):
        if not taken:
            path.unlink()
        taken.append(handle)
        return real(handle, how)

    monkeypatch.setattr(lock.fcntl, "flock", race)
    held = lock.Lock(store)
    assert len(taken) == 2 and path.read_text() == f"{os.getpid()}\n"
    with pytest.raises(InputError, match=rf"another process \(pid {os.getpid()}\) is writing"):
        lock.Lock(store)
    assert path.stat().st_mode & 0o600 == 0o600  # the next one has to open it
    held.release()
    assert not path.exists()
    other = lock.Lock(store)
    held.release()  # harmless when repeated: the file is the other one's now
    assert path.exists()
    other.release()
    assert not path.exists()


def test_a_lock_left_by_a_dead_process_does_not_hold(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    program = (
        "import os, sys; from pathlib import Path; from capax.sweep.storage.lock import Lock; "
        "Lock(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    )
    died = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert died.returncode == -9
    assert path.with_name("s.sqlite.lock").exists()
    Store.create_or_resume(path, experiment).close()


def test_a_full_disk_loses_nothing(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    written = outcomes(experiment, 200)
    with Store.create_or_resume(path, experiment) as store:
        store.add(written[0])
        store._connection.execute("PRAGMA max_page_count = 40")  # SQLite's own full disk
        with pytest.raises(StoreError, match=r"full.*finished trials are safe") as caught:
            for outcome in written[1:]:
                store.add(outcome)
        kept = len(store.known("threshold", 7))
        assert "\n" not in str(caught.value)
    with Store.create_or_resume(path, experiment) as store:
        assert 0 < kept == len(store.known("threshold", 7))
        for outcome in written[kept:]:
            store.add(outcome)
        assert len(store.known("threshold", 7)) == 200


def test_what_trains_elsewhere_is_written_down(tmp_path, experiment):
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        store.device = "8 x H200"
        store.add(outcomes(experiment, 1)[0])
        (session,) = store.select("SELECT started, versions FROM sessions")
    assert json.loads(session["versions"])["device"] == "8 x H200"
    assert session["started"].startswith("20")


def test_values_of_T_that_are_known_stay_and_are_named_once(experiment):
    panel = experiment.panels[0]
    known = {panel.name: {panel.T[0], 997}}
    kept = joined(experiment, experiment, known).panels[0]
    assert list(kept.T) == [*panel.T, 997]
    one = experiment.model_copy(update={"panels": (panel,)})
    other = experiment.model_copy(update={"panels": (panel.model_copy(update={"name": "other"}),)})
    assert [p.name for p in joined(one, other, known).panels] == ["other", panel.name]
    assert [p.name for p in joined(one, other, {}).panels] == ["other"]


def test_an_edited_spec_is_refused_and_named(tmp_path, experiment):
    path = tmp_path / "s.sqlite"
    Store.create_or_resume(path, experiment).close()
    edited = build_experiment(fields(training={"restarts": 4}))
    with pytest.raises(InputError, match=r"restarts: 3 became 4.*choose another --store"):
        Store.create_or_resume(path, edited)
    reworded = build_experiment(fields(claim="other words"))
    Store.create_or_resume(path, reworded).close()
    assert difference(experiment, build_experiment(fields(), "paper")) is None
    with pytest.raises(InputError, match="name: small became other"):
        Store.create_or_resume(path, build_experiment(fields(name="other")))


def damage(path, how):
    if how == "text":
        path.write_text("this is not a database, however long it is " * 50)
    elif how == "overwritten":
        raw = bytearray(path.read_bytes())
        raw[100:] = os.urandom(len(raw) - 100)
        path.write_bytes(raw)
    else:
        connection = sqlite3.connect(path)
        if how == "version":
            connection.execute("PRAGMA user_version = 77")
        elif how == "foreign":
            connection.execute("PRAGMA application_id = 5")
        elif how == "facts":
            connection.execute("DELETE FROM meta WHERE key = 'digest'")
        connection.commit()
        connection.close()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("text", "not a readable Capax store"),
        ("overwritten", "store"),
        ("version", "schema version 77, this Capax reads 2"),
        ("foreign", "got another SQLite database"),
        ("facts", "damaged store, 'digest' is missing"),
    ],
)
def test_damaged_or_foreign_files(tmp_path, experiment, how, message):
    path = tmp_path / "s.sqlite"
    with Store.create_or_resume(path, experiment) as store:
        for outcome in outcomes(experiment, 30):
            store.add(outcome)
    damage(path, how)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=message) as caught:
        Store.create_or_resume(path, experiment)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    assert not path.with_name("s.sqlite.lock").exists()


def test_missing_files_and_folders(tmp_path, experiment):
    with pytest.raises(InputError, match="file not found"):
        Store.read(tmp_path / "none.sqlite")
    with pytest.raises(InputError, match="does not exist"):
        Store.create_or_resume(tmp_path / "none" / "s.sqlite", experiment)


def test_curves_are_series_of_numbers_of_equal_length(tmp_path, experiment):
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        good = {"loss": [1, 0.5, None], "step": [1, 2, 3]}
        assert store.series(json.dumps(good), "curves") == good
        assert store.series("{}", "curves") == {}
        deep = '{"loss": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"
        with pytest.raises(StoreError, match="curves is not a JSON object"):
            store.plain(deep, "curves")
        assert store.plain(deep.replace("[[", "[", 1).replace("]]", "]", 1), "curves")
        for bad, message in (
            ({"loss": [1, "x"]}, "values that are not numbers"),
            ({"loss": [[1]], "step": [1]}, "values that are not numbers"),
            ({"loss": [1], "step": [1, 2]}, "not series of equal length"),
            ({"loss": 1}, "not series of equal length"),
        ):
            with pytest.raises(StoreError, match=message):
                store.series(json.dumps(bad), "curves")


def test_a_search_is_unfinished_until_it_ends_without_a_note(tmp_path, experiment):
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        every = {(p.name, T) for p in experiment.panels for T in p.T}
        assert {(u.panel, u.T) for u in store.unfinished()} == every
        panel, lengths = experiment.panels[0].name, sorted(experiment.panels[0].T)
        store.close_job(panel, lengths[0])
        store.close_job(panel, lengths[1], finished=False)
        left = {(u.panel, u.T): u.note for u in store.unfinished()}
        assert set(left) == every - {(panel, lengths[0])}
        store.close_job(panel, lengths[0], note="no memory")
        assert {(u.panel, u.T): u.note for u in store.unfinished()}[
            panel, lengths[0]
        ] == "no memory"


def test_a_learners_file_is_compared_where_both_stores_know_it(experiment):
    """Stores of before did not keep its hash: that is no difference."""

    def with_source(source):
        panels = tuple(p.model_copy(update={"source": source}) for p in experiment.panels)
        return experiment.model_copy(update={"panels": panels})

    for old, new, same in (("a", "a", True), ("a", "b", False), ("", "b", True), ("a", "", True)):
        said = difference(with_source(old), with_source(new))
        assert (said is None) == same, (old, new)


def test_a_log_beside_the_store_is_used(tmp_path):
    """A sweep at work has written there: its store must not be opened as if nobody wrote."""
    path = tmp_path / "s.sqlite"
    path.write_bytes(b"SQLite format 3\x00" + b"\x10\x00\x02\x02" + bytes(80))
    assert _asks_for_a_log(path)
    assert address(path, "ro").endswith("?mode=ro&immutable=1")
    assert address(path, "rwc").endswith("?mode=rwc")
    path.with_name("s.sqlite-wal").touch()
    assert not _asks_for_a_log(path)


def test_a_store_is_checked_once_and_opened_by_its_address(tmp_path, experiment, monkeypatch):
    """Also by a SQLite that takes an address for the name of a file unless it is told."""
    path, real = tmp_path / "s.sqlite", sqlite3.connect

    def plain(name, uri=False, **options):
        assert uri, f"a file called {name} would be made"
        return real(name, uri=uri, **options)

    monkeypatch.setattr(sqlite3, "connect", plain)
    assert not check_before_writing(path)
    Store.create_or_resume(path, experiment).close()
    assert address(path, "ro").endswith("?mode=ro")  # a closed store asks for no log
    assert check_before_writing(path)
    assert rows_left(path, "runs") == []


class Turning(sqlite3.Connection):
    """A table with these row numbers upwards and downwards; `None` is damage."""

    def __init__(self, up, down):
        super().__init__(":memory:")
        self.up, self.down = up, down

    def execute(self, query):
        for number in self.down if query.endswith("DESC") else self.up:
            if number is None:
                raise sqlite3.DatabaseError("damage")
            yield number, f"row {number}"


@pytest.mark.parametrize(
    ("up", "down", "found"),
    [
        ([1, 2, 3], [9], [1, 2, 3]),  # sound: not read a second time
        ([1, 2, None], [9, 8, None], [1, 2, 9, 8]),
        ([1, 2, 2, 3], [9, 2, 1], [1, 2, 9]),  # a page that leads to itself
        ([None], [9, 8, 8, 7], [9, 8]),
        ([None], [9, 8, 9, 8], [9, 8]),
        ([1, None], [9, 8, 1, 0], [1, 9, 8]),
    ],
)
def test_rows_are_read_from_both_ends_and_none_twice(up, down, found):
    problems = []
    with closing(Turning(up, down)) as table:
        rows = list(_readable(table, "runs", ("name",), problems))
    assert rows == [(number, (f"row {number}",)) for number in found]
    assert bool(problems) == (up != [1, 2, 3])
