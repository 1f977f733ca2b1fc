"""`capax decompile`: which formula does a trained network compute, and how true is it?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import PriorFile, PriorSize
from capax.errors import InputError, require

if TYPE_CHECKING:
    from capax.decompile.bounds.other_routes import Prior
    from capax.decompile.bounds.training_data import TrainingData
    from capax.decompile.decompiled import Decompiled
    from capax.terminal import Terminal


ModelFile = Annotated[
    Path, typer.Argument(help="A Capax .safetensors file, or a store with --run.")
]
RunId = Annotated[
    str | None, typer.Option(help="Run id (or its beginning) of a store with kept models.")
]
TrainingFile = Annotated[
    Path | None, typer.Option(help="Training data (.npz): a certificate is given.")
]
BitProbability = Annotated[
    float | None, typer.Option(help="P[bit = 1] of the inputs. Default: the data's, or 1/2.")
]
FailureProbability = Annotated[float, typer.Option(help="Failure probability of every interval.")]
MostBits = Annotated[int, typer.Option(help="Most bits a formula may have.")]
MostCells = Annotated[
    int, typer.Option(help="Effort of the proof: cells of inputs that are enclosed at most.")
]
LensFile = Annotated[
    Path | None,
    typer.Option("--transformer-lens", help="Write the model under TransformerLens names."),
]
CompiledFile = Annotated[
    Path | None, typer.Option(help="Compile the formula into certified weights.")
]
PictureFile = Annotated[
    Path | None, typer.Option(help="Draw heads and created variables: .png, .svg or .pdf.")
]
QuestionSeed = Annotated[int, typer.Option(min=0, help="Seed of the questions that are asked.")]


def decompile_command(
    model: ModelFile,
    run: RunId = None,
    data: TrainingFile = None,
    prior: PriorFile = None,
    prior_size: PriorSize = 0,
    p: BitProbability = None,
    delta: FailureProbability = 0.05,
    max_support: MostBits = 10,
    cells: MostCells = 512,
    lens: LensFile = None,
    out: CompiledFile = None,
    explain: PictureFile = None,
    seed: QuestionSeed = 0,
    json: JsonFlag = False,
) -> None:
    """Read the formula off a trained network: which bits, which function, proved or refuted.

    One-layer models are proved on all 2^T inputs, or a counterexample is searched for; others are
    asked. With training data the formula gives a bound on the network's error.

    Example: `capax decompile model.safetensors --data train.npz`
    """
    check_destinations(out, lens, picture=explain)
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
    from capax.figures.stored.attention import stored_model
    from capax.figures.stored.runs import stored_runs
    from capax.sweep.storage.store import Store

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
    from capax.decompile.bounds.training_data import from_task

    return from_task(TaskSpec(**task))


def _examples(path: Path) -> "TrainingData":
    from capax.decompile.bounds.training_data import read_training_data

    return read_training_data(path)


def _prior(path: Path | None, size: int, examples: "TrainingData | None") -> "Prior | None":
    require(path is not None or not size, "--prior-size", "a checkpoint in --prior", "none")
    if path is None:
        return None
    require(examples is not None, "--prior", "training data (--data)", "none")
    import jax

    from capax.attention.checkpoint import load
    from capax.decompile.bounds.other_routes import Prior

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
    from capax.figures.heads.created_variables import draw_created_variables, measure_heads
    from capax.figures.style import save

    wanted = "a Transformer (others have no heads to draw)"
    require(isinstance(module, Transformer), "--explain", wanted, type(module).__name__)
    heads = measure_heads(module, found.function, p=found.p)
    return str(save(draw_created_variables(heads, found.formula.text), path))


def _render(console: "Terminal", found: "Decompiled", payload: dict[str, Any]) -> None:
    console.table(found.lines())
    for name in ("out", "transformer_lens", "explain"):
        if name in payload:
            note(f"written: {payload[name]}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decompile", epilog="Example: `capax decompile model.safetensors`")(
        decompile_command
    )
