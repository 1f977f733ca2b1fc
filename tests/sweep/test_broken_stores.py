"""A broken store is recognised, named in one line, never written to; what can be read is saved."""

import json
import shutil
import sqlite3
from contextlib import closing

import pandas as pd
import pytest

from capax.analysis.tables.salvaged import salvaged_frame
from capax.errors import InputError
from capax.sweep.experiments.spec import build_experiment
from capax.sweep.running.runner import run_sweep
from capax.sweep.storage.salvage import examine
from capax.sweep.storage.schema import COLUMNS, SCHEMA
from capax.sweep.storage.store import Store, StoreError
from typed_command import typed

FIELDS = {
    "name": "toy",
    "model": {"family": "simulated", "threshold": 13.0, "growth": 2.0, "spread": 0.3},
    "panels": {"threshold": {"T": [7, 31], "search": {"method": "grid", "trials": 40,
                                                      "m": [5, 10, 20, 40, 80]}}},
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "toy.sqlite"
    experiment = build_experiment(FIELDS)
    with Store.create_or_resume(path, experiment) as store:
        run_sweep(experiment, store)
    return path


@pytest.fixture
def store(sound, tmp_path):
    return shutil.copy(sound, tmp_path / "toy.sqlite")


def rows(path, table):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


def changed(path, *statements):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for statement in statements:
            connection.execute(statement)


def page_of(path, table, last=False):
    """A leaf page of a table, as (offset, length)."""
    with closing(sqlite3.connect(path)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        root = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)
        ).fetchone()[0]
    data = path.read_bytes()
    page = data[(root - 1) * size : root * size]
    assert page[0] == 5, "the table should fill several pages"
    cells = int.from_bytes(page[3:5], "big")
    children = []
    for cell in range(cells):
        at = int.from_bytes(page[12 + 2 * cell : 14 + 2 * cell], "big")
        children.append(int.from_bytes(page[at : at + 4], "big"))
    child = int.from_bytes(page[8:12], "big") if last else children[len(children) // 2]
    return (child - 1) * size, size


def zeroed(path, span):
    data = bytearray(path.read_bytes())
    data[span[0] : span[0] + span[1]] = bytes(span[1])
    path.write_bytes(data)


BREAKS = {
    "another database": lambda path: (
        path.unlink(),
        changed(path, "CREATE TABLE songs (title TEXT)", "INSERT INTO songs VALUES ('x')"),
    ),
    "schema version 1": lambda path: changed(path, "PRAGMA user_version = 1"),
    "a page of zeros": lambda path: zeroed(path, page_of(path, "runs")),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3]),
    "header": lambda path: path.write_bytes(b"\0" * 100 + path.read_bytes()[100:]),
    "asks for a log": lambda path: path.write_bytes(
        path.read_bytes()[:18] + b"\x02\x02" + b"\xff" * 300 + path.read_bytes()[320:]
    ),
    "no table": lambda path: changed(path, "PRAGMA foreign_keys = OFF", "DROP TABLE jobs"),
    "no column": lambda path: changed(path, "ALTER TABLE runs RENAME COLUMN steps TO other"),
    "a view": lambda path: changed(path, "CREATE VIEW x AS SELECT * FROM runs"),
    "a trigger": lambda path: changed(
        path, "CREATE TRIGGER x AFTER INSERT ON runs BEGIN DELETE FROM trials; END"
    ),
    "nonsense": lambda path: changed(path, "UPDATE trials SET T = -5 WHERE rowid = 3"),
    "experiment": lambda path: changed(path, "UPDATE meta SET value = '[' WHERE key='experiment'"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_it_is_named_in_one_line_and_left_as_it_is(store, tmp_path, how):
    BREAKS[how](store)
    before = store.read_bytes()
    toml = tmp_path / "toy.toml"
    toml.write_text('family = "simulated"\nT = [7]')
    said = [typed("thresholds", store), typed("sweep", toml, "--store", store)]
    for done in said:
        assert done.returncode == 2, done.stderr
        (line,) = done.stderr.strip().splitlines()
        assert line.startswith(f"error: {store}: ")
    assert store.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["toy.sqlite", "toy.toml"]


@pytest.mark.parametrize("how", ["no table", "nonsense", "a trigger"])
def test_a_journal_beside_it_hides_no_damage(store, how):
    """Where a process died while it made the store, it is looked at after it was opened."""
    BREAKS[how](store)
    store.with_name("toy.sqlite-journal").touch()
    with pytest.raises(StoreError, match="damaged store"):
        Store.create_or_resume(store, build_experiment(FIELDS))


def test_deleted_rows_of_a_sound_store_are_not_lost(store):
    changed(store, "DELETE FROM runs WHERE rowid = 3")
    assert {left.lost for left in examine(store).tables} == {0}


def test_lost_rows_are_counted_by_their_numbers_where_the_index_is_damaged_too(store):
    """Neither the table nor an index can be read as a whole: the last row still has its number."""
    whole = len(rows(store, "runs"))
    with closing(sqlite3.connect(store)) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        query = "SELECT rootpage FROM sqlite_master WHERE type = 'index' AND tbl_name = 'runs'"
        roots = [row[0] for row in connection.execute(query)]
    zeroed(store, page_of(store, "runs"))
    for root in roots:
        zeroed(store, ((root - 1) * size, size))
    (runs,) = [left for left in examine(store).tables if left.table == "runs"]
    assert runs.problem and 0 < runs.rows < whole
    assert runs.rows + runs.lost == whole


def test_a_sound_store_is_whole(store, tmp_path):
    found = examine(store)
    assert found.problem == "" and found.is_store
    for left in found.tables:
        assert left.rows == len(rows(store, left.table)) and left.lost == 0
    assert {left.table: left.columns for left in found.tables} == COLUMNS
    done = typed("doctor", store)
    assert done.returncode == 0 and "verdict: whole" in done.stdout
    assert typed("export", store, "--out", tmp_path / "a.csv").returncode == 0


@pytest.mark.parametrize("last", [False, True], ids=["in the middle", "at the end"])
def test_rows_on_both_sides_of_the_damage_are_saved(store, tmp_path, last):
    whole = {row[0]: row for row in rows(store, "runs")}
    zeroed(store, page_of(store, "runs", last))
    done = typed("export", store, "--out", tmp_path / "left.csv", "--json")
    assert done.returncode == 1
    said = json.loads(done.stdout)
    saved = pd.read_csv(tmp_path / "left.csv")
    assert said["runs"] == len(saved) >= len(whole) // 2
    assert said["runs"] + said["lost"] == len(whole), "the index still knows how many there were"
    for row in saved.itertuples():
        assert whole[row.run_id][3] == row.outcome and row.T in (7, 31)
    report = json.loads(typed("doctor", store, "--json").stdout)
    assert report["tables"]["runs"]["rows"] == len(saved)
    assert report["tables"]["trials"]["lost"] == 0


def test_a_store_that_was_cut_keeps_what_came_first(store, tmp_path):
    first = [row[0] for row in rows(store, "runs")][:20]
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])
    done = typed("export", store, "--out", tmp_path / "left.csv")
    assert done.returncode == 1 and "runs saved" in done.stdout
    assert set(first) <= set(pd.read_csv(tmp_path / "left.csv").run_id)


