"""Claims of a certificate about the function and the shape of the network, checked on the
weights."""

from dataclasses import replace
from typing import Any

import numpy as np

from capax.attention import (
    ClsScalar,
    DeterministicPositions,
    IncoherentCodes,
    OrthonormalBag,
    TrainablePositions,
)
from capax.boolean import SparseFunction, parse
from capax.boolean.symbol_classes import on_classes, symbol_classes
from capax.compiler.certificate.certificate import statements_of, table_text, target_of
from capax.compiler.certificate.norm_table import paper_bounds_of
from capax.compiler.certificate.sample_size import DELTA, TARGET_ERROR
from capax.compiler.compiling import formula_of
from capax.compiler.construction.families import FAMILIES, Refusal, scalar_problem
from capax.compiler.construction.general import MAX_GENERAL_SPARSITY
from capax.compiler.parts.literals import literal_form
from capax.compiler.proof.tables import Model, alphabet_of
from capax.compiler.verified.claims import Claim, equal, near, stated_table
from capax.errors import InputError

ENCODING_NAMES: dict[type, str] = {
    DeterministicPositions: "deterministic",
    TrainablePositions: "trainable",
    OrthonormalBag: "bag",
    IncoherentCodes: "incoherent",
}


def description_claims(
    claims: dict[str, Any], model: Model, f: SparseFunction, shown: list[int | None]
) -> list[Claim]:
    """Function, table, family, encoding, target and statements."""
    family = claims.get("family")
    scalar = isinstance(model, ClsScalar)
    encoding = ENCODING_NAMES.get(type(model.encoding), type(model.encoding).__name__)
    return [
        function_claim(claims, f),
        table_claim(claims, f, shown),
        equal("support", claims.get("support"), _relevant(f)),
        family_claim(family, model, f),
        equal("encoding", claims.get("encoding"), encoding),
        equal("target", claims.get("target"), target_of(f, scalar=scalar)),
        equal("statements", claims.get("statements"), list(statements_of(str(family), f))),
        equal("sample_size_for", claims.get("sample_size_for"), _goal()),
    ]


def function_claim(claims: dict[str, Any], f: SparseFunction) -> Claim:
    """The formula is parsed again; its table must be the one that the weights are compared with."""
    text = claims.get("function")
    if not f.is_boolean:
        return equal("function", text, formula_of(f, f))
    found = formula_of(f, f)
    try:
        same = isinstance(text, str)
        same = same and parse(text, f.T, alphabet=f.alphabet).relevant() == f.relevant()
    except InputError:
        same = False
    return Claim("function", "=", text, found, "proved" if same else "refuted")


def table_claim(claims: dict[str, Any], f: SparseFunction, shown: list[int | None]) -> Claim:
    """The truth table of the weights: the side of the threshold at each pattern."""
    claimed = claims.get("table")
    if not f.is_boolean:  # the values are within worst_case_error, which is a claim of its own
        return equal("table", claimed, list(table_text(f)))
    table = f.table.astype(int).tolist()
    wrong = [a is not None and a != b for a, b in zip(shown, table, strict=True)]
    unknown = [row for row, value in enumerate(shown) if value is None]
    if any(wrong):
        sure = replace(f, table=np.array([float(bool(x)) for x in shown]))
        return Claim("table", "=", claimed, table_text(sure), "refuted")
    if unknown:
        return Claim("table", "=", claimed, f"open in {len(unknown)} rows", "unproved")
    return equal("table", claimed, table_text(f))


def family_claim(family: Any, model: Model, f: SparseFunction) -> Claim:
    """The families that the function and the read-out allow; the claimed one must be among them."""
    possible = possible_families(model, f)
    status = "proved" if family in possible else "refuted"
    return Claim("family", "=", family, possible, status)


def possible_families(model: Model, f: SparseFunction) -> list[str]:
    """A scalar read-out needs a threshold, the symmetric MLP two head outputs and a symmetric f."""
    if f.s == 0:
        return list(FAMILIES)
    g = on_classes(f, symbol_classes(f))
    bits = g.alphabet == 2
    if isinstance(model, ClsScalar):
        names = ("monotone-symmetric", "linear-threshold")
        return [name for name in names if not isinstance(scalar_problem(name, g), Refusal)]
    wide = model.W_V.shape[1]
    symmetric = bits and wide == 2 and literal_form(g) is not None
    general = wide == f.s + (1 if bits else 2) and g.table.size <= 1 << MAX_GENERAL_SPARSITY
    pairs = (("symmetric", symmetric), ("general", general))
    return [name for name, fits in pairs if fits]


def size_claims(claims: dict[str, Any], model: Model, f: SparseFunction) -> list[Claim]:
    """T, s, d and the number of hidden units."""
    units = 0 if isinstance(model, ClsScalar) else int(model.b_1.size)
    found = {"T": model.T, "s": f.s, "d": model.encoding.d, "mlp_units": units}
    done = [equal(name, claims.get(name), value) for name, value in found.items()]
    return [*done, equal("alphabet", claims.get("alphabet", 2), alphabet_of(model))]


def paper_claims(
    claims: dict[str, Any], model: Model, f: SparseFunction, norms: dict[str, dict[str, float]]
) -> list[Claim]:
    """Proposition 5.1's order for each matrix, its value, and the measured ratio."""
    wide = claims.get("family") == "general"
    scalar = isinstance(model, ClsScalar)
    found = paper_bounds_of(f, norms, scalar=scalar, general=wide)
    given = stated_table(claims, "paper_bounds")
    done = [equal("paper_bounds", sorted(map(str, given)), sorted(found))]
    for matrix, row in found.items():
        told = stated_table(given, matrix)
        prefix = f"paper_bounds.{matrix}"
        done.append(equal(prefix, sorted(map(str, told)), sorted(row)))
        done.append(equal(f"{prefix}.order", told.get("order"), row["order"]))
        for key in ("value", "ratio"):
            low, high = row[key] * (1 - 1e-10), row[key] * (1 + 1e-10)
            done.append(near(f"{prefix}.{key}", told.get(key), low, high))
    return done


def _relevant(f: SparseFunction) -> list[int]:
    """The positions that the table depends on, in its own order."""
    return [int(t) for t in f.relevant().support]


def _goal() -> dict[str, float]:
    return {"error": TARGET_ERROR, "probability": 1 - DELTA}
