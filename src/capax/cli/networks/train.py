"""`capax train`: one Transformer on one formula, its weights in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import (
    Formula,
    InputLength,
    LabelNoise,
    NumExamples,
    TokenWidth,
)
from capax.errors import counted
from capax.terminal import Terminal

if TYPE_CHECKING:
    from capax.training.one_model import Trained


def train(
    formula: Formula,
    T: InputLength = 50,
    m: NumExamples = 300,
    out: Annotated[Path | None, typer.Option(help="Write the weights here (.safetensors).")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Write its data here (.npz), for bound and decompile.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed, another sample.")] = 0,
    restarts: Annotated[int, typer.Option(help="Runs until one solves it.")] = 5,
    steps: Annotated[int, typer.Option(help="Steps of a run (a multiple of --eval-every).")] = 1000,
    lr: Annotated[float, typer.Option(help="Step size of Adam(W).")] = 1e-3,
    layers: Annotated[int, typer.Option(help="Layers; one layer trains fastest.")] = 1,
    heads: Annotated[int, typer.Option(help="Heads per layer; a divisor of d.")] = 16,
    d: TokenWidth = 64,
    noise: LabelNoise = 0.0,
    eval_every: Annotated[int, typer.Option(help="Steps between two evaluations.")] = 100,
    max_m: Annotated[
        int, typer.Option(help="Trainings with m up to this share one compiled program.")
    ] = 1,
    progress: Annotated[
        bool, typer.Option("--progress", help="Measure hidden progress too; --json prints it.")
    ] = False,
    live: Annotated[
        Path | None, typer.Option(help="File for `capax watch`, which exists during training.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Train a Transformer on a sparse Boolean function, as in the paper, and keep its weights.

    The files fit the other commands: `capax bound model.safetensors --data data.npz`.

    Example: `capax train "x2 & x3 & x10" -T 50 -m 300 --out model.safetensors --data data.npz`
    """
    check_destinations(out, data)
    from capax.training.live_bar import live_bar
    from capax.training.one_model import train_model, trial_of

    settings: dict[str, Any] = {
        "seed": seed,
        "restarts": restarts,
        "steps": steps,
        "lr": lr,
        "task": {"noise": noise},
        "model": {"layers": layers, "heads": heads, "d": d, "mlp_width": 4 * d},
        "training": {"eval_every": eval_every},
    }
    trial_of(formula, T, m, **settings)  # a mistake is told before anything else
    note("compiling; later runs with these sizes take the program from the cache")
    with live_bar() as bar:
        trained = train_model(
            formula,
            T,
            m,
            **settings,
            max_m=max_m,
            measure_progress=progress,
            progress=bar,
            live=live,
        )
    _keep(trained, out, data)
    summary = _summary(trained, out, data) | (_details(trained) if json else {})
    emit(summary, json, lambda console: _render(summary, console))


def _keep(trained: "Trained", out: Path | None, data: Path | None) -> None:
    """Write the weights, the data or both."""
    if out is not None:
        trained.save(out, data)
    elif data is not None:
        from capax.data.task_files import write_task

        write_task(data, trained.spec.task, trained.task)
    else:
        note("the weights were not saved: give --out model.safetensors")


def _summary(trained: "Trained", out: Path | None, data: Path | None) -> dict[str, Any]:
    last = {name: values[-1] for name, values in trained.run.evals.items() if len(values)}
    return {
        "spec": trained.spec.model_dump(mode="json"),
        "support": list(trained.task.support),
        "solved": trained.solved,
        "runs": len(trained.result.runs),
        "steps": trained.run.steps,
        "validation_accuracy": trained.accuracy,
        "loss": float(last["loss"]) if "loss" in last else None,
        "attention": float(last["attention_mass"]) if "attention_mass" in last else None,
        "seconds": round(sum(run.seconds for run in trained.result.runs), 2),
        "out": None if out is None else str(out),
        "data": None if data is None else str(data),
    }


def _details(trained: "Trained") -> dict[str, Any]:
    """The details that the view Create of the lab shows beside the summary."""
    from capax.decompile.reading.oracle import attention_by_position
    from capax.training.one_model import WATCHED

    weights = attention_by_position(trained.model, trained.task.X_validation[:WATCHED])
    at = {f"x{t}": weights[t] for t in trained.task.support}
    return {
        "attention_at": {**at, "CLS": weights[-1]},
        "evaluations": {name: values.tolist() for name, values in trained.run.evals.items()},
    }


def _render(summary: dict[str, Any], console: Terminal) -> None:
    task = summary["spec"]["task"]
    positions = ", ".join(f"x{x}" for x in summary["support"])
    console.print(
        f"task        {task['function']} on {positions}, T = {task['T']}, m = {task['m']}"
    )
    state = "solved" if summary["solved"] else "not solved"
    share = 100 * summary["validation_accuracy"]
    console.print(f"outcome     {state}: {share:.2f} % of the validation set right")
    console.print(
        f"training    {counted(summary['runs'], 'run')}, the last of {summary['steps']} steps"
    )
    for name in ("out", "data"):
        if summary[name]:
            console.print(f"written     {summary[name]}")


def register(app: typer.Typer) -> None:
    """Add `capax train` to the command line."""
    app.command()(train)
