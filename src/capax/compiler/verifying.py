"""Verification: recompute a certificate from the weights alone, and say every number.

Nothing is taken from the compiler: the weights become tables of logits and values, the worst case
over all 2^T inputs comes from running every input (T <= 16) or from the exact range of the head,
the norms from the arrays. The claims in the file are then compared with what was found. A
fingerprint of the file is checked too, but it is never the only witness.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capax.attention import ClsScalar
from capax.boolean import SparseFunction
from capax.compiler.proof.adversary import Attack, attack
from capax.compiler.proof.certificate import error_from_range, function_from
from capax.compiler.proof.norm_table import measured_norms
from capax.compiler.proof.output_range import output_range
from capax.compiler.proof.tables import HeadTables, Model, head_tables, readout_output
from capax.compiler.weights_file import WeightsFile, load_compiled
from capax.errors import InputError, require

EXHAUSTIVE_T = 16
TOLERANCE = 1e-9
"""Recomputed numbers agree with the claims to 1e-9, relative to 1 or to the number itself."""


@dataclass(frozen=True)
class Check:
    """One claim beside what the weights say."""

    name: str
    claimed: Any
    recomputed: Any
    ok: bool


@dataclass(frozen=True)
class Verification:
    """The verdict. `attacked_error`: the worst error a search for bad inputs found."""

    ok: bool
    path: str
    function: str
    T: int
    method: str
    worst_case_error: float
    margin: float | None
    attacked_error: float
    norms: dict[str, dict[str, float]]
    checks: tuple[Check, ...]

    @property
    def failed(self) -> tuple[Check, ...]:
        """The claims that do not hold."""
        return tuple(check for check in self.checks if not check.ok)

    def to_json(self) -> dict[str, Any]:
        """Plain data with the failed checks listed first under `failed`."""
        content = asdict(self)
        return {**content, "failed": [check.name for check in self.failed]}


def verify(path: Path | str) -> Verification:
    """Recompute everything that `path` claims. Raises `InputError` for an unusable file."""
    file = load_compiled(path)
    f = _claimed_function(file, path)
    tables = head_tables(file.model)
    method, low, high = ranges(file.model, tables, f)
    error, margin = error_from_range(f, low, high, signed=isinstance(file.model, ClsScalar))
    found = _attacked(file.model, tables, f, low, high)
    norms = measured_norms(file.model)
    checks = (
        *_error_checks(file.claims, error, margin, found.error, f),
        *_size_checks(file, f),
        *_norm_checks(file.claims.get("norms"), norms),
        Check(
            "fingerprint of the file",
            "as saved",
            "as saved" if file.intact else "changed",
            file.intact,
        ),
    )
    return Verification(
        ok=all(check.ok for check in checks),
        path=str(path),
        function=str(file.claims.get("function")),
        T=tables.T,
        method=method,
        worst_case_error=error,
        margin=margin,
        attacked_error=found.error,
        norms=norms,
        checks=checks,
    )


def ranges(
    model: Model, tables: HeadTables, f: SparseFunction
) -> tuple[str, np.ndarray, np.ndarray]:
    """How it was found, and the lowest and highest output at each pattern, over all 2^T inputs."""
    if tables.T <= EXHAUSTIVE_T:
        return f"exhaustive over 2^{tables.T} inputs", *exhaustive_range(model, tables, f)
    return "exact range of the head over all inputs", *output_range(model, tables, f.support)


def exhaustive_range(
    model: Model, tables: HeadTables, f: SparseFunction
) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest output at each pattern of the relevant bits, from all 2^T inputs."""
    codes = np.arange(1 << tables.T)
    bits = (codes[:, None] >> np.arange(tables.T) & 1).astype(np.int64)
    outputs = readout_output(model, tables.head(bits))
    rows = sum((bits[:, t] << i for i, t in enumerate(f.support)), np.zeros(len(bits), np.int64))
    low, high = np.full(1 << f.s, np.inf), np.full(1 << f.s, -np.inf)
    np.minimum.at(low, rows, outputs)
    np.maximum.at(high, rows, outputs)
    return low, high


def _claimed_function(file: WeightsFile, path: Path | str) -> SparseFunction:
    """The function the file says it computes, on the T its weights have."""
    claims = file.claims
    try:
        f = function_from(claims.get("support"), claims.get("table"), file.model.T)
    except InputError as error:
        raise InputError(f"{path}: certificate: {error}") from None
    return f


def _attacked(
    model: Model, tables: HeadTables, f: SparseFunction, low: np.ndarray, high: np.ndarray
) -> Attack:
    """A search for a bad input at the pattern with the largest error."""
    targets = 2 * f.table - 1 if isinstance(model, ClsScalar) else f.table
    worst = int(np.argmax(np.maximum(np.abs(low - targets), np.abs(high - targets))))

    def readout(u: np.ndarray) -> np.ndarray:
        return readout_output(model, u)

    return attack(tables, f.support, targets, readout, rows=[worst], restarts=1)


def _error_checks(
    claims: dict[str, Any], error: float, margin: float | None, found: float, f: SparseFunction
) -> tuple[Check, ...]:
    right = margin is None or margin > 0
    return (
        _compare("worst_case_error", claims.get("worst_case_error"), error),
        _compare("margin", claims.get("margin"), margin),
        Check("attack stays below the worst case", error, found, found <= error + TOLERANCE),
        Check("every decision is right", f.is_boolean, f.is_boolean and right, right),
        Check("eps is met", claims.get("eps"), error, _within(claims.get("eps"), error)),
    )


def _size_checks(file: WeightsFile, f: SparseFunction) -> tuple[Check, ...]:
    claims, model = file.claims, file.model
    units = 0 if isinstance(model, ClsScalar) else model.b_1.size
    found = {"T": model.T, "s": f.s, "d": model.encoding.d, "mlp_units": units}
    return tuple(
        Check(name, claims.get(name), value, claims.get(name) == value)
        for name, value in found.items()
    )


def _norm_checks(claimed: Any, norms: dict[str, dict[str, float]]) -> tuple[Check, ...]:
    require(isinstance(claimed, dict), "certificate: norms", "a JSON object", claimed)
    same = Check("matrices", sorted(claimed), sorted(norms), sorted(claimed) == sorted(norms))
    rows = [(matrix, name, value) for matrix, row in norms.items() for name, value in row.items()]
    compared = (
        _compare(f"norms.{matrix}.{name}", _lookup(claimed, matrix, name), value)
        for matrix, name, value in rows
    )
    return (same, *compared)


def _lookup(claimed: dict[str, Any], matrix: str, name: str) -> Any:
    row = claimed.get(matrix)
    return row.get(name) if isinstance(row, dict) else None


def _compare(name: str, claimed: Any, found: float | None) -> Check:
    """Agreement to `TOLERANCE`; a missing or malformed claim disagrees."""
    if found is None:
        return Check(name, claimed, None, claimed is None)
    number = isinstance(claimed, int | float) and not isinstance(claimed, bool)
    near = (
        number
        and math.isfinite(claimed)
        and abs(claimed - found) <= TOLERANCE * max(1.0, abs(found))
    )
    return Check(name, claimed, found, bool(near))


def _within(eps: Any, error: float) -> bool:
    return eps is None or (isinstance(eps, int | float) and error <= eps + TOLERANCE)
