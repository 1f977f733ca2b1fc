"""Stores: flipped bytes, cut files, other databases, older schemas, rows of the wrong kind."""

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from random import Random

from fuzzing import hostile, samples
from fuzzing.case import Case

_JSON = (("meta", "value"), ("sessions", "versions"), ("searches", "settings"), ("runs", "spec"),
         ("runs", "curves"))  # fmt: skip
_NAME = "s.sqlite"


def case(random: Random) -> Case:
    """A broken store and a command that reads or resumes it."""
    content = _broken(random)
    if random.random() < 0.12:  # only this one may write, and only into a store that is whole
        argv = ("sweep", "small.toml", "--store", _NAME)
        toml = samples.good_files()["small.toml"]
        return Case("store", argv, {_NAME: content, "small.toml": toml}, spared=(_NAME,))
    argv = random.choice((
        ("thresholds", _NAME), ("thresholds", _NAME, "--json"), ("doctor", _NAME),
        ("doctor", _NAME, "--json"), ("export", _NAME, "--out", "runs.csv"),
        ("export", _NAME, "--out", "runs.parquet", "--formulas"), ("decompile", _NAME, "--run", ""),
        ("reference", "add", _NAME, "--name", "mine", "--folder", "."),
        *((("report", _NAME),) if random.random() < 0.05 else ()),
    ))  # fmt: skip
    return Case("store", argv, {_NAME: content}, kept=(_NAME,))


def _broken(random: Random) -> bytes:
    roll = random.random()
    content = samples.store()
    if roll < 0.35:
        return hostile.scrambled(random, content)
    if roll < 0.4:
        return random.choice(
            (b"", b"SQLite format 3\0", content[:100], b"\0" * 4096, b"PK\x03\x04")
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(b"" if roll < 0.45 else content)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA writable_schema = ON")
            for _ in range(random.choice((1, 1, 2))):
                try:
                    with connection:
                        _change(random, connection, other=roll < 0.45)
                except (sqlite3.Error, OverflowError, UnicodeEncodeError):
                    continue
        return path.read_bytes()


def _change(random: Random, connection: sqlite3.Connection, other: bool) -> None:
    """One statement that no Capax would write."""
    if other:
        connection.execute("CREATE TABLE songs (title TEXT, seconds INTEGER)")
        connection.execute("INSERT INTO songs VALUES ('x', 1)")
        return
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE sql <> ''")
    ]
    table = random.choice(tables or ["meta"])
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    column = random.choice(columns or ["value"])
    roll = random.random()
    if roll < 0.1:
        number = random.choice((0, 1, 3, 99, -1))
        connection.execute(f"PRAGMA {random.choice(('user_version', 'application_id'))} = {number}")
    elif roll < 0.2:
        connection.execute(f"DROP TABLE {table}")
    elif roll < 0.3:
        connection.execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO other")
    elif roll < 0.4:
        connection.execute(f"DELETE FROM {table} WHERE random() % 2")
    elif roll < 0.7:
        _bend_json(random, connection)
    else:  # STRICT tables hold what their column says: texts, integers, numbers
        value = random.choice((hostile.text(random), random.choice(hostile.INTEGERS[:20]),
                               random.choice(hostile.FLOATS)))  # fmt: skip
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE random() % 3 = 0", (value,))


def _bend_json(random: Random, connection: sqlite3.Connection) -> None:
    table, column = random.choice(_JSON)
    rows = connection.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    if not rows:  # deleted before
        return
    row, text = random.choice(rows)
    if random.random() < 0.2:
        bent = random.choice(("", "[" * 5000, "{", "null", "9" * 5000, "[]", "1", '{"a": NaN}'))
    else:
        try:
            bent = json.dumps(hostile.bent(random, json.loads(text)))
        except (ValueError, RecursionError):  # bent before, into what is no JSON or too deep
            return
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (bent, row))
