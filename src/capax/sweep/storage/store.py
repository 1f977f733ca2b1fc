"""The store: one SQLite file per sweep, written by one process, safe at every moment.

A finished trial with all its runs is one transaction, so `kill -9` loses at most unfinished trials.
With write-ahead logging, others can read while the sweep writes. A lock beside the file prevents a
second sweep; the operating system releases it when its owner ends in any way.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from capax.errors import InputError, inside
from capax.files import check_writable
from capax.reading import check_depth, existing_store
from capax.sweep.experiments.spec import Experiment
from capax.sweep.searching.counts import Counts
from capax.sweep.searching.search import Cell
from capax.sweep.storage.file import StoreError as StoreError
from capax.sweep.storage.file import (
    adopt,
    check_before_writing,
    check_whole,
    connect,
    create,
    explained,
    is_empty,
    now,
)
from capax.sweep.storage.in_place import file_number, lost
from capax.sweep.storage.lock import Lock
from capax.sweep.storage.store_identity import difference
from capax.sweep.storage.unfinished import Unfinished as Unfinished
from capax.sweep.storage.versions import versions
from capax.sweep.trial import Outcome, Run


class Store:
    """An open store. Use `Store.create_or_resume` to write and `Store.read` to read."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: Lock | None) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._session: int | None = None
        self.device: str | None = None  # of the process that trains, if it is not this one
        self._searches: dict[str, int] = {}
        self._file = file_number(path)

    @classmethod
    def create_or_resume(cls, path: Path | str, experiment: Experiment) -> "Store":
        """Open `path` for writing, creating it if needed, for this experiment and no other.

        Values of T, search settings and panels may differ from the stored ones; known trials are
        kept. Raises `InputError` when another process writes it or it belongs to another spec,
        `StoreError` when it is damaged.
        """
        target = Path(path)
        check_writable(target)
        lock = Lock(target)
        try:
            is_checked = check_before_writing(target)
            store = cls(target, connect(target, "rwc"), lock)
        except BaseException:
            lock.release()
            raise
        try:
            with explained(target):
                store._prepare(experiment, is_checked=is_checked)
        except BaseException:
            store._give_up()
            raise
        return store

    @classmethod
    def read(cls, path: Path | str) -> "Store":
        """Open `path` for reading, also while a sweep writes it. Raises `StoreError` if damaged."""
        target = existing_store(path)
        store = cls(target, connect(target, "ro"), None)
        try:
            with explained(target):
                check_whole(target, store._connection)
        except BaseException:
            store.close()
            raise
        return store

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._check_in_place()
        finally:
            self.close()

    def close(self) -> None:
        """Close the file and release the lock. The write-ahead log is merged into the file."""
        if self._lock is not None:
            # Fails while another process reads (the next writer then merges the log), on
            # a damaged file and on a closed one: the store is closed anyway.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA busy_timeout = 0")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()
        if self._lock is not None:
            self._lock.release()

    def _check_in_place(self) -> None:
        """Raise `StoreError` if the file was deleted, moved or replaced while we wrote it."""
        if self._lock is not None and file_number(self.path) != self._file:
            self._file = file_number(self.path)  # reported once
            raise lost(self.path, self._connection)

    def _give_up(self) -> None:
        """Close a store that could not be prepared. A new file is removed, an old one unchanged."""
        self._connection.close()
        with suppress(OSError):
            if self.path.stat().st_size == 0:
                self.path.unlink()
        if self._lock is not None:
            self._lock.release()

    @property
    def experiment(self) -> Experiment:
        """The experiment of this store: all its panels and T, with the latest searches."""
        fields = self.plain(self.meta("experiment"), "experiment")
        with inside(f"{self.path}: damaged store, experiment: "):
            return Experiment(**fields)

    def plain(self, text: str, what: str) -> dict[str, Any]:
        """The JSON object in a field of the store. Raises `StoreError` for another value."""
        try:
            check_depth(text, what)
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise StoreError(f"{self.path}: damaged store, {what} is not a JSON object")
        return fields

    def series(self, text: str, what: str) -> dict[str, list[Any]]:
        """Curves of a run: lists of numbers of equal length. Raises `StoreError` otherwise."""
        found = self.plain(text, what)
        lists = all(isinstance(values, list) for values in found.values())
        if not lists or len({len(values) for values in found.values()}) > 1:
            raise StoreError(f"{self.path}: damaged store, {what} are not series of equal length")
        numbers = (value is None or isinstance(value, int | float)
                   for values in found.values() for value in values)  # fmt: skip
        if not all(numbers):
            raise StoreError(f"{self.path}: damaged store, {what} hold values that are not numbers")
        return found

    def meta(self, key: str) -> str:
        """A fact about the whole store: experiment, digest, created."""
        with explained(self.path):
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

    def counts(self, panel: str, T: int) -> Counts:
        """The same, counted by m in SQLite, so that a million trials need no memory."""
        rows = self.select(
            "SELECT m, sum(solved) AS solved, count(*) AS total FROM trials "
            "WHERE panel = ? AND T = ? GROUP BY m ORDER BY m",
            panel,
            T,
        )
        columns = (tuple(row[name] for row in rows) for name in ("m", "solved", "total"))
        return Counts(*columns)

    def known_before(self, panel: str, T: int) -> set[Cell]:
        """The known trials of an earlier search with other settings."""
        now = self._searches.get(panel, 0)
        rows = self.select(
            "SELECT m, number FROM trials WHERE panel = ? AND T = ? AND search < ?", panel, T, now
        )
        return {(row["m"], row["number"]) for row in rows}

    def unfinished(self) -> tuple[Unfinished, ...]:
        """The panels and T without a finished search, or with a note; in the experiment's order."""
        query = """
            SELECT j.panel, j.T, j.finished, j.note FROM jobs j
            WHERE j.search = (SELECT max(number) FROM searches s WHERE s.panel = j.panel)
        """
        closed = {(row["panel"], row["T"]): row for row in self.select(query)}
        found = []
        for panel in self.experiment.panels:
            for T in sorted(set(panel.T)):
                row = closed.get((panel.name, T))
                if row is None or row["note"] or not row["finished"]:
                    note = "" if row is None else row["note"]
                    found.append(Unfinished(panel.name, T, self._num_trials(panel.name, T), note))
        return tuple(found)

    def _num_trials(self, panel: str, T: int) -> int:
        query = "SELECT count(*) AS trials FROM trials WHERE panel = ? AND T = ?"
        (row,) = self.select(query, panel, T)
        return row["trials"]

    def close_job(self, panel: str, T: int, *, finished: bool = True, note: str = "") -> None:
        """Store that the search of a panel at T is finished, or why it stopped."""
        with explained(self.path), self._connection:
            self._connection.execute(
                "INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?)",
                (panel, T, self._searches.get(panel, 0), finished, note),
            )

    def select(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Rows of a query, with columns by name."""
        with explained(self.path):
            return self._connection.execute(query, values).fetchall()

    def blocks(self, query: str, size: int) -> Iterator[dict[str, tuple[Any, ...]]]:
        """Columns of a query by their names, `size` rows of it in memory at a time."""
        with explained(self.path):
            cursor = self._connection.cursor()
            cursor.row_factory = None
            names = [column[0] for column in cursor.execute(query).description]
            while rows := cursor.fetchmany(size):
                yield dict(zip(names, zip(*rows, strict=True), strict=True))

    def parameters(self, run_id: str) -> bytes | None:
        """The safetensors bytes of a run whose parameters were kept."""
        rows = self.select("SELECT tensors FROM parameters WHERE run_id = ?", run_id)
        return rows[0]["tensors"] if rows else None

    def add(self, outcome: Outcome) -> None:
        """Write a finished trial and its runs in one transaction.

        Raises `StoreError` when the disk is full; earlier trials stay in the store.
        """
        trial = outcome.trial
        with explained(self.path), self._connection:
            session = self._session or self._new_session()
            self._connection.execute(
                "INSERT INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    trial.trial_id,
                    trial.panel,
                    trial.T,
                    trial.m,
                    trial.index,
                    outcome.solved,
                    outcome.reason,
                    self._searches.get(trial.panel, 0),
                    now(),
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
        self._session = session  # from now on its row is in the file
        self._check_in_place()

    def _new_session(self) -> int | None:
        """A row for the versions this process runs with."""
        cursor = self._connection.execute(
            "INSERT INTO sessions (started, versions) VALUES (?, ?)",
            (now(), json.dumps(versions(self.device), sort_keys=True)),
        )
        return cursor.lastrowid

    def _prepare(self, experiment: Experiment, *, is_checked: bool) -> None:
        """Create the tables of a new file, or check that an old one is ours and intact."""
        if is_empty(self._connection):
            create(self._connection, experiment)
        if not is_checked:
            check_whole(self.path, self._connection)
        edit = self.meta("digest") != experiment.digest and difference(self.experiment, experiment)
        if edit:
            raise InputError(
                f"{self.path}: belongs to another spec ({edit}); "
                "undo the edit or choose another --store"
            )
        self._connection.execute("PRAGMA journal_mode = WAL")
        with self._connection:
            self._searches = adopt(self._connection, self.experiment, experiment)


def _run_row(run: Run, trial_id: str, session: int | None) -> tuple[object, ...]:
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
