"""The store: one SQLite file per sweep, written by one process, safe at every moment.

A finished trial with all its runs is one transaction, so `kill -9` loses at most what was still in
flight. Write-ahead logging lets others read while the sweep writes. A lock beside the file keeps a
second sweep out; the operating system drops it when its owner dies, however it dies.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from capax.errors import CapaxError, InputError
from capax.files import check_writable
from capax.sweep.lock import Lock
from capax.sweep.search import Cell
from capax.sweep.spec import Experiment
from capax.sweep.store_schema import APPLICATION_ID, SCHEMA, SCHEMA_VERSION
from capax.sweep.trial import Outcome, Run
from capax.sweep.versions import versions


class StoreError(CapaxError):
    """A store that cannot be read or written; what is in it stays as it was."""


class Store:
    """An open store. Use `Store.create_or_resume` to write and `Store.read` to look."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._session: int | None = None

    @classmethod
    def create_or_resume(cls, path: Path | str, experiment: Experiment) -> "Store":
        """Open `path` for writing, creating it if needed, for this experiment and no other.

        Raises `InputError` when another process writes it or it belongs to another spec,
        `StoreError` when it is damaged.
        """
        target = Path(path)
        check_writable(target)
        lock = Lock(target)
        try:
            store = cls(target, _connect(target, "rwc"), lock)
            with _explained(target):
                store._prepare(experiment)
        except BaseException:
            lock.release()
            raise
        return store

    @classmethod
    def read(cls, path: Path | str) -> "Store":
        """Open `path` for reading, also while a sweep writes it."""
        target = Path(path)
        if not target.is_file():
            raise InputError(f"{target}: wanted a store made by `capax sweep`, got no such file")
        store = cls(target, _connect(target, "ro"), None)
        with _explained(target):
            store._check_kind()
        return store

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and let others in. A store that was written is one file again."""
        if self._lock is not None:
            # Fails while somebody reads (then the log stays, and the next writer folds it in), on a
            # damaged file and on a closed one: nothing that should keep a store from closing.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def experiment(self) -> Experiment:
        """The experiment this store belongs to."""
        return Experiment(**json.loads(self.meta("experiment")))

    def meta(self, key: str) -> str:
        """A fact about the whole store: experiment, digest, created."""
        with _explained(self.path):
            row = self._connection.execute(
                "SELECT value FROM meta WHERE key = ?", (key,)
            ).fetchone()
        if row is None:
            raise StoreError(f"{self.path}: damaged store, {key!r} is missing")
        return row[0]

    def known(self, panel: str, T: int) -> dict[Cell, bool]:
        """Outcomes of the finished trials of a panel at T, by (m, trial number)."""
        rows = self.select(
            "SELECT m, number, solved FROM trials WHERE panel = ? AND T = ?", panel, T
        )
        return {(row["m"], row["number"]): bool(row["solved"]) for row in rows}

    def select(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Rows of a query, with columns by name."""
        with _explained(self.path):
            return self._connection.execute(query, values).fetchall()

    def parameters(self, run_id: str) -> bytes | None:
        """The safetensors bytes of a run whose parameters were kept."""
        rows = self.select("SELECT tensors FROM parameters WHERE run_id = ?", run_id)
        return rows[0]["tensors"] if rows else None

    def add(self, outcome: Outcome) -> None:
        """Write a finished trial and its runs: all of it or nothing.

        Raises `StoreError` when the disk is full; what was written before stays.
        """
        trial = outcome.trial
        with _explained(self.path), self._connection:
            session = self._session or self._new_session()
            self._connection.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    trial.trial_id,
                    trial.panel,
                    trial.T,
                    trial.m,
                    trial.index,
                    outcome.solved,
                    _now(),
                ),
            )
            for run in outcome.runs:
                self._connection.execute(
                    "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    _run_row(run, trial.trial_id, session),
                )
                if run.parameters is not None:
                    self._connection.execute(
                        "INSERT INTO parameters VALUES (?, ?)", (run.run_id, run.parameters)
                    )
        self._session = session  # only now is its row certain to be in the file

    def _new_session(self) -> int:
        """A row for the versions this process runs with."""
        cursor = self._connection.execute(
            "INSERT INTO sessions (started, versions) VALUES (?, ?)",
            (_now(), json.dumps(versions(), sort_keys=True)),
        )
        return cursor.lastrowid or 0

    def _prepare(self, experiment: Experiment) -> None:
        """Create the tables of a new file, or check that an old one is ours and intact."""
        empty = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and self._connection.execute("PRAGMA page_count").fetchone()[0] <= 1:
            self._create(experiment)
        self._check_kind()
        verdict = self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise StoreError(
                f"{self.path}: damaged store ({verdict}); restore a copy or start anew"
            )
        if self.meta("digest") != experiment.digest:
            edit = difference(self.experiment, experiment)
            raise InputError(
                f"{self.path}: belongs to another spec ({edit}); "
                "undo the edit or choose another --store"
            )
        self._connection.execute("PRAGMA journal_mode = WAL")

    def _create(self, experiment: Experiment) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in SCHEMA:
                self._connection.execute(statement)
            facts = {
                "experiment": experiment.model_dump_json(),
                "digest": experiment.digest,
                "created": _now(),
            }
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", facts.items())
            self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _check_kind(self) -> None:
        kind = self._connection.execute("PRAGMA application_id").fetchone()[0]
        if kind != APPLICATION_ID:
            raise StoreError(f"{self.path}: wanted a Capax store, got another SQLite database")
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version != SCHEMA_VERSION:
            raise StoreError(
                f"{self.path}: has schema version {version}, this Capax reads {SCHEMA_VERSION}; "
                "use the Capax that wrote it"
            )


def difference(old: Experiment, new: Experiment) -> str:
    """The first field in which two experiments differ, as `panels.x.T: (50,) became (50, 100)`."""
    before, after = _flat(old.model_dump(mode="json")), _flat(new.model_dump(mode="json"))
    for name in sorted({*before, *after} - {"claim"}):
        if before.get(name) != after.get(name):
            return f"{name}: {before.get(name)} became {after.get(name)}"
    return "settings differ"


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        pairs = [(entry.get("name", str(i)), entry) for i, entry in enumerate(value)]
    else:
        return {name: value}
    return {k: v for n, x in pairs for k, v in _flat(x, f"{name}.{n}".lstrip(".")).items()}


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    with _explained(path):
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, uri=True, timeout=30.0)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    return connection


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into one line that says what happened to the store."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise StoreError(f"{path}: refused a run it already has ({error})") from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "full" in text or "disk I/O" in text:
            raise StoreError(
                f"{path}: could not be written ({text}); finished trials are safe, "
                "free some space and run the same command again"
            ) from error
        raise StoreError(f"{path}: not a readable Capax store ({text})") from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _run_row(run: Run, trial_id: str, session: int) -> tuple[object, ...]:
    return (
        run.run_id,
        trial_id,
        run.restart,
        run.outcome,
        run.solved_step,
        run.steps,
        run.seconds,
        run.path,
        run.reason,
        json.dumps(run.spec, sort_keys=True),
        json.dumps(run.curves),
        session,
    )
