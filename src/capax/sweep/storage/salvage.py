"""Salvage from a damaged store: every row that can still be read, table by table.

A table is a tree of pages in the order of row numbers. Damage in the middle cuts it in two: rows
are read upwards until the damage, then downwards until it. Row numbers grow in an intact table; if
they do not, pages form a circle, and reading stops. Rows are only appended, so the largest number,
or the count of an intact index, gives the number of rows.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capax.foreign import one_line
from capax.reading import existing
from capax.sweep.storage.file import address, problem_of
from capax.sweep.storage.schema import APPLICATION_ID, SCHEMA_VERSION

_UNREADABLE = (sqlite3.Error, UnicodeDecodeError)  # messages quote damaged bytes


@dataclass(frozen=True)
class Left:
    """The readable rows of a table; `lost`: the known number of other rows."""

    table: str
    columns: tuple[str, ...]
    rows: int
    lost: int
    problem: str = ""


@dataclass(frozen=True)
class Remains:
    """A file that should be a store: its kind, its problem, its readable rows.

    `problem` is empty for an intact store of this version.
    """

    path: Path
    kind: str
    schema: int | None
    problem: str
    tables: tuple[Left, ...] = ()

    @property
    def is_store(self) -> bool:
        return self.kind == "a Capax store"

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        tables = {
            left.table: {"rows": left.rows, "lost": left.lost, "problem": left.problem}
            for left in self.tables
        }
        return {"store": str(self.path), "kind": self.kind, "schema": self.schema,
                "problem": self.problem, "tables": tables}  # fmt: skip


def examine(path: Path | str) -> Remains:
    """Read the whole file once and report its readable rows; the file is not changed."""
    file = existing(path, "a store made by `capax sweep`")
    try:
        with closing(_opened(file)) as connection:
            kind, schema = _kind(connection)
            left = [_counted(connection, name) for name in _tables(connection)]
            return Remains(file, kind, schema, _problem(connection, kind, schema), tuple(left))
    except _UNREADABLE as error:
        reason = one_line(str(error), 120)
        return Remains(file, "no SQLite database that can be opened", None, reason)


def _problem(connection: sqlite3.Connection, kind: str, schema: int | None) -> str:
    if kind != "a Capax store":
        return "not made by Capax"
    if schema != SCHEMA_VERSION:
        return f"schema version {schema}, this Capax reads {SCHEMA_VERSION}"
    try:
        return problem_of(connection) or ""
    except _UNREADABLE as error:
        return one_line(str(error), 120)


def rows_left(path: Path | str, table: str) -> list[dict[str, Any]]:
    """The readable rows of one table, by column; empty without such a table."""
    with closing(_opened(Path(path))) as connection:
        columns = _columns(connection, table)
        numbered = dict(_readable(connection, table, columns))
        return [dict(zip(columns, numbered[n], strict=True)) for n in sorted(numbered)]


def _opened(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(address(path, "ro"), uri=True, timeout=30.0)
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.execute("PRAGMA writable_schema = ON")  # opens a truncated file too
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _kind(connection: sqlite3.Connection) -> tuple[str, int | None]:
    mark = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    return ("a Capax store", version) if mark == APPLICATION_ID else ("another database", None)


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Plain tables with row numbers, in the order of their creation."""
    found = []
    with suppress(*_UNREADABLE):
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql LIKE 'CREATE TABLE%'"
        ):
            if "WITHOUT ROWID" not in sql.upper() and len(found) < 100:
                found.append(name)
    return found


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    quoted = _quoted(table)
    with suppress(*_UNREADABLE):
        return tuple(row[1] for row in connection.execute(f"PRAGMA table_info({quoted})"))
    return ()


def _counted(connection: sqlite3.Connection, table: str) -> Left:
    columns = _columns(connection, table)
    problems: list[str] = []
    numbers = {number for number, _ in _readable(connection, table, columns, problems)}
    known = max(numbers, default=0) if table != "jobs" else 0  # rows of jobs are replaced
    with suppress(*_UNREADABLE):
        known = max(known, _indexed(connection, table))
    lost = max(0, known - len(numbers)) if problems else 0
    return Left(table, columns, len(numbers), lost, one_line("; ".join(problems), 120))


def _indexed(connection: sqlite3.Connection, table: str) -> int:
    return connection.execute(f"SELECT count(*) FROM {_quoted(table)}").fetchone()[0]


def _readable(
    connection: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    problems: list[str] | None = None,
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """(row number, values) from both ends; the reason for a stop is added to `problems`."""
    said = problems if problems is not None else []
    if not columns:
        return
    names = ", ".join(map(_quoted, columns))
    query = f"SELECT rowid, {names} FROM {_quoted(table)} ORDER BY rowid"
    low: int | None = None
    try:
        for number, *values in connection.execute(query):
            if low is not None and number <= low:
                said.append("row numbers that do not grow")
                break
            yield number, tuple(values)
            low = number
        else:
            return
    except (*_UNREADABLE, MemoryError) as error:
        said.append(str(error) or "a value that does not fit into memory")
    high: int | None = None
    with suppress(*_UNREADABLE, MemoryError):
        for number, *values in connection.execute(f"{query} DESC"):
            if (high is not None and number >= high) or (low is not None and number <= low):
                return
            yield number, tuple(values)
            high = number


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
