"""The stages of `make reproduce`: sweeps, printed figures, a certificate, a bound.

Every stage writes files to one folder. Sweeps resume from their stores; all other stages are quick
and run again, so that the command can be interrupted and repeated at any time. The figures of a
store are drawn as soon as it is finished, while the others train.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from capax.capacity.certificates.error_certificate import ErrorCertificate
from capax.capacity.routes.certifying import certify
from capax.compiler import Certificate, Compiled, Verification, save_compiled, verify
from capax.compiler import compile as compile_function
from capax.data.task import TaskSpec, draw_task
from capax.errors import InputError
from capax.figures.experiments.learning_curves import draw_learning_curves
from capax.figures.experiments.parity_transition import draw_parity_transition
from capax.figures.experiments.threshold_scaling import draw_threshold_scaling
from capax.figures.heads.attention_diagram import draw_attention_diagram
from capax.figures.heads.attention_weights import draw_attention_weights
from capax.figures.stored.attention import attention_maps
from capax.figures.stored.curves import learning_curves, parity_transition
from capax.figures.stored.runs import panels_of
from capax.figures.stored.threshold_records import threshold_scaling
from capax.figures.style import save
from capax.report.page import Section
from capax.report.showcase import diagram_section
from capax.sweep.experiments.shipped import shipped_experiments
from capax.sweep.experiments.spec import load_experiment
from capax.sweep.running.job import Status
from capax.sweep.running.several import Sweep, run_sweeps
from capax.sweep.storage.store import Store

EXPERIMENTS = ("figure2", "figure3", "figure4")
FORMULA, LENGTH = "x3 & x17 & x41", 100
EXAMPLES = 200_000
_SUFFIXES = (".png", ".svg")


@dataclass(frozen=True)
class Showcase:
    """The parts that need no store: Figure 1 for the report and its files; a compiled function, its
    verification, and the bound on its error from `m` examples."""

    diagram: Section
    figures: tuple[Path, ...]
    certificate: Certificate
    verification: Verification
    bound: ErrorCertificate
    m: int


def sweep_all(
    experiments: Mapping[str, Path],
    scale: str,
    out: Path,
    *,
    jobs: int,
    report: Callable[[str], Callable[[Status], None]],
) -> Generator[Path]:
    """Run experiment files at one scale, each into its store in `out`; resumes existing stores.

    Yields every store as soon as it is finished, while the others are still being trained.
    """
    sweeps = [
        Sweep(load_experiment(file, scale), store_of(out, name, scale), report(name))
        for name, file in experiments.items()
    ]
    for number in run_sweeps(sweeps, jobs_at_once=jobs):
        yield sweeps[number].store


def store_of(out: Path, name: str, scale: str) -> Path:
    """The store of an experiment."""
    return out / f"{name}-{scale}.sqlite"


def experiment_file(folder: Path | None, name: str) -> Path:
    """The file of an experiment: the shipped one, or the one in the user's folder.

    Raises `InputError` if the folder does not contain it.
    """
    if folder is None:
        return shipped_experiments()[name]
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise InputError(f"--experiments: file not found: {path.name} in {folder}")
    return path


def print_figures(store: Path, out: Path) -> list[Path]:
    """Every figure the store has data for, as PNG and SVG."""
    with Store.read(store) as opened:
        drawn = _drawn(opened)
    return _printed(drawn, out)


def _printed(drawn: dict[str, Figure], out: Path) -> list[Path]:
    return [
        save(figure, out / f"{name}{suffix}")
        for name, figure in drawn.items()
        for suffix in _SUFFIXES
    ]


def _drawn(store: Store) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    if panels_of(store, "thresholds"):
        figures["figure2"] = draw_threshold_scaling(threshold_scaling(store))
    if panels_of(store, "curves"):
        figures["figure3-left"] = draw_learning_curves(learning_curves(store))
    if panels_of(store, "attention"):
        figures["figure3-right"] = draw_attention_weights(attention_maps(store))
    if panels_of(store, "transition"):
        figures["figure4"] = draw_parity_transition(parity_transition(store))
    return figures


def make_showcase(out: Path) -> Showcase:
    """Draw Figure 1, compile a formula, verify the file, and bound its error from a sample."""
    figures = _printed({"figure1": draw_attention_diagram()}, out)
    compiled = compile_function(FORMULA, LENGTH)
    path = save_compiled(out / "compiled.safetensors", compiled)
    return Showcase(
        diagram_section(),
        tuple(figures),
        compiled.certificate,
        verify(path),
        _bound(compiled),
        EXAMPLES,
    )


def _bound(compiled: Compiled) -> ErrorCertificate:
    task = TaskSpec(
        function=FORMULA,
        T=LENGTH,
        m=EXAMPLES,
        support="formula",
        reject_ambiguous=False,
        validation_size=1,
    )
    drawn = draw_task(task)
    return certify(compiled.model, drawn.X_train, drawn.y_train, target=0.05)
