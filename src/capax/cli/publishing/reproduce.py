"""`capax reproduce`: the paper's figures, a compiled function, a bound and a report."""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capax.cli.speaking.output import JsonFlag, emit
from capax.cli.speaking.watching import Watch, watching

if TYPE_CHECKING:
    from capax.terminal import Terminal


def reproduce(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for all results.")] = Path("out"),
    scale: Annotated[
        str,
        typer.Option(
            help="quick (minutes on a laptop), published (the paper's own protocol, for a GPU), "
            "grid, beyond, or smoke (a short test)."
        ),
    ] = "quick",
    experiments: Annotated[
        Path | None,
        typer.Option(help="Folder with your own figure2.toml, figure3.toml, figure4.toml."),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Values of T at once.")] = 2,
    json: JsonFlag = False,
) -> None:
    """Reproduce Figures 1 to 4, compile and certify a function, explain a bound, write a report.

    Interrupted, the same command continues where it stopped: finished trials are never repeated.

    Example: `capax reproduce --out out --scale quick`
    """
    started = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    with watching() as watch:
        summary = _run(watch, out, scale, experiments, jobs)
    summary["seconds"] = round(time.perf_counter() - started, 1)
    emit(summary, json, lambda console: _show(console, summary))


def _run(
    stages: Watch, out: Path, scale: str, experiments: Path | None, jobs: int
) -> dict[str, Any]:
    with stages.single("loading"):
        from capax.report import reproduction as stage
        from capax.report.build import write_report
        from capax.report.showcase import bound_section, compiled_section

        files = {name: stage.experiment_file(experiments, name) for name in stage.EXPERIMENTS}
    stores = [stage.store_of(out, name, scale) for name in files]
    printed: dict[Path, list[Path]] = {}
    shown: stage.Showcase | None = None
    with closing(stage.sweep_all(files, scale, out, jobs=jobs, report=stages.sweep)) as finished:
        for store in finished:  # the others train meanwhile
            if shown is None:
                with stages.single("a diagram, a function, a bound"):
                    shown = stage.make_showcase(out)
            with stages.single(f"pictures of {store.stem}"):
                printed[store] = stage.print_figures(store, out)
    assert shown is not None  # there are experiments
    with stages.single("writing the report"):
        compiled = compiled_section(shown.certificate, shown.verification)
        bound = bound_section(
            shown.bound, m=shown.m, what=f"the head compiled from {stage.FORMULA}"
        )
        page = write_report(
            stores, out / "report.html", first=[shown.diagram], last=[compiled, bound]
        )
    return {
        "report": str(out / "report.html"),
        "scale": scale,
        "figures": [
            str(path) for path in (*shown.figures, *(p for s in stores for p in printed[s]))
        ],
        "stores": [str(path) for path in stores],
        "findings": [{"value": f.value, "meaning": f.meaning} for f in page.findings],
        "certificate": shown.certificate.to_json(),
        "verified": shown.verification.ok,
        "bound": shown.bound.to_json(),
    }


def _show(console: "Terminal", summary: dict[str, Any]) -> None:
    for finding in summary["findings"]:
        console.print(f"{finding['value']}: {finding['meaning']}")
    verified = "verified" if summary["verified"] else "NOT verified"
    console.print(f"{summary['certificate']['function']}: compiled, {verified}")
    console.print(f"{summary['report']} ({summary['seconds']:.0f} s)")


def register(app: typer.Typer) -> None:
    """Add `reproduce` to the command line."""
    app.command("reproduce", epilog="Example: `capax reproduce --out out`")(reproduce)
