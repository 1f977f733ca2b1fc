"""`capax bound`: how much can this head, layer or model hold, and how many samples does it need?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from capax.cli.output import JsonFlag, emit, note, stdout
from capax.errors import require

if TYPE_CHECKING:
    from capax.capacity.bound import Bound
    from capax.capacity.certificates.portfolio import Certificate

SHOWN_ROWS = 24
DEFAULT_T = 1000
NO_MARGIN = "no error bound: the output is a vector, a margin needs one number per sequence"


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
        Path | None, typer.Option(help="Training data (.npz with X and y): true margins and m.")
    ] = None,
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

    Without either, --plot compares all arguments on AND of 3 bits.

    Example: `capax bound --norms W_QK=2,v=1 -T 1000 -m 100000 --margin 0.5`
    """
    require(T is None or T >= 1, "T", "a context length >= 1", T)
    if model is None and norms is None and (plot or waterfall):
        _only_pictures(plot, waterfall, T or DEFAULT_T, m, target, delta, dark, json)
        return
    _check_sources(model, norms, plot, waterfall)
    goal = {"margin": margin, "delta": delta, "target": target}
    if norms is not None:
        require(B_X is None, "--B_X", "B_X inside --norms", B_X)
        answer, extra = _from_norms(norms, T or DEFAULT_T, m, d, k, layers, goal), {}
    else:
        answer, extra = _from_file(Path(str(model)), T, B_X, m, heads, data, goal)
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


def _from_norms(
    text: str, T: int, m: int, d: int, k: int | None, layers: int, goal: dict[str, float]
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
    data: Path | None,
    goal: dict[str, float],
) -> tuple["Certificate | Bound", dict[str, Any]]:
    from capax.capacity.certificates.model_files import (
        foreign_certificate,
        is_capax_checkpoint,
        model_certificate,
    )

    if is_capax_checkpoint(path):
        require(heads is None, "--heads", "a GPT-2 or BERT file", "a Capax checkpoint")
        answer, measured, sample = model_certificate(path, m=m, T=T, B_X=B_X, data=data, **goal)
        checks = [{"text": a.text, "holds": a.holds, "detail": a.detail} for a in
                  measured.checks(sample.T)]  # fmt: skip
        return answer, {"kind_of_model": measured.kind, "T": sample.T, "applies": checks}
    require(data is None, "--data", "a Capax checkpoint (others have no scalar output)", str(data))
    require(B_X is None, "--B_X", "none (LayerNorm fixes the length of a token)", B_X)
    certificate, rows = foreign_certificate(path, m=m, T=T or DEFAULT_T, heads=heads, **goal)
    note("per-head numbers compare heads and checkpoints; they are not certificates")
    return certificate, {"kind_of_model": "GPT-2/BERT state dict", "heads": rows}


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
    norms: str, m: int, d: int, k: int | None, goal: dict[str, float], plot: Path, dark: bool
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
    emit(payload, json, lambda console: _render(answer, payload, explain, console))


def _render(
    answer: "Certificate | Bound", payload: dict[str, Any], explain: bool, console: Console
) -> None:
    from capax.capacity.bound import Bound

    if isinstance(answer, Bound):
        _render_cover(answer, explain, console)
    else:
        _render_certificate(answer, payload["target"], explain, console)
    if "heads" in payload:
        _render_heads(payload["heads"], console)
    for check in payload.get("applies", ()):
        text = check["detail"] if check["holds"] else f"{check['text']} ({check['detail']})"
        console.print(f"applies to {payload['kind_of_model']}: {text}", markup=False)
    if "plot" in payload:
        console.print(f"picture written to {payload['plot']}", markup=False)


def _render_cover(cover: "Bound", explain: bool, console: Console) -> None:
    """A class whose output is a vector: the size of its cover is all there is to say."""
    first = f"ln N <= {cover.verdict} at eps = {cover.norms['eps']:g} [{cover.status}]"
    console.print(first, style="bold", markup=False)
    console.print(cover.explain() if explain else cover.statement, markup=False, soft_wrap=True)
    console.print(NO_MARGIN, markup=False)


def _render_certificate(
    certificate: "Certificate", target: float, explain: bool, console: Console
) -> None:
    """Headline, routes and the m they ask for; --explain writes the same routes out."""
    best = certificate.best
    quickest = min(
        (entry for entry in certificate.entries if entry.m_needed is not None),
        key=lambda entry: entry.m_needed or 0,
        default=None,
    )
    if explain:
        console.print(certificate.explain(), markup=False, soft_wrap=True)
        if quickest is not None and quickest is not best:
            console.print(f"\nthe route of the m below: {quickest.explain()}", markup=False)
    else:
        _render_summary(certificate, console)
    if quickest is not None:
        needed = f"{quickest.m_needed:,}".replace(",", " ")
        console.print(
            f"error <= {target:g} from m = {needed} on, by the {_short(quickest)}",
            markup=False,
            soft_wrap=True,
        )


def _short(bound: "Bound") -> str:
    return bound.statement.split(" with ")[0]


def _render_summary(certificate: "Certificate", console: Console) -> None:
    from rich.table import Table

    from capax.capacity.magnitude import safe_log, shown

    best = certificate.best
    probability = f"with probability {1 - certificate.delta:g}"
    console.print(
        f"{probability}: error <= {best.verdict} [{best.status}]", style="bold", markup=False
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("route", "error <=", "status", "ln N", "m needed"):
        table.add_column(name, justify="left" if name in ("route", "status") else "right")
    for entry in certificate.entries:
        cover = "" if entry.log_log_cover is None else shown(entry.log_log_cover)
        needed = "" if entry.m_needed is None else shown(safe_log(float(entry.m_needed)))
        table.add_row(escape(entry.statement), entry.verdict, entry.status, cover, needed)
    console.print(table)
    if best.dominant is not None:
        parts = max(best.dominant.parts, key=lambda part: part.log_value, default=None)
        inside = "" if parts is None else f", in it {parts.name}"
        console.print(f"dominant term: {best.dominant.name}{inside}", markup=False)
    for assumption in best.assumptions:
        if assumption.holds is not True:
            console.print(f"{assumption.mark}: {assumption.text}", markup=False, soft_wrap=True)


def _render_heads(rows: list[dict[str, Any]], console: Console) -> None:
    from rich.table import Table

    names = ("layer", "head", "W_QK_F", "W_QK_2", "W_VO_F", "W_VO_2", "W_VO_21", "log10_capacity")
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, justify="right")
    for row in rows[:SHOWN_ROWS]:
        table.add_row(
            *(f"{row[n]:.4g}" if isinstance(row[n], float) else str(row[n]) for n in names)
        )
    console.print(table)
    if len(rows) > SHOWN_ROWS:
        note(f"{SHOWN_ROWS} of {len(rows)} heads shown; --json has all")
