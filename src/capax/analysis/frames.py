"""A store as tables: pandas in Python, CSV or Parquet on disk."""

from pathlib import Path
from typing import TYPE_CHECKING

from capax.errors import InputError
from capax.files import check_writable, write_atomically
from capax.sweep.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

_RUNS = """
    SELECT r.run_id, r.trial_id, t.panel, t.T, t.m, t.number AS trial, r.restart,
    t.solved AS trial_solved, r.outcome, r.solved_step, r.steps, r.seconds, r.path, r.reason,
    t.finished, r.spec, s.versions
    FROM runs r JOIN trials t USING (trial_id) JOIN sessions s USING (session)
    ORDER BY t.panel, t.T, t.m, t.number, r.restart
"""
FORMATS = (".csv", ".parquet")


def runs_frame(store: Store) -> "pd.DataFrame":
    """One row per run: where it belongs, how it ended, its spec and versions (JSON)."""
    import pandas as pd

    rows = [dict(row) for row in store.select(_RUNS)]
    frame = pd.DataFrame(rows)
    if rows:
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


def export(store: Store, path: Path | str, columns: dict[str, dict[str, str]] | None = None) -> int:
    """Write all runs to `path`, CSV or Parquet by its ending; the number of rows.

    columns: further columns by run id, such as the formulas of kept models.

    Raises `InputError` for another ending, before anything is read.
    """
    target = checked_destination(path)
    frame = runs_frame(store)
    for name in sorted({name for row in (columns or {}).values() for name in row}):
        frame[name] = [(columns or {}).get(run, {}).get(name, "") for run in frame["run_id"]]
    return write_frame(frame, target)


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
    if target.suffix == ".csv":
        write_atomically(target, lambda file: file.write(frame.to_csv(index=False).encode()))
    else:
        write_atomically(target, lambda file: frame.to_parquet(file, index=False))
    return len(frame)
