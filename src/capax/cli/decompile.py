"""`capax decompile`: which formula does a trained network compute, and how true is it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.output import JsonFlag, emit, note
from capax.errors import InputError, require

if TYPE_CHECKING:
    from rich.console import Console

    from capax.decompile.decompiled import Decompiled
    from capax.decompile.other_routes import Prior
    from capax.decompile.training_data import TrainingData


def decompile_command(
    model: Annotated[
        Path, typer.Argument(help="A Capax .safetensors file, or a store with --run.")
    ],
    run: Annotated[
        str | None, typer.Option(help="Run id (or its beginning) of a store with kept models.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Training data (.npz): a certificate is given.")
    ] = None,
    prior: Annotated[
        Path | None,
        typer.Option(help="Checkpoint trained on the first --prior-size examples: PAC-Bayes."),
    ] = None,
    prior_size: Annotated[
        int, typer.Option(help="Training examples that the prior has seen, from the first on.")
    ] = 0,
    p: Annotated[
        float | None, typer.Option(help="P[bit = 1] of the inputs. Default: the data's, or 1/2.")
    ] = None,
    delta: Annotated[float, typer.Option(help="Failure probability of every interval.")] = 0.05,
    max_support: Annotated[int, typer.Option(help="Most bits a formula may have.")] = 10,
    cells: Annotated[
        int, typer.Option(help="Effort of the proof: cells of inputs that are enclosed at most.")
    ] = 512,
    lens: Annotated[
        Path | None,
        typer.Option("--transformer-lens", help="Write the model under TransformerLens names."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Compile the formula into certified weights.")
    ] = None,
    explain: Annotated[
        Path | None, typer.Option(help="Draw heads and created variables: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the questions that are asked.")] = 0,
    json: JsonFlag = False,
) -> None:
    """Read the formula off a trained network: which bits, which function, proved or refuted.

    One-layer models are proved on all 2^T inputs, or a counterexample is searched for; others are
    asked. With training data the formula gives a bound on the network's error.

    Example: `capax decompile model.safetensors --data train.npz`
    """
    for path in filter(None, (out, lens)):
        from capax.files import check_writable

        check_writable(path)
    if explain is not None:
        from capax.figures.style import check_destination

        check_destination(explain)
    from capax.reading import existing

    for path, what in ((model, "a .safetensors file or a store"), (data, "a data file (.npz)"),
                       (prior, "a safetensors file")):  # fmt: skip
        if path is not None:
            existing(path, what)
    from capax.decompile.decompiling import decompile

    module, known = _loaded(model, run)
    examples = _examples(data) if data is not None else known
    chance = p if p is not None else _stated_probability(known)
    given = _prior(prior, prior_size, examples)
    found = decompile(
        module, examples, p=chance, delta=delta, max_support=max_support, cells=cells, seed=seed,
        prior=given,
    )  # fmt: skip
    payload = found.to_json()
    if out is not None:
        payload["out"] = str(_compiled(found, out))
    if lens is not None:
        payload["transformer_lens"] = _lens(module, lens)
    if explain is not None:
        payload["explain"] = _explained(module, found, explain)
    emit(payload, json, lambda console: _render(console, found, payload))


def _loaded(path: Path, run: str | None) -> tuple[Any, "TrainingData | None"]:
    """The module, and the data of its task where a store or the file's metadata tells it."""
    if run is not None or path.suffix in (".sqlite", ".db"):
        return _from_store(path, run)
    import jax

    from capax.attention.checkpoint import load

    with jax.enable_x64(True):
        module, metadata = load(path)
    return module, _task_data(metadata.get("spec"))


def _from_store(path: Path, run: str | None) -> tuple[Any, "TrainingData | None"]:
    from capax.figures.stored_attention import stored_model
    from capax.figures.stored_runs import stored_runs
    from capax.sweep.store import Store

    with Store.read(path) as store:
        kept = [r for r in stored_runs(store) if store.parameters(r.run_id) is not None]
        if run is None:
            listed = ", ".join(r.run_id[:12] for r in kept[:4]) or "none"
            raise InputError(f"--run: wanted the id of a run with kept parameters ({listed}, ...)")
        chosen = [r for r in kept if r.run_id.startswith(run)]
        require(len(chosen) == 1, "--run", "the id of one run with kept parameters", run)
        return stored_model(store, chosen[0].run_id), _task_data(chosen[0].spec)


def _task_data(spec: Any) -> "TrainingData | None":
    """The examples that a run's spec describes, drawn again; None where there is no such spec."""
    task = spec.get("task") if isinstance(spec, dict) else None
    if not isinstance(task, dict) or spec.get("mode", "full_batch") != "full_batch":
        return None
    from capax.data.task import TaskSpec
    from capax.decompile.training_data import from_task

    return from_task(TaskSpec(**task))


def _examples(path: Path) -> "TrainingData":
    from capax.decompile.training_data import read_training_data

    return read_training_data(path)


def _prior(path: Path | None, size: int, examples: "TrainingData | None") -> "Prior | None":
    require(path is not None or not size, "--prior-size", "a checkpoint in --prior", "none")
    if path is None:
        return None
    require(examples is not None, "--prior", "training data (--data)", "none")
    import jax

    from capax.attention.checkpoint import load
    from capax.decompile.other_routes import Prior

    with jax.enable_x64(True):
        return Prior(load(path)[0], size)


def _stated_probability(known: "TrainingData | None") -> float | None:
    return None if known is None or known.task is None else known.task.probability


def _compiled(found: "Decompiled", out: Path) -> Path:
    from capax.compiler import compile, save_compiled

    return save_compiled(out, compile(found.formula.text, found.function.T))


def _lens(module: Any, path: Path) -> str:
    from capax.attention.transformer import Transformer
    from capax.compiler.trained_lens import save_trained_lens

    trained = isinstance(module, Transformer)
    require(trained, "--transformer-lens", "a Transformer", type(module).__name__)
    return str(save_trained_lens(path, module))


def _explained(module: Any, found: "Decompiled", path: Path) -> str:
    from capax.attention.transformer import Transformer
    from capax.figures.created_variables import draw_created_variables, measure_heads
    from capax.figures.style import save

    wanted = "a Transformer (others have no heads to draw)"
    require(isinstance(module, Transformer), "--explain", wanted, type(module).__name__)
    heads = measure_heads(module, found.function, p=found.p)
    return str(save(draw_created_variables(heads, found.formula.text), path))


def _render(console: "Console", found: "Decompiled", payload: dict[str, Any]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for what, finding in found.lines():
        table.add_row(Text(what, style="dim"), Text(finding))
    console.print(table)
    for name in ("out", "transformer_lens", "explain"):
        if name in payload:
            note(f"written: {payload[name]}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decompile", epilog="Example: `capax decompile model.safetensors`")(
        decompile_command
    )
