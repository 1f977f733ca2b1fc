"""The file of a store: opened, created, checked, and told which experiment it now serves."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from capax.errors import CapaxError
from capax.sweep.spec import Experiment
from capax.sweep.store_identity import joined
from capax.sweep.store_schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION


class StoreError(CapaxError):
    """A store that cannot be read or written; what is in it stays as it was."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    with explained(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=30.0)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    return connection


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what happened to the store."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{path}: refused a run it already has ({error})") from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "readonly" in text:
            raise StoreError(f"{path}: could not be written ({text})") from error
        if "full" in text or "disk I/O" in text:
            raise StoreError(
                f"{path}: could not be written ({text}); finished trials are safe, "
                "make room and run the same command again"
            ) from error
        raise StoreError(f"{path}: not a readable Capax store ({text})") from error


def is_empty(connection: sqlite3.Connection) -> bool:
    """A file without a table: new, or left by a process that died before it made the first."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return tables == 0 and connection.execute("PRAGMA page_count").fetchone()[0] <= 1


def create(connection: sqlite3.Connection, experiment: Experiment) -> None:
    """Make the tables of a new store: all of them or none."""
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for statement in SCHEMA:
            connection.execute(statement)
        facts = {
            "experiment": experiment.model_dump_json(),
            "digest": experiment.digest,
            "created": now(),
        }
        connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_kind(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless this is a Capax store of this version."""
    kind = connection.execute("PRAGMA application_id").fetchone()[0]
    if kind != APPLICATION_ID:
        raise StoreError(f"{path}: wanted a Capax store, got another SQLite database")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: has schema version {version}, this Capax reads {SCHEMA_VERSION}; "
            "use the Capax that wrote it"
        )


def check_intact(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless this is a whole Capax store."""
    check_kind(path, connection)
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok":
        raise StoreError(f"{path}: damaged store ({verdict}); restore a copy or start anew")


def adopt(connection: sqlite3.Connection, old: Experiment, new: Experiment) -> dict[str, int]:
    """Write down new panels, T and search settings; by panel, the number of its search.

    A search whose settings changed gets the next number: the trials of earlier ones are known to
    it from the start, its own are numbered by itself, so that it can be resumed like any other.
    """
    known: dict[str, set[int]] = {}
    for row in connection.execute("SELECT DISTINCT panel, T FROM trials"):
        known.setdefault(row["panel"], set()).add(row["T"])
    whole = joined(old, new, known)
    query = "SELECT panel, max(number) AS number, settings FROM searches GROUP BY panel"
    latest = {row["panel"]: row for row in connection.execute(query)}
    numbers: dict[str, int] = {}
    for panel in whole.panels:
        settings, row = panel.search.model_dump_json(), latest.get(panel.name)
        numbers[panel.name] = 0 if row is None else row["number"]
        if row is None or row["settings"] != settings:
            numbers[panel.name] += row is not None
            values = (panel.name, numbers[panel.name], settings, now())
            connection.execute("INSERT INTO searches VALUES (?, ?, ?, ?)", values)
    facts = ((whole.model_dump_json(), "experiment"), (whole.digest, "digest"))
    connection.executemany("UPDATE meta SET value = ? WHERE key = ?", facts)
    return numbers


def now() -> str:
    """The time, for the record."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
