"""The proof file of a compiled network: hints found in float64, checked in exact arithmetic.

The hints are the proven ends of every direction of the head at every pattern of the support
(`capax.compiler.proof.output_range`). They hold for the worst rounding errors of float64, so they
hold in exact arithmetic too. A proof is written only after the checker has accepted it.

Bits of the checker's fixed point: weights of the softmax are at most 1 after a shift. If a pattern
excludes the heaviest tokens, the others may weigh as little as e^-spread. Values as small as 2^-v
need v more bits. With 160 further bits the error is far below the distance between a hint and the
root.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capax.attention import ClsScalar
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import error_from_range, function_from, table_text
from capax.compiler.proof.linear_fractional import HeadProblems
from capax.compiler.proof.output_range import (
    direction_ranges,
    hidden_units,
    scalar_direction,
    summed_ridges,
)
from capax.compiler.proof.tables import HeadTables, Model, alphabet_of, head_tables
from capax.compiler.weights_file import load_compiled
from capax.errors import InputError, require
from capax.files import write_atomically
from capax.proving import capax_check
from capax.rounding import digits_down, digits_up

SPARE_BITS = 160


@dataclass(frozen=True)
class Proof:
    """The text of a proof file, and the statement that the checker has accepted.

    Examples:
        >>> import capax
        >>> capax.Proof("", "nothing").statement
        'nothing'
    """

    text: str
    statement: str

    def write(self, path: Path | str) -> Path:
        """Write the file atomically."""
        return write_atomically(path, lambda file: file.write(self.text.encode()))


def prove_compiled(weights: Path | str) -> Proof:
    """The proof that a compiled network decides as its function on all inputs.

    Raises `InputError` for a file that `capax compile` did not write, and for a network without a
    proof, which may be wrong on some input.
    """
    file = load_compiled(weights)
    symbols = alphabet_of(file.model)
    require(symbols == 2, str(weights), "a network on bits (alphabet 2)", f"alphabet {symbols}")
    f = function_from(file.claims.get("support"), file.claims.get("table"), file.model.T)
    tables = head_tables(file.model)
    low, high, bottom, top = _ends(file.model, tables, f)
    error, margin = error_from_range(f, bottom, top, signed=isinstance(file.model, ClsScalar))
    wrong = not math.isfinite(error) or (margin is not None and margin <= 0)
    require(not wrong, str(weights), "a network that is proved to decide as its table", margin)
    data = Path(weights).read_bytes()
    header = {
        "proof": capax_check.VERSION,
        "weights": hashlib.sha256(data).hexdigest(),
        "T": tables.T,
        "support": list(f.support),
        "table": table_text(f),
        "margin": None if margin is None else _decimal(digits_down(margin)),
        "error": _decimal(digits_up(error)),
        "bits": _bits(tables, f, file.model),
    }
    text = (
        "\n".join(json.dumps(line) for line in (header, *_lines(low, high, file.model, tables)))
        + "\n"
    )
    try:
        return Proof(text, capax_check.check(text, data))
    except capax_check.Refused as refusal:
        raise InputError(f"{weights}: the checker refuses the proof: {refusal}") from None


def _ends(model: Model, tables: HeadTables, f: SparseFunction) -> tuple[np.ndarray, ...]:
    """Ends of each direction [rows, g] in the order of the stored columns, and of the output."""
    if isinstance(model, ClsScalar):
        problems = HeadProblems.of(tables, f.support, scalar_direction(model))
        rows = np.arange(1 << f.s)
        low, high = problems.range(rows, np.zeros_like(rows))[:2]
        return low[:, None], high[:, None], low, high
    hidden = hidden_units(model)
    if not hidden.ridges:
        empty, b_2 = np.empty((1 << f.s, 0)), np.full(1 << f.s, hidden.b_2)
        return empty, empty, b_2, b_2
    problems = HeadProblems.of(tables, f.support, hidden.columns)
    low, high = direction_ranges(problems, hidden.ridges)
    bottom, top = summed_ridges(hidden, low, high)
    _, first = np.unique(hidden.group, return_index=True)
    order = np.argsort(first)  # the checker reads the columns in the order of the units
    return low[:, order], high[:, order], bottom, top


def _lines(
    low: np.ndarray, high: np.ndarray, model: Model, tables: HeadTables
) -> list[dict[str, list]]:
    """A line for each pattern. Ends that the read-out does not need are those of all values."""
    least, most = _all_values(model, tables) if low.shape[1] else (0.0, 0.0)
    low = np.where(np.isfinite(low), low, least)
    high = np.where(np.isfinite(high), high, most)
    both = np.stack([low, high], axis=-1).tolist()
    return [{"ends": pairs} for pairs in both]


def _all_values(model: Model, tables: HeadTables) -> tuple[float, float]:
    """A lower and an upper bound of all values of all directions."""
    size = float(np.abs(_images(model, tables)).max())
    return -2 * size - 1e-9, 2 * size + 1e-9


def _images(model: Model, tables: HeadTables) -> np.ndarray:
    """The values of all tokens along the directions, in plain float64."""
    C = scalar_direction(model).mid if isinstance(model, ClsScalar) else np.asarray(model.W_1)
    tokens = tables.values.mid.reshape(-1, tables.values.mid.shape[-1])
    return np.concatenate([tokens, tables.cls_value.mid[None]]) @ C


def _bits(tables: HeadTables, f: SparseFunction, model: Model) -> int:
    shifts = HeadProblems.of(tables, f.support, None).shifts()
    top = max(float(tables.logits.mid.max()), float(tables.cls_logit.mid))
    sizes = np.abs(_images(model, tables)).max(0, initial=0.0)
    least = float(sizes[sizes > 0].min(initial=1.0))
    spread = (top - float(shifts.min())) / math.log(2)
    bits = SPARE_BITS + math.ceil(spread) + math.ceil(max(0.0, -math.log2(least)))
    return min(bits, 1 << 14)


def _decimal(x: float) -> str:
    """A number of twelve digits as the statement writes it."""
    return repr(abs(x)).replace("+", "")
