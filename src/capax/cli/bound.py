"""`capax bound`: how much can this head, layer or model hold, and how many samples does it need?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.bound_table import render
from capax.cli.output import JsonFlag, emit, note, stdout
from capax.errors import require

if TYPE_CHECKING:
    from capax.capacity.bound import Bound
    from capax.capacity.certificates.portfolio import Certificate

DEFAULT_T = 1000


def bound(
    model: Annotated[
        Path | None, typer.Argument(help="A .safetensors file: Capax, GPT-2 or BERT.")
    ] = None,
    norms: Annotated[
        str | None,
        typer.Option(help="Norms instead of a model: W_QK=3.2,W_V=1.5,W_V_21=4,w=1 (v: linear)."),
    ] = None,
    T: Annotated[
        int | None,
        typer.Option("-T", help="Context length, without [CLS] (default 1000, or the model's)."),
    ] = None,
    m: Annotated[int, typer.Option("-m", help="Number of training sequences.")] = 5000,
    d: Annotated[int, typer.Option("-d", help="Width of a token.")] = 64,
    k: Annotated[int | None, typer.Option("-k", help="Width of a head (default d).")] = None,
    layers: Annotated[int, typer.Option(help="Equal layers in the paper's form.")] = 1,
    heads: Annotated[
        int | None, typer.Option(help="Heads of a GPT-2 or BERT file: such a file does not say.")
    ] = None,
    B_X: Annotated[
        float | None,
        typer.Option("--B_X", help="Longest token, for a file without an encoding."),
    ] = None,
    margin: Annotated[float, typer.Option(help="Margin gamma on the training sequences.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Probability that the bound fails.")] = 0.05,
    target: Annotated[float, typer.Option(help="Error for which m is solved.")] = 0.1,
    data: Annotated[
        Path | None,
        typer.Option(help="Training data (from `capax data --out`, or .npz with X and y)."),
    ] = None,
    holdout: Annotated[
        Path | None,
        typer.Option(help="Data the model never saw (validation part, or .npz with X and y)."),
    ] = None,
    looks: Annotated[
        int, typer.Option(help="How many models the hold-out data has judged, this one included.")
    ] = 1,
    family: Annotated[
        str | None,
        typer.Option(help="Also bound placements of this formula (and3, maj5, ..) on the data."),
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="Only the linear read-out was trained on the data.")
    ] = False,
    prior: Annotated[
        Path | None,
        typer.Option(help="Checkpoint trained on the first --prior-size examples: PAC-Bayes."),
    ] = None,
    prior_size: Annotated[
        int, typer.Option(help="Training examples that the prior has seen, from the first on.")
    ] = 0,
    explain: Annotated[
        bool, typer.Option("--explain", help="The formula with its numbers, term by term.")
    ] = False,
    latex: Annotated[bool, typer.Option("--latex", help="The same in LaTeX.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw samples needed against T to this file.")
    ] = None,
    waterfall: Annotated[
        Path | None, typer.Option(help="Draw where the slack of the bound sits (AND of 3 bits).")
    ] = None,
    dark: Annotated[bool, typer.Option("--dark", help="Draw for a dark page.")] = False,
    json: JsonFlag = False,
) -> None:
    """A generalization bound with every constant: its value, what dominates it, the m it needs.

    From norms alone, or from the weights in a file. A value of 1 or more is called vacuous. Norms
    of a file are measured after training; the price of that is part of the number. Every number
    says whether it is rigorous (proved under the assumptions that are printed) or a comparison.

    With --data every route that applies is tried: one table with its value, whose error it
    bounds, its share of delta and what it assumes. All rows hold together; a minimum is taken only
    over rows about the same predictor. --holdout adds what a practitioner would do instead.

    Without either, --plot compares all arguments on AND of 3 bits.

    Example: `capax bound --norms W_QK=2,v=1 -T 1000 -m 100000 --margin 0.5`

    Example: `capax bound model.safetensors --data task.npz --holdout task.npz --family and3`
    """
    require(T is None or T >= 1, "T", "a context length >= 1", T)
    if model is None and norms is None and (plot or waterfall):
        _only_pictures(plot, waterfall, T or DEFAULT_T, m, target, delta, dark, json)
        return
    _check_sources(model, norms, plot, waterfall)
    asked = [name for name, value in (("--data", data), ("--holdout", holdout), ("--prior", prior),
             ("--family", family), ("--frozen", frozen or None)) if value is not None]  # fmt: skip
    require(norms is None or not asked, "--norms", "no data (nothing is trained)", ", ".join(asked))
    goal = {"margin": margin, "delta": delta, "target": target}
    if norms is not None:
        require(B_X is None, "--B_X", "B_X inside --norms", B_X)
        answer, extra = _from_norms(norms, T or DEFAULT_T, m, d, k, layers, goal), {}
    else:
        files = {"data": data, "holdout": holdout, "prior": prior}
        chosen = {"looks": looks, "family": family, "frozen": frozen, "prior_size": prior_size}
        evidence = {"files": files, "chosen": chosen}
        answer, extra = _from_file(Path(str(model)), T, B_X, m, heads, evidence, goal)
    if plot is not None and norms is not None:
        extra["plot"] = str(_draw(norms, m, d, k, goal, plot, dark))
    _show(answer, {**answer.to_json(), **extra, "target": target}, explain, latex, json)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bound)


def _check_sources(
    model: Path | None, norms: str | None, plot: Path | None, waterfall: Path | None
) -> None:
    """One source of norms, and pictures that can be drawn from it."""
    require((model is None) != (norms is None), "bound", "a model file or --norms", "both or none")
    require(waterfall is None, "--waterfall", "neither a model nor --norms", "one of them")
    if plot is not None:
        from capax.figures.style import check_destination

        require(norms is not None, "--plot", "--norms (a file fixes its own T)", "a model file")
        check_destination(plot)
    if model is not None:
        from capax.reading import existing

        existing(model, "a safetensors file")


def _from_norms(
    text: str, T: int, m: int, d: int, k: int | None, layers: int, goal: dict[str, Any]
) -> "Certificate | Bound":
    from capax.capacity.certificates.portfolio import bound_from_norms
    from capax.capacity.network.sample_points import Sample
    from capax.capacity.weights.plain_norms import class_from_norms, parse_norms

    cls = class_from_norms(parse_norms(text), d=d, k=k, layers=layers)
    if not cls.scalar:
        return cls.cover(Sample(m, T), goal["margin"] / 2)
    return bound_from_norms(cls, Sample(m, T), **goal)


def _from_file(
    path: Path,
    T: int | None,
    B_X: float | None,
    m: int,
    heads: int | None,
    given: dict[str, dict[str, Any]],
    goal: dict[str, Any],
) -> tuple["Certificate | Bound", dict[str, Any]]:
    from capax.capacity.certificates.model_files import (
        Evidence,
        foreign_certificate,
        is_capax_checkpoint,
        model_certificate,
    )

    if is_capax_checkpoint(path):
        require(heads is None, "--heads", "a GPT-2 or BERT file", "a Capax checkpoint")
        sets = _read_sets(given["files"])
        evidence = Evidence(**sets, **given["chosen"], prior=given["files"]["prior"])
        answer, measured, sample = model_certificate(
            path, m=m, T=T, B_X=B_X, evidence=evidence, **goal
        )
        checks = [{"text": a.text, "holds": a.holds, "detail": a.detail} for a in
                  measured.checks(sample.T)]  # fmt: skip
        counts = {name: len(part.y) for name, part in sets.items() if part is not None}
        about = {"kind_of_model": measured.kind, "T": sample.T, "applies": checks}
        return answer, {**about, "examples": counts}
    asked = [name for name, value in given["files"].items() if value is not None]
    wanted = "a Capax checkpoint (others have no scalar output)"
    require(not asked, f"--{(asked or ['data'])[0]}", wanted, str(path))
    require(B_X is None, "--B_X", "none (LayerNorm fixes the length of a token)", B_X)
    certificate, rows = foreign_certificate(path, m=m, T=T or DEFAULT_T, heads=heads, **goal)
    note("per-head numbers compare heads and checkpoints; they are not certificates")
    return certificate, {"kind_of_model": "GPT-2/BERT state dict", "heads": rows}


def _read_sets(files: dict[str, Path | None]) -> dict[str, Any]:
    """The two sets of examples; a hold-out that is the training set itself is refused."""
    from capax.data.examples import read_examples

    seen = None if files["data"] is None else read_examples(files["data"], "train")
    fresh = None if files["holdout"] is None else read_examples(files["holdout"], "validation")
    if seen is not None and fresh is not None:
        same = seen.X.shape == fresh.X.shape and bool((seen.X == fresh.X).all())
        require(not same, "--holdout", "examples the model was not trained on", "the training set")
    return {"data": seen, "holdout": fresh}


def _only_pictures(
    plot: Path | None,
    waterfall: Path | None,
    T: int,
    m: int,
    target: float,
    delta: float,
    dark: bool,
    json: bool,
) -> None:
    from capax.figures.bound_curves import draw_conjunction_curves
    from capax.figures.slack_waterfall import draw_waterfall
    from capax.figures.style import check_destination, save

    for path in filter(None, (plot, waterfall)):
        check_destination(path)
    payload: dict[str, Any] = {}
    if plot is not None:
        figure, payload["curves"] = draw_conjunction_curves(3, target, delta, dark=dark)
        payload["plot"] = str(save(figure, plot))
    if waterfall is not None:
        figure, payload["steps"] = draw_waterfall(T, 3, m, dark=dark)
        payload["waterfall"] = str(save(figure, waterfall))
    written = [payload[name] for name in ("plot", "waterfall") if name in payload]
    emit(payload, json, lambda console: console.print("\n".join(written), markup=False))


def _draw(
    norms: str, m: int, d: int, k: int | None, goal: dict[str, Any], plot: Path, dark: bool
) -> Path:
    from capax.capacity.weights.plain_norms import parse_norms
    from capax.figures.bound_curves import draw_norm_curves
    from capax.figures.style import save

    return save(draw_norm_curves(parse_norms(norms), m=m, d=d, k=k, dark=dark, **goal), plot)


def _show(
    answer: "Certificate | Bound", payload: dict[str, Any], explain: bool, latex: bool, json: bool
) -> None:
    from capax.capacity.bound import Bound

    best = answer if isinstance(answer, Bound) else answer.best
    if latex and not json:
        stdout().print(best.explain("latex"), markup=False, soft_wrap=True)
        return
    emit(payload, json, lambda console: render(answer, payload, explain, console))
