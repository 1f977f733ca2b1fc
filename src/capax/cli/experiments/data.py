"""`capax data`: draw a training and a validation set for a formula, for use anywhere."""

from pathlib import Path
from typing import Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import Formula, InputLength, LabelNoise, NumExamples
from capax.errors import InputError, counted
from capax.terminal import Terminal


def data(
    formula: Formula,
    T: InputLength,
    m: NumExamples,
    out: Annotated[Path | None, typer.Option(help="File to write: .npz, .csv or .parquet.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another draw.")] = 0,
    p: Annotated[str, typer.Option(help="P(bit = 1), or 'balanced': P(y = 1) = 1/2.")] = "balanced",
    support: Annotated[
        str, typer.Option(help="'formula', 'random', 'contiguous', or positions such as 2,3,10.")
    ] = "formula",
    noise: LabelNoise = 0.0,
    validation_size: Annotated[int, typer.Option(help="Number of validation examples.")] = 10_000,
    keep_ambiguous: Annotated[
        bool, typer.Option("--keep-ambiguous", help="Do not redraw ambiguous training sets.")
    ] = False,
    max_tries: Annotated[int, typer.Option(help="Training sets drawn before giving up.")] = 1000,
    json: JsonFlag = False,
) -> None:
    """Draw data for a sparse Boolean function: training set, validation set, hidden support.

    The same options give the same data on any machine. A training set that more than one placement
    of the function could have produced is drawn again, and the number of redraws is reported.

    Example: `capax data "maj(x1,x5,x9)" -T 50 -m 200 --seed 0 --out data.npz`
    """
    from capax.boolean.parser import parse
    from capax.data.task import TaskSpec, draw_task
    from capax.data.task_files import check_destination, write_task

    spec = TaskSpec(
        function=formula,
        T=T,
        m=m,
        p=_probability(p),
        support=_support(support),
        noise=noise,
        validation_size=validation_size,
        reject_ambiguous=not keep_ambiguous,
        max_tries=max_tries,
        seed=seed,
    )
    for remark in parse(formula).notes:
        note(remark)
    if out is not None:
        check_destination(out, spec)
    task = draw_task(spec)
    if out is not None:
        write_task(out, spec, task)
    summary = _summary(spec, task, out)
    emit(summary, json, lambda console: _render(summary, console))


def _probability(text: str) -> float | str:
    if text == "balanced":
        return text
    try:
        return float(text)
    except ValueError:
        raise InputError(f"p: wanted a number or 'balanced', got {text!r}") from None


def _support(text: str) -> Any:
    if text in ("formula", "random", "contiguous"):
        return text
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        wanted = "'formula', 'random', 'contiguous' or positions such as 2,3,10"
        raise InputError(f"support: wanted {wanted}, got {text!r}") from None


def _summary(spec: Any, task: Any, out: Path | None) -> dict[str, Any]:
    return {
        "spec": spec.model_dump(mode="json"),
        "p": spec.probability,
        "support": list(task.support),
        "train": {"examples": len(task.y_train), "ones": int(task.y_train.sum())},
        "validation": {"examples": len(task.y_validation), "ones": int(task.y_validation.sum())},
        "rejections": task.rejections,
        "out": None if out is None else str(out),
    }


def _render(summary: dict[str, Any], console: Terminal) -> None:
    positions = ", ".join(f"x{x}" for x in summary["support"])
    redraws = "not checked" if not summary["spec"]["reject_ambiguous"] else summary["rejections"]
    console.print(f"function     {summary['spec']['function']} on {positions or 'no position'}")
    console.print(f"inputs       T = {summary['spec']['T']}, P(bit = 1) = {summary['p']:.6g}")
    for name in ("train", "validation"):
        part = summary[name]
        console.print(
            f"{name:12} {counted(part['examples'], 'example')}, {part['ones']} with label 1"
        )
    console.print(f"redraws      {redraws}")
    if summary["out"]:
        console.print(f"written      {summary['out']}")


def register(app: typer.Typer) -> None:
    """Add `capax data` to the command line."""
    app.command()(data)
