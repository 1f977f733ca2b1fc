"""Intervals that hold the worst-case error and the margin, proved from outside and from inside.

From outside: the enclosed output on every input (M^T <= 2^16), or its proven range at every
pattern. From inside: an actual input, evaluated with its rounding error; for long contexts an
adversary looks for one at every pattern of the relevant bits.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from capax.attention import ClsScalar
from capax.boolean import SparseFunction
from capax.boolean.functions import all_patterns
from capax.compiler.certificate.certificate import error_from_range, targets
from capax.compiler.proof.adversary import attack
from capax.compiler.proof.evaluation import output_bounds
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import HeadTables, Model, readout_output

EXHAUSTIVE_T = 16
EXHAUSTIVE_SIZE = 1 << 24
"""Hidden units times inputs, above which the range is used for short contexts too."""


@dataclass(frozen=True)
class WorstCase:
    """[error_low, error_high] holds the largest |output - target|, likewise the margin.

    `low`, `high` = proven range of the output at each pattern; `margin_*` None for a real-valued f;
    `witness` = an input whose error is at least `error_low`.
    """

    method: str
    low: Float[np.ndarray, " rows"]
    high: Float[np.ndarray, " rows"]
    error_low: float
    error_high: float
    margin_low: float | None
    margin_high: float | None
    witness: Integer[np.ndarray, " T"]

    def decided(self, *, signed: bool) -> list[int | None]:
        """The truth table of the weights: None where the range contains the threshold."""
        cut = 0.0 if signed else 0.5
        on, off = self.low > cut, self.high < cut
        return [1 if a else 0 if b else None for a, b in zip(on, off, strict=True)]


def worst_case(model: Model, tables: HeadTables, f: SparseFunction) -> WorstCase:
    """The two-sided answer for one network and one function."""
    units = 1 if isinstance(model, ClsScalar) else model.b_1.size
    short = tables.alphabet**tables.T <= 1 << EXHAUSTIVE_T
    short = short and units * tables.alphabet**tables.T <= EXHAUSTIVE_SIZE
    return _exhaustive(model, tables, f) if short else _by_range(model, tables, f)


def _exhaustive(model: Model, tables: HeadTables, f: SparseFunction) -> WorstCase:
    bits = all_patterns(tables.T, tables.alphabet)
    below, above = output_bounds(model, tables, bits)
    rows = rows_of(bits, f)
    low, high = np.full(f.table.size, np.inf), np.full(f.table.size, -np.inf)
    np.minimum.at(low, rows, below)
    np.maximum.at(high, rows, above)
    ends = output_range(model, tables, f.support)  # both are proved; the sharper one is used
    ends = np.fmax(low, ends[0]), np.fmin(high, ends[1])
    inputs = f"{tables.alphabet}^{tables.T}"
    method = f"every one of the {inputs} inputs, and the proven range of the output"
    return _two_sided(method, model, f, ends, bits, (below, above))


def _by_range(model: Model, tables: HeadTables, f: SparseFunction) -> WorstCase:
    ends = output_range(model, tables, f.support)
    wanted = targets(f, signed=isinstance(model, ClsScalar))
    suspicion = np.fmax(np.abs(ends[0] - wanted), np.abs(ends[1] - wanted))

    def readout(u: np.ndarray) -> np.ndarray:
        return readout_output(model, u)

    found = attack(tables, f.support, wanted, readout, suspicion=suspicion)
    witnesses = np.stack([found.bits])
    return _two_sided(
        "proven range of the output over all inputs",
        model,
        f,
        ends,
        witnesses,
        output_bounds(model, tables, witnesses),
    )


def _two_sided(
    method: str, model: Model, f: SparseFunction, ends: Any, bits: np.ndarray, outputs: Any
) -> WorstCase:
    """Outer numbers from the ends at each pattern, inner ones from the outputs on `bits`."""
    signed = isinstance(model, ClsScalar)
    low, high = (np.where(np.isnan(e), s * np.inf, e) for e, s in zip(ends, (-1, 1), strict=True))
    error, margin = error_from_range(f, low, high, signed=signed)
    rows = rows_of(bits, f)
    below, above = outputs
    wanted = targets(f, signed=signed)[rows]
    away = np.nan_to_num(np.maximum(np.maximum(below - wanted, wanted - above), 0.0), nan=0.0)
    worst = int(np.argmax(away))
    nearest = None
    if margin is not None:
        cut = 0.0 if signed else 0.5
        reach = np.where(f.table[rows] > 0.5, above - cut, cut - below)
        nearest = float(np.nextafter(np.nan_to_num(reach, nan=np.inf), np.inf).min())
    least = max(0.0, float(np.nextafter(away[worst], -np.inf)))
    return WorstCase(method, low, high, least, error, margin, nearest, bits[worst])


def rows_of(bits: Integer[np.ndarray, "n T"], f: SparseFunction) -> np.ndarray:
    """The row of the truth table that each input shows."""
    return bits[:, list(f.support)] @ f.alphabet ** np.arange(f.s)
