"""`capax compile`: a formula becomes weights and a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.networks.compile_average import show_average
from capax.cli.networks.compile_continuous import show_continuous
from capax.cli.networks.compile_paper import show_paper
from capax.cli.speaking.destinations import check_destinations
from capax.cli.speaking.output import JsonFlag, emit, note
from capax.errors import require

if TYPE_CHECKING:
    from capax.compiler import Certificate, Compiled
    from capax.terminal import Terminal

WEIGHTS = "weights.safetensors"


Formula = Annotated[str, typer.Argument(help="e.g. `x2 & x3 & x10`, `mean(all)`")]
Length = Annotated[int, typer.Option("-T", "--length", help="Context length: number of tokens.")]
Alphabet = Annotated[
    int, typer.Option(help="Symbols a token can be. With more than 2: `x3 == x7`, `x3 >= 2`.")
]
Encoding = Annotated[str, typer.Option(help="deterministic, trainable, bag or incoherent.")]
CompiledFamily = Annotated[
    str, typer.Option(help="auto, monotone-symmetric, linear-threshold, symmetric or general.")
]
AllowedError = Annotated[
    float | None,
    typer.Option(help="Allowed uniform error of the output. Default: exact decisions."),
]
CodeLength = Annotated[int | None, typer.Option(help="Length of incoherent codes.")]
ContinuousFlag = Annotated[
    bool,
    typer.Option(
        "--continuous",
        help="Tokens are numbers in [0, 1]: `max(x1, x5) - 0.5*x9` within --eps (0.01).",
    ),
]
Method = Annotated[
    str, typer.Option(help="ours, or paper: the network of Appendix B, proved and compared.")
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", help="Weights file. Default: weights.safetensors (--method paper: no file)."
    ),
]
DryRunFlag = Annotated[bool, typer.Option("--dry-run", help="Certificate only.")]
LensFile = Annotated[
    Path | None,
    typer.Option(help="Also write the weights under TransformerLens names (safetensors)."),
]
Picture = Annotated[Path | None, typer.Option(help="Picture of the network (.png, .svg or .pdf).")]
ProofFile = Annotated[
    Path | None, typer.Option(help="Also write a proof that capax check accepts.")
]


def compile_command(
    formula: Formula,
    T: Length,
    alphabet: Alphabet = 2,
    encoding: Encoding = "deterministic",
    family: CompiledFamily = "auto",
    eps: AllowedError = None,
    dim: CodeLength = None,
    continuous: ContinuousFlag = False,
    method: Method = "ours",
    out: WeightsFile = None,
    dry_run: DryRunFlag = False,
    transformer_lens: LensFile = None,
    plot: Picture = None,
    proof: ProofFile = None,
    json: JsonFlag = False,
) -> None:
    """Compile a sparse function into a bounded-norm Transformer head, certified on all inputs.

    Examples: `capax compile "x2 & x3 & x10" -T 1000`,
    `capax compile "x3 == x7" -T 1000 --alphabet 5`, `capax compile "mean(x0..x99)" -T 1000`
    """
    from capax.boolean.parser import parse

    only_ours = {"--plot": plot, "--transformer-lens": transformer_lens, "--proof": proof}
    written = None if dry_run else out or Path(WEIGHTS)
    if continuous or formula.strip().startswith("mean"):
        asked = _chosen(family, encoding, method) | {**only_ours, "--dim": dim}
        if continuous:
            asked |= {"--out": out, "--alphabet": None if alphabet == 2 else alphabet}
            show_continuous(formula, T, eps, asked, json)
        else:
            show_average(formula, T, alphabet, eps, written, asked, json)
        return
    parse(formula, alphabet=alphabet)  # an error in it is reported before slow imports
    require(method in ("ours", "paper"), "method", "ours or paper", method)
    if method == "paper":
        require(alphabet == 2, "--alphabet", "2 (bits) with --method paper", alphabet)
        kept, asked = None if dry_run else out, {**only_ours, "--eps": eps}
        show_paper(formula, T, (encoding, family, dim), kept, asked, json)
        return
    for option, value in only_ours.items():
        fits = value is None or alphabet == 2
        require(fits, option, "an alphabet of 2 (bits)", f"--alphabet {alphabet}")
    require(not (dry_run and proof), "--proof", "weights to prove, without --dry-run", str(proof))
    check_destinations(proof)
    _check_outputs(written, transformer_lens, plot)
    from capax.compiler import compile as compile_function

    compiled = compile_function(
        formula, T, encoding=encoding, family=family, eps=eps, dim=dim, alphabet=alphabet
    )
    _write(compiled, written, transformer_lens, plot)
    _prove(written, proof)
    for remark in compiled.certificate.notes:
        note(remark)
    certificate = compiled.certificate
    emit(certificate.to_json(), json, lambda console: show_certificate(console, certificate))


def _chosen(family: str, encoding: str, method: str) -> dict[str, Any]:
    """Options that differ from their defaults; None for other options."""
    given = {"--family": (family, "auto"), "--encoding": (encoding, "deterministic"),
             "--method": (method, "ours")}  # fmt: skip
    return {name: value if value != usual else None for name, (value, usual) in given.items()}


def _prove(weights: Path | None, proof: Path | None) -> None:
    """Write the proof of a weights file, if both are requested."""
    if weights is not None and proof is not None:
        from capax.proving.proof_files import prove

        note(f"proof: {prove(weights).write(proof)}")


def _check_outputs(out: Path | None, lens: Path | None, plot: Path | None) -> None:
    """Raise `InputError` at the start for a file that cannot be written or is of another kind."""
    from capax.compiler.weights_file import check_destination
    from capax.errors import InputError

    check_destinations(lens, plot)
    if out is not None:
        check_destination(out)
    if plot is not None and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"--plot: wanted a name ending in .png, .svg or .pdf, got {plot.name!r}")


def _write(compiled: "Compiled", out: Path | None, lens: Path | None, plot: Path | None) -> None:
    from capax.compiler import save_compiled

    if lens is not None:
        from capax.compiler.transformer_lens import save_transformer_lens

        save_transformer_lens(lens, compiled)
        note(f"TransformerLens arrays: {lens}")
    if plot is not None:
        from capax.figures.heads.compiled_function import save_compiled_figure

        save_compiled_figure(plot, compiled)
        note(f"picture: {plot}")
    if out is not None:
        note(f"weights: {save_compiled(out, compiled)}")


def show_certificate(console: "Terminal", certificate: "Certificate") -> None:
    """The certificate as two tables: its claims and its norms."""
    console.table(_promises(certificate), title="certificate")
    rows = []
    for matrix, row in certificate.norms.items():
        bound = certificate.paper_bounds.get(matrix)
        order = "" if bound is None else f"{bound['order']} = {bound['value']:.3g}"
        ratio = "" if bound is None else f"{bound['ratio']:.2f}"
        numbers = (f"{row[name]:.4g}" for name in ("frobenius", "spectral", "norm_2_1"))
        rows.append([matrix, *numbers, order, ratio])
    head = ("matrix", "Frobenius", "spectral", "(2,1)", "Proposition 5.1", "ratio")
    console.table(rows, head=head, align="lrrrrr", title="norms")


def _promises(certificate: "Certificate") -> list[tuple[str, str]]:
    c = certificate
    rows: list[tuple[str, str]] = [
        ("function", c.function),
        *([] if c.alphabet == 2 else [("alphabet", f"{c.alphabet} symbols")]),
        ("T, s, d", f"{c.T}, {c.s}, {c.d}"),
        ("family", c.family),
        ("encoding", c.encoding),
        ("target", c.target),
        ("wrong decisions", "not applicable" if c.margin is None else f"0 of {c.num_inputs}"),
        ("margin", "none (real-valued)" if c.margin is None else f"{c.margin:.6g}"),
        ("output", f"within {c.worst_case_error:.6g} of its target on all {c.num_inputs} inputs"),
        ("MLP units", str(c.mlp_units)),
        ("head", ", ".join(f"{name} = {value:.4g}" for name, value in c.selection.items())),
    ]
    rows += [(f"m by {route}", _samples(route, c)) for route in c.sample_size]
    return [*rows, ("statements", "; ".join(c.statements))]


def _samples(route: str, certificate: "Certificate") -> str:
    m: Any = certificate.sample_size[route]
    size = "no finite number" if m is None else f"{m:,}".replace(",", " ")
    vacuous = certificate.capacity[route]["vacuous_in_practice"]
    return f"{size} for error 0.1 at 95 %" + (" (vacuous in practice)" if vacuous else "")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("compile")(compile_command)
