"""Tables of numbers from files: points (one per row) or a matrix of distances."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from capax.array_files import load_npy
from capax.errors import require
from capax.reading import existing, read_text

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_table(path: Path | str) -> Float[np.ndarray, "rows columns"]:
    """The numbers of a .csv, .tsv, .txt (spaces) or .npy file; a first line of names is skipped.

    Raises `InputError` naming the file, and the line where a cell is not a number or a row has
    another length than the first one.
    """
    file = existing(path, "a file with one point per row")
    if file.suffix == ".npy":
        return _read_npy(file)
    lines = _split_lines(file)
    if lines and not any(_is_number(cell) for cell in lines[0][1]):
        lines = lines[1:]
    require(lines, str(file), "at least one row of numbers", "an empty file")
    width = len(lines[0][1])
    rows = [_parse(file, number, cells, width) for number, cells in lines]
    return np.array(rows, dtype=np.float64)


def _split_lines(file: Path) -> list[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not empty."""
    text = read_text(file)
    separator = SEPARATORS.get(file.suffix.lower())
    if separator is None:
        rows = [line.split() for line in text.splitlines()]
    else:
        rows = [
            [cell.strip().strip('"') for cell in line.split(separator)]
            for line in text.splitlines()
        ]
    return [(number, row) for number, row in enumerate(rows, start=1) if any(row)]


def _parse(file: Path, number: int, cells: list[str], width: int) -> list[float]:
    line = f"{file}, line {number}"
    require(len(cells) == width, line, f"{width} numbers like the first row", len(cells))
    for cell in cells:
        require(_is_number(cell), line, "numbers only", cell)
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_npy(file: Path) -> Float[np.ndarray, "rows columns"]:
    table = load_npy(file)
    require(table.dtype.kind in "biuf", str(file), "a table of numbers", f"dtype {table.dtype}")
    table = table[:, None] if table.ndim == 1 else table
    require(table.ndim == 2, str(file), "a table with one point per row", f"shape {table.shape}")
    return table.astype(np.float64)
