"""A store as tables: pandas in Python, CSV or Parquet on disk."""

import re
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import Row
from typing import IO, TYPE_CHECKING

from capax.analysis.tables.run_columns import RunColumns
from capax.errors import InputError
from capax.files import check_writable, write_atomically
from capax.sweep.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

# CROSS JOIN keeps the order of the tables: trials come in the order of their index, and no sort has
# to hold all runs at once. A session has the same versions in all its runs: they are put in later.
_RUNS = """
    SELECT r.run_id, r.trial_id, t.panel, t.T, t.m, t.number AS trial, r.restart,
    t.solved AS trial_solved, r.outcome, r.solved_step, r.steps, r.seconds, r.path, r.reason,
    t.finished, r.spec, r.session AS versions
    FROM trials t CROSS JOIN runs r USING (trial_id)
    ORDER BY t.panel, t.T, t.m, t.number, r.restart
"""
_BATCH = 20_000  # runs of an export that are in memory at once
FORMATS = (".csv", ".parquet")


def runs_frame(store: Store) -> "pd.DataFrame":
    """One row per run: where it belongs, how it ended, its spec and versions (JSON)."""
    import pandas as pd

    rows = store.select(_RUNS)
    return _typed(rows, _versions(store)) if rows else pd.DataFrame()


def _versions(store: Store) -> dict[int, str]:
    """The versions of every session, as JSON."""
    return {row["session"]: row["versions"] for row in store.select("SELECT * FROM sessions")}


def _typed(rows: list[Row], versions: dict[int, str]) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame([tuple(row) for row in rows], columns=rows[0].keys())
    frame["versions"] = frame["versions"].map(versions)
    frame["trial_solved"] = frame["trial_solved"].astype(bool)
    frame["solved_step"] = frame["solved_step"].astype("Int64")
    return frame


def trials_frame(store: Store) -> "pd.DataFrame":
    """One row per trial: panel, T, m, number, solved, and how many runs it took."""
    import pandas as pd

    query = """
        SELECT t.trial_id, t.panel, t.T, t.m, t.number AS trial, t.solved, count(r.run_id) AS runs
        FROM trials t LEFT JOIN runs r USING (trial_id) GROUP BY t.trial_id
        ORDER BY t.panel, t.T, t.m, t.number
    """
    frame = pd.DataFrame([dict(row) for row in store.select(query)])
    if len(frame):
        frame["solved"] = frame["solved"].astype(bool)
    return frame


def curves_frame(store: Store) -> "pd.DataFrame":
    """One row per evaluation of every run: run_id, T, m, restart, step and the measured series."""
    import pandas as pd

    query = """
        SELECT r.run_id, t.panel, t.T, t.m, t.number AS trial, r.restart, r.outcome, r.curves
        FROM runs r JOIN trials t USING (trial_id)
        ORDER BY t.panel, t.T, t.m, t.number, r.restart
    """
    parts = []
    for row in store.select(query):
        fields = dict(row)
        curves = store.series(fields.pop("curves"), f"curves of {row['run_id']}")
        parts.append(pd.DataFrame({**fields, **curves}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def export(
    store: Store,
    path: Path | str,
    columns: dict[str, dict[str, str]] | None = None,
    *,
    settings: bool = False,
) -> int:
    """Write all runs to `path`, CSV or Parquet by its ending; the number of rows.

    Every axis of the experiment has a column. columns: further columns by run id, such as the
    formulas of kept models. settings: one column for each setting of a run.

    Raises `InputError` for another ending, before anything is read.
    """
    target = checked_destination(path)
    further = RunColumns.of(store, columns, settings=settings)
    batches, versions = store.batches(_RUNS, _BATCH), _versions(store)
    if target.suffix == ".csv":
        return _exported_csv(batches, versions, target, further)

    def frames() -> "Iterator[pd.DataFrame]":
        for rows in batches:
            frame = _typed(rows, versions)
            cells = [[str(cell) for cell in further.values(row)] for row in rows]
            for i, name in enumerate(further.names):
                frame[name] = [row[i] for row in cells]
            yield frame

    return write_frames(frames(), target)


def _exported_csv(
    batches: Iterator[list[Row]], versions: dict[int, str], target: Path, further: RunColumns
) -> int:
    """Runs as CSV, as pandas writes it, but several times as fast."""
    total, ends = 0, {session: _csv_cell(text) for session, text in versions.items()}

    def write(file: IO[bytes]) -> None:
        nonlocal total
        for rows in batches:
            names = rows[0].keys()
            solved = names.index("trial_solved")
            lines = [] if total else [",".join(map(_csv_cell, (*names, *further.names)))]
            for row in rows:
                *values, session = row
                values[solved] = bool(values[solved])
                cells = [*map(_csv_cell, values), ends.get(session, "")]
                if further.names:
                    cells += map(_csv_cell, further.values(row))
                lines.append(",".join(cells))
            file.write("\n".join([*lines, ""]).encode())
            total += len(rows)

    write_atomically(target, write)
    return total


_QUOTED = re.compile('[",\r\n]').search


def _csv_cell(value: object) -> str:
    """A value as `csv` writes it: in quotes only where it must be."""
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if value.isalnum() or not _QUOTED(value):  # the first is quicker, for identities
        return value
    return '"' + value.replace('"', '""') + '"'


def checked_destination(path: Path | str) -> Path:
    """`path`, if a table can be written there. Raises `InputError` otherwise."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise InputError(
            f"out: wanted a name ending in {' or '.join(FORMATS)}, got {target.name!r}"
        )
    check_writable(target)
    return target


def write_frame(frame: "pd.DataFrame", target: Path) -> int:
    """Write a table, CSV or Parquet by its ending; the number of rows."""
    return write_frames(iter([frame]), target)


def write_frames(frames: "Iterator[pd.DataFrame]", target: Path) -> int:
    """Write a table that comes in parts, one of them in memory at a time; the number of rows."""
    written = _written_csv if target.suffix == ".csv" else _written_parquet
    rows = [0]

    def counted() -> "Iterator[pd.DataFrame]":
        for frame in frames:
            rows[0] += len(frame)
            yield frame

    write_atomically(target, lambda file: written(counted(), file))
    return rows[0]


def _written_csv(frames: "Iterator[pd.DataFrame]", file: IO[bytes]) -> None:
    for number, frame in enumerate(frames):
        file.write(frame.to_csv(index=False, header=number == 0).encode())


def _written_parquet(frames: "Iterator[pd.DataFrame]", file: IO[bytes]) -> None:
    import pandas as pd
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    first = next(frames, pd.DataFrame())
    table = pa.Table.from_pandas(first, preserve_index=False)
    with ParquetWriter(file, table.schema) as writer:
        writer.write_table(table)
        for frame in frames:
            part = pa.Table.from_pandas(frame, schema=table.schema, preserve_index=False)
            writer.write_table(part)
