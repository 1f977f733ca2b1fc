"""`capax decompile`: which formula does a trained network compute, and is it proved?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.cli.speaking.shared_options import HoldoutFile, Looks, PriorFile, PriorSize
from capax.errors import InputError, require
from capax.foreign import one_line

if TYPE_CHECKING:
    from capax.capacity.certificates.evidence import Evidence
    from capax.data.task import TaskSpec
    from capax.decompile.decompiled import Decompiled
    from capax.terminal import Terminal


ModelFile = Annotated[
    Path,
    typer.Argument(
        help="A Capax .safetensors file, a store with --run, or a PyTorch file with --module."
    ),
]
Builder = Annotated[
    str | None,
    typer.Option(
        "--module", help="Function or class that builds the PyTorch module: file.py:name."
    ),
]
NumberOfBits = Annotated[
    int | None, typer.Option("-T", "--T", help="Number of input bits of a PyTorch module.")
]
RunId = Annotated[
    str | None, typer.Option(help="Run id (or its beginning) of a store with kept models.")
]
TrainingFile = Annotated[
    Path | None, typer.Option(help="Training data (.npz): a certificate is given.")
]
BitProbability = Annotated[
    float | None,
    typer.Option(help="P[bit = 1] of the inputs. Default: the task's; without data 1/2."),
]
FailureProbability = Annotated[float, typer.Option(help="Failure probability of the certificate.")]
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
ProofFile = Annotated[
    Path | None, typer.Option(help="Write a proof of the formula that capax check accepts.")
]
QuestionSeed = Annotated[int, typer.Option(min=0, help="Seed of the random inputs that are tried.")]


def decompile_command(
    model: ModelFile,
    run: RunId = None,
    builder: Builder = None,
    T: NumberOfBits = None,
    data: TrainingFile = None,
    holdout: HoldoutFile = None,
    looks: Looks = 1,
    prior: PriorFile = None,
    prior_size: PriorSize = 0,
    p: BitProbability = None,
    delta: FailureProbability = 0.05,
    max_support: MostBits = 10,
    cells: MostCells = 512,
    lens: LensFile = None,
    out: CompiledFile = None,
    explain: PictureFile = None,
    proof: ProofFile = None,
    seed: QuestionSeed = 0,
    json: JsonFlag = False,
) -> None:
    """Find the formula of a trained network: its bits, its function, proved or refuted.

    One-layer models, also of PyTorch, are proved on all 2^T inputs, or a counterexample is
    searched for; other models are evaluated, on all inputs if T is at most 22. With training data
    every route gives a bound on the network's error at its share of delta; data without a task
    needs --p.

    Example: `capax decompile model.safetensors --data train.npz`

    Example: `capax decompile net.pt --module net.py:Net -T 20`
    """
    check_destinations(out, lens, proof, picture=explain)
    _check_files(model, data, holdout, prior)
    from capax.decompile.decompiling import Effort, decompile

    module, spec = _loaded(model, run, builder, T)
    evidence = _evidence(spec, data, holdout, looks, prior, prior_size)
    if p is None and data is None:
        task = _task(spec)
        p = None if task is None else task.probability
    effort = Effort(max_support=max_support, cells=cells)
    found = decompile(module, evidence, T=T, p=p, delta=delta, effort=effort, seed=seed)
    payload = found.to_json()
    if out is not None:
        payload["out"] = str(_compiled(found, out))
    if lens is not None:
        payload["transformer_lens"] = _lens(module, lens)
    if explain is not None:
        payload["explain"] = _explained(module, found, explain)
    if proof is not None:
        payload["proof"] = _proved(model, module, found, proof)
    emit(payload, json, lambda console: _render(console, found, payload))


def _loaded(path: Path, run: str | None, builder: str | None, T: int | None) -> tuple[Any, Any]:
    """The module, and its training specification if the file or the store has one."""
    from capax.audit.reading.opening import TORCH

    if builder is not None or path.suffix in TORCH:
        return _from_torch(path, builder, T), None
    if run is not None or path.suffix in (".sqlite", ".db"):
        return _from_store(path, run)
    import jax

    from capax.attention.checkpoint import load

    with jax.enable_x64(True):
        module, metadata = load(path)
    return module, metadata.get("spec")


def _from_torch(path: Path, builder: str | None, T: int | None) -> Any:
    """The module that `builder` makes, with the tensors of the file; no pickle is run."""
    from capax.audit.reading.opening import open_checkpoint
    from capax.decompile.modules.state_files import module_with

    tensors = open_checkpoint(path).tensors
    if builder is None:
        first = ", ".join(one_line(name, 60) for name in list(tensors)[:2])
        raise InputError(
            f"{path.name}: has the weights of a PyTorch module ({first}, ...), not its code; "
            "name the function or class that builds it: --module file.py:name -T 20"
        )
    return module_with(builder, {name: found.load() for name, found in tensors.items()}, T)


def _from_store(path: Path, run: str | None) -> tuple[Any, Any]:
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
        return stored_model(store, chosen[0].run_id), chosen[0].spec


def _task(spec: Any) -> "TaskSpec | None":
    """The task of a full-batch run, whose examples can be drawn again; None for other specs."""
    task = spec.get("task") if isinstance(spec, dict) else None
    if not isinstance(task, dict) or "content" in task:
        return None
    if spec.get("mode", "full_batch") != "full_batch":
        return None
    from capax.data.task import TaskSpec

    return TaskSpec(**task)


def _evidence(
    spec: Any,
    data: Path | None,
    holdout: Path | None,
    looks: int,
    prior: Path | None,
    prior_size: int,
) -> "Evidence | None":
    """The examples of the files, or else of the task that the model was trained on."""
    from dataclasses import replace

    from capax.capacity.certificates.evidence import looks_in_training, read_evidence, task_evidence

    require(
        prior is not None or not prior_size,
        "--prior-size",
        "a checkpoint in --prior",
        "no checkpoint",
    )
    task = _task(spec)
    if data is None and task is None:
        for name, path in (("--prior", prior), ("--holdout", holdout)):
            require(path is None, name, "training data (--data)", "no training data")
        return None
    looks = max(looks, looks_in_training(spec, holdout))
    if data is not None or task is None:
        evidence = read_evidence(data, holdout, looks=looks)
    else:
        evidence = task_evidence(task)
        if holdout is not None:
            rows = read_evidence(None, holdout).holdout
            evidence = replace(evidence, holdout=rows, looks=looks)
    if prior is None:
        return evidence
    import jax

    from capax.attention.checkpoint import load

    with jax.enable_x64(True):
        return replace(evidence, prior=load(prior)[0], prior_size=prior_size)


def _compiled(found: "Decompiled", out: Path) -> Path:
    from capax.compiler import compile, save_compiled

    f = found.function
    return save_compiled(out, compile(found.formula.text, f.T, alphabet=f.alphabet))


def _lens(module: Any, path: Path) -> str:
    from capax.attention.transformer import Transformer
    from capax.compiler.trained_lens import save_trained_lens

    trained = isinstance(module, Transformer)
    require(trained, "--transformer-lens", "a Transformer", type(module).__name__)
    return str(save_trained_lens(path, module))


def _proved(path: Path, module: Any, found: "Decompiled", out: Path) -> str:
    from capax.attention.transformer import Transformer
    from capax.proving.proof_files import prove

    named = path.suffix == ".safetensors"
    require(named, "--proof", "a .safetensors file: a proof names its weights by hash", path.name)
    function = found.function if isinstance(module, Transformer) else None
    return str(prove(path, function).write(out))


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
    for name in ("out", "transformer_lens", "explain", "proof"):
        if name in payload:
            note(f"written: {payload[name]}")


def _check_files(model: Path, data: Path | None, holdout: Path | None, prior: Path | None) -> None:
    """Raise `InputError` for a missing file before slow imports."""
    from capax.reading import existing

    for path, what in ((model, "a .safetensors file or a store"), (data, "a data file (.npz)"),
                       (holdout, "a data file (.npz)"), (prior, "a safetensors file")):  # fmt: skip
        if path is not None:
            existing(path, what)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("decompile", epilog="Example: `capax decompile model.safetensors`")(
        decompile_command
    )
