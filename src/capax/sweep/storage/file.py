"""The file of a store: opened, created, checked, and updated for its experiment."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from capax.errors import CapaxError
from capax.foreign import one_line
from capax.reading import opened_at_once
from capax.sweep.experiments.spec import Experiment
from capax.sweep.storage.schema import APPLICATION_ID, COLUMNS, NONSENSE, SCHEMA, SCHEMA_VERSION
from capax.sweep.storage.store_identity import joined

_CACHE_KIB = 16 * 1024
"""Memory for pages of an open store, in KiB."""

SQLITE = b"SQLite format 3\x00"


class StoreError(CapaxError):
    """A store that cannot be read or written. Its content is unchanged."""


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open a store: "ro" to read, which creates no files beside it, or "rwc" to write."""
    if path.is_file():
        _beginning(path)
    with explained(path):
        connection = sqlite3.connect(address(path, mode), uri=True, timeout=30.0)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def address(path: Path, mode: str) -> str:
    """The address of a file for SQLite: "ro" to read, "rwc" to write."""
    untouched = "&immutable=1" if mode == "ro" and _asks_for_a_log(path) else ""
    return f"{path.absolute().as_uri()}?mode={mode}{untouched}"


def _asks_for_a_log(path: Path) -> bool:
    """Does the header need a write-ahead log that is missing?

    A running sweep has its log beside the store. Without one, SQLite would create one even for a
    reader, and a damaged header would leave two files behind.
    """
    if path.with_name(f"{path.name}-wal").exists():
        return False
    return _beginning(path)[18:] != b"\x01\x01"


def is_database(path: Path) -> bool:
    """Whether the file begins with the header of SQLite."""
    return _beginning(path).startswith(SQLITE)


def _beginning(path: Path) -> bytes:
    """The first 20 bytes; a file that would make SQLite wait for them is refused."""
    with opened_at_once(path) as file:
        head = file.read(20)
    if head is None:
        raise StoreError(
            f"{path}: wanted a store made by `capax sweep`, got a file that never ends"
        )
    return head


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Convert SQLite's errors into one line about the state of the store."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{path}: the store already has this run ({error})") from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # SQLite quotes the damaged schema in its message: bytes of any kind
        text = one_line(str(error), 200)
        if "readonly" in text:
            raise StoreError(f"{path}: could not be written ({text})") from error
        if "full" in text or "disk I/O" in text:
            raise StoreError(
                f"{path}: could not be written ({text}); finished trials are safe, "
                "make room and run the same command again"
            ) from error
        raise StoreError(
            f"{path}: not a readable Capax store ({text}); {_what_is_left(path)}"
        ) from error


def _what_is_left(path: Path) -> str:
    return f"`capax doctor {path}` shows what can still be read"


def is_empty(connection: sqlite3.Connection) -> bool:
    """A file without a table: new, or left by a process that died before creating one."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return tables == 0 and connection.execute("PRAGMA page_count").fetchone()[0] <= 1


def create(connection: sqlite3.Connection, experiment: Experiment) -> None:
    """Create all tables of a new store in one transaction."""
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


def check_before_writing(path: Path) -> bool:
    """Check a file before it is opened for writing: SQLite may write to files that are not stores.

    A journal beside it is left by a process that died while creating the store; its changes are
    undone when the file is opened, and checked after. Returns whether the whole file was checked,
    which takes seconds with a million runs.
    """
    unfinished = path.with_name(f"{path.name}-journal").exists()
    if path.is_file() and path.stat().st_size and not unfinished:
        with explained(path), closing(connect(path, "ro")) as connection:
            if not is_empty(connection):
                check_whole(path, connection)
                return True
    return False


def check_whole(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `StoreError` unless this is a Capax store, undamaged as far as SQLite can see."""
    check_kind(path, connection)
    problem = problem_of(connection)
    if problem:
        raise StoreError(f"{path}: damaged store ({problem}); {_what_is_left(path)}")


def problem_of(connection: sqlite3.Connection) -> str | None:
    """The first problem of a store; later problems are not reported."""
    return _missing(connection) or _damage(connection) or _nonsense(connection)


def _missing(connection: sqlite3.Connection) -> str | None:
    """The first table or column that is missing, or a view or trigger that Capax did not make."""
    kinds = dict(connection.execute("SELECT name, type FROM sqlite_master"))
    for name, kind in kinds.items():
        if kind in ("view", "trigger"):
            return f"a {kind} called {one_line(str(name), 40)}"
    for table, columns in COLUMNS.items():
        if kinds.get(table) != "table":
            return f"no table {table}"
        found = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        lost = [column for column in columns if column not in found]
        if lost:
            return f"no column {table}.{lost[0]}"
    return None


def _damage(connection: sqlite3.Connection) -> str | None:
    """Damaged pages and values of the wrong type, as SQLite reports them."""
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    return None if verdict == "ok" else one_line(str(verdict), 120)


def _nonsense(connection: sqlite3.Connection) -> str | None:
    """A row with numbers that no sweep writes."""
    for table, wrong in NONSENSE.items():
        row = connection.execute(f"SELECT rowid FROM {table} WHERE {wrong} LIMIT 1").fetchone()
        if row is not None:
            return f"row {row[0]} of {table} holds numbers that no sweep writes"
    return None


def adopt(connection: sqlite3.Connection, old: Experiment, new: Experiment) -> dict[str, int]:
    """Store new panels, T and search settings; returns, by panel, the number of its search.

    A search whose settings changed gets the next number: it knows the trials of earlier searches
    from the start and numbers its own, so that it can be resumed like any other.
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
