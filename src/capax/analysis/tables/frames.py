"""A store as tables: pandas in Python, CSV or Parquet on disk."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from capax.analysis.tables.run_columns import RunColumns
from capax.errors import InputError
from capax.files import check_writable, write_atomically
from capax.sweep.storage.store import Store

if TYPE_CHECKING:
    import pandas as pd

# CROSS JOIN keeps the order of the tables: trials come in the order of their index, without a sort
# of all runs. A session has the same versions in all its runs: they are added later.
_RUNS = """
    SELECT r.run_id, r.trial_id, t.panel, t.T, t.m, t.number AS trial, r.restart,
    t.solved AS trial_solved, r.outcome, r.solved_step, r.steps, r.seconds, r.path, r.reason,
    t.finished, r.spec, r.session AS versions
    FROM trials t CROSS JOIN runs r USING (trial_id)
    ORDER BY t.panel, t.T, t.m, t.number, r.restart
"""
_BATCH = 20_000  # runs of an export that are in memory at once
FORMATS = (".csv", ".parquet")
_ALL, _NONE = 2**31 - 1, RunColumns(())


def runs_frame(store: Store) -> "pd.DataFrame":
    """One row per run: its trial, its outcome, its spec and versions (JSON)."""
    import pandas as pd

    blocks = [*_blocks(store, _ALL)]
    return _typed(blocks[0]) if blocks else pd.DataFrame()


def _versions(store: Store) -> dict[int, str]:
    """The versions of every session, as JSON."""
    return {row["session"]: row["versions"] for row in store.select("SELECT * FROM sessions")}


Block = dict[str, Sequence[Any]]
"""Runs by columns."""


def _blocks(store: Store, size: int, further: RunColumns = _NONE) -> Iterator[Block]:
    """The columns of a table of runs, `size` runs at a time; further columns are text."""
    versions = _versions(store)
    for block in store.blocks(_RUNS, size):
        found: Block = dict(block)
        found["trial_solved"] = [*map(bool, block["trial_solved"])]
        found["versions"] = [*map(versions.get, block["versions"])]
        if further.names:
            cells = map(further.values, block["panel"], block["spec"], block["run_id"])
            columns = zip(further.names, zip(*cells, strict=True), strict=True)
            found.update((name, [*map(str, column)]) for name, column in columns)
        yield found


def _typed(block: Block) -> "pd.DataFrame":
    import pandas as pd

    frame = pd.DataFrame(block)
    frame["solved_step"] = frame["solved_step"].astype("Int64")
    return frame


def trials_frame(store: Store) -> "pd.DataFrame":
    """One row per trial: panel, T, m, number, solved, and the number of its runs."""
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

    Raises `InputError` for another ending, before the store is read.
    """
    target = checked_destination(path)
    further = RunColumns.of(store, columns, settings=settings)
    written = _runs_csv if target.suffix == ".csv" else _runs_parquet
    total = 0

    def blocks() -> Iterator[Block]:
        nonlocal total
        for block in _blocks(store, _BATCH, further):
            total += len(block["run_id"])
            yield block

    write_atomically(target, lambda file: written(blocks(), file))
    return total


def _runs_csv(blocks: Iterator[Block], file: IO[bytes]) -> None:
    """Runs as pandas writes them, but several times as fast: column by column."""
    for number, block in enumerate(blocks):
        head = [] if number else [",".join(_csv_cells([*block]))]
        lines = map(",".join, zip(*map(_csv_cells, block.values()), strict=True))
        file.write("\n".join([*head, *lines, ""]).encode())


def _csv_cells(column: Sequence[Any]) -> Sequence[str]:
    """Values as `csv` writes them; a frequent text is converted once."""
    kinds = {*map(type, column)}
    if str not in kinds:
        whole = type(None) not in kinds
        return [*map(str, column)] if whole else ["" if v is None else str(v) for v in column]
    if kinds == {str} and not _needs_quotes("".join(column)):
        return column
    distinct = {*column}
    if len(distinct) > len(column) / 2:
        return [*map(_csv_cell, column)]
    cells = {value: _csv_cell(value) for value in distinct}
    return [*map(cells.__getitem__, column)]


def _csv_cell(value: str | None) -> str:
    """A value, in quotes only if necessary."""
    text = value or ""
    return '"' + text.replace('"', '""') + '"' if _needs_quotes(text) else text


def _needs_quotes(text: str) -> bool:
    return '"' in text or "," in text or "\n" in text or "\r" in text


def _runs_parquet(blocks: Iterator[Block], file: IO[bytes]) -> None:
    """Runs with the types of `runs_frame`, which pandas finds again when it reads them."""
    import pandas as pd
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    first = next(blocks, None)
    few = {name: column[:1] for name, column in (first or {}).items()}
    schema = pa.Schema.from_pandas(_typed(few) if few else pd.DataFrame(), preserve_index=False)
    with ParquetWriter(file, schema) as writer:
        for block in chain([first] if first else [], blocks):
            arrays = [pa.array(block[field.name], field.type) for field in schema]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


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

    def write(file: IO[bytes]) -> None:
        if target.suffix == ".csv":
            frame.to_csv(file, index=False)
        else:
            frame.to_parquet(file, index=False)

    write_atomically(target, write)
    return len(frame)
