"""The certificate: worst-case error and margin on all inputs, and the norms of the weights.

The promise is about real arithmetic on exactly the stored float64 weights. Worst case and margin
are the proven ends of the output's range (`output_range`), rounded outward to twelve digits; the
norms come from closed forms in O(2^s) or from the arrays. It is stored beside the weights; `verify`
recomputes it from the weights alone.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from capax.attention import ClsScalar
from capax.boolean import SparseFunction, from_table
from capax.compiler.certificate.norm_table import closed_form_norms, paper_bounds
from capax.compiler.certificate.sample_size import (
    DELTA,
    TARGET_ERROR,
    capacity_report,
    capacity_routes,
)
from capax.compiler.certificate.sample_size import sample_sizes as by_route
from capax.compiler.construction.assemble import assemble
from capax.compiler.construction.families import Construction
from capax.compiler.parts.readouts import ScalarReadout
from capax.compiler.proof.enclosed import exactly
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import HeadTables, Model, head_tables
from capax.errors import InfeasibleError, InputError, require
from capax.rounding import digits_down, digits_up

LABELS, VALUES = "labels -1 and +1, decided by the sign", "values of f, decided at 1/2"
REAL_VALUES = "values of f (real-valued: there is nothing to decide)"


@dataclass(frozen=True)
class Certificate:
    """The certified numbers. `worst_case_error` >= |output - target| on all M^T inputs, M =
    `alphabet`.

    `margin` <= the distance of every output from the decision threshold on the right side, None
    for a real-valued f; it is positive, so `wrong_decisions` is 0. `norms`: by matrix, then by
    norm. `sample_size`: by route, for error 0.1 with probability 95 %. `selection`: the parameters
    of the head (a = inverse temperature).
    """

    function: str
    T: int
    s: int
    support: tuple[int, ...]
    table: str | tuple[float, ...]
    family: str
    encoding: str
    d: int
    target: str
    eps: float | None
    worst_case_error: float
    margin: float | None
    wrong_decisions: int | None
    mlp_units: int
    selection: dict[str, float]
    norms: dict[str, dict[str, float]]
    paper_bounds: dict[str, dict[str, Any]]
    sample_size: dict[str, int | None]
    capacity: dict[str, dict[str, Any]]
    statements: tuple[str, ...]
    notes: tuple[str, ...]
    alphabet: int = 2

    def to_json(self) -> dict[str, Any]:
        """Plain data, tuples as lists; an alphabet of two symbols is left out."""
        content = asdict(self)
        if self.alphabet == 2:
            del content["alphabet"]
        lists = {k: list(v) for k, v in content.items() if isinstance(v, tuple)}
        goal = {"error": TARGET_ERROR, "probability": 1 - DELTA}
        return {**content, **lists, "sample_size_for": goal}

    @property
    def sparse_function(self) -> SparseFunction:
        """The function that was compiled."""
        return function_from(self.support, self.table, self.T, self.alphabet)

    @property
    def num_inputs(self) -> str:
        """The number of inputs, M^T, as text."""
        return f"{self.alphabet}^{self.T}"


def certify(construction: Construction, name: str, eps: float | None) -> Certificate:
    """The certificate of a construction; `name` = the formula, for the reader."""
    f, head = construction.function, construction.selection
    model = assemble(construction)
    tables = head_tables(model)
    error, margin = proven_error(model, tables, f)
    if eps is not None and error > eps:
        raise InfeasibleError(f"eps: wanted at most {eps:g}, the rounded weights reach {error:g}")
    norms, routes = closed_form_norms(construction), capacity_routes(model, tables, f, margin)
    knobs = {"a": head.a, "D": head.D, "omega": head.omega, "beta": float(head.beta)}
    return Certificate(
        function=name,
        T=head.T,
        s=f.s,
        support=f.support,
        table=table_text(f),
        family=construction.family,
        encoding=head.encoding,
        d=_width(construction),
        target=target_of(f, scalar=isinstance(construction.readout, ScalarReadout)),
        eps=eps,
        worst_case_error=error,
        margin=margin,
        wrong_decisions=None if margin is None else 0,
        mlp_units=construction.readout.num_units,
        selection=knobs,
        norms=norms,
        paper_bounds=paper_bounds(construction, norms),
        sample_size=by_route(routes),
        capacity=capacity_report(routes),
        statements=statements_of(construction.family, f),
        notes=(*f.notes, *_notes(construction, margin)),
        alphabet=f.alphabet,
    )


def proven_error(model: Model, tables: HeadTables, f: SparseFunction) -> tuple[float, float | None]:
    """Worst-case error and margin from the proven range of the output, rounded outward."""
    found = output_range(model, tables, f.support)
    error, margin = error_from_range(f, *found, signed=isinstance(model, ClsScalar))
    return digits_up(error), None if margin is None else digits_down(margin)


def error_from_range(
    f: SparseFunction, low: np.ndarray, high: np.ndarray, *, signed: bool
) -> tuple[float, float | None]:
    """Largest |output - target| and smallest distance from the threshold, from the ranges."""
    target = exactly(targets(f, signed=signed))
    over, under = (exactly(high) - target).high, (target - exactly(low)).high
    error = float(np.maximum(over, under).max())
    if not f.is_boolean:
        return error, None
    cut = exactly(np.full(len(low), 0.0 if signed else 0.5))
    above, below = (exactly(low) - cut).low, (cut - exactly(high)).low
    return error, float(np.where(f.table > 0.5, above, below).min())


def targets(f: SparseFunction, *, signed: bool) -> np.ndarray:
    """The target of the output at each pattern: the labels -1 and +1, or the values of f."""
    return 2 * f.table - 1 if signed else f.table


def table_text(f: SparseFunction) -> str | tuple[float, ...]:
    """The truth table: hexadecimal (bit k = row k) for a Boolean function, else its values."""
    if not f.is_boolean:
        return tuple(float(x) for x in f.table)
    packed = np.packbits(f.table.astype(np.uint8), bitorder="little").tobytes()
    return hex(int.from_bytes(packed, "little"))


def function_from(support: Any, table: Any, T: Any, alphabet: Any = 2) -> SparseFunction:
    """The inverse of `table_text`. Raises `InputError` for other text."""
    whole = isinstance(T, int) and isinstance(support, list | tuple)
    require(whole and all(isinstance(x, int) for x in support), "support", "integers", support)
    try:
        rows = int(table, 16) if isinstance(table, str) else np.asarray(table, dtype=np.float64)
        return from_table(rows, tuple(support), T, alphabet)
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"table: wanted a hexadecimal number or values, got {table!r}") from None


def _width(construction: Construction) -> int:
    head = construction.selection
    if construction.basis is not None:
        return construction.basis.codes.shape[1]
    if head.encoding == "bag":
        return head.T + 1
    vectors = head.T if head.encoding == "deterministic" else head.slots
    return vectors + len(head.classes) + 1


def target_of(f: SparseFunction, *, scalar: bool) -> str:
    """The meaning of the output, and the rule that decides."""
    if scalar:
        return LABELS
    return VALUES if f.is_boolean else REAL_VALUES


CASES = {
    "monotone-symmetric": "monotone symmetric functions by f_tf-scalar",
    "linear-threshold": "f_tf-scalar, extended to weighted thresholds (ours)",
    "symmetric": "symmetric functions by head and MLP",
    "general": "all s-sparse functions by head and MLP",
}


def statements_of(family: str, f: SparseFunction) -> tuple[str, ...]:
    """The statements of the paper behind a network of this family."""
    routes = ("Corollary 4.5", "Occam bound") if f.is_boolean else ()
    case = CASES.get(family, "no such family")
    beyond = () if f.alphabet == 2 else (f"Section B.4: {f.alphabet} symbols instead of bits",)
    return (f"Proposition 5.1: {case}", *beyond, *routes)


def _notes(construction: Construction, margin: float | None) -> tuple[str, ...]:
    notes: list[str] = []
    if margin is None:
        notes.append("real-valued: no margin and no sample size for a 0/1 error")
    if construction.family in ("symmetric", "general") and construction.function.s:
        notes.append("Corollary 4.5 multiplies the norms of head and MLP: vacuous in practice")
    if construction.basis is not None:
        d, mu = construction.basis.codes.shape[1], construction.basis.mu
        notes.append(f"codes of length {d}, largest inner product with a relevant one {mu:.3f}")
    return tuple(notes)
