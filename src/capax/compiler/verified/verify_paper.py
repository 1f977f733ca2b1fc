"""Verification of a network of the paper's Appendix B: its certificate recomputed from its weights.

The output is enclosed on all 2^T inputs by the same ranges as in the certificate, from the stored
arrays. The limits of the lemmas are recomputed from T, s, gamma and the coherence of the positions.
"""

from pathlib import Path
from typing import Any

import numpy as np

from capax.boolean import SparseFunction
from capax.compiler.certificate.certificate import function_from, targets
from capax.compiler.certificate.worst_case import rows_of
from capax.compiler.paper.paper_file import PaperFile, load_paper
from capax.compiler.paper.paper_method import PaperCertificate, certify_paper, network_for
from capax.compiler.paper.paper_range import head_box, network_range
from capax.compiler.verified.claims import Claim, at_least, at_most, equal, near, stated
from capax.compiler.verified.fields import function_claim, table_claim
from capax.compiler.verified.verification import ARITHMETIC, Verification
from capax.errors import InputError

ATTACKS = 64
ROUNDING = 1e-6
"""A generous bound on the rounding error of a float64 forward pass of these networks."""


def verify_paper(path: Path | str) -> Verification:
    """Every claim of the file, checked on its arrays."""
    file = load_paper(path)
    try:
        f = function_from(file.claims.get("support"), file.claims.get("table"), file.heads.T)
        same = tuple(f.support) == file.heads.support
        network = network_for(file.lemma, f) if same else None
    except InputError as error:
        raise InputError(f"{path}: certificate: {error}") from None
    if network is None:
        wanted = "wanted the support of the heads, got another support"
        raise InputError(f"{path}: certificate: support: {wanted}")
    box = head_box(file.heads)
    ends = network_range(file.network, box)
    limits = {**file.lemma.limits, **network.limits}
    found = certify_paper(f, "", file.heads, file.network, (box, ends), limits)
    attacked = _attacked(file, f)
    claims = (*_claims(file, f, found, ends, attacked), _fingerprint(file))
    return Verification(
        ok=all(claim.ok for claim in claims),
        path=str(path),
        function=str(file.claims.get("function")),
        T=found.T,
        alphabet=2,
        method="proven range of the heads, then of the ReLU network, over all inputs",
        arithmetic=ARITHMETIC,
        worst_case_error=found.worst_case_error,
        margin=found.margin,
        attacked_error=attacked,
        float32=None,
        norms={name: {"built": row["built"]} for name, row in found.norms.items()},
        claims=claims,
    )


def _claims(
    file: PaperFile, f: SparseFunction, found: PaperCertificate, ends: Any, attacked: float
) -> list[Claim]:
    claims, recomputed = file.claims, found.to_json()
    same = ("T", "s", "support", "encoding", "lemmas", "heads", "widths", "within_limits")
    numbers = ("gamma", "Delta", "R")
    error = (attacked, found.worst_case_error)
    done = [
        function_claim(claims, f),
        table_claim(claims, f, _decided(ends)),
        *(equal(name, claims.get(name), recomputed[name]) for name in same),
        *(near(name, claims.get(name), recomputed[name], recomputed[name]) for name in numbers),
        at_most("head_error", claims.get("head_error"), 0.0, found.head_error),
        at_most("worst_case_error", claims.get("worst_case_error"), *error),
        *_decisions(claims, found),
        *_norms(claims, found),
    ]
    known = {claim.name.split(".")[0] for claim in done}
    missing = [n for n in PaperCertificate.__dataclass_fields__ if n not in claims]
    done += [Claim(n, "=", None, "no such field", "refuted") for n in missing if n not in known]
    return [*done, *(stated(name, claims[name]) for name in claims if name not in known)]


def _decisions(claims: dict[str, Any], found: PaperCertificate) -> list[Claim]:
    margin, wrong = claims.get("margin"), claims.get("wrong_decisions")
    if found.margin is None:
        return [equal("margin", margin, None), equal("wrong_decisions", wrong, None)]
    decided = Claim("wrong_decisions", "=", wrong, 0, "proved" if wrong == 0 else "refuted")
    open_ = Claim("wrong_decisions", "=", wrong, "0 or more", "unproved")
    proved = at_least("margin", margin, found.margin, max(found.margin, 0.5))
    return [proved, decided if found.margin > 0 else open_]


def _norms(claims: dict[str, Any], found: PaperCertificate) -> list[Claim]:
    """Built and allowed, for every matrix."""
    given = claims.get("norms")
    rows: dict[str, Any] = given if isinstance(given, dict) else {}
    done = [equal("norms", sorted(map(str, rows)), sorted(found.norms))]
    for matrix, row in found.norms.items():
        told = rows.get(matrix)
        told = told if isinstance(told, dict) else {}
        done += [near(f"norms.{matrix}.{k}", told.get(k), x, x) for k, x in row.items()]
    return done


def _decided(ends: tuple[np.ndarray, np.ndarray]) -> list[int | None]:
    low, high = ends
    return [1 if a > 0.5 else 0 if b < 0.5 else None for a, b in zip(low, high, strict=True)]


def _attacked(file: PaperFile, f: SparseFunction) -> float:
    """The error on actual inputs: each pattern with the other bits off, on, and drawn."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (ATTACKS, file.heads.T))
    bits[0], bits[1] = 0, 1
    for row in range(min(1 << f.s, ATTACKS)):
        bits[row, list(f.support)] = row >> np.arange(f.s) & 1
    outputs = file.network(file.heads.outputs(bits))
    away = np.abs(outputs - targets(f, signed=False)[rows_of(bits, f)]).max()
    return max(0.0, float(np.nan_to_num(away)) - ROUNDING)


def _fingerprint(file: PaperFile) -> Claim:
    return equal("fingerprint of the file", "as saved", "as saved" if file.intact else "changed")
