"""`capax bench`: how fast this machine trains, beside other programs and its own limits."""

from typing import Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit, note
from capax.terminal import Terminal

Lengths = Annotated[
    list[int] | None, typer.Option("--T", help="Context lengths to time (default 50 300 800 3000).")
]
Examples = Annotated[int, typer.Option("--m", help="Training examples per step.")]
Budget = Annotated[float, typer.Option("--budget", help="Seconds per measurement.")]


def bench(
    T: Lengths = None, m: Examples = 60, budget: Budget = 3.0, json: JsonFlag = False
) -> None:
    """Time one training step per model: naive JAX, PyTorch (all tokens; [CLS] only), and Capax.

    Example: `capax bench --T 50 --T 300 --json`
    """
    from capax.errors import require

    require(m >= 1, "--m", "at least 1", m)
    require(budget > 0, "--budget", "more than 0 seconds", budget)
    for length in T or ():
        require(length >= 3, "--T", "at least 3", length)
    from capax.training.speed.benchmark import LENGTHS, benchmark, has_torch

    if not has_torch():
        note("PyTorch is not installed (pip install 'capax[torch]'): its columns stay empty")
    report = benchmark(tuple(T or LENGTHS), m=m, budget=budget, say=note)
    emit(report, json, lambda console: _render(console, report))


def _render(console: Terminal, report: dict[str, Any]) -> None:
    names = ("naive_jax_ms", "torch_full_ms", "torch_cls_ms", "capax_ms")
    head = ("T", "naive JAX", "PyTorch", "PyTorch, [CLS] only", "Capax", "faster than PyTorch",
            "than [CLS] only", "of the roofline")  # fmt: skip
    rows = []
    for T, row in report["T"].items():
        times = [_number(row[name], "{:.4g}") for name in names]
        ratios = [_number(row[name], "{:.0f}x") for name in ("speedup_full", "speedup_cls")]
        rows.append([T, *times, *ratios, _number(row["roofline_fraction"], "{:.0%}")])
    title = f"Milliseconds per training step and model, m = {report['m']}"
    console.table(rows, head=head, align="r" * len(head), title=title)
    console.print(
        f"{report['device']}: {report['gflops_per_second']:.4g} GFLOP/s in float32 products, "
        f"{report['gbytes_per_second']:.3g} GB/s"
    )
    if report["exponent_T"] is not None:
        console.print(f"time grows like T^{report['exponent_T']:.2f}")
    if report["torch_graph_ms"] is not None:
        console.print(f"hand-batched PyTorch as a CUDA graph: {report['torch_graph_ms']:.4g} ms")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("bench")(bench)