def test_an_older_schema_is_exported_as_it_is(store, tmp_path):
    changed(store, "PRAGMA user_version = 1", "ALTER TABLE runs DROP COLUMN reason")
    done = typed("export", store, "--out", tmp_path / "old.parquet")
    assert done.returncode == 1 and "schema version 1" in done.stderr
    assert len(pd.read_parquet(tmp_path / "old.parquet")) == len(rows(store, "runs"))


def test_another_database_is_looked_at_and_not_exported(store, tmp_path):
    BREAKS["another database"](store)
    done = typed("doctor", store)
    assert done.returncode == 1
    assert "another database" in done.stdout and "songs: 1 row can" in done.stdout
    done = typed("export", store, "--out", tmp_path / "x.csv")
    assert done.returncode == 2 and not (tmp_path / "x.csv").exists()


def test_pages_in_a_circle_do_not_hold_anybody_up(store):
    """Every child of the root is the root's first child: rows would repeat for ever."""
    data, (at, size) = bytearray(store.read_bytes()), page_of(store, "runs")
    with closing(sqlite3.connect(store)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
        root = (connection.execute(query).fetchone()[0] - 1) * size
    data[at : at + size] = data[root : root + size]
    store.write_bytes(data)
    with pytest.raises(StoreError, match="damaged store"):
        Store.read(store)
    (runs,) = [left for left in examine(store).tables if left.table == "runs"]
    assert runs.rows <= 400 and runs.problem


def test_the_columns_named_are_those_of_the_schema():
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        for table, columns in COLUMNS.items():
            found = connection.execute(f"PRAGMA table_info({table})").fetchall()
            assert tuple(row[1] for row in found) == columns


def test_runs_are_saved_from_a_store_and_from_nothing_else(store, tmp_path):
    frame = salvaged_frame(examine(store))
    assert frame["run_id"].tolist() == [run[0] for run in rows(store, "runs")]
    assert set(frame["trial_id"]) == {trial[0] for trial in rows(store, "trials")}
    other = tmp_path / "other.sqlite"
    changed(other, "CREATE TABLE runs (run_id TEXT)")
    with pytest.raises(InputError, match=r"other.sqlite: no table of runs"):
        salvaged_frame(examine(other))
