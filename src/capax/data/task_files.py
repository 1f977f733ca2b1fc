"""A task as a file that other tools open: .npz (NumPy), .csv or .parquet, written atomically."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from capax.data.file_task import FileTask
from capax.data.task import Task, TaskSpec
from capax.errors import InputError, require
from capax.files import check_writable, write_atomically

MAX_TABLE_COLUMNS = 20_000
"""CSV and Parquet have one column for each bit, and at most this many."""


def write_task(path: Path | str, spec: TaskSpec | FileTask, task: Task) -> Path:
    """Write `task` to `path`, in the format of its ending.

    .npz: arrays X_train, y_train, X_validation, y_validation, support, rejections (training sets
    thrown away before this one), and the spec as JSON text; `read_examples` reads it back.
    .csv, .parquet: one row per example with columns split (train/validation), y, x0 .. x{T-1};
    the Parquet file also carries spec and support in its metadata.
    Raises `InputError` for another ending, a folder that does not exist, or a table too wide.
    """
    writer = check_destination(path, spec)
    return write_atomically(path, lambda file: writer(file, spec, task))


def check_destination(
    path: Path | str, spec: TaskSpec | FileTask
) -> Callable[[IO[bytes], Any, Any], None]:
    """The writer for `path`, or an early `InputError` before any data is drawn."""
    suffix = Path(path).suffix.lower()
    writers = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet}
    require(suffix in writers, "out", "a name ending in .npz, .csv or .parquet", str(path))
    if suffix != ".npz" and spec.T > MAX_TABLE_COLUMNS:
        raise InputError(f"out: T = {spec.T} is too wide for {suffix}, use .npz")
    check_writable(path)
    return writers[suffix]


def _write_npz(file: IO[bytes], spec: TaskSpec | FileTask, task: Task) -> None:
    """The same bytes with every Python that has the same zlib. A sweep draws its trials by the hash
    of its data file, and `np.savez_compressed` writes other headers with Python 3.11.2 than with
    3.11.7."""
    arrays = {
        "X_train": np.asarray(task.X_train),
        "y_train": np.asarray(task.y_train),
        "X_validation": np.asarray(task.X_validation),
        "y_validation": np.asarray(task.y_validation),
        "support": np.array(task.support, dtype=np.int64),
        "rejections": np.array(task.rejections, dtype=np.int64),
        "spec": np.array(spec.model_dump_json()),
    }
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3  # also on Windows
            entry.file_size = array.nbytes  # a size that needs other headers is known before
            with archive.open(entry, "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _write_csv(file: IO[bytes], spec: TaskSpec | FileTask, task: Task) -> None:
    from pyarrow import csv

    csv.write_csv(_table(spec, task), file, csv.WriteOptions(quoting_style="none"))


def _write_parquet(file: IO[bytes], spec: TaskSpec | FileTask, task: Task) -> None:
    from pyarrow import parquet

    parquet.write_table(_table(spec, task), file)


def _table(spec: TaskSpec | FileTask, task: Task) -> Any:
    import pyarrow as pa

    X = np.concatenate([task.X_train, task.X_validation])
    split = ["train"] * len(task.y_train) + ["validation"] * len(task.y_validation)
    columns: dict[str, Any] = {"split": split}
    columns["y"] = np.concatenate([task.y_train, task.y_validation])
    columns |= {f"x{t}": np.ascontiguousarray(X[:, t]) for t in range(X.shape[1])}
    about = {"capax_spec": spec.model_dump_json(), "capax_support": str(list(task.support))}
    return pa.table(columns).replace_schema_metadata(about)
