"""`capax export`: the runs of a store as CSV or Parquet, a network for other verifiers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.errors import InputError, counted

if TYPE_CHECKING:
    from capax.sweep.storage.store import Store, StoreError


def export(
    source: Annotated[Path, typer.Argument(help="Store of `capax sweep`, or a weights file.")],
    out: Annotated[Path | None, typer.Option(help="File to write: .csv or .parquet.")] = None,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Add the formula of each kept model (decompiled).")
    ] = False,
    settings: Annotated[
        bool, typer.Option("--settings", help="Add one column for each setting of a run.")
    ] = False,
    vnnlib: Annotated[
        Path | None, typer.Option(help="Folder for ONNX and VNN-LIB files of a weights file.")
    ] = None,
    function: Annotated[
        str | None, typer.Option(help="With --vnnlib: the formula. Default: the compiled one.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Write one row per run: its trial, its outcome, its full spec and versions.

    Every axis of the experiment is a column; with --settings every setting of a run is one.

    With --formulas, kept models are decompiled: their formula, and how it relates to the target.
    From a damaged store, or a store of another version, the readable runs are saved: exit code 1.

    With --vnnlib the source is a network: compiled, or trained with --function. The folder gets an
    ONNX file, a VNN-LIB property for each pattern of the relevant bits, and the known answers.

    Example: `capax export out/figure2.sqlite --out runs.parquet`
    Example: `capax export weights.safetensors --vnnlib instances`
    """
    if vnnlib is not None:
        if out is not None or formulas or settings:
            raise InputError("--vnnlib: cannot be combined with --out, --formulas or --settings")
        _for_verifiers(source, vnnlib, function, as_json)
    elif out is None:
        raise InputError("--out: give a .csv or .parquet file (or --vnnlib for a network)")
    elif function is not None:
        raise InputError("--function: needs --vnnlib as well")
    else:
        _runs(source, out, formulas, settings, as_json)


def _for_verifiers(source: Path, folder: Path, function: str | None, as_json: bool) -> None:
    """The network of a weights file as ONNX, its properties, and their known answers."""
    from capax.reading import existing

    existing(source, "a weights file")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: the folder is not empty; give a new one")
    from capax.boolean import parse
    from capax.proving.vnnlib import length, network_and_function, verification

    model, f = network_and_function(source)
    if function is not None:
        f = parse(function, length(model))
    if f is None:
        raise InputError('--function: a trained network needs its formula, such as "x1 & x4"')
    found = verification(model, f, source.stem)
    found.write(folder)
    count = {a: sum(i.answer == a for i in found.instances) for a in ("unsat", "sat", "unknown")}
    payload = {"source": str(source), "vnnlib": str(folder), "instances": len(found.instances),
               **count}  # fmt: skip
    told = ", ".join(f"{number} {answer}" for answer, number in count.items())
    line = f"{folder}: {counted(len(found.instances), 'instance')} ({told})"
    emit(payload, as_json, lambda console: console.print(line))


def _runs(store: Path, out: Path, formulas: bool, settings: bool, as_json: bool) -> None:
    from capax.reading import existing_store

    existing_store(store)
    from capax.analysis.tables.frames import checked_destination
    from capax.analysis.tables.frames import export as write
    from capax.sweep.storage.store import Store, StoreError

    checked_destination(out)
    try:
        opened = Store.read(store)
    except StoreError as error:
        _saved(store, out, error, as_json)
        raise typer.Exit(1) from None
    with opened:
        computed = _computed(opened) if formulas else None
        rows = write(opened, out, computed, settings=settings)
    payload = {"store": str(store), "out": str(out), "runs": rows}
    emit(payload, as_json, lambda console: console.print(f"{out}: {counted(rows, 'run')}"))


def _saved(store: Path, out: Path, error: "StoreError", as_json: bool) -> None:
    """Save the readable runs; without any, raise `error`."""
    from capax.analysis.tables.frames import checked_destination, write_frame
    from capax.analysis.tables.salvaged import runs_lost, salvaged_frame
    from capax.sweep.storage.salvage import examine

    remains = examine(store)
    if not any(left.table == "runs" and left.rows for left in remains.tables):
        raise error
    rows = write_frame(salvaged_frame(remains), checked_destination(out))
    lost = runs_lost(remains)
    note(f"{store}: {remains.problem or 'damaged'}")
    payload = {"store": str(store), "out": str(out), "runs": rows, "lost": lost,
               "problem": remains.problem}  # fmt: skip
    line = f"{out}: {counted(rows, 'run')} saved" + (f", at least {lost} lost" if lost else "")
    emit(payload, as_json, lambda console: console.print(line))


def _computed(store: "Store") -> dict[str, dict[str, str]]:
    """Formula and kind of every run whose parameters were kept, by run id."""
    from capax.analysis.tables.formulas import formulas_of

    return formulas_of(store)


def register(app: typer.Typer) -> None:
    app.command("export")(export)
