"""Verification: recompute a certificate from the weights alone.

Only the weights in the file are trusted. The promise is about real arithmetic on exactly the stored
float64 numbers: worst case and margin are enclosed (`worst_case`), the truth table follows from the
weights and is compared with the table *and* the formula, norms and sample sizes come from the
arrays. Each field of the certificate becomes a `Claim`: proved, refuted, unproved, or stated and
not checked. A fingerprint without a key shows that a file is unchanged, not that its claims are
true.
"""

import math
from pathlib import Path
from typing import Any

from capax.attention import ClsScalar
from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import Certificate, function_from
from capax.compiler.certificate.float32 import float32_margin
from capax.compiler.certificate.norm_table import measured_norms, norm_error
from capax.compiler.certificate.sample_size import capacity_report, capacity_routes, sample_sizes
from capax.compiler.certificate.worst_case import WorstCase, worst_case
from capax.compiler.proof.tables import HeadTables, Model, alphabet_of, head_tables
from capax.compiler.verified.average_file import verify_average
from capax.compiler.verified.claims import (
    Claim,
    at_least,
    at_most,
    equal,
    is_number,
    near,
    stated,
    stated_table,
)
from capax.compiler.verified.fields import description_claims, paper_claims, size_claims
from capax.compiler.verified.verification import ARITHMETIC, NormTable, Verification
from capax.compiler.verified.verify_paper import verify_paper
from capax.compiler.weights_file import AVERAGE, PAPER, WeightsFile, kind_of, load_compiled
from capax.errors import CapaxError, InputError

FIELDS = (*(n for n in Certificate.__dataclass_fields__ if n != "alphabet"), "sample_size_for")


def verify(path: Path | str) -> Verification:
    """Recompute every claim of the file `path`. Raises `InputError` for an unusable file.

    Examples:
        >>> import capax, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "and.safetensors"
        >>> _ = capax.compiler.save_compiled(path, capax.compile("x0 & x2", T=5))
        >>> capax.verify(path).ok
        True
    """
    others = {AVERAGE: verify_average, PAPER: verify_paper}
    kind = kind_of(path)
    if kind in others:
        return others[kind](path)
    file = load_compiled(path)
    try:
        table = (file.claims.get("support"), file.claims.get("table"))
        f = function_from(*table, file.model.T, alphabet_of(file.model))
        tables = head_tables(file.model)
    except InputError as error:
        raise InputError(f"{path}: certificate: {error}") from None
    found = worst_case(file.model, tables, f)
    norms = measured_norms(file.model)
    claims = tuple(all_claims(file, tables, f, found, norms))
    return Verification(
        ok=all(claim.ok for claim in claims),
        path=str(path),
        function=str(file.claims.get("function")),
        T=tables.T,
        alphabet=tables.alphabet,
        method=found.method,
        arithmetic=ARITHMETIC,
        worst_case_error=found.error_high,
        margin=found.margin_low,
        attacked_error=found.error_low,
        float32=float32_margin(file.model, tables, f),
        norms=norms,
        claims=claims,
    )


def all_claims(
    file: WeightsFile, tables: HeadTables, f: SparseFunction, found: WorstCase, norms: NormTable
) -> list[Claim]:
    """One claim for each field of the certificate, mostly in the order of its fields."""
    claims, model = file.claims, file.model
    signed = isinstance(model, ClsScalar)
    done = [
        *description_claims(claims, model, f, found.decided(signed=signed)),
        *size_claims(claims, model, f),
        *error_claims(claims, found),
        *paper_claims(claims, model, f, norms),
        *norm_claims(claims, model, norms),
        *sample_claims(claims, model, tables, f, found),
        equal("fingerprint of the file", "as saved", "as saved" if file.intact else "changed"),
    ]
    missing = [name for name in FIELDS if name not in claims]
    done += [Claim(name, "=", None, "no such field", "refuted") for name in missing]
    names = {claim.name.split(".")[0] for claim in done}
    rest = [name for name in claims if name not in names]
    return [*done, *(stated(name, claims[name]) for name in rest)]


def error_claims(claims: dict[str, Any], found: WorstCase) -> list[Claim]:
    """Worst case, margin, wrong decisions and eps, against the two-sided answer."""
    error = (found.error_low, found.error_high)
    eps, margin, wrong = (claims.get(name) for name in ("eps", "margin", "wrong_decisions"))
    done = [at_most("worst_case_error", claims.get("worst_case_error"), *error)]
    done.append(stated("eps", eps) if eps is None else at_most("eps", eps, *error))
    low, high = found.margin_low, found.margin_high
    if low is None or high is None:
        return [*done, equal("margin", margin, None), equal("wrong_decisions", wrong, None)]
    done.append(at_least("margin", margin, low, high))
    none = Claim("wrong_decisions", "=", wrong, 0, "proved" if wrong == 0 else "refuted")
    some = Claim("wrong_decisions", "=", wrong, "1 or more", "refuted")
    open_ = Claim("wrong_decisions", "=", wrong, "0 or more", "unproved")
    return [*done, none if low > 0 else some if high <= 0 else open_]


def norm_claims(claims: dict[str, Any], model: Model, norms: NormTable) -> list[Claim]:
    """Every norm of every matrix, to nine digits."""
    rows = stated_table(claims, "norms")
    done = [equal("norms", sorted(map(str, rows)), sorted(norms))]
    for matrix, row in norms.items():
        given = stated_table(rows, matrix)
        done.append(equal(f"norms.{matrix}", sorted(map(str, given)), sorted(row)))
        for name, value in row.items():
            room = norm_error(model) * value
            done.append(near(f"norms.{matrix}.{name}", given.get(name), value - room, value + room))
    return done


def sample_claims(
    claims: dict[str, Any], model: Model, tables: HeadTables, f: SparseFunction, found: WorstCase
) -> list[Claim]:
    """m by route and the report on each, for the claimed margin as long as it is proved."""
    claimed, proven = claims.get("margin"), found.margin_low
    margin = float(claimed) if claimed is not None and is_number(claimed) else math.inf
    holds = proven is not None and proven >= margin
    try:
        routes = capacity_routes(model, tables, f, margin if holds else proven)
    except (CapaxError, ArithmeticError, ValueError):  # norms too large for a bound
        names = ("sample_size", "capacity")
        return [Claim(name, "=", claims.get(name), None, "unproved") for name in names]
    sizes, report = sample_sizes(routes), capacity_report(routes)
    done = [_table("sample_size", claims, sizes), _table("capacity", claims, report)]
    for route, m in sizes.items():
        given = _inside(claims.get("sample_size")).get(route)
        name = f"sample_size.{route}"
        done.append(equal(name, given, m) if m is None else at_most(name, given, m, m))
        told = _inside(_inside(claims.get("capacity")).get(route))
        done.append(_table(f"capacity.{route}", {f"capacity.{route}": told}, report[route]))
        for key, value in report[route].items():
            name = f"capacity.{route}.{key}"
            float_ = isinstance(value, float)
            done.append(
                near(name, told.get(key), value, value)
                if float_
                else equal(name, told.get(key), value)
            )
    return done


def _table(name: str, claims: dict[str, Any], wanted: dict[str, Any]) -> Claim:
    """The expected entries, and no others."""
    return equal(name, sorted(map(str, _inside(claims.get(name)))), sorted(wanted))


def _inside(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
