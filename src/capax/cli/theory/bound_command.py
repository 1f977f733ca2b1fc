"""`capax bound`: the capacity of a head, layer or model, and the samples that it needs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note, stdout
from capax.cli.speaking.shared_options import (
    DarkFlag,
    HoldoutFile,
    Looks,
    PriorFile,
    PriorSize,
    TokenWidth,
)
from capax.cli.theory import bound_options as options
from capax.cli.theory.bound_compare import show_compare
from capax.cli.theory.bound_table import render
from capax.errors import require

if TYPE_CHECKING:
    from capax.capacity.bound import Bound
    from capax.capacity.certificates.error_certificate import ErrorCertificate
    from capax.capacity.certificates.evidence import Evidence

DEFAULT_T = 1000


def bound(
    model: options.ModelFile = None,
    norms: options.Norms = None,
    T: options.ContextLength = None,
    m: options.NumSequences = 5000,
    d: TokenWidth = 64,
    k: options.HeadWidth = None,
    layers: options.NumLayers = 1,
    heads: options.ForeignHeads = None,
    B_X: options.LongestToken = None,
    margin: options.Margin = 1.0,
    delta: options.FailureProbability = 0.05,
    target: options.TargetError = 0.1,
    data: options.TrainingFile = None,
    holdout: HoldoutFile = None,
    looks: Looks = 1,
    family: options.Family = None,
    frozen: options.FrozenFlag = False,
    prior: PriorFile = None,
    prior_size: PriorSize = 0,
    explain: options.ExplainFlag = False,
    latex: options.LatexFlag = False,
    compare: options.CompareFlag = False,
    plot: options.PlotFile = None,
    curve: options.OwnCurves = None,
    waterfall: options.WaterfallFile = None,
    dark: DarkFlag = False,
    json: JsonFlag = False,
) -> None:
    """A generalization bound with every constant: its value, its largest term, the m it needs.

    From norms alone, or from the weights in a file. A value of 1 or more is called vacuous. Norms
    of a file are measured after training; the cost of that is part of the number. Every number is
    marked as rigorous (proved under the printed assumptions) or as a comparison.

    With --data every route that applies is tried: one table with its value, its predictor, its
    share of delta and its assumptions. All rows hold together; a minimum is taken only over rows
    about the same predictor. --holdout adds a hold-out bound; data with a task does not need it,
    because fresh rows are drawn from the task.

    Without either, --plot compares all arguments on AND of 3 bits. --curve adds your own curve.
    --compare shows the bounds of other papers beside ours, each with its source, its assumptions
    and its status.

    Example: `capax bound --norms W_QK=2,v=1 -T 1000 -m 100000 --margin 0.5`

    Example: `capax bound model.safetensors --data task.npz --holdout task.npz --family and3`
    """
    require(T is None or T >= 1, "T", "a context length >= 1", T)
    require(not curve or plot is not None, "--curve", "--plot as well", "no --plot")
    goal = {"margin": margin, "delta": delta, "target": target}
    if compare:
        _check_compare(model, curve, waterfall)
        show_compare(norms, T or DEFAULT_T, m, d, k, layers, goal, plot, dark, json)
        return
    if model is None and norms is None and (plot or waterfall):
        _only_pictures(plot, waterfall, curve or [], T or DEFAULT_T, m, target, delta, dark, json)
        return
    _check_sources(model, norms, plot, waterfall)
    files = {"data": data, "holdout": holdout, "prior": prior}
    chosen = {"looks": looks, "family": family, "frozen": frozen, "prior_size": prior_size}
    if norms is not None:
        _check_nothing_trained(files, chosen, B_X)
        answer, extra = _from_norms(norms, T or DEFAULT_T, m, d, k, layers, goal)
        if plot is not None:
            extra["plot"] = str(_draw(norms, m, d, k, goal, plot, curve or [], dark))
    else:
        given = {"files": files, "chosen": chosen}
        answer, extra = _from_file(Path(str(model)), T, B_X, m, heads, given, goal)
    _show(answer, {**answer.to_json(), **extra, "target": target}, explain, latex, json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bound)


def _check_compare(model: Path | None, curve: list[Path] | None, waterfall: Path | None) -> None:
    """--compare takes norms, and draws no curves or waterfalls of its own."""
    require(model is None, "--compare", "--norms, or no file", str(model))
    require(not curve, "--curve", "a command without --compare", curve)
    require(waterfall is None, "--waterfall", "a command without --compare", str(waterfall))


def _check_sources(
    model: Path | None, norms: str | None, plot: Path | None, waterfall: Path | None
) -> None:
    """One source of norms, and pictures that can be drawn from it."""
    require(
        (model is None) != (norms is None), "bound", "a model file or --norms", "both or neither"
    )
    require(waterfall is None, "--waterfall", "neither a model nor --norms", "one of them")
    if plot is not None:
        from capax.figures.style import check_destination

        require(norms is not None, "--plot", "--norms (a file fixes its own T)", "a model file")
        check_destination(plot)
    if model is not None:
        from capax.reading import existing

        existing(model, "a safetensors file")


def _check_nothing_trained(
    files: dict[str, Path | None], chosen: dict[str, Any], B_X: float | None
) -> None:
    """Norms alone take no data, and have their own B_X."""
    given = {**files, "family": chosen["family"], "frozen": chosen["frozen"] or None}
    asked = [f"--{name}" for name, value in given.items() if value is not None]
    require(not asked, "--norms", "no data beside it", ", ".join(asked))
    require(B_X is None, "--B_X", "B_X inside --norms", B_X)


def _from_norms(
    norms: str, T: int, m: int, d: int, k: int | None, layers: int, goal: dict[str, Any]
) -> tuple["ErrorCertificate | Bound", dict[str, Any]]:
    from capax.capacity.routes.bounding import bound_from_text

    return bound_from_text(norms, T=T, m=m, d=d, k=k, layers=layers, **goal)


def _from_file(
    path: Path,
    T: int | None,
    B_X: float | None,
    m: int,
    heads: int | None,
    given: dict[str, dict[str, Any]],
    goal: dict[str, Any],
) -> tuple["ErrorCertificate | Bound", dict[str, Any]]:
    from capax.capacity.routes.model_files import foreign_certificate, is_capax_checkpoint

    if is_capax_checkpoint(path):
        require(heads is None, "--heads", "a GPT-2 or BERT file", "a Capax checkpoint")
        return _from_checkpoint(path, T, B_X, m, given, goal)
    asked = [name for name, value in given["files"].items() if value is not None]
    wanted = "a Capax checkpoint (others have no scalar output)"
    require(not asked, f"--{(asked or ['data'])[0]}", wanted, str(path))
    require(B_X is None, "--B_X", "none (LayerNorm fixes the length of a token)", B_X)
    certificate, rows = foreign_certificate(path, m=m, T=T or DEFAULT_T, heads=heads, **goal)
    note("per-head numbers compare heads and checkpoints; they are not certificates")
    return certificate, {"kind_of_model": "GPT-2/BERT state dict", "heads": rows}


def _from_checkpoint(
    path: Path,
    T: int | None,
    B_X: float | None,
    m: int,
    given: dict[str, dict[str, Any]],
    goal: dict[str, Any],
) -> tuple["ErrorCertificate | Bound", dict[str, Any]]:
    from capax.capacity.margins.decision import decision_rule, threshold_of
    from capax.capacity.routes.model_files import module_certificate, read_module

    module, metadata = read_module(path)
    evidence = _evidence(metadata, given["files"], given["chosen"])
    answer, measured, sample = module_certificate(
        module, m=m, T=T, B_X=B_X, evidence=evidence, **goal
    )
    checks = [{"text": a.text, "holds": a.holds, "detail": a.detail} for a in
              measured.checks(sample.T)]  # fmt: skip
    sets = {"data": evidence.data, "holdout": evidence.holdout}
    return answer, {
        "kind_of_model": measured.kind,
        "T": sample.T,
        "decision": decision_rule(threshold_of(module)),
        "applies": checks,
        "examples": {name: len(part.y) for name, part in sets.items() if part is not None},
    }


def _evidence(
    metadata: dict[str, Any], files: dict[str, Path | None], chosen: dict[str, Any]
) -> "Evidence":
    """The evidence in the files. Every look that training had at the hold-out rows is counted."""
    from capax.capacity.certificates.evidence import looks_in_training, read_evidence
    from capax.capacity.routes.model_files import read_module

    needing = {"--family": chosen["family"], "--prior": files["prior"]}
    needing["--frozen"] = chosen["frozen"] or None
    asked = [name for name, value in needing.items() if value is not None]
    wanted = f"training data for {', '.join(asked)}"
    require(files["data"] is not None or not asked, "--data", wanted, "no training data")
    prior = None if files["prior"] is None else read_module(files["prior"])[0]
    looks = max(chosen["looks"], looks_in_training(metadata.get("spec"), files["holdout"]))
    return read_evidence(
        files["data"], files["holdout"], **{**chosen, "looks": looks, "prior": prior}
    )


def _only_pictures(
    plot: Path | None,
    waterfall: Path | None,
    curves: list[Path],
    T: int,
    m: int,
    target: float,
    delta: float,
    dark: bool,
    json: bool,
) -> None:
    from capax.figures.style import check_destination, save
    from capax.figures.theory.bound_curves import draw_conjunction_curves, own_curve
    from capax.figures.theory.slack_waterfall import draw_waterfall

    for path in filter(None, (plot, waterfall)):
        check_destination(path)
    payload: dict[str, Any] = {}
    if plot is not None:
        own = [own_curve(path) for path in curves]
        figure, payload["curves"] = draw_conjunction_curves(3, target, delta, own=own, dark=dark)
        payload["plot"] = str(save(figure, plot))
    if waterfall is not None:
        figure, payload["steps"] = draw_waterfall(T, 3, m, dark=dark)
        payload["waterfall"] = str(save(figure, waterfall))
    written = [payload[name] for name in ("plot", "waterfall") if name in payload]
    emit(payload, json, lambda console: console.print("\n".join(written)))


def _draw(
    norms: str,
    m: int,
    d: int,
    k: int | None,
    goal: dict[str, Any],
    plot: Path,
    curves: list[Path],
    dark: bool,
) -> Path:
    from capax.capacity.weights.plain_norms import parse_norms
    from capax.figures.style import save
    from capax.figures.theory.bound_curves import draw_norm_curves, own_curve

    own = [own_curve(path) for path in curves]
    figure = draw_norm_curves(parse_norms(norms), m=m, d=d, k=k, own=own, dark=dark, **goal)
    return save(figure, plot)


def _show(
    answer: "ErrorCertificate | Bound",
    payload: dict[str, Any],
    explain: bool,
    latex: bool,
    json: bool,
) -> None:
    from capax.capacity.bound import Bound

    best = answer if isinstance(answer, Bound) else answer.best
    if latex and not json:
        stdout().print(best.explain("latex"), soft_wrap=True)
        return
    emit(payload, json, lambda console: render(answer, payload, explain, console))
