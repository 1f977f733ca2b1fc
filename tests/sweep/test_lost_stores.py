"""A store whose file goes away while it is written: noticed, and nothing is lost in silence."""

import os
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest

from capax.cli.entry import _reason
from capax.errors import InputError
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage import lock as lock_module
from capax.sweep.storage.file import connect
from capax.sweep.storage.lock import Lock
from capax.sweep.storage.store import Store, StoreError


def deleted(path):
    path.unlink()


def moved(path):
    path.rename(path.with_name("elsewhere.sqlite"))


def replaced(path):
    shutil.copy(path, path.with_name("copy.sqlite"))
    path.with_name("copy.sqlite").replace(path)


def folder_gone(path):
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [deleted, moved, replaced, folder_gone])
@pytest.mark.parametrize("after", [3, None])
def test_a_file_that_goes_away_is_noticed_and_its_trials_are_saved(
    tmp_path, monkeypatch, experiment, harm, after
):
    """While trials come in, or after the last one (None), before the store is closed."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "folder" / "s.sqlite"
    path.parent.mkdir()
    done = []

    def report(status):
        if status.trials == after:
            harm(path)
        done[:] = [status.trials]

    with pytest.raises(StoreError, match="deleted, moved or replaced while it was written") as told:  # noqa: SIM117
        with Store.create_or_resume(path, experiment) as store:
            run_sweep(experiment, store, report=report)
            harm(path)
    assert told.value.exit_code == 2
    (saved,) = {*tmp_path.rglob("s-rescued-*.sqlite")}
    assert str(saved) in str(told.value)
    with Store.read(saved) as store:
        (row,) = store.select("SELECT count(*) AS n FROM trials")
    assert row["n"] == (done[0] if after is None else 4)  # the trial that noticed it is there too
    saved.rename(tmp_path / "again.sqlite")
    with Store.create_or_resume(tmp_path / "again.sqlite", experiment) as store:
        assert run_sweep(experiment, store).finished_jobs == 3


def test_a_store_that_is_left_alone_is_not_suspected(tmp_path, experiment):
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment) as store:
        run_sweep(experiment, store)
    with Store.read(tmp_path / "s.sqlite") as store:
        (tmp_path / "s.sqlite").unlink()  # a reader has nothing to lose
        assert store.known("threshold", 7)


def test_two_writers_that_race_for_the_lock_do_not_both_get_it(tmp_path, monkeypatch):
    """The owner removes its file between the other's open and its lock: the other must not keep a
    lock on a file without a name, which a third one would not see."""
    store, taken = tmp_path / "s.sqlite", []
    first = Lock(store)
    real = lock_module.fcntl.flock

    def late(handle, how):
        if not taken:
            taken.append(handle)
            first.release()  # after our open, before our lock
        return real(handle, how)

    monkeypatch.setattr(lock_module.fcntl, "flock", late)
    second = Lock(store)
    monkeypatch.undo()
    with pytest.raises(InputError, match=f"pid {os.getpid()}"):
        Lock(store)
    second.release()
    Lock(store).release()


def test_the_lock_names_its_owner_and_nothing_else(tmp_path):
    (tmp_path / "s.sqlite.lock").write_text("123456789012 left by a process that died\n")
    held = Lock(tmp_path / "s.sqlite")
    assert (tmp_path / "s.sqlite.lock").read_text() == f"{os.getpid()}\n"
    held.release()
    assert not (tmp_path / "s.sqlite.lock").exists()


def test_a_connection_waits_for_a_reader_and_keeps_references_whole(tmp_path, experiment):
    """Settings that only show when two processes meet, or when a file was tampered with."""
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment):
        pass
    names = ("busy_timeout", "foreign_keys", "trusted_schema", "synchronous")
    with closing(connect(tmp_path / "s.sqlite", "rwc")) as connection:
        asked = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]
    assert asked == [30000, 1, 0, 1]


@pytest.mark.parametrize("made", ["CREATE VIEW v AS SELECT 1", "CREATE TRIGGER v AFTER INSERT ON "
                                  "runs BEGIN DELETE FROM trials; END"])  # fmt: skip
def test_a_store_with_code_of_a_stranger_is_refused(tmp_path, experiment, made):
    with Store.create_or_resume(tmp_path / "s.sqlite", experiment):
        pass
    with closing(sqlite3.connect(tmp_path / "s.sqlite")) as connection, connection:
        connection.execute(made)
    kind = "view" if "VIEW" in made else "trigger"
    for opened in (Store.read, lambda path: Store.create_or_resume(path, experiment)):
        with pytest.raises(StoreError, match=f"damaged store \\(a {kind} called v\\)"):
            opened(tmp_path / "s.sqlite")


def test_a_database_whose_tables_were_dropped_is_not_taken_for_a_new_file(tmp_path, experiment):
    """It has pages, and it is somebody's; a file without a page, or with one, is new."""
    path = tmp_path / "theirs.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
        connection.execute("INSERT INTO notes VALUES (?)", ("x" * 20000,))
        connection.execute("DROP TABLE notes")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="wanted a Capax store, got another SQLite database"):
        Store.create_or_resume(path, experiment)
    assert path.read_bytes() == before
    one_page = tmp_path / "new.sqlite"
    with closing(sqlite3.connect(one_page)) as connection:
        connection.execute("PRAGMA user_version = 0")
        connection.execute("VACUUM")
    with Store.create_or_resume(one_page, experiment) as store:
        assert store.known("threshold", 7) == {}


def test_a_platform_that_is_not_there_is_a_mistake_of_the_user(monkeypatch):
    """JAX ends in an assertion, or in a RuntimeError, in its own file."""
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    code = compile("assert False", "/x/jax/_src/xla_bridge.py", "exec")
    try:
        exec(code, {})  # noqa: S102
    except AssertionError as error:
        said, exit_code = _reason(error)
    assert exit_code == 2
    assert said == "JAX_PLATFORMS: wanted a platform of this machine, such as cpu, got 'cuda'"
    monkeypatch.delenv("JAX_PLATFORMS")
    assert _reason(AssertionError())[1] == 70
    assert sys.exc_info() == (None, None, None)
